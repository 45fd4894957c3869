"""What kernels compute with: numbers in two types, exponentials, rotations, small products.

Much of it is LLVM code, where a compiler's own would be slow.

Matrices are float32 at addresses; strides are counted in numbers. A product is made of tiles:

    c[i, j] = sum_n a[i, n] * b[n, j]          i = 4 rows or 1, j = 16 neighbours or 8

Each number of `b` is loaded once per tile and used for all its rows, and the sums stay in
registers. `a` may lie in any order, so a transposed matrix costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from lookleft.nn.compiling import inlined, instruction

LANES = 8  # numbers that one vector instruction works on; a matrix `b` is a multiple of it wide
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS = ir.VectorType(F32, LANES)
FUSED = ("contract",)  # a product and a sum may be rounded once

# (e**r - 1 - r) / r**2 within half of ln 2 around 0: the factors of r**5 to 1.
EXPONENTIAL = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)


@instruction
def bits_to_float(typing: Any, bits: Any) -> Any:
    """The float32 that 32 bits spell."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.FloatType())

    return types.float32(types.int32), generate


@instruction
def loaded(typing: Any, value: Any) -> Any:
    """The float32 that a number of a row stands for: itself, or 16 bits that are its upper half."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if signature.args[0] == types.float32:
            return values[0]
        return builder.bitcast(builder.shl(builder.zext(values[0], I32), I32(16)), F32)

    return types.float32(value), generate


@instruction
def stored(typing: Any, number: Any, place: Any) -> Any:
    """A float32 as a row keeps it, of the type of what is at its place: itself, or its bfloat16.

    That is the bits of the nearest one, of two equally near the even one; what is no number stays.
    Without branches, and in 32 bits: Numba's own integers have 64, and loops over them are slow.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if signature.return_type == types.float32:
            return values[0]
        bits, half = builder.bitcast(values[0], I32), I32(16)
        last = builder.and_(builder.lshr(bits, half), I32(1))  # of those that stay
        rounded = builder.lshr(builder.add(bits, builder.add(last, I32(0x7FFF))), half)
        is_none = builder.fcmp_unordered("uno", values[0], values[0])
        quiet = builder.or_(builder.lshr(bits, half), I32(0x40))
        return builder.trunc(builder.select(is_none, quiet, rounded), ir.IntType(16))

    return place(types.float32, place), generate


@instruction
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for the 64 bytes around an address to come near, and do not wait for them."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(ir.IntType(8)), I32, I32, I32])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(values[0], kind.args[0])
        builder.call(ask, [pointer, I32(0), I32(2), I32(1)])  # to read; into L2; data
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inlined
def widen_row(row: Any, out: Any) -> None:
    """One row of bfloat16 as float32. (N,), (N,)."""
    for i in range(row.shape[0]):
        out[i] = loaded(row[i])


@inlined
def narrow_row(row: Any, out: Any) -> None:
    """One row of float32 as bfloat16. (N,), (N,)."""
    for i in range(row.shape[0]):
        out[i] = stored(row[i], out[i])


@inlined
def exponential(x: Any) -> Any:
    """e**x to 2e-7, in instructions that a loop can do 8 at a time. inf far above, and far below 0.

    Before results have too few bits, from e**-86.5 on, they are 0: many processors take a hundred
    times as long for such numbers, and what is hidden by a mask is far below.
    """
    lowest = np.float32(-86.5)
    near = min(max(x, lowest), np.float32(89))
    n = np.floor(near * np.float32(1.4426950408889634) + HALF)
    # ln 2 in two parts: the first is exact in few bits, so n times it is exact too.
    r = near - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(EXPONENTIAL[0])
    p = p * r + np.float32(EXPONENTIAL[1])
    p = p * r + np.float32(EXPONENTIAL[2])
    p = p * r + np.float32(EXPONENTIAL[3])
    p = p * r + np.float32(EXPONENTIAL[4])
    p = p * r + np.float32(EXPONENTIAL[5])
    p = p * r * r + r + ONE
    # A half of 2**n: n may be 128, which leaves the range of float32 before the product does.
    made = (p + p) * power_of_two(n - ONE)
    return ZERO if x < lowest else made


@inlined
def power_of_two(n: Any) -> Any:
    """2**n for a whole number, by writing its exponent: 127 + n in the bits from 23 on."""
    return bits_to_float(np.int32((n + np.float32(127)) * np.float32(1 << 23)))


@instruction
def larger(typing: Any, one: Any, other: Any) -> Any:
    """The larger of two float32, in an order that the compiler may choose; either, if one is NaN.

    Python's `max` must keep its order for the sake of NaN: a loop then waits for each number.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        freely = ("nnan", "nsz")
        is_first = builder.fcmp_ordered(">", *values, flags=freely)
        return builder.select(is_first, *values, flags=freely)

    return types.float32(types.float32, types.float32), generate


def spread(builder: Any, number: Any) -> Any:
    """A vector that has one number in all places."""
    zeros = ir.Constant(FLOATS, [0.0] * LANES)
    everywhere = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    first = builder.insert_element(zeros, number, I32(0))
    return builder.shuffle_vector(first, zeros, everywhere)


def make_tile(n_rows: int, n_vectors: int) -> Callable[..., None]:
    """A function for compiled code: one tile of a product, of so many rows and vectors.

    It takes the addresses of the tile's first numbers in a, b and c, the strides between the rows
    of c, the rows and the columns of a, the rows of b, and how many products each sum has.
    """

    def tile(
        typing: Any,
        a: Any,
        b: Any,
        c: Any,
        c_row: Any,
        a_row: Any,
        a_column: Any,
        b_row: Any,
        n: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            a, b, c, c_row, a_row, a_column, b_row, n = values

            def place(kind: Any, address: Any, *steps: Any) -> Any:
                """The pointer so many strides behind an address; a step is (stride, count)."""
                for stride, count in steps:
                    numbers = builder.mul(stride, count)
                    address = builder.add(address, builder.shl(numbers, I64(2)))
                return builder.inttoptr(address, kind.as_pointer())

            zeros = ir.Constant(FLOATS, [0.0] * LANES)
            sums = [
                [cgutils.alloca_once_value(builder, zeros) for _ in range(n_vectors)]
                for _ in range(n_rows)
            ]
            with cgutils.for_range(builder, n, intp=I64) as loop:
                vectors = [
                    builder.load(
                        place(FLOATS, b, (b_row, loop.index), (I64(LANES), I64(v))), align=4
                    )
                    for v in range(n_vectors)
                ]
                for row, totals in enumerate(sums):
                    number = builder.load(place(F32, a, (a_column, loop.index), (a_row, I64(row))))
                    factor = spread(builder, number)
                    for vector, total in zip(vectors, totals, strict=True):
                        product = builder.fmul(factor, vector, flags=FUSED)
                        total_now = builder.fadd(product, builder.load(total), flags=FUSED)
                        builder.store(total_now, total)
            for row, totals in enumerate(sums):
                for v, total in enumerate(totals):
                    where = place(FLOATS, c, (c_row, I64(row)), (I64(LANES), I64(v)))
                    builder.store(builder.load(total), where, align=4)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), generate

    return instruction(tile)


@instruction
def turn_lanes(
    typing: Any, head: Any, cos: Any, sin: Any, sign: Any, half: Any, target: Any
) -> Any:
    """LANES pairs of a head, turned by their angles, or with sign -1 turned back.

    head, cos, sin and target are addresses; the second of each pair is `half` numbers further on.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        head, cos, sin, sign, half, target = values
        apart = builder.shl(half, I64(2))

        def load(address: Any) -> Any:
            return builder.load(builder.inttoptr(address, FLOATS.as_pointer()), align=4)

        def store(address: Any, one: Any, other: Any) -> None:
            total = builder.fadd(one, other, flags=FUSED)
            builder.store(total, builder.inttoptr(address, FLOATS.as_pointer()), align=4)

        def times(one: Any, other: Any) -> Any:
            return builder.fmul(one, other, flags=FUSED)

        signs = spread(builder, sign)
        first, second = load(head), load(builder.add(head, apart))
        c, s = load(cos), times(load(sin), signs)
        store(target, times(first, c), builder.fneg(times(second, s)))
        store(builder.add(target, apart), times(second, c), times(first, s))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3, types.float32, *[types.int64] * 2), generate


_four_by_two, _four_by_one = make_tile(4, 2), make_tile(4, 1)
_one_by_two, _one_by_one = make_tile(1, 2), make_tile(1, 1)


@inlined
def product(a: int, a_strides: Any, b: int, b_row: int, c: int, c_row: int, sizes: Any) -> None:
    """c becomes a @ b; sizes: rows of c, columns of c (a multiple of LANES), length of the sums.

    a_strides: between the rows of a, and between its columns.
    """
    (a_row, a_column), (n_rows, n_columns, n) = a_strides, sizes
    column = 0
    while column < n_columns:
        b_here, c_here = b + 4 * column, c + 4 * column
        is_wide = column + 2 * LANES <= n_columns
        row = 0
        while row < n_rows:
            if n_rows >= 4:  # the last tile makes some rows again, sooner than one by one
                row = min(row, n_rows - 4)
            a_at, c_at = a + 4 * row * a_row, c_here + 4 * row * c_row
            if n_rows >= 4 and is_wide:
                _four_by_two(a_at, b_here, c_at, c_row, a_row, a_column, b_row, n)
            elif n_rows >= 4:
                _four_by_one(a_at, b_here, c_at, c_row, a_row, a_column, b_row, n)
            elif is_wide:
                _one_by_two(a_at, b_here, c_at, c_row, a_row, a_column, b_row, n)
            else:
                _one_by_one(a_at, b_here, c_at, c_row, a_row, a_column, b_row, n)
            row += 4 if n_rows >= 4 else 1
        column += 2 * LANES if is_wide else LANES
