"""Small faults in many architectures, each a switch in a model that is honest without it.

The museum keeps what was done in public. These are its neighbours: the same mechanisms in other
places, so that the audit has to understand them and not only remember.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

VOCAB, WIDTH = 50, 16


@dataclass(frozen=True)
class Pair:
    """A model with a switch: broken when it is on, honest when it is off."""

    name: str
    build: Callable[[bool], nn.Module]
    check: str  # the check that finds the fault
    module: str | None = None  # where it has to be found, if there is a place
    options: dict[str, Any] = field(default_factory=dict)


def triangle(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()  # (T, T)


class Attention(nn.Module):
    """Two heads with a residual; children change the mask or the way of looking."""

    n_heads = 2

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = (t.unflatten(-1, (self.n_heads, -1)) for t in self.mix(x).chunk(3, -1))
        q, k, v = (part.transpose(1, 2) for part in parts)  # (B, H, T, K)
        return x + self.out(self.look(q, k, v).transpose(1, 2).flatten(2))

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~self.allowed(q), -math.inf)
        return scores.softmax(-1) @ v

    def allowed(self, q: Tensor) -> Tensor:
        """(T, T), or one for every head."""
        length = q.size(2)
        return torch.ones_like(triangle(length)) if self.is_open(q) else triangle(length)

    def is_open(self, q: Tensor) -> bool:
        """Is the mask left out? Children say under which circumstances."""
        return False


class Language(nn.Module):
    """Ids to logits through one mixer."""

    def __init__(self, mixer: type[nn.Module], broken: bool, positions: int = 256) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.broken = broken
        self.embed, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(positions, WIDTH)
        self.mixer = mixer(broken)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.mixer(self.entered(ids)))

    def entered(self, ids: Tensor) -> Tensor:
        return self.embed(ids) + self.place(torch.arange(ids.size(1)))


class After(nn.Module):
    """Attention, then something that `after` does to its result."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        self.broken = broken
        self.attention, self.linear = Attention(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.attention(x))

    def after(self, x: Tensor) -> Tensor:
        raise NotImplementedError


def language(mixer: type[nn.Module], positions: int = 256) -> Callable[[bool], nn.Module]:
    """How to build a language model around a mixer."""
    return lambda broken: Language(mixer, broken, positions)
