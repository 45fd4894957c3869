"""Probe inputs: random, reproducible, and changed everywhere they are meant to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lookleft.audit.subject import Kind

SOURCE_LENGTH = 41  # a prime, unlike the target's, so that an axis tells itself by its length


class Draw:
    """Draws inputs of one kind from a generator of its own."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.generator = torch.Generator().manual_seed(seed)

    def x(self, rows: int, length: int, magnitude: float = 1.0) -> Tensor:
        """Fresh inputs; ids are all distinct while the vocabulary lasts. (B, T, ...)"""
        if not self.kind.is_discrete:
            return self._values((rows, length, *self.kind.shape)) * magnitude
        return self._ids(rows, length, self._pool(self.kind.vocab))

    def source(self, rows: int, length: int = SOURCE_LENGTH) -> Tensor:
        """Fresh inputs for the encoder side. (B, S, ...)"""
        if self.kind.source_vocab is None:
            return self._values((rows, length, *self.kind.source_shape))
        return self._ids(rows, length, self._pool(self.kind.source_vocab))

    def other(self, x: Tensor, changed: Tensor, magnitude: float = 1.0) -> Tensor:
        """`x` with every marked position replaced by something different. (B, T, ...)"""
        if x.is_floating_point():
            fresh = self._values(tuple(x.shape)).to(x.dtype) * magnitude
            return torch.where(changed.reshape(*changed.shape, *[1] * (x.dim() - 2)), fresh, x)
        pool = self._pool(self.kind.vocab)
        place = torch.full((max(int(pool.max()), int(x.max())) + 1,), 0, dtype=torch.long)
        place[pool] = torch.arange(pool.numel())
        step = torch.randint(1, pool.numel(), x.shape, generator=self.generator)
        fresh = pool[(place[x] + step) % pool.numel()]
        return torch.where(changed & (fresh != x), fresh, x)

    def other_source(self, source: Tensor, changed: Tensor) -> Tensor:
        """The same for the encoder side."""
        if source.is_floating_point():
            return self.other(source, changed)
        vocab = self.kind.source_vocab or 2
        pool = self._pool(vocab)
        fresh = pool[torch.randint(0, pool.numel(), source.shape, generator=self.generator)]
        following = pool[(torch.searchsorted(pool, fresh) + 1) % pool.numel()]
        return torch.where(changed, torch.where(fresh == source, following, fresh), source)

    def permutation(self, count: int) -> Tensor:
        """A random order that moves every row."""
        return torch.roll(torch.arange(count), 1 + int(self.integer(max(count - 1, 1))))

    def integer(self, below: int) -> int:
        return int(torch.randint(0, max(below, 1), (), generator=self.generator))

    def _values(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.generator) * self.kind.magnitude

    def _pool(self, vocab: int | None) -> Tensor:
        assert vocab is not None
        avoid = set(self.kind.avoid)
        pool = [i for i in range(vocab) if i not in avoid]
        return torch.tensor(pool if len(pool) > 1 else list(range(vocab)))

    def _ids(self, rows: int, length: int, pool: Tensor) -> Tensor:
        need = rows * length
        rounds = -(-need // pool.numel())
        order = [torch.randperm(pool.numel(), generator=self.generator) for _ in range(rounds)]
        return pool[torch.cat(order)[:need]].reshape(rows, length)
