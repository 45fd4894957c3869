"""Vector instructions at 64-bit addresses, for kernels that are written as LLVM code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from lookleft.engine.compiling import instruction
from lookleft.engine.layout import LANES

I16, I32, I64, F16, F32 = (
    ir.IntType(16),
    ir.IntType(32),
    ir.IntType(64),
    ir.HalfType(),
    ir.FloatType(),
)
FLOATS, HALVES = ir.VectorType(F32, LANES), ir.VectorType(F16, LANES)
INTS, PAIRS = ir.VectorType(I32, LANES), ir.VectorType(I16, 2 * LANES)
BYTES = ir.VectorType(ir.IntType(8), 2 * LANES)


@cache
def has_avx2() -> bool:
    """Whether this machine multiplies 16 pairs of 16-bit numbers in one instruction."""
    return bool(binding.get_host_cpu_features().get("avx2", False))


class Writer:
    """Writes vector instructions at 64-bit addresses."""

    def __init__(self, builder: Any) -> None:
        self.b = builder

    def load(self, kind: Any, address: Any, offset: int = 0) -> Any:
        return self.b.load(self.pointer(kind, address, offset), align=1)

    def store(self, value: Any, address: Any, offset: int = 0) -> None:
        self.b.store(value, self.pointer(value.type, address, offset), align=1)

    def pointer(self, kind: Any, address: Any, offset: int) -> Any:
        moved = self.b.add(address, I64(offset)) if offset else address
        return self.b.inttoptr(moved, kind.as_pointer())

    def fetch(self, address: Any, ahead: int, n_bytes: int) -> None:
        """Ask for memory that will be read soon, a line of 64 bytes at a time."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
        for line in range(0, n_bytes, 64):
            place = self.pointer(ir.IntType(8), address, ahead + line)
            self.call("llvm.prefetch.p0", kind, place, I32(0), I32(3), I32(1))

    def splat(self, scalar: Any, kind: Any) -> Any:
        """The same number in every lane."""
        first = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)
        return self.b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once."""
        kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
        return self.call("llvm.fma.v8f32", kind, a, b, c)

    def call(self, name: str, kind: Any, *arguments: Any) -> Any:
        """What an operation that LLVM knows by name makes of the arguments."""
        return self.b.call(cgutils.get_or_insert_function(self.b.module, kind, name), arguments)

    def pinned(self, values: list[Any]) -> list[Any]:
        """The same values, complete at this point.

        LLVM knows that sums of whole numbers can be regrouped, and does, until it keeps weights
        of many pairs at once and has no registers left. An empty piece of assembly stops it.
        """
        if not has_avx2():
            return values
        n = len(values)
        kind = ir.LiteralStructType([value.type for value in values])
        places = ",".join(["=x"] * n + [str(i) for i in range(n)])
        function = ir.FunctionType(kind if n > 1 else values[0].type, [v.type for v in values])
        result = self.b.asm(function, "", places, values, side_effect=True)
        return [self.b.extract_value(result, i) for i in range(n)] if n > 1 else [result]

    def across(self, join: Callable[[Writer, Any, Any], Any], vector: Any) -> Any:
        """Eight lanes joined to one number: halves onto each other, three times."""
        undefined = ir.Constant(FLOATS, ir.Undefined)
        for distance in (4, 2, 1):
            lanes = ir.Constant(INTS, [(i + distance) % LANES for i in range(LANES)])
            vector = join(self, vector, self.b.shuffle_vector(vector, undefined, lanes))
        return self.b.extract_element(vector, I32(0))

    def pairs_times_pairs(self, a: Any, b: Any) -> Any:
        """a[2i] * b[2i] + a[2i + 1] * b[2i + 1] in 32 bits. 2 x (16 x 16 bits) -> 8 x 32 bits."""
        if has_avx2():
            kind = ir.FunctionType(INTS, [PAIRS, PAIRS])
            return self.call("llvm.x86.avx2.pmadd.wd", kind, a, b)
        wide = ir.VectorType(I32, 2 * LANES)
        product = self.b.mul(self.b.sext(a, wide), self.b.sext(b, wide))
        even, odd = (
            self.b.shuffle_vector(
                product,
                ir.Constant(wide, ir.Undefined),
                ir.Constant(INTS, [2 * i + first for i in range(LANES)]),
            )
            for first in (0, 1)
        )
        return self.b.add(even, odd)


@instruction
def half_to_float(typing: Any, address: Any) -> Any:
    """The 16-bit float at an address, as float32."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fpext(Writer(builder).load(F16, values[0]), F32)

    return types.float32(types.int64), generate
