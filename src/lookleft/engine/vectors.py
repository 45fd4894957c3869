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
from lookleft.nn.arithmetic import EXPONENTIAL

I8, I16, I32, I64 = (ir.IntType(n_bits) for n_bits in (8, 16, 32, 64))
F16, F32 = ir.HalfType(), ir.FloatType()


class Machine(Enum):
    """What a processor has for products of whole numbers."""

    PLAIN = "no instruction that is known here"
    AVX2 = "vpmaddwd, 16 pairs of 16 bits; 16 registers of 8 float32"
    AVX512 = "vpdpwssd and vpdpbusd, which add to a sum; 32 registers of 16 float32"


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
        self.quads = ir.VectorType(I8, 4 * self.lanes)

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

    def are_below(self, n: Any) -> Any:
        """Of each lane whether its number, counted from 0, is below a 64-bit whole number."""
        kind = ir.VectorType(I64, self.lanes)
        numbers = ir.Constant(kind, list(range(self.lanes)))
        return self.b.icmp_signed("<", numbers, self.splat(n, kind))

    def exponential(self, x: Any) -> Any:
        """e**x of every lane, as `nn.arithmetic.exponential` has it; what is no number stays so."""
        b = self.b

        def all_of(number: float) -> Any:
            return self.all_lanes(self.floats, number)

        is_far_below = b.fcmp_ordered("<", x, all_of(-86.5))
        for limit, sign in ((all_of(-86.5), "<"), (all_of(89.0), ">")):
            x = b.select(b.fcmp_ordered(sign, x, limit), limit, x)
        n = self.on_floats("floor", self.multiply_add(x, all_of(1.4426950408889634), all_of(0.5)))
        # ln 2 in two parts: the first is exact in few bits, so n times it is exact too.
        r = self.multiply_add(n, all_of(-0.693359375), x)
        r = self.multiply_add(n, all_of(2.12194440e-4), r)
        p = all_of(EXPONENTIAL[0])
        for factor in EXPONENTIAL[1:]:
            p = self.multiply_add(p, r, all_of(factor))
        p = b.fadd(self.multiply_add(p, b.fmul(r, r), r), all_of(1.0))
        # Two halves: 2**n itself leaves the range of float32 before the product does.
        first = self.on_floats("floor", b.fmul(n, all_of(0.5)))
        for power in (first, b.fsub(n, first)):
            exponent = b.fptosi(b.fadd(power, all_of(127.0)), self.ints)
            bits = b.shl(exponent, self.all_lanes(self.ints, 23))
            p = b.fmul(p, b.bitcast(bits, self.floats))
        return b.select(is_far_below, all_of(0.0), p)

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

    def add_byte_products(self, total: Any, a: Any, b: Any) -> Any:
        """total[i] + the sum of a[4i + n] * b[4i + n], n = 0 to 3; a is unsigned, b signed."""
        if self.machine is Machine.AVX512:
            kind = ir.FunctionType(self.ints, [self.ints, self.quads, self.quads])
            return self.call("llvm.x86.avx512.vpdpbusd.512", kind, total, a, b)
        # Bytes of even and of odd places, as pairs of 16 bits.
        eight = self.all_lanes(self.pairs, 8)
        a, b = self.b.bitcast(a, self.pairs), self.b.bitcast(b, self.pairs)
        even = (self.b.lshr(self.b.shl(a, eight), eight), self.b.ashr(self.b.shl(b, eight), eight))
        odd = (self.b.lshr(a, eight), self.b.ashr(b, eight))
        return self.add_products(self.add_products(total, *even), *odd)


@instruction
def half_to_float(typing: Any, address: Any) -> Any:
    """The 16-bit float at an address, as float32."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fpext(Writer(builder).load(F16, values[0]), F32)

    return types.float32(types.int64), generate
