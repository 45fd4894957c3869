"""Vector instructions at 64-bit addresses, for kernels that are written as LLVM code.

How wide a register is, and how whole numbers are multiplied, depends on the processor. A `Writer`
knows; what is written with it computes the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache, reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

from lookleft.engine.compiling import instruction

I8, I16, I32, I64 = (ir.IntType(n_bits) for n_bits in (8, 16, 32, 64))
F16, F32 = ir.HalfType(), ir.FloatType()


class Machine(Enum):
    """What a processor has for products of whole numbers."""

    PLAIN = "no instruction that is known here"
    AVX2 = "vpmaddwd, 16 pairs of 16 bits; 16 registers of 8 float32"
    AVX512 = "vpdpwssd, 32 pairs of 16 bits, added to a sum; 32 registers of 16 float32"


@cache
def machine() -> Machine:
    """The one that Numba compiles for: this one, unless NUMBA_CPU_FEATURES says otherwise."""
    *_, features = cpu_target.target_context.codegen().magic_tuple()
    has = {name.removeprefix("+") for name in features.split(",") if name.startswith("+")}
    if has >= {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"}:
        return Machine.AVX512
    return Machine.AVX2 if has >= {"avx2", "fma", "f16c"} else Machine.PLAIN


class Writer:
    """Writes vector instructions at 64-bit addresses."""

    def __init__(self, builder: Any) -> None:
        self.b, self.machine = builder, machine()
        self.lanes = 16 if self.machine is Machine.AVX512 else 8  # float32 in a register
        self.floats = ir.VectorType(F32, self.lanes)
        self.halves = ir.VectorType(F16, self.lanes)
        self.ints = ir.VectorType(I32, self.lanes)
        self.pairs = ir.VectorType(I16, 2 * self.lanes)
        self.bytes = ir.VectorType(I8, 2 * self.lanes)

    def load(self, kind: Any, address: Any, offset: int = 0) -> Any:
        return self.b.load(self.pointer(kind, address, offset), align=1)

    def store(self, value: Any, address: Any, offset: int = 0) -> None:
        self.b.store(value, self.pointer(value.type, address, offset), align=1)

    def pointer(self, kind: Any, address: Any, offset: int) -> Any:
        moved = self.b.add(address, I64(offset)) if offset else address
        return self.b.inttoptr(moved, kind.as_pointer())

    def fetch(self, address: Any, ahead: int, n_bytes: int) -> None:
        """Ask for memory that will be read soon, a line of 64 bytes at a time."""
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        for line in range(0, n_bytes, 64):
            place = self.pointer(I8, address, ahead + line)
            self.call("llvm.prefetch.p0", kind, place, I32(0), I32(3), I32(1))

    def all_lanes(self, kind: Any, number: float) -> Any:
        """A number that is known beforehand in every lane."""
        return ir.Constant(kind, [number] * kind.count)

    def splat(self, scalar: Any, kind: Any) -> Any:
        """The same number in every lane."""
        first = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, I32(0))
        zeros = self.all_lanes(ir.VectorType(I32, kind.count), 0)
        return self.b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)

    def on_floats(self, name: str, *vectors: Any) -> Any:
        """What an operation that LLVM has for float32 of every width makes of vectors."""
        kind = ir.FunctionType(self.floats, [self.floats] * len(vectors))
        return self.call(f"llvm.{name}.v{self.lanes}f32", kind, *vectors)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once."""
        return self.on_floats("fma", a, b, c)

    def call(self, name: str, kind: Any, *arguments: Any) -> Any:
        """What an operation that LLVM knows by name makes of the arguments."""
        return self.b.call(cgutils.get_or_insert_function(self.b.module, kind, name), arguments)

    def pinned(self, values: list[Any]) -> list[Any]:
        """The same values, complete at this point.

        LLVM knows that sums of whole numbers can be regrouped, and does, until it keeps weights
        of many pairs at once and has no registers left. An empty piece of assembly stops it.
        """
        if self.machine is not Machine.AVX2:
            return values
        n = len(values)
        kind = ir.LiteralStructType([value.type for value in values])
        places = ",".join(["=x"] * n + [str(i) for i in range(n)])
        function = ir.FunctionType(kind if n > 1 else values[0].type, [v.type for v in values])
        result = self.b.asm(function, "", places, values, side_effect=True)
        return [self.b.extract_value(result, i) for i in range(n)] if n > 1 else [result]

    def across(self, join: Callable[[Any, Any], Any], *vectors: Any) -> Any:
        """All lanes of vectors joined to one number: halves onto each other, until one is left."""
        undefined, distance = ir.Constant(self.floats, ir.Undefined), self.lanes // 2
        joined = reduce(join, vectors)
        while distance:
            others = [(i + distance) % self.lanes for i in range(self.lanes)]
            lanes = ir.Constant(self.ints, others)
            joined = join(joined, self.b.shuffle_vector(joined, undefined, lanes))
            distance //= 2
        return self.b.extract_element(joined, I32(0))

    def larger(self, a: Any, b: Any) -> Any:
        """The larger of two, lane by lane; b if they cannot be compared."""
        return self.b.select(self.b.fcmp_ordered(">", a, b), a, b)

    def add_products(self, total: Any, a: Any, b: Any) -> Any:
        """total[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1], in 32 bits; a and b have 16."""
        if self.machine is Machine.AVX512:
            kind = ir.FunctionType(self.ints, [self.ints, self.pairs, self.pairs])
            return self.call("llvm.x86.avx512.vpdpwssd.512", kind, total, a, b)
        if self.machine is Machine.AVX2:
            kind = ir.FunctionType(self.ints, [self.pairs, self.pairs])
            return self.b.add(total, self.call("llvm.x86.avx2.pmadd.wd", kind, a, b))
        wide = ir.VectorType(I32, 2 * self.lanes)
        product = self.b.mul(self.b.sext(a, wide), self.b.sext(b, wide))
        even, odd = (
            self.b.shuffle_vector(
                product,
                ir.Constant(wide, ir.Undefined),
                ir.Constant(self.ints, [2 * i + first for i in range(self.lanes)]),
            )
            for first in (0, 1)
        )
        return self.b.add(total, self.b.add(even, odd))


@instruction
def half_to_float(typing: Any, address: Any) -> Any:
    """The 16-bit float at an address, as float32."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fpext(Writer(builder).load(F16, values[0]), F32)

    return types.float32(types.int64), generate
