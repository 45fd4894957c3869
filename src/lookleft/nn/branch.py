"""A block's branches in few passes over memory, to train on a CPU: what lies between products.

    enter    norm, then products with one or more matrices, made as one
    heads    what such a product made, as heads: plus a bias, normed, turned
    bend     the same for feed-forwards: plus a bias, through the activation
    leave    a last product, plus a bias, dropout, added to the residual stream

`Block.plainly` says the same in the modules' own words; test_branch.py ties the two. Inside
`narrow_products` all that products read and make is bfloat16 until the next product, and half the
memory moves; the residual stream, heads and gradients of weights are float32.

Products are lists of rows, (M, C): M is N = B * T, the positions, or with bfloat16 rounded up
(`narrow_rows`); rows beyond the last position get no gradient. Dimensions as in kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lookleft.nn.attention import Attention, ignore
from lookleft.nn.fused import ROWS_AT_ONCE, copied, memory, narrow_rows, widen_rows
from lookleft.nn.layers import Dropout, FeedForward, Norm, RMSNorm, relu2
from lookleft.nn.narrow import Linear, narrowed

Tables = tuple[Tensor, Tensor]  # `Rotation.tables`


@dataclass(frozen=True)
class Part:
    """What some columns of a product become: heads, which may be normed and turned."""

    n_heads: int
    norm: nn.RMSNorm | None = None
    tables: Tables | None = None


KNOWN = {Attention, Dropout, FeedForward, Linear, nn.LayerNorm, RMSNorm}


def is_plain(module: nn.Module) -> bool:
    """Whether a module may be passed over: it is as we made it, and nobody listens to it."""
    return (
        type(module) in KNOWN
        and getattr(module, "tap", ignore) is ignore
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not module._backward_hooks
        and not module._backward_pre_hooks
        and all(
            type(each) is nn.Parameter and each.dtype == torch.float32 and each.device.type == "cpu"
            for each in module._parameters.values()
            if each is not None
        )
    )


def enter(x: Tensor, norm: Norm | None, linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """x itself, and its norm times all matrices, without biases. (B, T, D) -> same, (M, C).

    Who adds to x later should take the first: then both gradients of x meet in one pass.
    """
    weight = None if norm is None else norm.weight
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    options = (0.0 if norm is None else norm.eps, isinstance(norm, nn.LayerNorm))
    kind = narrowed(x[:0]).dtype
    matrices = [linear.weight for linear in linears]
    made: tuple[Tensor, Tensor] = _Enter.apply(x, weight, bias, options, kind, *matrices)  # type: ignore[no-untyped-call]
    return made


def heads(
    rows: Tensor, shape: Sequence[int], parts: Sequence[Part], linears: Sequence[nn.Linear]
) -> list[Tensor]:
    """A product as the heads of these parts; the biases are the linears'. (M, C) -> (B, H, T, K).

    shape: (B, T, ...) of what was multiplied.
    """
    bias, width = _biases(linears), rows.size(1) // sum(part.n_heads for part in parts)
    weights = [None if part.norm is None else part.norm.weight for part in parts]
    made = _Heads.apply(rows, bias, tuple(shape[:2]), width, parts, *weights)  # type: ignore[no-untyped-call]
    return [each.transpose(1, 2) for each in made]


def bend(rows: Tensor, layer: FeedForward) -> Tensor:
    """What a feed-forward makes of its first products before its last one. (M, C) -> (M, F)."""
    bias = _biases(layer.ways_in)
    if layer.to_gate is None and layer.activation in (F.relu, relu2):
        made: Tensor = _Bend.apply(rows, bias, layer.activation is relu2)  # type: ignore[no-untyped-call]
        return made
    wide = rows.float() if bias is None else rows.float() + bias
    return layer.bent(*wide.chunk(len(layer.ways_in), -1))


def leave(x: Tensor, rows: Tensor, linear: nn.Linear, dropout: Dropout) -> Tensor:
    """x plus what the linear makes of rows, after dropout. (B, T, D), (N or M, F) -> (B, T, D)."""
    n_dropped = dropout.n_dropped if dropout.training else 0
    n = x.numel()
    chance = dropout.chance(n) if n_dropped else torch.zeros(n, dtype=torch.uint8)
    kind = narrowed(x[:0]).dtype
    made: Tensor = _Leave.apply(x, rows, linear.weight, linear.bias, chance, n_dropped, kind)  # type: ignore[no-untyped-call]
    return made


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        options: tuple[float, bool],
        kind: torch.dtype,
        *matrices: Tensor,
    ) -> tuple[Tensor, Tensor]:
        from lookleft.nn import kernels

        ctx.set_materialize_grads(False)
        ctx.shape, ctx.sizes = x.shape, [len(matrix) for matrix in matrices]
        eps, ctx.is_centred = options
        ctx.has_bias = bias is not None
        rows = x.contiguous().view(-1, x.size(-1))  # (N, D)
        joined = _joined(matrices, kind)  # (C, D)
        if weight is None:
            read = rows if kind == rows.dtype else narrow_rows(rows)[0]
            ctx.save_for_backward(read, joined)
            return x, read @ joined.mT
        weight = copied(weight)
        read, marks = _room(len(rows), rows.size(1), kind), rows.new_empty(2, len(rows))
        means, scales = memory(marks)
        kernels.norm_rows(
            memory(rows),
            memory(weight),
            memory(_or_zeros(bias, len(weight))),
            np.float32(eps),
            ctx.is_centred,
            memory(read),
            means,
            scales,
        )
        ctx.save_for_backward(read, joined, rows, weight, marks)
        return x, read @ joined.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, beside: Tensor | None, grad: Tensor | None) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        read, joined, *normed = ctx.saved_tensors
        if grad is None:  # nobody read the products
            return beside, *[None] * (4 + len(ctx.sizes))
        d_matrices = (grad.mT @ read).float().split(ctx.sizes)
        d_read, n_rows = grad @ joined, ctx.shape[:-1].numel()  # (M, D)
        if not normed:
            wide = d_read if d_read.dtype == torch.float32 else widen_rows(d_read, n_rows)
            d_x = wide.view(ctx.shape)
            return d_x if beside is None else d_x + beside, *[None] * 4, *d_matrices
        rows, weight, marks = normed
        d_x, d_weight, d_bias = (torch.empty_like(each) for each in (rows, weight, weight))
        other = rows[:0] if beside is None else beside.contiguous().view(rows.shape)
        means, scales = memory(marks)
        kernels.norm_rows_back(
            memory(rows),
            memory(weight),
            means,
            scales,
            ctx.is_centred,
            memory(d_read),
            memory(other),
            memory(d_x),
            memory(d_weight),
            memory(d_bias),
        )
        shift = d_bias if ctx.has_bias else None
        return d_x.view(ctx.shape), d_weight, shift, None, None, *d_matrices


class _Heads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        bias: Tensor | None,
        shape: tuple[int, int],
        width: int,
        parts: Sequence[Part],
        *weights: Tensor | None,
    ) -> tuple[Tensor, ...]:
        from lookleft.nn import kernels

        ctx.has_bias, ctx.parts, ctx.width = bias is not None, parts, width
        added = _or_zeros(bias, rows.size(1))
        weights = tuple(None if weight is None else copied(weight) for weight in weights)
        made, marks, first = [], [], 0
        for part, weight in zip(parts, weights, strict=True):
            out = torch.empty(*shape, part.n_heads * width)
            scales = torch.empty(shape[0] * shape[1], part.n_heads)
            norm, eps, cos, sin = _fixed(part, weight)
            kernels.make_heads(
                memory(rows),
                first,
                memory(added),
                norm,
                eps,
                cos,
                sin,
                memory(out),
                memory(scales),
            )
            first += part.n_heads * width
            made.append(out.view(*shape, part.n_heads, width))
            marks.append(scales)
        ctx.save_for_backward(rows, added, *marks, *weights)
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        rows, added, *others = ctx.saved_tensors
        marks, weights = others[: len(grads)], others[len(grads) :]
        d_rows, d_added = torch.empty_like(rows), torch.empty_like(added)
        d_rows[grads[0].shape[:2].numel() :] = 0
        d_weights, first = [], 0
        for part, weight, scales, grad in zip(ctx.parts, weights, marks, grads, strict=True):
            d_weight = torch.empty(0) if weight is None else torch.empty_like(weight)
            norm, _, cos, sin = _fixed(part, weight)
            kernels.make_heads_back(
                memory(rows),
                first,
                memory(added),
                norm,
                cos,
                sin,
                memory(grad.contiguous().flatten(2)),
                memory(scales),
                memory(d_rows),
                memory(d_added),
                memory(d_weight),
            )
            first += part.n_heads * ctx.width
            d_weights.append(None if weight is None else d_weight)
        return d_rows, d_added if ctx.has_bias else None, None, None, None, *d_weights


class _Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, bias: Tensor | None, is_squared: bool) -> Tensor:
        from lookleft.nn import kernels

        ctx.has_bias, ctx.is_squared = bias is not None, is_squared
        added, out = _or_zeros(bias, rows.size(1)), torch.empty_like(rows)
        kernels.bend_rows(memory(rows), memory(added), is_squared, memory(out))
        ctx.save_for_backward(rows, added)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        rows, added = ctx.saved_tensors
        d_rows, d_added = torch.empty_like(rows), torch.empty_like(added)
        kernels.bend_rows_back(
            memory(rows),
            memory(added),
            ctx.is_squared,
            memory(grad.contiguous()),
            memory(d_rows),
            memory(d_added),
        )
        return d_rows, d_added if ctx.has_bias else None, None


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        rows: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        chance: Tensor,
        n_dropped: int,
        kind: torch.dtype,
    ) -> Tensor:
        from lookleft.nn import kernels

        ctx.kind, ctx.shape, ctx.has_bias = kind, rows.shape, bias is not None
        ctx.drop = least, scale = np.uint8(n_dropped), np.float32(256 / (256 - n_dropped))
        ctx.is_narrowed = rows.dtype != kind
        read = rows.contiguous().view(-1, rows.size(-1))  # (N or M, F)
        if ctx.is_narrowed:
            read = narrow_rows(read)[0]
        weight, stream = matrix.to(kind), x.contiguous().view(-1, x.size(-1))
        out = torch.empty_like(stream)
        kernels.add_rows(
            memory(read @ weight.mT),
            memory(_or_zeros(bias, len(weight))),
            memory(stream),
            memory(chance),
            least,
            scale,
            memory(out),
        )
        ctx.save_for_backward(read, weight, chance)
        return out.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        read, weight, chance = ctx.saved_tensors
        grad = grad.contiguous()
        above = grad.view(-1, grad.size(-1))  # (N, D)
        error = torch.empty((len(read), len(weight)), dtype=ctx.kind)
        d_bias = torch.empty(len(weight))
        least, scale = ctx.drop
        kernels.add_rows_back(
            memory(above), memory(chance), least, scale, memory(error), memory(d_bias)
        )
        d_read = error @ weight
        n_read = ctx.shape[:-1].numel()
        d_rows = widen_rows(d_read, n_read) if ctx.is_narrowed else d_read
        d_matrix = (error.mT @ read).float()
        added = d_bias if ctx.has_bias else None
        return grad, d_rows.view(ctx.shape), d_matrix, added, None, None, None


def _room(n_rows: int, width: int, kind: torch.dtype) -> Tensor:
    """Unwritten rows that a product can read. -> (M, width)."""
    if kind != torch.float32:
        n_rows = -(-n_rows // ROWS_AT_ONCE) * ROWS_AT_ONCE
    return torch.empty((n_rows, width), dtype=kind)


def _joined(matrices: Sequence[Tensor], kind: torch.dtype) -> Tensor:
    """The matrices one below the other, as a product reads them. (F, D) each -> (C, D)."""
    if len(matrices) == 1:
        return matrices[0].to(kind)
    out = torch.empty((sum(map(len, matrices)), matrices[0].size(1)), dtype=kind)
    start = 0
    for matrix in matrices:
        out[start : start + len(matrix)] = matrix
        start += len(matrix)
    return out


def _biases(linears: Sequence[nn.Linear]) -> Tensor | None:
    """The biases of linears one behind the other; of one block all have them or none."""
    found: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    if not found:
        return None
    return found[0] if len(found) == 1 else torch.cat(found)


def _or_zeros(bias: Tensor | None, n: int) -> Tensor:
    return torch.zeros(n) if bias is None else copied(bias)


def _fixed(part: Part, weight: Tensor | None) -> tuple[Any, Any, Any, Any]:
    """Weight and epsilon of a part's norm, its cosines and sines; nothing where it has none."""
    norm = memory(torch.empty(0) if weight is None else weight)
    eps = np.float32(0.0 if part.norm is None else part.norm.eps or 0.0)
    tables = part.tables or (torch.empty(0, 0, 0), torch.empty(0, 0, 0))
    return norm, eps, memory(tables[0]), memory(tables[1])
