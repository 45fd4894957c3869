"""Attention: `attend` in full view, `attend_fast` its fused twin, and the multi-head module.

A third twin, `attend_short`, trains on short rows; it lives with its kernels, in `fused.py`.

Dimensions: B batch, T queries, S keys, D model width, H heads, G key/value heads, K head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lookleft.errors import InputError
from lookleft.masks import Mask
from lookleft.nn.fused import are_kernels_wanted, attend_short, is_short
from lookleft.nn.narrow import Linear
from lookleft.once import once

Turn = Callable[[Tensor], Tensor]  # what a position does to a query or key: rotary turns it
Tap = Callable[[str, Tensor], None]  # receives every intermediate by name

# Rows of a written-out mask that exist at one time: memory stays linear in the sequence length.
MASK_ROWS = 512


class KV(NamedTuple):
    """Keys and values of one attention layer, each (B, G, S, K)."""

    keys: Tensor
    values: Tensor

    def repeat_to(self, n_heads: int) -> KV:
        """Each key/value head serves n_heads / G query heads. (B, G, S, K) -> (B, H, S, K)."""
        times = n_heads // self.keys.size(1)
        if times == 1:
            return self
        return KV(self.keys.repeat_interleave(times, 1), self.values.repeat_interleave(times, 1))


@dataclass(frozen=True, eq=False)
class Bias:
    """Numbers added to the scores; like a mask written out only for the rows that are asked for."""

    rows: Callable[[int, int], Tensor]  # queries start..stop -> broadcast to (B, H, stop-start, S)
    n_queries: int

    @once
    def whole(self) -> Tensor:
        """All rows at once, made once for all layers. Broadcast to (B, H, T, S)."""
        return self.rows(0, self.n_queries)


def ignore(name: str, value: Tensor) -> None:
    """The tap that nobody drinks from."""


def unturned(x: Tensor) -> Tensor:
    """The turn of models without rotary positions."""
    return x


def attend(
    q: Tensor,
    kv: KV,
    mask: Mask,
    *,
    scale: float | None = None,
    bias: Bias | None = None,
    dropout: float = 0.0,
    tap: Tap = ignore,
) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, 3.2.1). Sees nothing? Gets zeros.

    q (B, H, T, K), kv of (B, G, S, K) -> (B, H, T, K).
    """
    check_shapes(q, kv, mask)
    wide = torch.promote_types(q.dtype, torch.float32)  # 16-bit scores overflow at 65,504
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    keys, values = kv.repeat_to(q.size(1))

    hidden = ~mask.allowed  # (B, 1, T, S); inverted here and nowhere else
    is_blind = hidden.all(-1, keepdim=True)  # rows that may see nothing

    scores = q.to(wide) @ keys.to(wide).mT * scale  # (B, H, T, S)
    if bias is not None:
        scores = scores + fitting(bias.whole, scores.shape)
    tap("scores", scores)
    # -inf, not a large finite number: any constant is one that a score can fall below, and then
    # the hidden key wins. exp(-inf) is exactly 0. Blind rows keep their scores, so that softmax
    # and its gradient stay finite, and lose their weights afterwards.
    masked_scores = scores.masked_fill(hidden & ~is_blind, -math.inf)
    tap("masked_scores", masked_scores.masked_fill(hidden, -math.inf))
    weights = masked_scores.softmax(-1).masked_fill(is_blind, 0.0)  # (B, H, T, S)
    tap("weights", weights)
    weights = F.dropout(weights, dropout)
    return weights.to(values.dtype) @ values  # (B, H, T, K)


def attend_fast(
    q: Tensor,
    kv: KV,
    mask: Mask,
    *,
    scale: float | None = None,
    bias: Bias | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The same as `attend` through a fused kernel, in memory linear in T and S."""
    check_shapes(q, kv, mask)

    def fused(q: Tensor, is_causal: bool = False, attn_mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(
            q,
            kv.keys,
            kv.values,
            attn_mask=attn_mask,
            dropout_p=dropout,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=bool(kv.keys.size(1) != q.size(1)),  # torch.compile has another kind
        )

    if bias is None and mask.is_triangle:
        return fused(q, is_causal=True)
    if bias is None and mask.is_full:
        return fused(q)

    def some_rows(q: Tensor, start: int) -> Tensor:
        rows = mask.rows(start, start + q.size(2))  # (B, 1, rows, S)
        is_blind = ~rows.any(-1, keepdim=True)
        seen: Tensor = rows | is_blind  # a blind row looks at all, then forgets it: no NaN anywhere
        if bias is not None:
            is_all = q.size(2) == mask.n_queries  # then other layers use the same tensor
            part = bias.whole if is_all else bias.rows(start, start + q.size(2))
            part = fitting(part, (*q.shape[:3], mask.n_keys)).to(q.dtype)
            seen = part.masked_fill(~seen, -math.inf)
        return fused(q, attn_mask=seen).masked_fill(is_blind, 0.0)

    if q.size(2) <= MASK_ROWS:
        return some_rows(q, 0)
    # The kernel keeps the mask for its backward pass; recomputing keeps only one piece of it.
    pieces = []
    for start in range(0, q.size(2), MASK_ROWS):
        piece = q[:, :, start : start + MASK_ROWS]
        if torch.is_grad_enabled():
            pieces.append(checkpoint(some_rows, piece, start, use_reentrant=False))
        else:
            pieces.append(some_rows(piece, start))
    return torch.cat(pieces, dim=2)  # (B, H, T, K)


def check_shapes(q: Tensor, kv: KV, mask: Mask) -> None:
    """Refuse tensors and masks that do not belong together, naming both sizes."""
    if q.ndim != 4 or kv.keys.ndim != 4:
        raise InputError(
            f"attention wants (batch, heads, length, head width); got queries "
            f"{tuple(q.shape)} and keys {tuple(kv.keys.shape)}"
        )
    if kv.keys.shape != kv.values.shape or {kv.keys.dtype, kv.values.dtype} != {q.dtype}:
        raise InputError(
            f"keys {tuple(kv.keys.shape)} {kv.keys.dtype}, values {tuple(kv.values.shape)} "
            f"{kv.values.dtype} and queries {q.dtype} differ; keys and values need one shape, "
            f"all three one type"
        )
    if q.size(0) != kv.keys.size(0) or q.size(-1) != kv.keys.size(-1):
        raise InputError(
            f"queries {tuple(q.shape)} and keys {tuple(kv.keys.shape)} differ in batch or width"
        )
    if q.size(1) % kv.keys.size(1):
        raise InputError(f"{q.size(1)} query heads cannot share {kv.keys.size(1)} key/value heads")
    if (mask.n_queries, mask.n_keys) != (q.size(2), kv.keys.size(2)):
        raise InputError(
            f"the mask is for {mask.n_queries} queries x {mask.n_keys} keys, the tensors have "
            f"{q.size(2)} x {kv.keys.size(2)}"
        )
    if mask.batch not in (1, q.size(0)):
        raise InputError(f"the mask has {mask.batch} rows, the batch has {q.size(0)}")


def fitting(bias: Tensor, full: Sequence[int]) -> Tensor:
    """The bias, if it can be added to scores of the full shape (B, H, T, S)."""
    if bias.ndim != 4 or any(n not in (1, m) for n, m in zip(bias.shape, full, strict=True)):
        raise InputError(
            f"a bias of {tuple(bias.shape)} cannot be added to scores of {tuple(full)}"
        )
    return bias


def split_heads(x: Tensor, n_heads: int, norm: nn.Module | None = None) -> Tensor:
    """(B, T, H*K) -> (B, H, T, K), each head through the norm, if there is one."""
    heads = x.view(*x.shape[:-1], n_heads, x.size(-1) // n_heads)  # (B, T, H, K)
    return normed(norm, heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, H*K)."""
    return x.transpose(1, 2).flatten(2)


def normed(norm: nn.Module | None, heads: Tensor) -> Tensor:
    """Each head normed in the precision of the norm's weights, back in its own. (..., K), same."""
    if norm is None:
        return heads
    wide = torch.promote_types(heads.dtype, next(norm.parameters()).dtype)
    out: Tensor = norm(heads.to(wide))
    return out.to(heads.dtype)  # under autocast values are 16-bit: queries and keys must match


class Attention(nn.Module):
    """Multi-head attention with separate or grouped key/value heads (paper, 3.2.2).

    It builds no mask and owns no cache: both come from the model, once for all layers.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        *,
        qkv_bias: bool = True,
        out_bias: bool = True,
        scale: float | None = None,
        dropout: float = 0.0,
        qk_norm: Callable[[int], nn.RMSNorm] | None = None,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.scale, self.dropout = scale, dropout
        self.to_q = Linear(d_model, n_heads * head_dim, bias=qkv_bias)
        self.to_k = Linear(d_model, n_kv_heads * head_dim, bias=qkv_bias)
        self.to_v = Linear(d_model, n_kv_heads * head_dim, bias=qkv_bias)
        self.to_out = Linear(n_heads * head_dim, d_model, bias=out_bias)
        self.norm_q = qk_norm(head_dim) if qk_norm else None
        self.norm_k = qk_norm(head_dim) if qk_norm else None
        self.tap: Tap = ignore

    def keys_values(self, x: Tensor, turn: Turn = unturned) -> KV:
        """What others can look at in x. (B, S, D) -> KV of (B, G, S, K)."""
        keys = turn(split_heads(self.to_k(x), self.n_kv_heads, self.norm_k))
        return KV(keys, split_heads(self.to_v(x), self.n_kv_heads))

    def forward(
        self,
        x: Tensor,
        kv: KV,
        mask: Mask,
        turn: Turn = unturned,
        bias: Bias | None = None,
    ) -> Tensor:
        """Each position of x reads what it may see of kv. (B, T, D) -> (B, T, D)."""
        q = turn(split_heads(self.to_q(x), self.n_heads, self.norm_q))  # (B, H, T, K)
        mixed: Tensor = self.to_out(merge_heads(self.look(q, kv, mask, bias)))  # (B, T, D)
        return mixed

    def look(self, q: Tensor, kv: KV, mask: Mask, bias: Bias | None = None) -> Tensor:
        """What the heads see, by the fastest of the twins that may be taken. (B, H, T, K), same."""
        dropout = self.dropout if self.training else 0.0
        if self.tap is not ignore:
            self.tap("q", q)
            self.tap("k", kv.keys)
            self.tap("v", kv.values)
            out = attend(q, kv, mask, scale=self.scale, bias=bias, dropout=dropout, tap=self.tap)
            self.tap("out", out)  # per head, before the heads are mixed
            return out
        if (
            are_kernels_wanted(self.training)
            and bias is None
            and dropout == 0
            and is_short(q, kv.keys)
        ):
            check_shapes(q, kv, mask)
            return attend_short(q, *kv, mask, self.scale)
        return attend_fast(q, kv, mask, scale=self.scale, bias=bias, dropout=dropout)


@contextmanager
def capture(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record every intermediate of every attention layer while the block runs.

    Keys are module names plus q, k, v, scores, masked_scores, weights, out, as in
    "decoder.layers.0.self_attention.weights"; each holds one tensor per call, in order. The
    numbers are those of the forward pass itself: capturing only makes it take `attend`.
    """
    seen: dict[str, list[Tensor]] = {}
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, Attention)]

    def tap_of(layer: str) -> Tap:
        return lambda name, value: seen.setdefault(f"{layer}.{name}", []).append(value.detach())

    for name, module in layers:
        module.tap = tap_of(name)
    try:
        yield seen
    finally:
        for _, module in layers:
            module.tap = ignore
