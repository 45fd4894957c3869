"""The inner loops of matrix products, as LLVM vector code.

One tile is 16 output features x a few rows of activations, over all input features:

    y[r, j] = sum_k w[j, k] * x[r, k]          j = 16 neighbours, r = 1 to 6

Weights lie in panels of 8 features (`layout.py`), so that one vector register holds the same input
feature of 8 neighbours and no sum runs across a register. Every weight is loaded once per tile and
used for all its rows. Quantised weights meet activations of 16 bits with a scale per block of 32
(`encode.encode_block`): vpmaddwd multiplies 16 pairs and adds neighbours, exactly.

Weights of 4 bits are taken apart for every tile. Where many rows follow each other that costs as
much as the products, so there they are taken apart once, into memory that stays in the cache.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils

from lookleft.engine.compiling import instruction, kernel_cache
from lookleft.engine.layout import (
    BLOCK,
    BLOCK4,
    BLOCK_BYTES,
    FLOAT32,
    HEADER_BYTES,
    INT8,
    LANES,
    WIDE4,
    WIDTH,
)
from lookleft.engine.vectors import BYTES, F32, FLOATS, HALVES, I32, I64, INTS, PAIRS, Writer

QUARTERS = 4  # of a block: so much is written out, the rest are loops
MAX_ROWS = 6  # of activations in a tile: more would not fit into the registers
MAX_ROWS_4 = 5  # of 4-bit weights: one register holds the mask that takes them apart
AHEAD = 4096  # bytes: how far before their use weights are asked for
WIDE_ROWS = 3 * MAX_ROWS_4  # more rows than that: 4-bit weights are taken apart once for all
WIDE4_BYTES = BLOCK_BYTES[WIDE4]  # compiled code knows no dictionaries
WIDE_BLOCKS = 64  # blocks of a panel that can be: two panels of 18 kB, in the cache of a core

# Arguments of a tile, all 64-bit integers: addresses, and strides in bytes between rows.
ARGUMENTS = (
    "weights",  # the first of two panels
    "panel_bytes",
    "n_blocks",
    "x",  # float32, or int16 for quantised weights
    "x_stride",
    "x_scales",  # float32 per block
    "x_sums",  # the same
    "scale_stride",
    "row_scales",  # INT8 only: 16 float32
    "bias",  # 16 float32
    "y",
    "y_stride",
    "is_added",  # 1: y grows by the product; 0: it becomes the product
    "is_far",  # 1: the weights come from memory; 0: they have just been used
)


def weight_pair(write: Writer, kind: int, quarter: Any, pair: int) -> Any:
    """One of the 4 vectors in a quarter of a block: 8 features x 2 neighbours, 16 bits each."""
    b = write.b
    if kind != BLOCK4:
        return b.sext(write.load(BYTES, quarter, 16 * pair), PAIRS)
    packed, shift = write.load(PAIRS, quarter), 4 * pair
    moved = b.lshr(packed, ir.Constant(PAIRS, [shift] * 16)) if shift else packed
    return b.and_(moved, ir.Constant(PAIRS, [15] * 16))


def write_float_block(write: Writer, n_rows: int, at: dict[str, Any], sums: list[Any]) -> None:
    """One block of 32 float32 input features; products go straight into the sums."""
    b = write.b
    with cgutils.for_range(b, I64(QUARTERS), intp=I64) as loop:
        skip = b.mul(loop.index, I64(4 * BLOCK // QUARTERS))
        weights = [b.add(at[f"panel{p}"], b.mul(skip, I64(LANES))) for p in (0, 1)]
        totals = [b.load(total) for total in sums]
        for k in range(BLOCK // QUARTERS):
            panels = [write.load(FLOATS, place, 4 * LANES * k) for place in weights]
            for r in range(n_rows):
                x = write.splat(write.load(F32, b.add(at[f"x{r}"], skip), 4 * k), FLOATS)
                for p in (0, 1):
                    totals[2 * r + p] = write.multiply_add(panels[p], x, totals[2 * r + p])
        for total, place in zip(totals, sums, strict=True):
            b.store(total, place)


def write_integer_block(
    write: Writer, kind: int, n_rows: int, at: dict[str, Any], sums: list[Any]
) -> None:
    """One block of 32 quantised input features: summed in 32 bits, then scaled and added."""
    b = write.b
    zero = ir.Constant(INTS, [0] * LANES)
    wholes = [cgutils.alloca_once(b, INTS) for _ in sums]
    for whole in wholes:
        b.store(zero, whole)
    header = HEADER_BYTES[kind]  # scales and offsets
    quarter_bytes = (BLOCK_BYTES[kind] - header) // QUARTERS
    with cgutils.for_range(b, I64(QUARTERS), intp=I64) as loop:
        skip = b.add(b.mul(loop.index, I64(quarter_bytes)), I64(header))
        quarters = [b.add(at[f"panel{p}"], skip) for p in (0, 1)]
        skip = b.mul(loop.index, I64(2 * BLOCK // QUARTERS))
        totals = [b.load(whole) for whole in wholes]
        for pair in range(4):
            totals = write.pinned(totals) if pair and n_rows > 1 else totals
            # Loaded here and not all at once: there are not registers enough to keep them.
            weights = [weight_pair(write, kind, quarter, pair) for quarter in quarters]
            for r in range(n_rows):
                two = write.load(I32, b.add(at[f"x{r}"], skip), 4 * pair)
                x = b.bitcast(write.splat(two, INTS), PAIRS)
                for p in (0, 1):
                    product = write.pairs_times_pairs(weights[p], x)
                    totals[2 * r + p] = b.add(totals[2 * r + p], product)
        for total, whole in zip(totals, wholes, strict=True):
            b.store(total, whole)
    for p in (0, 1):
        panel = at[f"panel{p}"]
        scale = None if kind == INT8 else b.fpext(write.load(HALVES, panel), FLOATS)
        has_offset = kind in (BLOCK4, WIDE4)
        offset = b.fpext(write.load(HALVES, panel, 16), FLOATS) if has_offset else None
        for r in range(n_rows):
            place = sums[2 * r + p]
            x_scale = write.splat(write.load(F32, at[f"scale{r}"]), FLOATS)
            step = x_scale if scale is None else b.fmul(scale, x_scale)
            whole = b.sitofp(b.load(wholes[2 * r + p]), FLOATS)
            total = write.multiply_add(whole, step, b.load(place))
            if offset is not None:
                x_sum = write.splat(write.load(F32, at[f"sum{r}"]), FLOATS)
                total = write.multiply_add(offset, x_sum, total)
            b.store(total, place)


def write_tile(builder: Any, kind: int, n_rows: int, given: dict[str, Any]) -> None:
    """The whole tile: a loop over blocks, then scales, bias, and the store."""
    write, b = Writer(builder), builder
    zero, ones = (ir.Constant(FLOATS, [number] * LANES) for number in (0.0, 1.0))
    sums = [cgutils.alloca_once_value(b, zero) for _ in range(2 * n_rows)]
    x_bytes = 4 * BLOCK if kind == FLOAT32 else 2 * BLOCK
    with cgutils.for_range(b, given["n_blocks"], intp=I64) as loop:
        at: dict[str, Any] = {}
        block = b.add(given["weights"], b.mul(loop.index, I64(BLOCK_BYTES[kind])))
        at["panel0"], at["panel1"] = block, b.add(block, given["panel_bytes"])
        for r in range(n_rows):
            rows = b.mul(given["x_stride"], I64(r))
            at[f"x{r}"] = b.add(b.add(given["x"], rows), b.mul(loop.index, I64(x_bytes)))
            place = b.add(b.mul(given["scale_stride"], I64(r)), b.mul(loop.index, I64(4)))
            at[f"scale{r}"] = b.add(given["x_scales"], place)
            at[f"sum{r}"] = b.add(given["x_sums"], place)
        with b.if_then(b.icmp_signed("!=", given["is_far"], I64(0))):
            for p in (0, 1):
                write.fetch(at[f"panel{p}"], AHEAD, BLOCK_BYTES[kind])
        if kind == FLOAT32:
            write_float_block(write, n_rows, at, sums)
        else:
            write_integer_block(write, kind, n_rows, at, sums)
    is_added = b.icmp_signed("!=", given["is_added"], I64(0))
    for p in (0, 1):
        bias = write.load(FLOATS, given["bias"], 4 * LANES * p)
        scale = write.load(FLOATS, given["row_scales"], 4 * LANES * p) if kind == INT8 else ones
        for r in range(n_rows):
            y = b.add(given["y"], b.mul(given["y_stride"], I64(r)))
            total = write.multiply_add(b.load(sums[2 * r + p]), scale, bias)
            old = write.load(FLOATS, y, 4 * LANES * p)
            write.store(b.fadd(total, b.select(is_added, old, zero)), y, 4 * LANES * p)


@instruction
def tile(typing: Any, kind: Any, n_rows: Any, arguments: Any) -> Any:
    """One tile of this kind of panels and so many rows: a jump to the code written for both."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind, n_rows, packed = values
        unpacked = cgutils.unpack_tuple(builder, packed, len(ARGUMENTS))
        given = dict(zip(ARGUMENTS, unpacked, strict=True))
        end = builder.append_basic_block("end")
        number = builder.add(builder.mul(kind, I64(MAX_ROWS + 1)), n_rows)
        cases = builder.switch(number, end)
        for each in BLOCK_BYTES:
            for n in range(1, (MAX_ROWS_4 if each == BLOCK4 else MAX_ROWS) + 1):
                block = builder.append_basic_block(f"kind{each}_rows{n}")
                cases.add_case(I64(each * (MAX_ROWS + 1) + n), block)
                builder.position_at_end(block)
                write_tile(builder, each, n, given)
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    many = types.UniTuple(types.int64, len(ARGUMENTS))
    return types.void(types.int64, types.int64, many), generate


@instruction
def widen(typing: Any, weights: Any, n_blocks: Any, target: Any) -> Any:
    """So many blocks of a BLOCK4 panel at an address as blocks of WIDE4 at another."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (weights, n_blocks, target) = Writer(builder), values
        header = HEADER_BYTES[BLOCK4]
        with cgutils.for_range(builder, n_blocks, intp=I64) as loop:
            source = builder.add(weights, builder.mul(loop.index, I64(BLOCK_BYTES[BLOCK4])))
            block = builder.add(target, builder.mul(loop.index, I64(BLOCK_BYTES[WIDE4])))
            write.store(write.load(PAIRS, source), block)  # scales and offsets stay what they are
            for j in range(QUARTERS):
                quarter = builder.add(source, I64(header + 32 * j))
                for pair in range(4):
                    levels = builder.trunc(weight_pair(write, BLOCK4, quarter, pair), BYTES)
                    write.store(levels, block, header + 64 * j + 16 * pair)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@instruction
def scratch(typing: Any) -> Any:
    """The address of memory for two WIDE4 panels, on the stack of the thread."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        n_bytes = 2 * WIDE_BLOCKS * BLOCK_BYTES[WIDE4]
        with builder.goto_entry_block():  # else every use would take new memory
            room = builder.alloca(ir.ArrayType(ir.IntType(8), n_bytes))
        return builder.ptrtoint(room, I64)

    return types.int64(), generate


def tiles(
    kind: int,
    n_tiles: int,
    n_rows: int,
    weights: int,
    panel_bytes: int,
    n_blocks: int,
    x: int,
    x_stride: int,
    x_scales: int,
    x_sums: int,
    scale_stride: int,
    row_scales: int,
    bias: int,
    y: int,
    y_stride: int,
    is_added: int,
) -> None:
    """Neighbouring tiles, each for all rows, which are taken in parts of about the same size."""
    is_widened = kind == BLOCK4 and n_rows > WIDE_ROWS and n_blocks <= WIDE_BLOCKS
    used_kind = WIDE4 if is_widened else kind
    most = MAX_ROWS_4 if used_kind == BLOCK4 else MAX_ROWS
    n_parts = (n_rows + most - 1) // most
    room, wide_bytes = scratch(), n_blocks * WIDE4_BYTES
    for _ in range(n_tiles):
        used, used_bytes = weights, panel_bytes
        if is_widened:
            for panel in range(2):
                widen(weights + panel * panel_bytes, n_blocks, room + panel * wide_bytes)
            used, used_bytes = room, wide_bytes
        r = 0
        for part in range(n_parts):
            n = (n_rows - r) // (n_parts - part)
            x_at, y_at, scale_at = x + r * x_stride, y + r * y_stride, r * scale_stride
            at = (used, used_bytes, n_blocks, x_at, x_stride, x_scales + scale_at,
                  x_sums + scale_at, scale_stride, row_scales, bias, y_at, y_stride,
                  is_added, int(part == 0 and not is_widened))  # fmt: skip
            tile(used_kind, n, at)
            r += n
        weights += 2 * panel_bytes
        row_scales += 4 * WIDTH
        bias += 4 * WIDTH
        y += 4 * WIDTH


N_ARGUMENTS = 3 + len(ARGUMENTS[:-1])  # of `tiles`: what is far, it finds out itself


@cache
def tiles_code() -> int:
    """The address of the machine code of `tiles`; from the cache on disk if it is there.

    Compiled apart from its callers, so that each of its loops exists once.
    """
    with kernel_cache() as is_kept:
        signature = types.void(*[types.int64] * N_ARGUMENTS)
        made: Any = cfunc(signature, nopython=True, cache=is_kept)(tiles)
        return int(made.address)


@instruction
def call(typing: Any, code: Any, arguments: Any) -> Any:
    """Run the machine code at an address with the arguments of `tiles`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [I64] * N_ARGUMENTS)
        given = cgutils.unpack_tuple(builder, values[1], N_ARGUMENTS)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(types.int64, types.UniTuple(types.int64, N_ARGUMENTS)), generate
