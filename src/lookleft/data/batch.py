"""Ids to batches: padding, positions, and the shift by one, which lives here and nowhere else.

Teacher forcing feeds the whole target at once. The input at t is the token *before* the one
that t must predict, so that with the causal mask no position ever reads its own answer:

    translation   target   a   b   c   </s>        language model   text     a  b  c  d
                  input    <s> a   b   c                             input    a  b  c
                  predicts a   b   c   </s>                          predicts b  c  d

Dimensions: B batch, T positions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lookleft.errors import InputError
from lookleft.masks import Side

NO_TARGET = -100  # at such a position nothing is predicted; it counts in no loss

Ids = Sequence[int]


@dataclass(frozen=True, eq=False)
class Rows:
    """Token ids padded to one length, with the position of each. All (B, T)."""

    ids: Tensor
    is_token: Tensor  # False = padding
    pos: Tensor  # counts the real tokens of a row (of a document, if packed) from 0
    docs: Tensor | None = None  # document number, if several are packed into a row
    types: Tensor | None = None  # segment number, for encoders trained with them

    @property
    def shape(self) -> torch.Size:
        return self.ids.shape

    @property
    def side(self) -> Side:
        """What decides who sees these rows, for `masks.visible`."""
        return Side(self.pos, self.is_token, self.docs)

    def to(self, device: torch.device | str) -> Rows:
        moved = {k: v.to(device) for k, v in vars(self).items() if v is not None}
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class Batch:
    """What a model reads, and, in training, what it should say at each position."""

    inputs: Rows
    targets: Tensor | None = None  # (B, T), NO_TARGET where nothing is predicted
    source: Rows | None = None  # the sentence to translate
    prefix: Tensor | None = None  # (B,) the first positions that see each other both ways
    lines: tuple[int, ...] = ()  # of the corpus, where its rows come from: for messages alone
    epoch: int | None = None  # of one long text: then `lines` are its rows, cut anew in each

    @property
    def n_targets(self) -> int:
        return 0 if self.targets is None else int((self.targets != NO_TARGET).sum())

    def to(self, device: torch.device | str) -> Batch:
        moved: dict[str, Any] = {
            name: part.to(device)
            for name, part in vars(self).items()
            if isinstance(part, Tensor | Rows)
        }
        return replace(self, **moved)


def as_rows(ids: Tensor, is_token: Tensor | None = None) -> Rows:
    """Rows from ids and an optional padding mask; positions count real tokens only. (B, T)."""
    if ids.ndim != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise InputError(f"ids must be integers of shape (batch, length), got {_describe(ids)}")
    if is_token is None:
        is_token = torch.ones_like(ids, dtype=torch.bool)
    if is_token.shape != ids.shape or is_token.dtype != torch.bool:
        raise InputError(
            f"is_token must be boolean of shape {tuple(ids.shape)}, got {_describe(is_token)}"
        )
    # Padding has no place of its own: left, right or in between, real tokens count the same.
    pos = (is_token.cumsum(1) - 1).clamp(min=0)
    return Rows(ids=ids, is_token=is_token, pos=pos)


def pad_rows(
    rows: Sequence[Ids], pad_id: int = 0, side: Literal["left", "right"] = "right"
) -> Rows:
    """Sentences of unequal length as one rectangle. Lists of ids -> (B, T)."""
    if not rows:
        raise InputError("a batch needs at least one row")
    # NumPy: where a batch is one sentence, PyTorch would take longer to be asked than to compute.
    lengths = np.array([len(row) for row in rows])[:, None]  # (B, 1)
    width = int(lengths.max())
    places = np.arange(width)
    is_token = places >= width - lengths if side == "left" else places < lengths  # (B, T)
    ids = np.full(is_token.shape, pad_id, np.int64)
    ids[is_token] = _as_ids([i for row in rows for i in row]).numpy()
    return as_rows(torch.from_numpy(ids), torch.from_numpy(is_token))


def shift_right(target: Ids, start_id: int) -> list[int]:
    """What the decoder reads while it predicts `target`: the same, one later, start token first."""
    return [start_id, *target[:-1]] if target else []


def pad_targets(rows: Sequence[Ids], inputs: Rows) -> Tensor:
    """Targets laid out as their inputs are. -> (B, T)."""
    targets = torch.full(inputs.shape, NO_TARGET, dtype=torch.long)
    targets[inputs.is_token] = _as_ids([i for row in rows for i in row])
    return targets


def translation_batch(sources: Sequence[Ids], targets: Sequence[Ids], start_id: int) -> Batch:
    """Pairs for an encoder-decoder; targets end with their own end token."""
    if len(sources) != len(targets):
        raise InputError(f"{len(sources)} sources but {len(targets)} targets")
    inputs = pad_rows([shift_right(target, start_id) for target in targets])
    return Batch(inputs=inputs, targets=pad_targets(targets, inputs), source=pad_rows(sources))


def next_token_batch(rows: Sequence[Ids]) -> Batch:
    """Texts for a language model: every token but the first is predicted from those before it."""
    inputs = pad_rows([row[:-1] for row in rows])
    return Batch(inputs=inputs, targets=pad_targets([row[1:] for row in rows], inputs))


def pack_documents(rows: Sequence[Sequence[Ids]]) -> Batch:
    """Several documents per row for a language model: each keeps to itself and starts at 0.

    The last token of a document predicts nothing: the next document is not its continuation.
    """
    inputs = pad_rows([[i for doc in row for i in doc[:-1]] for row in rows])
    targets = pad_targets([[i for doc in row for i in doc[1:]] for row in rows], inputs)
    lengths = [[max(len(doc) - 1, 0) for doc in row] for row in rows]
    numbers = [number for row in lengths for number, n in enumerate(row) for _ in range(n)]
    docs, pos = torch.zeros_like(inputs.ids), torch.zeros_like(inputs.pos)
    docs[inputs.is_token] = _as_ids(numbers)
    pos[inputs.is_token] = _as_ids([place for row in lengths for n in row for place in range(n)])
    return Batch(inputs=replace(inputs, docs=docs, pos=pos), targets=targets)


def unpack_documents(batch: Batch) -> Batch:
    """The same documents and targets, each document in a row of its own, padded on the right."""
    if batch.inputs.docs is None or batch.targets is None:
        return batch
    rows, targets = [], []
    for b, docs in enumerate(batch.inputs.docs):
        for number in docs[batch.inputs.is_token[b]].unique():
            kept = batch.inputs.is_token[b] & (docs == number)
            rows.append(batch.inputs.ids[b, kept].tolist())
            targets.append(batch.targets[b, kept].tolist())
    inputs = pad_rows(rows)
    unpacked = replace(batch, inputs=inputs, targets=pad_targets(targets, inputs))
    return unpacked.to(batch.targets.device)


def repeat_rows(batch: Batch, times: int) -> Batch:
    """All rows, then all of them again, so many times. (B, T) -> (times * B, T)."""

    def repeated(record: Batch | Rows) -> dict[str, Any]:
        parts = {k: v for k, v in vars(record).items() if isinstance(v, Tensor)}
        return {name: torch.cat([part] * times) for name, part in parts.items()}

    source = batch.source and replace(batch.source, **repeated(batch.source))
    inputs = replace(batch.inputs, **repeated(batch.inputs))
    return replace(batch, inputs=inputs, source=source, **repeated(batch))


def _as_ids(row: Ids) -> Tensor:
    """A list of ids as a tensor, or an error that names what is none. -> (T,)."""
    with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):
        # An array that may choose its type shows what came; told the type, it would make 1.5 a 1.
        found = np.array(row) if row else np.empty(0, np.int64)
        if found.ndim == 1 and np.can_cast(found.dtype, np.int64):
            return torch.from_numpy(found.astype(np.int64, copy=False))
    wrong = [id for id in row if not isinstance(id, int) or not -(2**63) <= id < 2**63]
    raise InputError(f"{wrong[:1]!r:.80} is no token id, a whole number below 2**63")


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"
