"""The five stages that a head is shown in, and the matrix of each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lookleft.explore.heads import masked
from lookleft.explore.lesson import Kind
from lookleft.explore.trace import Trace

Stage = Literal["mask", "scores", "softmax", "weights", "output"]

STAGE_TITLES: dict[Stage, str] = {
    "mask": "mask",
    "scores": "scores q·k/√d after the mask",
    "softmax": "e^score before the division",
    "weights": "weights",
    "output": "output",
}
KIND_TITLES: dict[Kind, str] = {
    "decoder_self": "decoder self-attention",
    "encoder_self": "encoder self-attention",
    "cross": "cross-attention",
}


def stage_values(trace: Trace, kind: Kind, layer: int, head: int, stage: Stage) -> Tensor:
    """The matrix that a stage shows of the training lane; the output has none. (T, S)."""
    at, allowed = trace.training.layers[kind, layer], trace.masks[kind][2]
    if stage == "mask":
        return masked(torch.zeros(allowed.shape), allowed)
    if stage == "weights":
        return at.weights[head]
    scores = masked(at.scores[head], allowed)
    if stage == "scores":
        return scores
    # e^score with the largest of its row as 1: divided by their sum these are the weights.
    return (scores - scores.amax(-1, keepdim=True)).exp().nan_to_num(0.0)


def row_sums(values: Tensor, stage: Stage) -> list[float] | None:
    """What the rows of a matrix add up to, at the stages where that says something. (T, S)."""
    if stage not in ("softmax", "weights"):
        return None
    sums: list[float] = values.nan_to_num(0.0).sum(-1).tolist()
    return sums
