"""Products as heads, in one pass there and one back, to train on a CPU.

`Attention` says the same in plain operations: a bias, `split_heads` with its norm, the turn of
`Rotation`. Dimensions: B batch, T positions, H heads, K head width, M rows and C columns of a
product (`branch.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lookleft.errors import InputError
from lookleft.nn.fused import biases_of, copied, floats, memory, or_zeros

Tables = tuple[Tensor, Tensor]  # `Rotation.tables`


@dataclass(frozen=True, eq=False)
class Part:
    """What some columns of a product become: heads, which may be normed and turned."""

    n_heads: int
    norm: nn.RMSNorm | None = None
    tables: Tables | None = None


def make_heads(
    rows: Tensor, shape: Sequence[int], parts: Sequence[Part], linears: Sequence[nn.Linear]
) -> list[Tensor]:
    """A product as the heads of these parts; the biases are the linears'. (M, C) -> (B, H, T, K).

    shape: (B, T, ...) of what was multiplied.
    """
    batch, length = shape[:2]
    width, rest = divmod(rows.size(1), sum(part.n_heads for part in parts))
    if rest or len(rows) < batch * length:
        n_heads = [part.n_heads for part in parts]
        raise InputError(f"rows {tuple(rows.shape)} are not {n_heads} heads of {tuple(shape)}")
    for part in parts:
        if part.norm is not None and part.norm.weight.shape != (width,):
            raise InputError(f"a norm over {part.norm.weight.numel()} numbers, heads of {width}")
        shapes = [(n, length, width // 2) for n in (1, batch)]
        if part.tables is not None and any(table.shape not in shapes for table in part.tables):
            sizes = tuple(part.tables[0].shape)
            raise InputError(f"angles of {sizes} cannot turn heads of {(batch, length, width)}")
    weights = [None if part.norm is None else part.norm.weight for part in parts]
    made = _Heads.apply(rows, biases_of(linears), (batch, length, width), parts, *weights)  # type: ignore[no-untyped-call]
    return [each.transpose(1, 2) for each in made]


class _Heads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        bias: Tensor | None,
        sizes: tuple[int, int, int],
        parts: Sequence[Part],
        *weights: Tensor | None,
    ) -> tuple[Tensor, ...]:
        from lookleft.nn import attending

        batch, length, width = sizes
        ctx.has_bias, ctx.parts, ctx.kind, ctx.rows_shape = (
            bias is not None,
            parts,
            rows.dtype,
            rows.shape,
        )
        bias = or_zeros(bias, rows.size(1))
        weights = tuple(None if weight is None else copied(weight) for weight in weights)
        made, marks, first = [], [], 0
        for part, weight in zip(parts, weights, strict=True):
            out = floats(batch, length, part.n_heads * width)
            scales = floats(0 if weight is None else batch * length, part.n_heads)
            norm, eps, cos, sin = _fixed(part, weight)
            attending.make_heads(
                memory(rows),
                first,
                memory(bias),
                norm,
                eps,
                cos,
                sin,
                memory(out),
                memory(scales),
            )
            first += part.n_heads * width
            made.append(out.view(batch, length, part.n_heads, width))
            marks.append(scales)
        is_normed = any(weight is not None for weight in weights)
        # Without a norm nothing of the product itself is needed on the way back.
        ctx.save_for_backward(rows if is_normed else None, bias, *marks, *weights)
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from lookleft.nn import attending

        rows, bias, *others = ctx.saved_tensors
        marks, weights = others[: len(grads)], others[len(grads) :]
        d_rows = torch.empty(ctx.rows_shape, dtype=ctx.kind, device="cpu")
        d_rows[grads[0].shape[:2].numel() :] = 0
        d_bias, d_weights, first = torch.empty_like(bias), [], 0
        for part, weight, scales, grad in zip(ctx.parts, weights, marks, grads, strict=True):
            d_weight = floats(0) if weight is None else torch.empty_like(weight)
            norm, _, cos, sin = _fixed(part, weight)
            attending.make_heads_back(
                memory(d_rows if rows is None else rows),  # not read where there is no norm
                first,
                memory(bias),
                norm,
                cos,
                sin,
                memory(grad.contiguous().flatten(2)),
                memory(scales),
                memory(d_rows),
                memory(d_bias),
                memory(d_weight),
            )
            first += grad.shape[2:].numel()
            d_weights.append(None if weight is None else d_weight)
        return d_rows, d_bias if ctx.has_bias else None, None, None, *d_weights


def _fixed(part: Part, weight: Tensor | None) -> tuple[Any, Any, Any, Any]:
    """Weight and epsilon of a part's norm, its cosines and sines; nothing where it has none."""
    norm = memory(floats(0) if weight is None else weight)
    eps = np.float32(0.0 if part.norm is None else part.norm.eps or 0.0)
    cos, sin = part.tables or (floats(0, 0, 0), floats(0, 0, 0))
    return norm, eps, memory(cos), memory(sin)
