"""Are the rows of the two lanes the same? Measured, never assumed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lookleft.explore.lanes import Inference
from lookleft.explore.trace import Trace

TOLERANCE = 1e-5
MEASURED = (
    "largest difference of any attention weight of any head, or of any next-token probability"
)


@dataclass(frozen=True, eq=False)
class Sameness:
    """How far the lanes lie apart, over the rows that read the same inputs."""

    weights: Tensor  # (rows compared,) largest difference of any attention weight
    probs: Tensor  # (rows compared,) largest difference of any next-token probability
    n_steps: int
    first_difference: int | None  # the first row whose input is the model's own, other word

    @property
    def rows(self) -> Tensor:
        return torch.maximum(self.weights, self.probs)

    @property
    def largest(self) -> float:
        return float(self.rows.max()) if self.rows.numel() else 0.0

    @property
    def is_same(self) -> bool:
        return self.largest <= TOLERANCE  # False for NaN


def compare_lanes(trace: Trace) -> Sameness | None:
    """The lanes of a trace held against each other; None if there is only one."""
    lane = trace.inference
    if lane is None:
        return None
    reference = [token.id for token in trace.lesson.columns]
    apart = [t for t, id in enumerate(lane.reads) if id != reference[t]]
    n_rows = apart[0] if apart else len(lane.reads)
    probs = [
        logits[:n_rows].double().softmax(-1) for logits in (trace.training.logits, lane.logits)
    ]
    return Sameness(
        weights=_weights_apart(trace, lane, n_rows),
        probs=(probs[0] - probs[1]).abs().amax(-1),
        n_steps=len(lane.reads),
        first_difference=apart[0] if apart else None,
    )


def _weights_apart(trace: Trace, lane: Inference, n_rows: int) -> Tensor:
    """Per row the largest difference over all layers, heads and columns. -> (rows,).

    A key that did not exist yet at a step has weight 0 there: if training gave it more, it peeked.
    """
    apart = torch.zeros(n_rows, dtype=torch.double)
    for at, stepped in lane.layers.items():
        trained = trace.training.layers[at].weights[:, :n_rows].double()  # (H, T, S)
        known = stepped.weights[:, :n_rows]
        trained[..., : known.size(-1)] -= known
        apart = torch.maximum(apart, trained.abs().amax((0, 2)))
    return apart
