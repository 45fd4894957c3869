"""A block's branches in few passes over memory, to train on a CPU: what lies between products.

    enter        norm, then products with one or more matrices, made as one
    make_heads   what such a product made, as heads: plus a bias, normed, turned (heads.py)
    bend         the same for feed-forwards: plus a bias, through the activation
    leave        a last product, plus a bias, dropout, added to the residual stream

`Block.forward_plain` says the same in the modules' own words; test_branch.py ties the two. Inside
`narrow_products` what products read and make is bfloat16, and half the memory moves; the residual
stream, heads, activations other than ReLU and gradients of weights are float32.

Products are lists of rows, (M, C): M is N = B * T, the positions, or with bfloat16 rounded up
(`narrow_rows`); rows beyond the last position get no gradient. Dimensions as in kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lookleft.errors import InputError
from lookleft.nn.fused import (
    biases_of,
    copied,
    floats,
    memory,
    narrow_room,
    narrow_rows,
    or_zeros,
    widen_rows,
)
from lookleft.nn.layers import Dropout, FeedForward, Norm, relu2
from lookleft.nn.narrow import kind_here


def enter(x: Tensor, norm: Norm | None, linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """x itself, and its norm times all matrices, without biases. (B, T, D) -> same, (M, C).

    Who adds to x later should take the first: then both gradients of x meet in one pass. It is a
    view of x, so nobody may write into it.
    """
    weight = None if norm is None else norm.weight
    if weight is not None and weight.shape != x.shape[-1:]:  # kernels read as they are told
        raise InputError(f"a norm over {weight.numel()} numbers was given {tuple(x.shape)}")
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    options = (0.0 if norm is None else norm.eps, isinstance(norm, nn.LayerNorm))
    matrices = [linear.weight for linear in linears]
    made: tuple[Tensor, Tensor] = _Enter.apply(x, weight, bias, options, kind_here(), *matrices)  # type: ignore[no-untyped-call]
    return made


def bend(rows: Tensor, layer: FeedForward) -> Tensor:
    """What a feed-forward makes of its first products before its last one. (M, C) -> (M, F)."""
    bias = biases_of(layer.ways_in)
    if layer.to_gate is None and layer.activation in (F.relu, relu2):
        made: Tensor = _Bend.apply(rows, bias, layer.activation is relu2)  # type: ignore[no-untyped-call]
        return made
    wide = rows.float() if bias is None else rows.float() + bias
    return layer.bent(*wide.chunk(len(layer.ways_in), -1))


def leave(x: Tensor, rows: Tensor, linear: nn.Linear, dropout: Dropout) -> Tensor:
    """x plus what the linear makes of rows, after dropout. (B, T, D), (N or M, F) -> (B, T, D)."""
    n_dropped = dropout.n_dropped if dropout.training else 0
    has_room = rows.ndim == 2 and len(rows) >= x.shape[:-1].numel()  # rows behind the last
    if len(linear.weight) != x.size(-1) or not (has_room or rows.shape[:-1] == x.shape[:-1]):
        raise InputError(
            f"{linear} of rows {tuple(rows.shape)} cannot be added to {tuple(x.shape)}"
        )
    chance = dropout.chance(x.numel() if n_dropped else 0)
    made: Tensor = _Leave.apply(  # type: ignore[no-untyped-call]
        x, rows, linear.weight, linear.bias, chance, n_dropped, kind_here()
    )
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
        if weight is None:
            read = rows if kind == rows.dtype else narrow_rows(rows)[0]
            ctx.save_for_backward(read, *matrices)
            return x, read @ _joined(matrices, kind).mT
        weight = copied(weight)
        read = torch.empty_like(rows) if kind == rows.dtype else narrow_room(rows)
        marks = rows.new_empty(2, len(rows))
        means, scales = memory(marks)
        kernels.norm_rows(
            memory(rows),
            memory(weight),
            memory(or_zeros(bias, len(weight))),
            np.float32(eps),
            ctx.is_centred,
            memory(read),
            means,
            scales,
        )
        ctx.save_for_backward(read, *matrices, rows, weight, marks)
        return x, read @ _joined(matrices, kind).mT  # (M, C)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, beside: Tensor | None, grad: Tensor | None) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        read, *others = ctx.saved_tensors
        matrices, normed = others[: len(ctx.sizes)], others[len(ctx.sizes) :]
        if grad is None:  # nobody read the products
            return beside, *[None] * (4 + len(ctx.sizes))
        d_matrices: Sequence[Tensor | None] = [None] * len(ctx.sizes)
        if any(ctx.needs_input_grad[5:]):
            d_matrices = (grad.mT @ read).float().split(ctx.sizes)
        d_read = grad @ _joined(matrices, grad.dtype)  # (M, D)
        n_rows = ctx.shape[:-1].numel()
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
        wanted = d_bias if ctx.has_bias else None
        return d_x.view(ctx.shape), d_weight, wanted, None, None, *d_matrices


class _Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, bias: Tensor | None, is_squared: bool) -> Tensor:
        from lookleft.nn import kernels

        ctx.has_bias, ctx.is_squared = bias is not None, is_squared
        bias, out = or_zeros(bias, rows.size(1)), torch.empty_like(rows)
        kernels.bend_rows(memory(rows), memory(bias), is_squared, memory(out))
        ctx.save_for_backward(rows, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        rows, bias = ctx.saved_tensors
        d_rows, d_bias = torch.empty_like(rows), torch.empty_like(bias)
        kernels.bend_rows_back(
            memory(rows),
            memory(bias),
            ctx.is_squared,
            memory(grad.contiguous()),
            memory(d_rows),
            memory(d_bias),
        )
        return d_rows, d_bias if ctx.has_bias else None, None


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
        ctx.drop = np.uint8(n_dropped), np.float32(256 / (256 - n_dropped))
        ctx.is_narrowed = rows.dtype != kind
        read = rows.contiguous().view(-1, rows.size(-1))  # (N or M, F)
        if ctx.is_narrowed:
            read = narrow_rows(read)[0]
        weight, stream = matrix.to(kind), x.contiguous().view(-1, x.size(-1))
        out = torch.empty(x.shape, dtype=torch.float32, device="cpu")  # no view: to be written into
        kernels.add_rows(
            memory(read @ weight.mT),
            memory(or_zeros(bias, len(weight))),
            memory(stream),
            memory(chance),
            ctx.drop[0],
            ctx.drop[1],
            memory(out.view(stream.shape)),
        )
        ctx.save_for_backward(read, weight, chance)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from lookleft.nn import kernels

        read, weight, chance = ctx.saved_tensors
        grad = grad.contiguous()
        above = grad.view(-1, grad.size(-1))  # (N, D)
        error = torch.empty((len(read), len(weight)), dtype=ctx.kind, device="cpu")
        d_bias = floats(len(weight))
        n_dropped, scale = ctx.drop
        kernels.add_rows_back(
            memory(above), memory(chance), n_dropped, scale, memory(error), memory(d_bias)
        )
        d_read = error @ weight
        n_read = ctx.shape[:-1].numel()
        d_rows = widen_rows(d_read, n_read) if ctx.is_narrowed else d_read
        d_matrix = (error.mT @ read).float() if ctx.needs_input_grad[2] else None
        wanted = d_bias if ctx.has_bias else None
        return grad, d_rows.view(ctx.shape), d_matrix, wanted, None, None, None


def _joined(matrices: Sequence[Tensor], kind: torch.dtype) -> Tensor:
    """The matrices one below the other, as a product reads them. (F, D) each -> (C, D)."""
    if len(matrices) == 1:
        return matrices[0].to(kind)
    shape = sum(map(len, matrices)), matrices[0].size(1)
    out = torch.empty(shape, dtype=kind, device="cpu")
    start = 0
    for matrix in matrices:
        out[start : start + len(matrix)] = matrix
        start += len(matrix)
    return out
