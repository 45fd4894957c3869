"""The inner loops of matrix products, as LLVM vector code.

One tile is 16 output features x a few rows of activations, over all input features:

    y[r, j] = sum_k w[j, k] * x[r, k]          j = 16 neighbours, r = 1 to 6 or 12

Weights lie in panels of 16 features (`layout.py`), so that one or two vector registers hold the
same input feature of 16 neighbours and no sum runs across a register. Every weight is loaded once
per tile and used for all its rows. Quantised weights meet activations of 16 bits, or of 8, with a
scale per block of 32 (`encode.py`): pairs, or fours, are multiplied and neighbours added, exactly.
So results do not depend on how wide the registers are.

Weights of 4 bits are taken apart for every tile. Where many rows follow each other that costs as
much as the products, so there they are taken apart once, into memory that stays in the cache.
"""

from __future__ import annotations

from functools import cache, reduce
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
    QUAD8,
    QUAD8_SCALES,
    WIDE4,
    WIDTH,
)
from lookleft.engine.lines import LINE
from lookleft.engine.vectors import F32, I8, I32, I64, Machine, Writer

QUARTERS = 4  # of a block: so much is written out, the rest are loops
MAX_ROWS = 12  # of activations in a tile of any kind
AHEAD = 8192  # bytes: how far before their use weights are asked for
WIDE_PARTS = 3  # more parts of rows than that: 4-bit weights are taken apart once for all
WIDE_BLOCKS = 64  # blocks of a panel that can be: 36 kB, in the cache of a core

# Arguments of a tile, all 64-bit integers: addresses, and strides in bytes between rows.
ARGUMENTS = (
    "weights",  # a panel
    "n_blocks",
    "x",  # float32; int16 for quantised weights, int8 for QUAD8
    "x_stride",
    "x_scales",  # float32 per block
    "x_sums",  # the same; for QUAD8 an int32 with which the sum of a block begins
    "scale_stride",
    "row_scales",  # INT8 only: 16 float32
    "bias",  # 16 float32
    "y",
    "y_stride",
    "is_added",  # 1: y grows by the product; 0: it becomes the product
    "is_far",  # 1: the weights come from memory; 0: they have just been used
)


def row_limit(write: Writer, kind: int) -> int:
    """How many rows a tile can have: more would not fit into the registers.

    A row has two sums in every vector of a tile, of whole numbers and of float32.
    """
    if write.machine is Machine.AVX512:
        return MAX_ROWS
    return 5 if kind == BLOCK4 else 6  # one register holds the mask that takes 4 bits apart


def chains(write: Writer, n_rows: int) -> int:
    """How many sums of whole numbers a row has in every vector of a tile.

    A product that adds waits for the one before it, and a single row has no other to do meanwhile.
    """
    return 2 if n_rows == 1 and write.machine is Machine.AVX512 else 1


def weight_group(write: Writer, kind: int, quarter: Any, group: int, v: int) -> Any:
    """Vector v of one of the 4 pairs in a quarter of a block: 2 neighbours, 16 bits each.

    Of QUAD8 one of the 2 fours: 4 neighbours, 8 bits each.
    """
    b = write.b
    if kind == QUAD8:
        return write.load(write.quads, quarter, 4 * (WIDTH * group + write.lanes * v))
    if kind != BLOCK4:
        levels = write.load(write.bytes, quarter, 2 * (WIDTH * group + write.lanes * v))
        return b.sext(levels, write.pairs)
    packed, shift = write.load(write.pairs, quarter, 4 * write.lanes * v), 4 * group
    moved = b.lshr(packed, write.all_lanes(write.pairs, shift)) if shift else packed
    return b.and_(moved, write.all_lanes(write.pairs, 15))


def write_float_block(write: Writer, n_rows: int, at: dict[str, Any], sums: list[Any]) -> None:
    """One block of 32 float32 input features; products go straight into the sums."""
    b, n_vectors = write.b, WIDTH // write.lanes
    with cgutils.for_range(b, I64(QUARTERS), intp=I64) as loop:
        skip = b.mul(loop.index, I64(4 * BLOCK // QUARTERS))
        weights = b.add(at["panel"], b.mul(skip, I64(WIDTH)))
        totals = [b.load(total) for total in sums]
        for k in range(BLOCK // QUARTERS):
            places = [4 * (WIDTH * k + write.lanes * v) for v in range(n_vectors)]
            vectors = [write.load(write.floats, weights, place) for place in places]
            for r in range(n_rows):
                x = write.splat(write.load(F32, b.add(at[f"x{r}"], skip), 4 * k), write.floats)
                for v, vector in enumerate(vectors):
                    i = n_vectors * r + v
                    totals[i] = write.multiply_add(vector, x, totals[i])
        for total, place in zip(totals, sums, strict=True):
            b.store(total, place)


def write_integer_block(
    write: Writer, kind: int, n_rows: int, at: dict[str, Any], sums: list[Any]
) -> None:
    """One block of 32 quantised input features: summed in 32 bits, then scaled and added."""
    b, n_vectors = write.b, WIDTH // write.lanes
    zero, n_chains = write.all_lanes(write.ints, 0), chains(write, n_rows)
    wholes = [cgutils.alloca_once(b, write.ints) for _ in range(n_chains * len(sums))]
    for whole in wholes:
        b.store(zero, whole)
    if kind == QUAD8:  # all weights have 128 added; what that makes is taken off beforehand
        for r in range(n_rows):
            surplus = write.splat(write.load(I32, at[f"sum{r}"]), write.ints)
            for v in range(n_vectors):
                b.store(surplus, wholes[n_vectors * r + v])
    n_groups, words = (2, write.quads) if kind == QUAD8 else (4, write.pairs)
    add = write.add_byte_products if kind == QUAD8 else write.add_products
    with cgutils.for_range(b, I64(QUARTERS), intp=I64) as loop:
        quarter = b.add(at["levels"], b.mul(loop.index, I64(level_bytes(kind) // QUARTERS)))
        skip = b.mul(loop.index, I64(4 * n_groups))
        totals = [b.load(whole) for whole in wholes]
        for group in range(n_groups):
            totals = write.pinned(totals) if group and n_rows > 1 else totals
            # Loaded here and not all at once: there are not registers enough to keep them.
            weights = [weight_group(write, kind, quarter, group, v) for v in range(n_vectors)]
            for r in range(n_rows):
                neighbours = write.load(I32, b.add(at[f"x{r}"], skip), 4 * group)
                x = b.bitcast(write.splat(neighbours, write.ints), words)
                for v, weight in enumerate(weights):
                    i = group % n_chains * len(sums) + n_vectors * r + v
                    totals[i] = add(totals[i], weight, x)
        for total, whole in zip(totals, wholes, strict=True):
            b.store(total, whole)
    for v in range(n_vectors):
        halves = [
            write.load(write.halves, at["panel"], 2 * (WIDTH * i + write.lanes * v)) for i in (0, 1)
        ]
        scale = None if kind == INT8 else b.fpext(halves[0], write.floats)
        offset = b.fpext(halves[1], write.floats) if kind in (BLOCK4, WIDE4) else None
        for r in range(n_rows):
            place = sums[n_vectors * r + v]
            x_scale = write.splat(write.load(F32, at[f"scale{r}"]), write.floats)
            step = x_scale if scale is None else b.fmul(scale, x_scale)
            parts = [b.load(whole) for whole in wholes[n_vectors * r + v :: len(sums)]]
            whole = b.sitofp(reduce(b.add, parts), write.floats)
            total = write.multiply_add(whole, step, b.load(place))
            if offset is not None:
                x_sum = write.splat(write.load(F32, at[f"sum{r}"]), write.floats)
                total = write.multiply_add(offset, x_sum, total)
            b.store(total, place)


def level_bytes(kind: int) -> int:
    """Of a block of quantised weights, without scales and offsets."""
    return BLOCK_BYTES[kind] - (QUAD8_SCALES if kind == QUAD8 else HEADER_BYTES[kind])


def find_block(write: Writer, kind: int, given: dict[str, Any], index: Any) -> dict[str, Any]:
    """Where a block of a panel, or its scales, begins, and where its levels."""
    b, weights = write.b, given["weights"]
    if kind == QUAD8:
        scales = b.mul(given["n_blocks"], I64(QUAD8_SCALES))
        whole = b.and_(b.add(scales, I64(LINE - 1)), I64(-LINE))
        levels = b.add(b.add(weights, whole), b.mul(index, I64(level_bytes(QUAD8))))
        return {"panel": b.add(weights, b.mul(index, I64(QUAD8_SCALES))), "levels": levels}
    panel = b.add(weights, b.mul(index, I64(BLOCK_BYTES[kind])))
    return {"panel": panel, "levels": b.add(panel, I64(HEADER_BYTES.get(kind, 0)))}


def write_tile(write: Writer, kind: int, n_rows: int, given: dict[str, Any]) -> None:
    """The whole tile: a loop over blocks, then scales, bias, and the store."""
    b, n_vectors = write.b, WIDTH // write.lanes
    zero, ones = (write.all_lanes(write.floats, number) for number in (0.0, 1.0))
    sums = [cgutils.alloca_once_value(b, zero) for _ in range(n_vectors * n_rows)]
    x_bytes = {FLOAT32: 4, QUAD8: 1}.get(kind, 2) * BLOCK
    with cgutils.for_range(b, given["n_blocks"], intp=I64) as loop:
        at = find_block(write, kind, given, loop.index)
        for r in range(n_rows):
            rows = b.mul(given["x_stride"], I64(r))
            at[f"x{r}"] = b.add(b.add(given["x"], rows), b.mul(loop.index, I64(x_bytes)))
            place = b.add(b.mul(given["scale_stride"], I64(r)), b.mul(loop.index, I64(4)))
            at[f"scale{r}"] = b.add(given["x_scales"], place)
            at[f"sum{r}"] = b.add(given["x_sums"], place)
        if write.machine is not Machine.AVX512:  # those fetch one stream better by themselves
            with b.if_then(b.icmp_signed("!=", given["is_far"], I64(0))):
                write.fetch(at["panel"], AHEAD, BLOCK_BYTES[kind])
        if kind == FLOAT32:
            write_float_block(write, n_rows, at, sums)
        else:
            write_integer_block(write, kind, n_rows, at, sums)
    is_added = b.icmp_signed("!=", given["is_added"], I64(0))
    for v in range(n_vectors):
        place = 4 * write.lanes * v
        bias = write.load(write.floats, given["bias"], place)
        scale = write.load(write.floats, given["row_scales"], place) if kind == INT8 else ones
        for r in range(n_rows):
            y = b.add(given["y"], b.mul(given["y_stride"], I64(r)))
            total = write.multiply_add(b.load(sums[n_vectors * r + v]), scale, bias)
            old = write.load(write.floats, y, place)
            write.store(b.fadd(total, b.select(is_added, old, zero)), y, place)


@instruction
def tile(typing: Any, kind: Any, n_rows: Any, arguments: Any) -> Any:
    """One tile of this kind of panels and so many rows: a jump to the code written for both."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (kind, n_rows, packed) = Writer(builder), values
        unpacked = cgutils.unpack_tuple(builder, packed, len(ARGUMENTS))
        given = dict(zip(ARGUMENTS, unpacked, strict=True))
        end = builder.append_basic_block("end")
        number = builder.add(builder.mul(kind, I64(MAX_ROWS + 1)), n_rows)
        cases = builder.switch(number, end)
        for each in BLOCK_BYTES:
            for n in range(1, row_limit(write, each) + 1):
                block = builder.append_basic_block(f"kind{each}_rows{n}")
                cases.add_case(I64(each * (MAX_ROWS + 1) + n), block)
                builder.position_at_end(block)
                write_tile(write, each, n, given)
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    many = types.UniTuple(types.int64, len(ARGUMENTS))
    return types.void(types.int64, types.int64, many), generate


@instruction
def most_rows(typing: Any, kind: Any) -> Any:
    """How many rows a tile of this kind can have."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        limit = I64(0)
        for each in BLOCK_BYTES:
            is_this = builder.icmp_signed("==", values[0], I64(each))
            limit = builder.select(is_this, I64(row_limit(Writer(builder), each)), limit)
        return limit

    return types.int64(types.int64), generate


@instruction
def widen(typing: Any, weights: Any, n_blocks: Any, target: Any) -> Any:
    """So many blocks of a BLOCK4 panel at an address as blocks of WIDE4 at another."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write, (weights, n_blocks, target) = Writer(builder), values
        header = HEADER_BYTES[BLOCK4]
        with cgutils.for_range(builder, n_blocks, intp=I64) as loop:
            source = builder.add(weights, builder.mul(loop.index, I64(BLOCK_BYTES[BLOCK4])))
            block = builder.add(target, builder.mul(loop.index, I64(BLOCK_BYTES[WIDE4])))
            for v in range(WIDTH // write.lanes):
                # Scales and offsets stay what they are.
                place = 4 * write.lanes * v
                write.store(write.load(write.pairs, source, place), block, place)
                for j in range(QUARTERS):
                    quarter = builder.add(source, I64(header + 4 * WIDTH * j))
                    for pair in range(4):
                        levels = weight_group(write, BLOCK4, quarter, pair, v)
                        place = 2 * WIDTH * (4 * j + pair) + 2 * write.lanes * v
                        write.store(builder.trunc(levels, write.bytes), block, header + place)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@instruction
def scratch(typing: Any) -> Any:
    """The address of memory for a WIDE4 panel, on the stack of the thread."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        n_bytes = WIDE_BLOCKS * BLOCK_BYTES[WIDE4]
        with builder.goto_entry_block():  # else every use would take new memory
            room = builder.alloca(ir.ArrayType(I8, n_bytes))
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
    is_many = n_rows > WIDE_PARTS * most_rows(kind)
    is_widened = kind == BLOCK4 and is_many and n_blocks <= WIDE_BLOCKS
    used_kind = WIDE4 if is_widened else kind
    most, room = most_rows(used_kind), scratch()
    n_parts = (n_rows + most - 1) // most
    for _ in range(n_tiles):
        used = weights
        if is_widened:
            widen(weights, n_blocks, room)
            used = room
        r = 0
        for part in range(n_parts):
            n = (n_rows - r) // (n_parts - part)
            x_at, y_at, scale_at = x + r * x_stride, y + r * y_stride, r * scale_stride
            at = (used, n_blocks, x_at, x_stride, x_scales + scale_at, x_sums + scale_at,
                  scale_stride, row_scales, bias, y_at, y_stride, is_added,
                  int(part == 0 and not is_widened))  # fmt: skip
            tile(used_kind, n, at)
            r += n
        weights += panel_bytes
        row_scales += 4 * WIDTH
        bias += 4 * WIDTH
        y += 4 * WIDTH


N_ARGUMENTS = 4 + len(ARGUMENTS[:-1])  # of `tiles`: what is far, it finds out itself


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
