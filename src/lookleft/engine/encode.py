"""Activations in few bits, as LLVM vector code: what quantised weights are multiplied with.

A block of 32 neighbours shares a scale. In 16 bits its largest number becomes 32,767: that is 256
times finer than the 8 bits of the weights, so that the error of a product is that of the weights
alone. In 8 bits it becomes 127: as coarse as the weights, and twice as many at once.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from lookleft.engine.compiling import instruction
from lookleft.engine.layout import BLOCK
from lookleft.engine.vectors import F32, I8, I16, I32, Writer


def write_codes(write: Writer, kind: Any, source: Any, target: Any, scale: Any) -> tuple[Any, Any]:
    """32 float32 -> 32 codes of this kind and their scale; gives the sum of the codes, a float32
    without a fraction, and the scale.

    A number that is not finite makes the scale NaN: it is not lost.
    """
    b, most = write.b, F32(float(2 ** (kind.width - 1) - 1))
    n_bytes, words = kind.width // 8 * write.lanes, ir.VectorType(kind, write.lanes)
    n_parts = BLOCK // write.lanes
    parts = [write.load(write.floats, source, 4 * write.lanes * i) for i in range(n_parts)]
    largest = write.across(write.larger, *(write.on_floats("fabs", part) for part in parts))
    # Smaller numbers are zeros: the inverse of theirs could not be held.
    is_zero = b.fcmp_ordered("<", largest, F32(1e-30))
    inverse = b.fdiv(most, b.select(is_zero, F32(1.0), largest))
    factor, half = write.splat(inverse, write.floats), write.all_lanes(write.floats, 0.5)
    codes = [write.on_floats("floor", write.multiply_add(part, factor, half)) for part in parts]
    for i, code in enumerate(codes):
        write.store(b.trunc(b.fptosi(code, write.ints), words), target, n_bytes * i)
    # Exact: 32 codes of 15 bits stay below 2**24.
    whole = write.across(b.fadd, *codes)
    step = b.fmul(largest, F32(1 / most.constant))
    write.store(b.fadd(step, b.fmul(whole, F32(0.0))), scale)
    return whole, step


@instruction
def encode_block(typing: Any, source: Any, target: Any, scale: Any, total: Any) -> Any:
    """32 float32 -> 32 codes of 16 bits, their scale, and the sum of what the codes stand for.

    All are addresses.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        source, target, scale, total = values
        write = Writer(builder)
        whole, step = write_codes(write, I16, source, target, scale)
        write.store(builder.fmul(whole, step), total)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@instruction
def encode_bytes(typing: Any, source: Any, target: Any, scale: Any, surplus: Any) -> Any:
    """32 float32 -> 32 codes of 8 bits, their scale, and -128 times the sum of the codes, int32.

    All are addresses. The last is what a product with weights that have 128 added begins with.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        source, target, scale, surplus = values
        write = Writer(builder)
        whole, _ = write_codes(write, I8, source, target, scale)
        write.store(builder.fptosi(builder.fmul(whole, F32(-128.0)), I32), surplus)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate
