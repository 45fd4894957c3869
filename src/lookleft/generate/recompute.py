"""Generation without a cache: the slow, obvious twin of prefill and step.

Every step reads the whole text again in one parallel pass, the pass of training. Whatever a
cached runner answers, this must answer too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lookleft.config import ModelConfig
from lookleft.data.batch import Batch, Rows, pad_rows
from lookleft.models.base import Runner

Texts = list[list[int]]


@dataclass
class Recomputed:
    """What has been read, row by row: all that there is to keep."""

    texts: Texts
    sources: Texts | None = None

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row has read. (B,)."""
        return torch.tensor([len(text) for text in self.texts])

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of old row rows[i]; the batch may shrink or grow. (N,)."""
        self.texts = [list(self.texts[i]) for i in rows.tolist()]
        if self.sources is not None:
            self.sources = [self.sources[i] for i in rows.tolist()]

    def join(self, other: Recomputed) -> None:
        """Put the rows of another state behind ours."""
        self.texts = self.texts + other.texts
        if self.sources is not None and other.sources is not None:
            self.sources = self.sources + other.sources

    def roll_back(self, lengths: Tensor) -> None:
        """Forget the newest tokens, so that each row holds so many again. (B,)."""
        kept = zip(self.texts, lengths.tolist(), strict=True)
        self.texts = [text[:length] for text, length in kept]


class Recompute:
    """Drives a network, or the engine, token by token through `score` alone."""

    def __init__(self, scorer: Runner[Any]) -> None:
        self.scorer = scorer

    @property
    def config(self) -> ModelConfig:
        return self.scorer.config

    @property
    def device(self) -> torch.device:
        return self.scorer.device

    def score(self, batch: Batch) -> Tensor:
        """Logits of every position, in one parallel pass. -> (B, T, V)."""
        return self.scorer.score(batch)

    def prefill(self, batch: Batch, *, room: int) -> tuple[Tensor, Recomputed]:
        """Read a prompt. -> logits (B, V) of the next token, the texts."""
        sources = None if batch.source is None else _texts(batch.source)
        state = Recomputed(_texts(batch.inputs), sources)
        return self._logits(state)[:, -1], state

    def step(self, ids: Tensor, state: Recomputed) -> Tensor:
        """One more token per row. (B,) -> logits (B, V)."""
        for text, id in zip(state.texts, ids.tolist(), strict=True):
            text.append(id)
        return self._logits(state)[:, -1]

    def extend(self, rows: Rows, state: Recomputed) -> Tensor:
        """Several more tokens per row. -> logits (B, T, V), zeros where there is none."""
        new = _texts(rows)
        for text, more in zip(state.texts, new, strict=True):
            text += more
        logits = self._logits(state)  # (B, longest text, V), right-aligned
        out = logits.new_zeros(*rows.shape, logits.size(2))
        for b, more in enumerate(new):
            if more:
                out[b, rows.is_token[b]] = logits[b, -len(more) :]
        return out

    def _logits(self, state: Recomputed) -> Tensor:
        """Of every position, texts padded on the left so that they end together. (B, T, V)."""
        source = None if state.sources is None else pad_rows(state.sources).to(self.device)
        inputs = pad_rows(state.texts, side="left").to(self.device)
        return self.score(Batch(inputs, source=source))


def _texts(rows: Rows) -> Texts:
    pairs = zip(rows.ids, rows.is_token, strict=True)
    return [ids[is_token].tolist() for ids, is_token in pairs]
