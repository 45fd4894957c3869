"""Leak or chance? A permutation test for models that answer differently every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lookleft.audit.session import Session, Setting
    from lookleft.audit.subject import Call

ALPHA = 1e-4  # an honest model is accused at most this often
CALM = 0.01  # a larger p-value says that chance explains the difference
REPEATS = 12  # of each kind: 2.7 million ways to share 24 runs out
PERMUTATIONS = 20_000
_MOST_FEATURES = 1024  # outputs watched, evenly spread if there are more


@dataclass(frozen=True)
class Odds:
    """How often chance alone makes two groups of runs differ as much as they did."""

    p_value: float  # never below 1 / (PERMUTATIONS + 1)
    distance: float  # of the means, in standard deviations, where it is largest
    where: tuple[int, int]  # (row, output position) of the largest distance

    @property
    def words(self) -> str:
        return (
            f"statistical: {REPEATS} runs of each kind, means up to {self.distance:.1f} standard "
            f"deviations apart, p = {self.p_value:.1e} by {PERMUTATIONS} permutations "
            f"(accused below {ALPHA:.0e})"
        )


def odds_of(session: Session, setting: Setting, a: Call, b: Call, keep: Tensor) -> Odds:
    """The test for two calls whose outputs must be alike at `keep` (B, T_out) but for chance."""

    def sampled(call: Call) -> Callable[[int], Tensor]:
        return lambda seed: session.run(setting, call, seed=seed).out.detach()

    return permutation_test(sampled(a), sampled(b), keep)


def permutation_test(
    one: Callable[[int], Tensor], two: Callable[[int], Tensor], keep: Tensor
) -> Odds:
    """Odds from runs taken in turn, so that a drift over time touches both kinds alike."""
    rows: list[Tensor] = []
    for repeat in range(REPEATS):
        rows.append(one(2 * repeat + 1)[keep].double().flatten())
        rows.append(two(2 * repeat + 2)[keep].double().flatten())
    runs = torch.stack(rows).nan_to_num(0.0)  # (2 N, F)
    step, width = -(-runs.size(1) // _MOST_FEATURES), runs.size(1) // int(keep.sum())
    runs = runs[:, ::step]
    spread = runs.std(0)
    runs = (runs - runs.mean(0)) / torch.where(spread > 0, spread, torch.inf)
    share = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(REPEATS)  # (2 N,)
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(PERMUTATIONS, len(rows), generator=generator).argsort(1)
    apart = (share @ runs / REPEATS).abs()  # (F,) between the two means
    found, at = float(apart.max()), int(apart.argmax())
    largest = [(share[some] @ runs / REPEATS).abs().amax(1) for some in torch.chunk(order, 10)]
    exceeded = int((torch.cat(largest) >= found * (1 - 1e-9)).sum())
    row, position = keep.nonzero()[at * step // width].tolist()
    return Odds((exceeded + 1) / (PERMUTATIONS + 1), found, (row, position))
