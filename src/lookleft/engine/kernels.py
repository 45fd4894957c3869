"""The parts of a forward, row by row: norms, activations, products, attention.

Each takes the job and does the share of one thread: rows, heads or output features. What they
compute is what `nn/` computes; tests/engine ties the two together for every kind of model.
Dimensions: D model width, K head width, F feed-forward width.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookleft.engine.compiling import compiled
from lookleft.engine.encode import encode_block, encode_bytes
from lookleft.engine.heads import (
    add_four,
    add_four_narrow,
    four_dots,
    four_narrow_dots,
    soften,
)
from lookleft.engine.layout import (
    BLOCK,
    BLOCK4,
    BLOCK8,
    BLOCK_BYTES,
    FLOAT32,
    HEADER_BYTES,
    INT8,
    QUAD8,
    QUAD8_SCALES,
    WIDTH,
)
from lookleft.engine.lines import LINE
from lookleft.engine.records import (
    GELU,
    GELU_TANH,
    RELU,
    RELU2,
    SILU,
    codes,
    floats,
    integers,
    matrix_of,
    octets,
    slots,
)
from lookleft.engine.tiles import call
from lookleft.engine.vectors import half_to_float
from lookleft.nn.arithmetic import exponential

# Compiled code knows no dictionaries.
INT8_BYTES, BLOCK8_BYTES, BLOCK4_BYTES = (BLOCK_BYTES[kind] for kind in (INT8, BLOCK8, BLOCK4))
BLOCK8_HEADER, BLOCK4_HEADER = HEADER_BYTES[BLOCK8], HEADER_BYTES[BLOCK4]
HALF, ONE, ZERO, TWO = np.float32(0.5), np.float32(1), np.float32(0), np.float32(2)


@compiled
def norm_row(job: Any, place: int, source: Any, target: Any) -> None:
    """The norm whose numbers begin at `place`: weights, and biases behind them if it has any."""
    n = job.d_model
    weights = floats(job.vectors + 4 * place, 2 * n)
    if job.is_rms:
        total = ZERO
        for i in range(n):
            total += source[i] * source[i]
        scale = ONE / np.float32(math.sqrt(total / np.float32(n) + job.norm_eps))
        for i in range(n):
            target[i] = source[i] * scale * weights[i]
        return
    total = ZERO
    for i in range(n):
        total += source[i]
    mean = total / np.float32(n)
    total = ZERO
    for i in range(n):
        total += (source[i] - mean) * (source[i] - mean)
    scale = ONE / np.float32(math.sqrt(total / np.float32(n) + job.norm_eps))
    for i in range(n):
        target[i] = (source[i] - mean) * scale * weights[i] + weights[n + i]


@compiled
def encode_row(job: Any, row: int, source: int, n_columns: int) -> None:
    """The row of float32 at an address in few bits, for products with quantised weights."""
    n_scales = job.hidden_width // BLOCK
    target = job.codes + 2 * row * job.hidden_width
    scales = job.code_scales + 4 * row * n_scales
    sums = job.code_sums + 4 * row * n_scales
    for block in range((n_columns + BLOCK - 1) // BLOCK):
        at = 4 * block
        if job.is_narrow:
            encode_bytes(source + BLOCK * at, target + BLOCK * block, scales + at, sums + at)
        else:
            encode_block(source + BLOCK * at, target + 2 * BLOCK * block, scales + at, sums + at)


@compiled
def activate(kind: int, x: Any, n: int) -> None:
    """The activation, in place."""
    if kind == RELU:
        for i in range(n):
            x[i] = max(x[i], ZERO)
    elif kind == RELU2:
        for i in range(n):
            x[i] = max(x[i], ZERO) * max(x[i], ZERO)
    elif kind == SILU:
        for i in range(n):
            x[i] = x[i] / (ONE + exponential(-x[i]))
    elif kind == GELU:
        for i in range(n):
            x[i] = HALF * x[i] * (ONE + np.float32(math.erf(x[i] * np.float32(0.7071067811865476))))
    elif kind == GELU_TANH:
        for i in range(n):
            inner = x[i] + np.float32(0.044715) * x[i] * x[i] * x[i]
            # tanh(z) = 1 - 2 / (e**2z + 1)
            twice = TWO * np.float32(0.7978845608028654) * inner
            x[i] = HALF * x[i] * (TWO - TWO / (exponential(twice) + ONE))


@compiled
def share(n: int, me: int, team: int) -> Any:
    """The first and last + 1 of n pieces of work that are this thread's."""
    return n * me // team, n * (me + 1) // team


@compiled
def product(
    job: Any, index: int, x: int, x_width: int, y: int, y_width: int, rows: Any, crew: Any, add: int
) -> None:
    """This thread's output features of rows @ matrix.T + bias; `add`: on top of what is there.

    x and y are addresses of float32 rows so many numbers wide. Quantised matrices read the codes
    of the same rows instead of x: they must have been made from it.
    """
    matrix = matrix_of(job, index)
    first, last = rows
    y_at = y + 4 * first * y_width
    if matrix.kind == FLOAT32:
        x_at = x + 4 * first * x_width
        run_tiles(matrix, x_at, 4 * x_width, 0, 0, 0, y_at, 4 * y_width, add, last - first, crew)
        return
    n_scales = job.hidden_width // BLOCK
    scales = 4 * first * n_scales
    run_tiles(
        matrix,
        job.codes + 2 * first * job.hidden_width,
        2 * job.hidden_width,
        job.code_scales + scales,
        job.code_sums + scales,
        4 * n_scales,
        y_at,
        4 * y_width,
        add,
        last - first,
        crew,
    )


@compiled
def run_tiles(
    matrix: Any,
    x: int,
    x_stride: int,
    x_scales: int,
    x_sums: int,
    scale_stride: int,
    y: int,
    y_stride: int,
    add: int,
    n_rows: int,
    crew: Any,
) -> None:
    """The tiles of this thread, through the machine code that the matrix names."""
    begin, end = share(matrix.n_tiles, *crew)
    weights = matrix.address + begin * matrix.panel_bytes
    skip = 4 * WIDTH * begin  # bytes of the float32 of the features before
    arguments = (
        matrix.kind,
        end - begin,
        n_rows,
        weights,
        matrix.panel_bytes,
        matrix.n_blocks,
        x,
        x_stride,
        x_scales,
        x_sums,
        scale_stride,
        matrix.row_scales + skip,
        matrix.bias + skip,
        y + skip,
        y_stride,
        add,
    )
    call(matrix.code, arguments)


@compiled
def embed_row(job: Any, id: int, target: Any) -> None:
    """One row of the embedding matrix out of its panels: the way back from `panels.pack`."""
    matrix = matrix_of(job, job.embedding)
    lane = id % WIDTH
    panel = matrix.address + id // WIDTH * matrix.panel_bytes
    if matrix.kind == FLOAT32:
        numbers = floats(panel, matrix.panel_bytes // 4)
        for i in range(job.d_model):
            target[i] = numbers[i * WIDTH + lane]
    elif matrix.kind == BLOCK4:
        for i in range(job.d_model):
            block = panel + i // BLOCK * BLOCK4_BYTES
            pair = i % BLOCK // 2
            vector = codes(block + BLOCK4_HEADER + 4 * WIDTH * (pair // 4), 2 * WIDTH)
            level = vector[2 * lane + i % 2] >> 4 * (pair % 4) & 15
            scale = half_to_float(block + 2 * lane)
            low = half_to_float(block + 2 * WIDTH + 2 * lane)
            target[i] = scale * np.float32(level) + low
    elif matrix.kind == QUAD8:
        levels = panel + (matrix.n_blocks * QUAD8_SCALES + LINE - 1) // LINE * LINE
        fours = octets(levels, matrix.panel_bytes)
        for i in range(job.d_model):
            level = fours[4 * WIDTH * (i // 4) + 4 * lane + i % 4]
            scale = half_to_float(panel + i // BLOCK * QUAD8_SCALES + 2 * lane)
            target[i] = scale * (np.float32(level) - np.float32(128))
    else:
        is_block = matrix.kind == BLOCK8
        skip, block_bytes = (BLOCK8_HEADER, BLOCK8_BYTES) if is_block else (0, INT8_BYTES)
        scale = floats(matrix.row_scales, id + 1)[id]
        for i in range(job.d_model):
            block = panel + i // BLOCK * block_bytes
            if is_block:
                scale = half_to_float(block + 2 * lane)
            pairs = octets(block + skip, INT8_BYTES)
            level = pairs[2 * WIDTH * (i % BLOCK // 2) + 2 * lane + i % 2]
            target[i] = scale * np.float32(np.int8(level))


@compiled
def turn_head(job: Any, position: int, head: Any) -> None:
    """Rotary positions: pair i is (head[i], head[i + K/2])."""
    half = job.head_dim // 2
    turns = floats(job.turns + 4 * position * job.head_dim, job.head_dim)
    for i in range(half):
        cos, sin = turns[i], turns[half + i]
        a, b = head[i], head[half + i]
        head[i] = a * cos - b * sin
        head[half + i] = b * cos + a * sin


@compiled
def norm_head(job: Any, place: int, head: Any) -> None:
    """RMSNorm of one query or key."""
    weights = floats(job.vectors + 4 * place, job.head_dim)
    total = ZERO
    for i in range(job.head_dim):
        total += head[i] * head[i]
    scale = ONE / np.float32(math.sqrt(total / np.float32(job.head_dim) + job.norm_eps))
    for i in range(job.head_dim):
        head[i] *= scale * weights[i]


@compiled
def look(
    job: Any, row: int, head: int, keys: int, values: int, where: Any, seen: Any, me: int
) -> None:
    """One head of one row: scores of the keys that it sees, softmax, the mixture of their values.

    keys and values are addresses of (tokens, K), those of the head's group. where: the address of
    a table that says at which token there position s lies, and a number to add; table 0: at s.
    seen: the first position and the last + 1.
    """
    first, last = seen
    n, scale = job.head_dim, job.attention_scale
    query = job.q + 4 * (row * job.width + head * n)
    out = job.mixed + 4 * (row * job.width + head * n)
    clear(out, n)
    if first >= last:
        return  # nothing to see: zeros, not NaN
    n_seen = last - first
    scores = floats(job.scores + 4 * me * job.max_keys, n_seen + 3)
    largest = np.float32(-np.inf)
    for s in range(0, n_seen, 4):
        four = addresses(where, first + s, last, keys, job.kept_bytes * n)
        if job.kept_bytes == 4:
            a, b, c, d = four_dots(query, four, n)
        else:
            a, b, c, d = four_narrow_dots(query, four, n)
        scores[s], scores[s + 1], scores[s + 2], scores[s + 3] = a, b, c, d
        largest = max(largest, max(max(a, b), max(c, d)))
    if job.bias and where[0]:
        # Scores before distances were scaled; the largest must be found again.
        largest = add_distances(job, row, head, first, scores, n_seen)
        scale = ONE
    soften(job.scores + 4 * me * job.max_keys, n_seen, scale, largest)
    for s in range(0, n_seen, 4):
        four = addresses(where, first + s, last, values, job.kept_bytes * n)
        weights = (scores[s], scores[s + 1], scores[s + 2], scores[s + 3])
        if job.kept_bytes == 4:
            add_four(out, weights, four, n)
        else:
            add_four_narrow(out, weights, four, n)


@compiled
def clear(address: int, n: int) -> None:
    numbers = floats(address, n)
    for i in range(n):
        numbers[i] = ZERO


@compiled
def addresses(where: Any, s: int, last: int, pool: int, width: int) -> Any:
    """Of positions s to s + 3 in a pool; behind the last one, the last again."""
    table, ahead = where
    pool += ahead * width
    end = last - 1
    b, c, d = min(s + 1, end), min(s + 2, end), min(s + 3, end)
    if not table:
        return (pool + s * width, pool + b * width, pool + c * width, pool + d * width)
    places = slots(table, last)
    return (
        pool + np.int64(places[s]) * width,
        pool + np.int64(places[b]) * width,
        pool + np.int64(places[c]) * width,
        pool + np.int64(places[d]) * width,
    )


@compiled
def add_distances(job: Any, row: int, head: int, first: int, scores: Any, n: int) -> np.float32:
    """Relative positions: scores are scaled and a number per head and distance is added.

    Gives the largest.
    """
    position = integers(job.position, job.n_rows)[row] - first
    reach, n_heads, scale = job.bias_reach, job.n_heads, job.attention_scale
    numbers = floats(job.bias, (2 * reach + 1) * n_heads)
    largest = np.float32(-np.inf)
    for s in range(n):
        ahead = min(max(s - position, -reach), reach)
        scores[s] = scores[s] * scale + numbers[(ahead + reach) * n_heads + head]
        largest = max(largest, scores[s])
    return largest
