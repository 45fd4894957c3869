"""Activations in 16 bits, as LLVM vector code: what quantised weights are multiplied with.

A block of 32 neighbours shares a scale: its largest number becomes 32,767. That is 256 times finer
than the 8 bits of the weights, so that the error of a product is that of the weights alone.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from lookleft.engine.compiling import instruction
from lookleft.engine.layout import BLOCK, LANES
from lookleft.engine.vectors import F32, FLOATS, I16, INTS, Writer

LARGEST = 32767.0
WORDS = ir.VectorType(I16, LANES)


@instruction
def encode_block(typing: Any, source: Any, target: Any, scale: Any, total: Any) -> Any:
    """32 float32 -> 32 codes of 16 bits, their scale, and the sum of what the codes stand for.

    All are addresses. A number that is not finite makes the scale NaN: it is not lost.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (source, target, scale, total) = Writer(builder), values
        one_to_one = ir.FunctionType(FLOATS, [FLOATS])
        parts = [write.load(FLOATS, source, 4 * LANES * i) for i in range(BLOCK // LANES)]
        sizes = [write.call("llvm.fabs.v8f32", one_to_one, part) for part in parts]
        largest = write.across(larger, larger(write, *(larger(write, *s) for s in _twos(sizes))))
        zero, one = F32(0.0), F32(1.0)
        # Smaller numbers are zeros: the inverse of theirs could not be held.
        is_zero = builder.fcmp_ordered("<", largest, F32(1e-30))
        inverse = builder.fdiv(F32(LARGEST), builder.select(is_zero, one, largest))
        factor, half = write.splat(inverse, FLOATS), ir.Constant(FLOATS, [0.5] * LANES)
        codes = [
            write.call("llvm.floor.v8f32", one_to_one, write.multiply_add(part, factor, half))
            for part in parts
        ]
        for i, code in enumerate(codes):
            words = builder.trunc(builder.fptosi(code, INTS), WORDS)
            write.store(words, target, 2 * LANES * i)
        # Exact: 32 codes of 15 bits stay below 2**24.
        sums = _plus(write, *(_plus(write, *s) for s in _twos(codes)))
        whole = write.across(_plus, sums)
        step = builder.fdiv(largest, F32(LARGEST))
        write.store(builder.fadd(step, builder.fmul(whole, zero)), scale)
        write.store(builder.fmul(whole, step), total)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


def _twos(items: list[Any]) -> list[list[Any]]:
    return [items[:2], items[2:]]


def larger(write: Writer, a: Any, b: Any) -> Any:
    return write.b.select(write.b.fcmp_ordered(">", a, b), a, b)


def _plus(write: Writer, a: Any, b: Any) -> Any:
    return write.b.fadd(a, b)
