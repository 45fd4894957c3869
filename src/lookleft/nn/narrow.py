"""Matrix products in bfloat16, for processors with units for it.

A product reads rows and matrix rounded to 8 bits, adds up in float32, and its result, rounded
once more, goes on as float32; inside the branches of a block (`branch.py`) what goes from one
product into the next stays narrow. Weights, their gradients and the residual stream keep their 24
bits. Dimensions: N rows, D and F widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lookleft.nn.fused import can_read, narrow_rows, widen_rows

_is_narrow = ContextVar("is_narrow", default=False)
_n_inside = 0  # threads that are inside
_counting = Lock()  # two may enter at the same moment


@contextmanager
def narrow_products() -> Iterator[None]:
    """Inside, in this thread, products read float32 as bfloat16, there and back."""
    global _n_inside
    token = _is_narrow.set(True)
    with _counting:
        _n_inside += 1
    try:
        yield
    finally:
        with _counting:
            _n_inside -= 1
        _is_narrow.reset(token)


def is_narrow_here() -> bool:
    """Whether products are narrow in this thread.

    torch.compile cannot look into a ContextVar, but notices when a number of a module changes. Who
    compiles has one thread that trains: see `n_replicas`.
    """
    return _n_inside > 0 if torch.compiler.is_compiling() else _is_narrow.get()


def narrowed(x: Tensor) -> Tensor:
    """x as products read it here: bfloat16 inside `narrow_products`, if x is float32."""
    return x.to(torch.bfloat16) if is_narrow_here() and x.dtype == torch.float32 else x


def kind_here() -> torch.dtype:
    """The type in which products read float32 here."""
    return torch.bfloat16 if is_narrow_here() else torch.float32


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What `F.linear` gives, in the precision of this place. (..., D), (F, D), (F,) -> (..., F)."""
    if not is_narrow_here() or x.dtype != torch.float32:
        return F.linear(x, weight, bias)
    if can_read(x):
        made: Tensor = _NarrowLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return made
    made = F.linear(narrowed(x), narrowed(weight)).to(x.dtype)
    return made if bias is None else made + bias


class Linear(nn.Linear):
    """PyTorch's, with products in the precision of the place where it is called."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class _NarrowLinear(torch.autograd.Function):
    """Keeps only what products read, in half the memory: rows and matrix are narrowed once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        wide = x.reshape(-1, x.size(-1))  # (N, D)
        rows, _ = narrow_rows(wide)  # (N rounded up, D)
        matrix = weight.to(torch.bfloat16)  # (F, D)
        ctx.save_for_backward(rows, matrix)
        ctx.shape = x.shape
        out = widen_rows(rows @ matrix.mT, len(wide), bias)  # (N, F)
        return out.view(*x.shape[:-1], out.size(-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        grad = grad.reshape(-1, grad.size(-1))  # (N, F)
        error, d_bias = narrow_rows(grad, is_summed=wanted[2])  # (N rounded up, F)
        d_x = widen_rows(error @ matrix, len(grad)).view(ctx.shape) if wanted[0] else None
        d_weight = (error.mT @ rows).to(grad.dtype) if wanted[1] else None
        return d_x, d_weight, d_bias
