"""Ways to pick the next token: functions of logits (B, V), giving ids (B,)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lookleft.generate.request import Sample

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
    """Draws from the distribution that `probabilities` explains."""
    method = Sample(temperature, top_k, top_p, min_p)

    def sample(logits: Tensor) -> Tensor:
        chances = torch.rand(logits.size(0), generator=generator, dtype=torch.float64)
        return draw(probabilities(logits, method), chances.to(logits.device))

    return sample


def probabilities(logits: Tensor, method: Sample) -> Tensor:
    """The distribution made sharper, its tail cut off. (B, V) -> (B, V), rows sum to 1.

    temperature divides the logits; top_k keeps so many tokens (0: all); of what is left, top_p
    keeps the likeliest whose probabilities reach that sum; min_p keeps those at least that
    likely, relative to the likeliest. The likeliest token is always kept.
    """
    # The largest is taken off first: a small temperature would make it infinite.
    below = logits.double() - logits.double().amax(-1, keepdim=True)
    probs = (below / method.temperature).softmax(-1)
    if method.top_k or method.top_p < 1:
        n_kept = min(method.top_k or probs.size(1), probs.size(1))
        ranked, ids = probs.topk(n_kept) if method.top_k else _sorted(probs)
        ranked = ranked / ranked.sum(-1, keepdim=True)
        before = ranked.cumsum(-1) - ranked  # what comes before does not suffice yet
        ranked = ranked.where(before < method.top_p, 0.0)
        probs = torch.zeros_like(probs).scatter(1, ids, ranked)
    probs = probs.where(probs >= method.min_p * probs.amax(-1, keepdim=True), 0.0)
    return probs / probs.sum(-1, keepdim=True)


def draw(probs: Tensor, chances: Tensor) -> Tensor:
    """The token that a chance in [0, 1) falls on. (B, V), (B,) -> (B,)."""
    reached = probs.cumsum(-1)
    # Scaled by what the sum really reaches, and below it: rounding must not leave a gap.
    end = reached[:, -1:]
    point = (chances[:, None] * end).minimum(end.nextafter(torch.zeros_like(end)))
    return torch.searchsorted(reached, point, right=True)[:, 0]


def _sorted(probs: Tensor) -> tuple[Tensor, Tensor]:
    ranked, ids = probs.sort(stable=True, dim=-1, descending=True)
    return ranked, ids
