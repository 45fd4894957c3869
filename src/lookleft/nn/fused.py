"""Norms, short attention, cross-entropy: one pass over memory each, to train on a CPU.

Each function here equals plain operations of this package, which stay in charge of everything but
float32 training, and measuring it, on a CPU: `nn.RMSNorm`, `attend`, and `surprise` in
train/loss.py. What lies between the products of a block is in `branch.py`; it takes from here who
may use kernels, and how tensors and bfloat16 are shown to them. The kernels are compiled when the
first is needed, once for a machine.

Dimensions: B batch, T queries, S keys, H heads, K head width, N rows, D width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lookleft.errors import InputError
from lookleft.masks import Mask

# Beyond so many keys or queries PyTorch's attention, which skips what a triangle hides, is faster.
LONGEST = 128
LANES = 8  # the width of a head must be a multiple of it
ROWS_AT_ONCE = 64  # the rows of a narrow product are a multiple of it

_is_plain = ContextVar("is_plain", default=False)
_is_measuring = ContextVar("is_measuring", default=False)


@contextmanager
def plain_operations() -> Iterator[None]:
    """Inside, in this thread, no kernel is used: to compare, and to find out whose fault it is."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


@contextmanager
def measuring() -> Iterator[None]:
    """Inside, in this thread, kernels compute without gradients too, and in eval mode.

    For the loss on a dev set, which is then what training sees, at a part of the cost. Elsewhere a
    model that is not being trained stays plain operations.
    """
    token = _is_measuring.set(True)
    try:
        yield
    finally:
        _is_measuring.reset(token)


def are_kernels_wanted(is_trained: bool) -> bool:
    """True for what is being trained, and for all else inside `measuring`."""
    is_compiling = torch.compiler.is_compiling()  # which cannot look into a ContextVar
    return is_trained or (not is_compiling and _is_measuring.get())


def can_read(x: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """True if kernels can compute with these numbers: plain ones of this type on a CPU."""
    return (
        x.dtype == dtype
        and x.device.type == "cpu"
        and type(x) is Tensor  # nothing that only looks like one
        and not torch.compiler.is_compiling()  # which fuses by itself
        and not torch._C._are_functorch_transforms_active()  # which sees plain operations only
        and not _is_plain.get()
    )


def is_fusable(x: Tensor) -> bool:
    """True if kernels can compute with x, which is on its way to a gradient or measured."""
    return (
        are_kernels_wanted(x.requires_grad and torch.is_grad_enabled())
        and not torch.is_autocast_enabled("cpu")  # which chooses types by itself
        and can_read(x)
    )


def is_short(q: Tensor, keys: Tensor) -> bool:
    """True if `attend_short` can take these heads, and is the faster way. (B, H, length, K)."""
    return (
        is_fusable(q)
        and is_fusable(keys)
        and q.size(1) == keys.size(1)
        and q.size(3) % LANES == 0
        and 0 < q.size(2) <= LONGEST
        and 0 < keys.size(2) <= LONGEST
    )


def are_kernels_compiled() -> bool:
    """Whether the kernels wait on disk: if not, their first use takes some seconds."""
    from lookleft.nn.compiling import is_compiled, kernel_folder  # late: it imports numba

    return is_compiled(kernel_folder())


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """What `nn.RMSNorm` gives over the last dimension. (..., D), (D,) -> (..., D)."""
    if x.shape[-1:] != weight.shape:  # kernels read memory as they are told
        raise InputError(f"a norm over {weight.numel()} numbers was given {tuple(x.shape)}")
    made: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return made


def attend_short(
    q: Tensor, keys: Tensor, values: Tensor, mask: Mask, scale: float | None = None
) -> Tensor:
    """What `attend` gives of heads that `is_short` accepts. (B, H, T, K), (B, H, S, K), same."""
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    heads = [x.transpose(1, 2) for x in (q, keys, values)]  # (B, T, H, K): as projections lie
    allowed = mask.allowed[:, 0]  # (B or 1, T, S)
    assert allowed.shape in [(n, q.size(2), keys.size(2)) for n in (1, q.size(0))], "check_shapes"
    made: Tensor = _Attend.apply(*heads, allowed, scale)  # type: ignore[no-untyped-call]
    return made.transpose(1, 2)


def surprise_rows(logits: Tensor, targets: Tensor, smoothing: float, rdrop: float = 0.0) -> float:
    """What `surprise` in train/loss.py says the targets cost; its gradient overwrites the logits.

    Logits (R, N, V) of one or two passes, targets (N,).
    """
    from lookleft.nn import entropy  # late, as below: it compiles its kernels

    n_passes, _, n_ids = logits.shape
    low, high = (int(end) for end in targets.aminmax())
    if low < 0 or high >= n_ids:
        raise InputError(f"targets {low}..{high} are not all among the {n_ids} ids")
    is_narrow = logits.dtype == torch.bfloat16
    rows = memory(logits)
    known = targets.numpy(), np.float32(smoothing)
    if n_passes == 2:
        twins = entropy.surprise_narrow_twin_rows if is_narrow else entropy.surprise_twin_rows
        return float(twins(rows, *known, np.float32(rdrop / 2)))
    one = entropy.surprise_narrow_rows if is_narrow else entropy.surprise_rows
    return float(one(rows[0], *known))


def narrow_rows(rows: Tensor, is_summed: bool = False) -> tuple[Tensor, Tensor | None]:
    """Rows as bfloat16, zeros behind them, and if wanted their sum. (N, F) -> (M, F), (F,)."""
    from lookleft.nn import kernels

    out, total = narrow_room(rows), floats(rows.size(1) if is_summed else 0)
    kernels.narrow_rows(memory(rows.contiguous()), memory(out), memory(total))
    return out, total if is_summed else None


def narrow_room(rows: Tensor) -> Tensor:
    """Room for these rows as bfloat16. (N, F) -> (N rounded up, F).

    The library writes code for every number of rows that it meets, which takes as long as a
    product: so few numbers are met again and again.
    """
    n_rows = -(-len(rows) // ROWS_AT_ONCE) * ROWS_AT_ONCE
    return torch.empty((n_rows, rows.size(1)), dtype=torch.bfloat16, device="cpu")


def floats(*shape: int) -> Tensor:
    """Room for float32, whatever PyTorch's own default is."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def widen_rows(rows: Tensor, n_rows: int, bias: Tensor | None = None) -> Tensor:
    """The first so many rows of bfloat16 as float32, plus a bias. (N, F), (F,) -> (n_rows, F)."""
    from lookleft.nn import kernels

    out = floats(n_rows, rows.size(1))
    added = floats(0) if bias is None else copied(bias)
    kernels.widen_rows(memory(rows), memory(added), memory(out))
    return out


def biases_of(linears: Sequence[nn.Linear]) -> Tensor | None:
    """The biases of linears one behind the other, zeros for one that has none; None: none has."""
    if all(linear.bias is None for linear in linears):
        return None
    if len(linears) == 1:
        return linears[0].bias
    zeros = linears[0].weight.new_zeros
    return torch.cat(
        [zeros(each.out_features) if each.bias is None else each.bias for each in linears]
    )


def or_zeros(bias: Tensor | None, n: int) -> Tensor:
    """A bias of so many numbers for kernels to read, zeros if there is none. (n,)."""
    if bias is None:
        return floats(n).zero_()
    if bias.shape != (n,):
        raise InputError(f"a bias of {tuple(bias.shape)} cannot be added to rows of {n} numbers")
    return copied(bias)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        from lookleft.nn import kernels

        x, weight = x.contiguous(), copied(weight)
        out, marks = torch.empty_like(x), x.new_empty(2, x.numel() // x.size(-1))
        means, scales = memory(marks)
        bias = memory(torch.zeros_like(weight))
        kernels.norm_rows(
            _rows(x), memory(weight), bias, np.float32(eps), False, _rows(out), means, scales
        )
        ctx.save_for_backward(x, weight, marks)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from lookleft.nn import kernels

        x, weight, marks = ctx.saved_tensors
        d_x, d_weight = torch.empty_like(x), torch.empty_like(weight)
        means, scales = memory(marks)
        kernels.norm_rows_back(
            _rows(x),
            memory(weight),
            means,
            scales,
            False,
            _rows(grad.contiguous()),
            memory(x.new_empty(0, x.size(-1))),
            _rows(d_x),
            memory(d_weight),
            memory(torch.empty_like(weight)),
        )
        return d_x, d_weight, None


class _Attend(torch.autograd.Function):
    """(B, T, H, K), twice (B, S, H, K), (B or 1, T, S) -> (B, T, H, K)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float
    ) -> Tensor:
        from lookleft.nn import attending

        q, keys, values = q.contiguous(), keys.contiguous(), values.contiguous()
        (n_batch, n_queries, n_heads, _), n_keys = q.shape, keys.size(1)
        n_columns = -(-n_queries // LANES) * LANES
        weights = q.new_empty(n_batch, n_heads, n_keys, n_columns)
        out = torch.empty_like(q)
        attending.attend_heads(
            memory(q),
            memory(keys),
            memory(values),
            memory(allowed.contiguous()),
            np.float32(scale),
            memory(weights),
            memory(out),
        )
        ctx.save_for_backward(q, keys, values, weights)
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from lookleft.nn import attending

        q, keys, values, weights = ctx.saved_tensors
        d_q, d_keys, d_values = (torch.empty_like(x) for x in (q, keys, values))
        attending.attend_heads_back(
            memory(q),
            memory(keys),
            memory(values),
            memory(weights),
            np.float32(ctx.scale),
            memory(grad.contiguous()),
            memory(d_q),
            memory(d_keys),
            memory(d_values),
        )
        return d_q, d_keys, d_values, None, None


def memory(x: Tensor) -> np.ndarray[Any, Any]:
    """The numbers of a contiguous tensor as kernels read them, in the memory they lie in.

    NumPy does not know bfloat16: of that it gets the bits.
    """
    seen = x.detach()
    return (seen.view(torch.int16) if x.dtype == torch.bfloat16 else seen).numpy()


def copied(vector: Tensor) -> Tensor:
    """A copy of a weight of few numbers, for kernels to read.

    Memory that NumPy was shown cannot be resized, which is how fsdp frees that of weights.
    """
    return vector.detach().clone()


def _rows(x: Tensor) -> np.ndarray[Any, Any]:
    """The same as rows of the last dimension."""
    return memory(x.view(-1, x.size(-1)))
