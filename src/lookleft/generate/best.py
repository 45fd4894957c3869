"""The best few tokens of each row: all that greedy and beam search need of the logits.

A runner may find them itself, as the engine does while the logits are still in the cache; for
every other one they are found here. Dimensions: B rows, N tokens of each, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookleft.data.batch import Batch
from lookleft.models.base import StateT

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


class Best(NamedTuple):
    """The tokens with the largest logits, best first; of equal ones the lower id comes first."""

    logits: Floats  # (B, N)
    ids: Integers  # (B, N)
    norms: Floats  # (B,) log of the summed exponentials of all logits, the forbidden too


@runtime_checkable
class Chooser(Protocol[StateT]):
    """A runner that finds the best tokens itself and need not show the logits of all."""

    def prefill_best(
        self, batch: Batch, *, room: int, n: int, forbidden: Integers
    ) -> tuple[tuple[Floats, Integers, Floats], StateT]:
        """Read a prompt; get the columns of `Best` for n tokens of each row, and the state.

        forbidden: (B, F) ids that each row must not get; -1 forbids nothing.
        """

    def write_best(
        self,
        ids: Tensor,
        state: StateT,
        n_steps: int,
        ends: Integers,
        forbidden: Integers,
    ) -> list[tuple[Floats, Integers, Floats]]:
        """Feed one more token per row, then the best after it, and so on; get `Best` of each step.

        It is n_steps or fewer: the last is the first in which a row got one of its ends (B, E;
        -1 is none), or a logit that is not finite.
        """

    def write_beams(
        self,
        ids: Tensor,
        state: StateT,
        n_steps: int,
        sums: Floats,
        n: int,
        ends: Integers,
        forbidden: Integers,
    ) -> tuple[list[tuple[Floats, Integers, Integers, Floats]], tuple[Floats, Integers, Floats]]:
        """The same for rows that are hypotheses with these sums, (B / W, W), n candidates each.

        Get the columns of `Candidates` that the requests went on with, step by step, and `Best`
        of the last step, from which nobody has gone on: there an end is among the candidates, or
        fewer than W are possible, or it is step n_steps.
        """


def best_of(logits: Tensor, norms: Tensor, n: int) -> Best:
    """The n best tokens of each row, or all there are. (B, V), (B,) -> (B, N)."""
    n = min(n, logits.size(1))
    found, ids = logits.topk(n)
    # topk leaves open which of several equal ones it takes, and in which order.
    last = found[:, -1:]
    if bool(((logits == last).sum(1) > (found == last).sum(1)).any()):
        ranked = logits.sort(dim=1, descending=True, stable=True)
        found, ids = ranked.values[:, :n], ranked.indices[:, :n]
    else:
        ids, order = ids.sort(1)
        found, order = found.gather(1, order).sort(dim=1, descending=True, stable=True)
        ids = ids.gather(1, order)
    return Best(*(column.cpu().numpy() for column in (found, ids, norms)))
