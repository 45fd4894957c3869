"""Masked-token batches: some tokens of a text are covered, and the model says what they were.

Of the tokens of a row 15 % are chosen. Of these 80 % become the mask token, 10 % another token and
10 % stay as they are (Devlin et al. 2019, 3.1): the model cannot tell which tokens it is asked
about, so it must know every one. Special tokens are never chosen. Dimensions: B batch, T positions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lookleft.data.batch import NO_TARGET, Batch, Ids, Rows, pad_rows
from lookleft.data.bucket import ByLength
from lookleft.data.examples import Example
from lookleft.errors import InputError
from lookleft.once import once


@dataclass(frozen=True)
class Cover:
    """How tokens are chosen and covered."""

    vocab_size: int
    mask_id: int
    specials: frozenset[int]  # never chosen, never put in the place of another
    share: float = 0.15  # of the tokens of a row that are chosen, at least one
    masked: float = 0.8  # of the chosen: becomes the mask token
    swapped: float = 0.1  # of the chosen: becomes any ordinary token

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share={self.share} of the tokens cannot be chosen")
        for name, part in (("masked", self.masked), ("swapped", self.swapped)):
            if part < 0:
                raise InputError(f"{name}={part} of the chosen is less than none")
        if self.masked + self.swapped > 1:
            raise InputError(f"masked={self.masked} and swapped={self.swapped} exceed the chosen")
        if not self.ordinary.numel():
            raise InputError(f"all {self.vocab_size} tokens are special: there is none to predict")

    @once
    def ordinary(self) -> Tensor:
        """The ids that may be chosen. -> (O,)."""
        kept = [id for id in range(self.vocab_size) if id not in self.specials | {self.mask_id}]
        return torch.tensor(kept, dtype=torch.long)

    def batch(self, texts: Sequence[Ids], seed: str) -> Batch:
        """The texts padded and partly covered; the same seed covers the same tokens."""
        rows = pad_rows(texts)
        draw = torch.Generator().manual_seed(random.Random(seed).getrandbits(63))
        is_chosen = self.choose(rows, draw)
        targets = rows.ids.masked_fill(~is_chosen, NO_TARGET)
        fate = torch.rand(rows.shape, generator=draw)
        others = self.ordinary
        swaps = others[torch.randint(len(others), rows.shape, generator=draw)]  # (B, T)
        ids = torch.where(is_chosen & (fate < self.masked), self.mask_id, rows.ids)
        is_swapped = is_chosen & (fate >= self.masked) & (fate < self.masked + self.swapped)
        return Batch(replace(rows, ids=torch.where(is_swapped, swaps, ids)), targets)

    def choose(self, rows: Rows, draw: torch.Generator) -> Tensor:
        """Which tokens are asked for: the same share of every row, at least one. -> (B, T)."""
        may_be = rows.is_token & torch.isin(rows.ids, self.ordinary)
        n_wanted = (self.share * may_be.sum(1)).round().clamp(min=1)  # (B,)
        lots = torch.rand(rows.shape, generator=draw).masked_fill(~may_be, 2.0)
        rank = lots.argsort(1).argsort(1)  # what may not be chosen comes last
        return may_be & (rank < n_wanted[:, None])


@dataclass(frozen=True)
class Pieces:
    """Batches of texts of similar length; texts of more than `length` ids are cut to pieces."""

    tokens: int
    length: int

    @property
    def misfit(self) -> str:
        return "without a token to cover"

    def fits(self, example: Example) -> bool:
        """Whether there is anything in it beside its first and last token."""
        return len(example.target) > 2

    def n_parts(self, example: Example) -> int:
        return len(self._starts(example))

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Example]]:
        """Batches of at most `tokens` ids, padding counted, but for what `ByLength` excepts."""
        pieces = [
            replace(example, target=example.target[start : start + self.length])
            for example in window
            for start in self._starts(example)
        ]
        return ByLength(tokens=max(self.tokens, self.length)).cut(pieces, draw, n)

    def _starts(self, example: Example) -> range:
        return range(0, len(example.target), self.length)
