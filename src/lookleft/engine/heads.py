"""The inner loops of attention, as LLVM vector code: four keys, or four values, at a time.

Queries, keys and values are float32 at addresses; a query is loaded once for four keys, and the
mixture of values once for four values. K is the width of a head, of any size.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils

from lookleft.engine.compiling import instruction
from lookleft.engine.vectors import F32, I64, Writer

FOUR_ADDRESSES = types.UniTuple(types.int64, 4)
FOUR_FLOATS = types.UniTuple(types.float32, 4)


def _parts(write: Writer, n: Any) -> tuple[Any, Any]:
    """How many whole vectors n numbers make, and the first number that is left over."""
    n_vectors = write.b.udiv(n, I64(write.lanes))
    return n_vectors, write.b.mul(n_vectors, I64(write.lanes))


@instruction
def four_dots(typing: Any, query: Any, keys: Any, n: Any) -> Any:
    """The products of one query with four keys, all n numbers long."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (query, packed, n) = Writer(builder), values
        keys = cgutils.unpack_tuple(builder, packed, 4)
        n_vectors, first_left = _parts(write, n)
        zeros = write.all_lanes(write.floats, 0.0)
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in keys]
        with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
            offset = builder.mul(loop.index, I64(4 * write.lanes))
            q = write.load(write.floats, builder.add(query, offset))
            for total, key in zip(sums, keys, strict=True):
                k = write.load(write.floats, builder.add(key, offset))
                builder.store(write.multiply_add(q, k, builder.load(total)), total)
        dots = [
            cgutils.alloca_once_value(builder, write.across(builder.fadd, builder.load(total)))
            for total in sums
        ]
        with cgutils.for_range(builder, builder.sub(n, first_left), intp=I64) as loop:
            offset = builder.shl(builder.add(first_left, loop.index), I64(2))
            q = write.load(F32, builder.add(query, offset))
            for dot, key in zip(dots, keys, strict=True):
                k = write.load(F32, builder.add(key, offset))
                builder.store(builder.fadd(builder.load(dot), builder.fmul(q, k)), dot)
        return context.make_tuple(builder, FOUR_FLOATS, [builder.load(dot) for dot in dots])

    return FOUR_FLOATS(types.int64, FOUR_ADDRESSES, types.int64), generate


@instruction
def add_four(typing: Any, out: Any, weights: Any, rows: Any, n: Any) -> Any:
    """out += the sum of four rows, each times its weight; all n numbers long."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (out, packed_weights, packed_rows, n) = Writer(builder), values
        weights = cgutils.unpack_tuple(builder, packed_weights, 4)
        rows = cgutils.unpack_tuple(builder, packed_rows, 4)
        n_vectors, first_left = _parts(write, n)
        wide = [write.splat(weight, write.floats) for weight in weights]
        with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
            offset = builder.mul(loop.index, I64(4 * write.lanes))
            place = builder.add(out, offset)
            total = write.load(write.floats, place)
            for weight, row in zip(wide, rows, strict=True):
                value = write.load(write.floats, builder.add(row, offset))
                total = write.multiply_add(weight, value, total)
            write.store(total, place)
        with cgutils.for_range(builder, builder.sub(n, first_left), intp=I64) as loop:
            offset = builder.shl(builder.add(first_left, loop.index), I64(2))
            place = builder.add(out, offset)
            total = write.load(F32, place)
            for weight, row in zip(weights, rows, strict=True):
                value = write.load(F32, builder.add(row, offset))
                total = builder.fadd(total, builder.fmul(weight, value))
            write.store(total, place)
        return context.get_dummy_value()

    return types.void(types.int64, FOUR_FLOATS, FOUR_ADDRESSES, types.int64), generate
