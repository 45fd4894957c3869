"""Who may look at whom. This is the only file that decides it.

A mask answers, for every query position t and key position s, "may t attend to s?".

    allowed[b, 0, t, s] is True    t may look at s
    allowed[b, 0, t, s] is False   s is hidden from t: its attention weight is exactly 0

Masks are arithmetic on *positions*, never on shapes. A whole training sentence, a prompt, a
chunk on a warm cache and a single cached step differ only in which positions are asking, so
they are all the same line: `q_pos - k_pos >= 0`. Masks are joined by `&`.

    causal(pos, pos)                                    a decoder reading its own words
    causal(pos, pos) & real_keys(is_token, n_queries)   the same, in a padded batch
    causal(pos, pos, window=4096)                       sees the last 4096 positions only
    causal(pos, pos, prefix=n)                          the first n positions see each other
    causal(pos, pos) & same_document(docs, docs)        several documents packed into one row
    everything(n_queries, n_keys)                       an encoder
    real_keys(source_is_token, n_queries)               cross-attention to a padded source

Models ask one question, `visible(queries, keys, ...)`, which joins those that apply.

Dimensions: B batch, T queries, S keys. A mask of any batch has B = 1 and broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lookleft.errors import InputError
from lookleft.once import once


@dataclass(frozen=True, eq=False)
class Mask:
    """A rule for T queries and S keys, written out only for the rows that are asked for.

    A mask over 16,384 positions has 268 million entries. Nobody needs them at once: a fused
    kernel needs to know only that it `is_triangle`, and everything else can go row by row.
    """

    rows: Callable[[int, int], Tensor]  # queries start..stop -> (B, 1, stop - start, S)
    n_queries: int
    n_keys: int
    batch: int = 1
    is_triangle: bool = False  # exactly "key index <= query index", square
    is_full: bool = False  # hides nothing

    @once
    def allowed(self) -> Tensor:
        """All rows at once. (B, 1, T, S)."""
        return self.rows(0, self.n_queries)

    def __and__(self, other: Mask) -> Mask:
        """What both allow."""
        if (self.n_queries, self.n_keys) != (other.n_queries, other.n_keys):
            raise InputError(
                f"cannot join a mask of {self.n_queries} queries x {self.n_keys} keys with one of "
                f"{other.n_queries} x {other.n_keys}"
            )
        batch = _shared_batch(self.batch, other.batch)
        if self.is_full:
            return other
        if other.is_full:
            return self
        return Mask(
            rows=lambda start, stop: self.rows(start, stop) & other.rows(start, stop),
            n_queries=self.n_queries,
            n_keys=self.n_keys,
            batch=batch,
            is_triangle=self.is_triangle and other.is_triangle,
        )

    def additive(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix of 0 and -inf that the paper adds to the scores. (B, 1, T, S)."""
        zeros = torch.zeros(self.allowed.shape, dtype=dtype, device=self.allowed.device)
        return zeros.masked_fill(~self.allowed, float("-inf"))


def causal(
    q_pos: Tensor, k_pos: Tensor, window: int | None = None, prefix: Tensor | int | None = None
) -> Mask:
    """May see its own position and earlier ones. (B, T), (B, S) -> (B, 1, T, S).

    window=w: of those only the last w, its own included. prefix=n (an int, or (B,) one per row):
    positions below n see each other in both directions, whatever the window; the rest is causal.
    """
    if window is not None and window < 1:
        raise InputError(f"window={window}: a position must see at least itself, so window >= 1")
    reach = (
        None if prefix is None else torch.as_tensor(prefix, device=k_pos.device).view(-1, 1, 1, 1)
    )

    def rows(start: int, stop: int) -> Tensor:
        gap = q_pos[:, None, start:stop, None] - k_pos[:, None, None, :]  # (B, 1, T, S)
        allowed = gap >= 0 if window is None else (gap >= 0) & (gap < window)
        if reach is None:
            return allowed
        both_inside = (q_pos[:, None, start:stop, None] < reach) & (k_pos[:, None, None, :] < reach)
        return allowed | both_inside

    return Mask(
        rows=rows,
        n_queries=q_pos.size(1),
        n_keys=k_pos.size(1),
        batch=_shared_batch(q_pos.size(0), k_pos.size(0), 1 if reach is None else reach.size(0)),
        is_triangle=prefix is None and _is_same_ascent(q_pos, k_pos, window),
    )


def everything(n_queries: int, n_keys: int, device: torch.device | str | None = None) -> Mask:
    """Everyone sees everyone: an encoder without padding. -> (1, 1, T, S)."""

    def rows(start: int, stop: int) -> Tensor:
        return torch.ones(1, 1, stop - start, n_keys, dtype=torch.bool, device=device)

    return Mask(rows=rows, n_queries=n_queries, n_keys=n_keys, is_full=True)


def real_keys(is_token: Tensor, n_queries: int) -> Mask:
    """Padding is seen by nobody. (B, S) -> (B, 1, T, S)."""

    def rows(start: int, stop: int) -> Tensor:
        return is_token[:, None, None, :].expand(-1, 1, stop - start, -1)

    return Mask(
        rows=rows,
        n_queries=n_queries,
        n_keys=is_token.size(1),
        batch=is_token.size(0),
        is_full=bool(is_token.all()),
    )


def same_document(q_docs: Tensor, k_docs: Tensor) -> Mask:
    """Packed documents do not see each other. (B, T), (B, S) document numbers -> (B, 1, T, S)."""

    def rows(start: int, stop: int) -> Tensor:
        return q_docs[:, None, start:stop, None] == k_docs[:, None, None, :]

    return Mask(
        rows=rows,
        n_queries=q_docs.size(1),
        n_keys=k_docs.size(1),
        batch=_shared_batch(q_docs.size(0), k_docs.size(0)),
    )


class Side(NamedTuple):
    """One side of an attention, the askers or the asked. All (B, length)."""

    pos: Tensor
    is_token: Tensor  # False = padding
    docs: Tensor | None = None  # document numbers, if several share a row


def visible(
    queries: Side,
    keys: Side,
    *,
    is_causal: bool,
    window: int | None = None,
    prefix: Tensor | int | None = None,
) -> Mask:
    """Everything that limits what these queries may see of these keys. -> (B, 1, T, S)."""
    n_queries, n_keys = queries.pos.size(1), keys.pos.size(1)
    mask = everything(n_queries, n_keys, keys.pos.device) & real_keys(keys.is_token, n_queries)
    if is_causal:
        mask &= causal(queries.pos, keys.pos, window, prefix)
    if queries.docs is not None and keys.docs is not None:
        mask &= same_document(queries.docs, keys.docs)
    return mask


def _is_same_ascent(q_pos: Tensor, k_pos: Tensor, window: int | None) -> bool:
    """True if both are the same rising positions within the window: q >= k is then a triangle."""
    if q_pos.shape != k_pos.shape or q_pos.size(1) < 2:
        return False  # one query sees what it sees; no kernel gains from calling it a triangle
    rises = bool((q_pos.diff(dim=1) > 0).all())
    # Measured in positions: a short row with gaps between its positions can outgrow the window.
    fits = window is None or bool((q_pos[:, -1] - k_pos[:, 0] < window).all())
    return rises and fits and (q_pos is k_pos or torch.equal(q_pos, k_pos))


def _shared_batch(*batches: int) -> int:
    """The one batch size that all have, those of a single row fitting any."""
    sizes = sorted(set(batches) - {1})
    if len(sizes) > 1:
        raise InputError(f"cannot join masks of {' and '.join(map(str, sizes))} rows")
    return sizes[0] if sizes else 1
