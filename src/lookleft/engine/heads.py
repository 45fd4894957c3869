"""The inner loops of attention, as LLVM vector code: four keys, or four values, at a time.

Queries, keys and values lie at addresses, in float32; keys and values may also have 16 bits, which
makes half as much to read. A query is loaded once for four keys, and the mixture of values once for
four values. K is the width of a head, of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from lookleft.engine.compiling import instruction
from lookleft.engine.vectors import F16, F32, I64, Writer

FOUR_ADDRESSES = types.UniTuple(types.int64, 4)
FOUR_FLOATS = types.UniTuple(types.float32, 4)


def _parts(write: Writer, n: Any) -> tuple[Any, Any]:
    """How many whole vectors n numbers make, and the first number that is left over."""
    n_vectors = write.b.udiv(n, I64(write.lanes))
    return n_vectors, write.b.mul(n_vectors, I64(write.lanes))


def _bytes_of(kind: Any) -> int:
    return 2 if kind is F16 else 4


def _load_wide(write: Writer, kind: Any, address: Any, place: Any) -> Any:
    """A vector of this kind as float32; place: how many numbers behind the address."""
    at = write.b.add(address, write.b.mul(place, I64(_bytes_of(kind))))
    loaded = write.load(ir.VectorType(kind, write.lanes), at)
    return write.b.fpext(loaded, write.floats) if kind is F16 else loaded


def _load_one(write: Writer, kind: Any, address: Any, place: Any) -> Any:
    """The same of one number."""
    at = write.b.add(address, write.b.mul(place, I64(_bytes_of(kind))))
    loaded = write.load(kind, at)
    return write.b.fpext(loaded, F32) if kind is F16 else loaded


def make_four_dots(kind: Any) -> Callable[..., Any]:
    """The function that multiplies a query with four keys of this kind."""

    def four(typing: Any, query: Any, keys: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            write, (query, packed, n) = Writer(builder), values
            keys = cgutils.unpack_tuple(builder, packed, 4)
            n_vectors, first_left = _parts(write, n)
            zeros = write.all_lanes(write.floats, 0.0)
            sums = [cgutils.alloca_once_value(builder, zeros) for _ in keys]
            with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
                place = builder.mul(loop.index, I64(write.lanes))
                q = _load_wide(write, F32, query, place)
                for total, key in zip(sums, keys, strict=True):
                    k = _load_wide(write, kind, key, place)
                    builder.store(write.multiply_add(q, k, builder.load(total)), total)
            dots = [
                cgutils.alloca_once_value(builder, write.across(builder.fadd, builder.load(total)))
                for total in sums
            ]
            with cgutils.for_range(builder, builder.sub(n, first_left), intp=I64) as loop:
                place = builder.add(first_left, loop.index)
                q = _load_one(write, F32, query, place)
                for dot, key in zip(dots, keys, strict=True):
                    product = builder.fmul(q, _load_one(write, kind, key, place))
                    builder.store(builder.fadd(builder.load(dot), product), dot)
            return context.make_tuple(builder, FOUR_FLOATS, [builder.load(dot) for dot in dots])

        return FOUR_FLOATS(types.int64, FOUR_ADDRESSES, types.int64), generate

    return instruction(four)


def make_add_four(kind: Any) -> Callable[..., None]:
    """The function that adds four rows of this kind, each times its weight, to float32."""

    def four(typing: Any, out: Any, weights: Any, rows: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            write, (out, packed_weights, packed_rows, n) = Writer(builder), values
            weights = cgutils.unpack_tuple(builder, packed_weights, 4)
            rows = cgutils.unpack_tuple(builder, packed_rows, 4)
            n_vectors, first_left = _parts(write, n)
            wide = [write.splat(weight, write.floats) for weight in weights]
            with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
                place = builder.mul(loop.index, I64(write.lanes))
                total = _load_wide(write, F32, out, place)
                for weight, row in zip(wide, rows, strict=True):
                    total = write.multiply_add(weight, _load_wide(write, kind, row, place), total)
                write.store(total, builder.add(out, builder.shl(place, I64(2))))
            with cgutils.for_range(builder, builder.sub(n, first_left), intp=I64) as loop:
                place = builder.add(first_left, loop.index)
                total = _load_one(write, F32, out, place)
                for weight, row in zip(weights, rows, strict=True):
                    product = builder.fmul(weight, _load_one(write, kind, row, place))
                    total = builder.fadd(total, product)
                write.store(total, builder.add(out, builder.shl(place, I64(2))))
            return context.get_dummy_value()

        return types.void(types.int64, FOUR_FLOATS, FOUR_ADDRESSES, types.int64), generate

    return instruction(four)


four_dots, four_narrow_dots = make_four_dots(F32), make_four_dots(F16)
add_four, add_four_narrow = make_add_four(F32), make_add_four(F16)


@instruction
def soften(typing: Any, scores: Any, n: Any, scale: Any, largest: Any) -> Any:
    """Softmax of n scores at an address times the scale, in place.

    What lies behind them, up to a whole vector, becomes 0: those are no keys. largest: of the
    scores, or of a few more: any number near it serves.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (scores, n, scale, largest) = Writer(builder), values
        n_vectors = builder.udiv(builder.add(n, I64(write.lanes - 1)), I64(write.lanes))
        zeros = write.all_lanes(write.floats, 0.0)
        steps, highest = write.splat(scale, write.floats), write.splat(largest, write.floats)
        sums = cgutils.alloca_once_value(builder, zeros)
        with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
            place = builder.mul(loop.index, I64(write.lanes))
            at = builder.add(scores, builder.shl(place, I64(2)))
            above = builder.fmul(builder.fsub(write.load(write.floats, at), highest), steps)
            weights = builder.select(
                write.are_below(builder.sub(n, place)), write.exponential(above), zeros
            )
            write.store(weights, at)
            builder.store(builder.fadd(builder.load(sums), weights), sums)
        total = write.across(builder.fadd, builder.load(sums))
        share = write.splat(builder.fdiv(F32(1.0), total), write.floats)
        with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
            at = builder.add(scores, builder.mul(loop.index, I64(4 * write.lanes)))
            write.store(builder.fmul(write.load(write.floats, at), share), at)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32, types.float32), generate


@instruction
def copy_narrow(typing: Any, source: Any, target: Any, n: Any) -> Any:
    """n float32 at an address as numbers of 16 bits at another."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (source, target, n) = Writer(builder), values
        n_vectors, first_left = _parts(write, n)
        with cgutils.for_range(builder, n_vectors, intp=I64) as loop:
            place = builder.mul(loop.index, I64(write.lanes))
            small = builder.fptrunc(_load_wide(write, F32, source, place), write.halves)
            write.store(small, builder.add(target, builder.shl(place, I64(1))))
        with cgutils.for_range(builder, builder.sub(n, first_left), intp=I64) as loop:
            place = builder.add(first_left, loop.index)
            small = builder.fptrunc(_load_one(write, F32, source, place), F16)
            write.store(small, builder.add(target, builder.shl(place, I64(1))))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
