"""Activations in 16 bits, as LLVM vector code: what quantised weights are multiplied with.

A block of 32 neighbours shares a scale: its largest number becomes 32,767. That is 256 times finer
than the 8 bits of the weights, so that the error of a product is that of the weights alone.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from lookleft.engine.compiling import instruction
from lookleft.engine.layout import BLOCK
from lookleft.engine.vectors import F32, I16, Writer

LARGEST = 32767.0


@instruction
def encode_block(typing: Any, source: Any, target: Any, scale: Any, total: Any) -> Any:
    """32 float32 -> 32 codes of 16 bits, their scale, and the sum of what the codes stand for.

    All are addresses. A number that is not finite makes the scale NaN: it is not lost.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (source, target, scale, total) = Writer(builder), values
        n_bytes, words = 4 * write.lanes, ir.VectorType(I16, write.lanes)
        n_parts = BLOCK // write.lanes
        parts = [write.load(write.floats, source, n_bytes * i) for i in range(n_parts)]
        largest = write.across(write.larger, *(write.on_floats("fabs", part) for part in parts))
        zero, one = F32(0.0), F32(1.0)
        # Smaller numbers are zeros: the inverse of theirs could not be held.
        is_zero = builder.fcmp_ordered("<", largest, F32(1e-30))
        inverse = builder.fdiv(F32(LARGEST), builder.select(is_zero, one, largest))
        factor, half = write.splat(inverse, write.floats), write.all_lanes(write.floats, 0.5)
        codes = [write.on_floats("floor", write.multiply_add(part, factor, half)) for part in parts]
        for i, code in enumerate(codes):
            small = builder.trunc(builder.fptosi(code, write.ints), words)
            write.store(small, target, n_bytes // 2 * i)
        # Exact: 32 codes of 15 bits stay below 2**24.
        whole = write.across(builder.fadd, *codes)
        step = builder.fdiv(largest, F32(LARGEST))
        write.store(builder.fadd(step, builder.fmul(whole, zero)), scale)
        write.store(builder.fmul(whole, step), total)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate
