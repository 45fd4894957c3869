"""How threads wait for each other inside compiled code, in less than a microsecond.

A barrier is two counters in shared memory, each in a cache line of its own: how many have come,
and how often all have come. The last to arrive lets the others go. A waiting thread spins for a
while and then gives its core away between looks: on a busy machine the others may need it.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from lookleft.engine.compiling import compiled, instruction

I64 = ir.IntType(64)

# Places in the shared memory, in bytes; 128 apart, since neighbours of a line are fetched too.
TICKET, JOB_ADDRESS, ARRIVED, ROUND, N_BYTES = 0, 128, 256, 384, 512

CAN_REST = platform.machine() in ("x86_64", "AMD64")
SPINS = 50_000 if CAN_REST else 1_000_000  # before a core is given away: about a millisecond
PATIENCE = 2  # times a worker gives its core away before it goes to sleep

_sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, I64.as_pointer())


@instruction
def read(typing: Any, address: Any) -> Any:
    """The 64-bit number at an address, as other threads left it."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(_pointer(builder, values[0]), "acquire", 8)

    return types.int64(types.int64), generate


@instruction
def write(typing: Any, address: Any, value: Any) -> Any:
    """Store a 64-bit number; all stored before it is seen before it."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store_atomic(values[1], _pointer(builder, values[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@instruction
def count(typing: Any, address: Any) -> Any:
    """Add 1 to the 64-bit number at an address, alone; gives what it was."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, values[0]), I64(1), "seq_cst")

    return types.int64(types.int64), generate


@instruction
def rest(typing: Any) -> Any:
    """Leave the units of the core to a thread that may share them, for some ten cycles."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if CAN_REST:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


@compiled
def wait_for_change(address: int, known: int, patience: int) -> bool:
    """Until the number at an address is no longer the known one; False if patience ran out.

    patience: how often the core may be given away; below 0: without end.
    """
    while True:
        for _ in range(SPINS):
            if read(address) != known:
                return True
            rest()
        if patience == 0:
            return False
        patience -= 1
        _sched_yield()


@compiled
def wait_for_all(sync: int, crew: Any) -> None:
    """Until every thread of the crew has come here. A crew is (number of this one, how many)."""
    team = crew[1]
    if team == 1:
        return
    known = read(sync + ROUND)  # before arriving: afterwards it may be the next round already
    if count(sync + ARRIVED) == team - 1:
        write(sync + ARRIVED, 0)
        write(sync + ROUND, known + 1)
    else:
        wait_for_change(sync + ROUND, known, -1)
