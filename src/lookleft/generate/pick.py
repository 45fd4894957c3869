"""Ways to pick the next token: functions of logits (B, V), giving ids (B,)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lookleft.errors import InputError

Pick = Callable[[Tensor], Tensor]


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token. (B, V) -> (B,)."""
    return logits.argmax(-1)


def make_sampler(
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Pick:
    """Draws from the distribution after making it sharper and cutting its tail.

    temperature divides the logits; top_k keeps so many tokens (0: all); top_p keeps the likeliest
    whose probabilities reach that sum; min_p keeps those at least that likely, relative to the
    likeliest. The likeliest token is always kept.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature={temperature} must be a number above 0; 0 is `greedy`")
    if top_k < 0:
        raise InputError(f"top_k={top_k} must be 0 (all tokens) or more")
    if not 0 < top_p <= 1:
        raise InputError(f"top_p={top_p} must be above 0 and at most 1")
    if not 0 <= min_p <= 1:
        raise InputError(f"min_p={min_p} must lie between 0 and 1")

    def sample(logits: Tensor) -> Tensor:
        probs = (logits.double() / temperature).softmax(-1)  # (B, V)
        ranked, ids = probs.sort(stable=True, dim=-1, descending=True)
        keep = ranked >= min_p * ranked[:, :1]
        keep &= ranked.cumsum(-1) - ranked < top_p  # what comes before does not suffice yet
        if top_k:
            keep[:, top_k:] = False
        drawn = torch.multinomial(ranked * keep, 1, generator=generator)  # (B, 1)
        picked: Tensor = ids.gather(1, drawn)[:, 0]
        return picked

    return sample
