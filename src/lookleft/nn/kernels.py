"""What training computes between its large products, row by row, each row while it is in cache.

PyTorch makes a pass over memory for every operation; here a row is read once, worked on, and
written once. `fused.py` and `branch.py` put these kernels behind autograd, beside the plain
operations that they must equal. All arrays are contiguous. No kernel starts threads or holds
Python's lock: the micro-batches of a step call them side by side.

What a product reads or has made comes in two types, float32 or the bits of bfloat16, and every
kernel that meets such rows is compiled for both: `loaded` and `stored` are the only places that
know. All else is float32. Narrow rows may be followed by rows of zeros (`narrow_rows`).

Importing this file compiles all of them, or loads what was compiled before. Dimensions: N rows,
M rows with those of zeros, D and F widths, C columns of a product, B batch, T positions, H heads,
K head width.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookleft.nn.arithmetic import LANES, loaded, narrow_row, stored, turn_lanes, widen_row
from lookleft.nn.compiling import inlined, kernel

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


@inlined
def clear_rows(rows: Any, start: int) -> None:
    """Zeros from row `start` on."""
    for number in range(start, rows.shape[0]):
        for i in range(rows.shape[1]):
            rows[number, i] = stored(ZERO, rows[number, i])


@kernel("void(i2[:,::1], f4[::1], f4[:,::1])")
def widen_rows(rows: Any, bias: Any, out: Any) -> None:
    """As many rows of bfloat16 as `out` has, as float32, plus a bias. (M, F), (F,) or (0,)."""
    n = rows.shape[1]
    for number in range(out.shape[0]):
        row, target = rows[number], out[number]
        if bias.shape[0] == 0:
            widen_row(row, target)
        else:
            for i in range(n):
                target[i] = loaded(row[i]) + bias[i]


@kernel("void(f4[:,::1], i2[:,::1], f4[::1])")
def narrow_rows(rows: Any, out: Any, total: Any) -> None:
    """Rows as bfloat16, zeros behind them, and their sum. (N, F) -> (M, F), (F,) or (0,)."""
    clear_rows(out, rows.shape[0])
    for i in range(total.shape[0]):
        total[i] = ZERO
    for number in range(rows.shape[0]):
        row = rows[number]
        narrow_row(row, out[number])
        for i in range(total.shape[0]):
            total[i] += row[i]


@kernel(
    "void(f4[:,::1], f4[::1], f4[::1], f4, b1, f4[:,::1], f4[::1], f4[::1])",
    "void(f4[:,::1], f4[::1], f4[::1], f4, b1, i2[:,::1], f4[::1], f4[::1])",
)
def norm_rows(
    x: Any,
    weight: Any,
    bias: Any,
    eps: Any,
    is_centred: bool,
    out: Any,
    means: Any,
    scales: Any,
) -> None:
    """RMSNorm (Zhang & Sennrich 2019), or with `is_centred` LayerNorm (Ba et al. 2016).

    x (N, D), weight and bias (D,), out (M, D); means and scales (N,): what each row was shifted
    and scaled by.
    """
    n = x.shape[1]
    clear_rows(out, x.shape[0])
    for number in range(x.shape[0]):
        row, target = x[number], out[number]
        mean, total = ZERO, ZERO
        if is_centred:
            for i in range(n):
                mean += row[i]
            mean /= np.float32(n)
        for i in range(n):
            total += (row[i] - mean) * (row[i] - mean)
        scale = ONE / np.float32(math.sqrt(total / np.float32(n) + eps))
        for i in range(n):
            target[i] = stored((row[i] - mean) * scale * weight[i] + bias[i], target[i])
        means[number], scales[number] = mean, scale


@kernel(
    "void(f4[:,::1], f4[::1], f4[::1], f4[::1], b1, f4[:,::1], f4[:,::1], f4[:,::1], f4[::1],"
    " f4[::1])",
    "void(f4[:,::1], f4[::1], f4[::1], f4[::1], b1, i2[:,::1], f4[:,::1], f4[:,::1], f4[::1],"
    " f4[::1])",
)
def norm_rows_back(
    x: Any,
    weight: Any,
    means: Any,
    scales: Any,
    is_centred: bool,
    grad: Any,
    beside: Any,
    d_x: Any,
    d_weight: Any,
    d_bias: Any,
) -> None:
    """The gradients of `norm_rows` by x, and added up over rows by weight and bias.

    beside (N, D) or (0, D): what else x gets, from the residual that goes around the norm.
    """
    n, is_joined = x.shape[1], beside.shape[0] > 0
    for i in range(n):
        d_weight[i], d_bias[i] = ZERO, ZERO
    error, normed = np.empty(n, np.float32), np.empty(n, np.float32)
    for number in range(x.shape[0]):
        row, above, target = x[number], grad[number], d_x[number]
        mean, scale = means[number], scales[number]
        along, whole = ZERO, ZERO
        for i in range(n):
            normed[i] = (row[i] - mean) * scale
            coming = loaded(above[i])
            d_weight[i] += coming * normed[i]
            d_bias[i] += coming
            error[i] = coming * weight[i]
            along += error[i] * normed[i]
            whole += error[i]
        along /= np.float32(n)
        whole = whole / np.float32(n) if is_centred else ZERO
        for i in range(n):
            target[i] = (error[i] - whole - normed[i] * along) * scale
        if is_joined:
            other = beside[number]
            for i in range(n):
                target[i] += other[i]


@kernel(
    "void(f4[:,::1], f4[::1], b1, f4[:,::1])",
    "void(i2[:,::1], f4[::1], b1, i2[:,::1])",
)
def bend_rows(rows: Any, bias: Any, is_squared: bool, out: Any) -> None:
    """ReLU of rows plus a bias, or its square (So et al. 2021). (M, F), (F,) -> (M, F)."""
    for number in range(rows.shape[0]):
        row, target = rows[number], out[number]
        for i in range(rows.shape[1]):
            x = loaded(row[i]) + bias[i]
            positive = ZERO if x < ZERO else x  # this way round what is no number stays none
            target[i] = stored(positive * positive if is_squared else positive, target[i])


@kernel(
    "void(f4[:,::1], f4[::1], b1, f4[:,::1], f4[:,::1], f4[::1])",
    "void(i2[:,::1], f4[::1], b1, i2[:,::1], i2[:,::1], f4[::1])",
)
def bend_rows_back(
    rows: Any, bias: Any, is_squared: bool, grad: Any, d_rows: Any, d_bias: Any
) -> None:
    """The gradients of `bend_rows` by the rows and, added up, by the bias."""
    for i in range(bias.shape[0]):
        d_bias[i] = ZERO
    for number in range(rows.shape[0]):
        row, above, target = rows[number], grad[number], d_rows[number]
        for i in range(rows.shape[1]):
            x = loaded(row[i]) + bias[i]
            slope = TWO * x if is_squared else ONE
            error = ZERO if x <= ZERO else slope * loaded(above[i])
            d_bias[i] += error
            target[i] = stored(error, target[i])


@kernel(
    "void(f4[:,::1], f4[::1], f4[:,::1], u1[::1], u1, f4, f4[:,::1])",
    "void(i2[:,::1], f4[::1], f4[:,::1], u1[::1], u1, f4, f4[:,::1])",
)
def add_rows(
    rows: Any, bias: Any, x: Any, chance: Any, n_dropped: Any, scale: Any, out: Any
) -> None:
    """x plus rows with a bias, of which dropout leaves out what has a low byte of chance.

    rows (M, D), bias (D,), x and out (N, D), chance (N * D,).
    """
    n = x.shape[1]
    for number in range(x.shape[0]):
        row, stream, target = rows[number], x[number], out[number]
        bytes_here = chance[number * n : (number + 1) * n]
        for i in range(n):
            kept = scale if bytes_here[i] >= n_dropped else ZERO
            target[i] = stream[i] + (loaded(row[i]) + bias[i]) * kept


@kernel(
    "void(f4[:,::1], u1[::1], u1, f4, f4[:,::1], f4[::1])",
    "void(f4[:,::1], u1[::1], u1, f4, i2[:,::1], f4[::1])",
)
def add_rows_back(
    grad: Any, chance: Any, n_dropped: Any, scale: Any, d_rows: Any, d_bias: Any
) -> None:
    """The gradients of `add_rows` by the rows and the bias; that by x is the gradient itself."""
    n = grad.shape[1]
    for i in range(n):
        d_bias[i] = ZERO
    clear_rows(d_rows, grad.shape[0])
    for number in range(grad.shape[0]):
        above, target = grad[number], d_rows[number]
        bytes_here = chance[number * n : (number + 1) * n]
        for i in range(n):
            error = above[i] * (scale if bytes_here[i] >= n_dropped else ZERO)
            d_bias[i] += error
            target[i] = stored(error, target[i])


@inlined
def turn_row(row: Any, width: int, cos: Any, sin: Any, sign: Any, out: Any) -> None:
    """Each pair (head[i], head[i + K/2]) of a row of heads turned by its angle; sign -1 turns back.

    row and out (H*K,), width K, cos and sin (K/2,).
    """
    half = width // 2
    source, target = row.ctypes.data, out.ctypes.data
    if half % LANES == 0:
        for start in range(0, row.shape[0], width):
            for i in range(0, half, LANES):
                near, far = source + 4 * (start + i), target + 4 * (start + i)
                turn_lanes(near, cos.ctypes.data + 4 * i, sin.ctypes.data + 4 * i, sign, half, far)
    else:
        for start in range(0, row.shape[0], width):
            for i in range(half):
                one, other = row[start + i], row[start + half + i]
                out[start + i] = one * cos[i] - other * sin[i] * sign
                out[start + half + i] = other * cos[i] + one * sin[i] * sign


@kernel(
    "void(f4[:,::1], i8, f4[::1], f4[::1], f4, f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1])",
    "void(i2[:,::1], i8, f4[::1], f4[::1], f4, f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1])",
)
def make_heads(
    rows: Any,
    first: int,
    bias: Any,
    weight: Any,
    eps: Any,
    cos: Any,
    sin: Any,
    out: Any,
    scales: Any,
) -> None:
    """The columns of a product from `first` on as heads: plus a bias, each head normed, turned.

    rows (M, C), bias (C,), weight (K,) or, without a norm, (0,); cos and sin (B or 1, T, K/2) or,
    without rotation, (0, 0, 0); out (B, T, H*K), scales (B * T, H). Loops are over whole rows
    where they can be: those over one head are too short to be fast.
    """
    n_batch, n_positions, n = out.shape
    is_normed, is_turned, width = weight.shape[0] > 0, cos.shape[0] > 0, n // scales.shape[1]
    added, heads = bias[first : first + n], np.empty(n, np.float32)
    for b in range(n_batch):
        for t in range(n_positions):
            number, target = b * n_positions + t, out[b, t]
            row = rows[number, first : first + n]
            for i in range(n):
                heads[i] = loaded(row[i]) + added[i]
            if is_normed:
                for h in range(scales.shape[1]):
                    head, total = heads[h * width : (h + 1) * width], ZERO
                    for i in range(width):
                        total += head[i] * head[i]
                    scale = ONE / np.float32(math.sqrt(total / np.float32(width) + eps))
                    for i in range(width):
                        head[i] *= scale * weight[i]
                    scales[number, h] = scale
            if is_turned:
                c, s = cos[b % cos.shape[0], t], sin[b % sin.shape[0], t]
                turn_row(heads, width, c, s, ONE, target)
            else:
                for i in range(n):
                    target[i] = heads[i]


@kernel(
    "void(f4[:,::1], i8, f4[::1], f4[::1], f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1],"
    " f4[:,::1], f4[::1], f4[::1])",
    "void(i2[:,::1], i8, f4[::1], f4[::1], f4[:,:,::1], f4[:,:,::1], f4[:,:,::1], f4[:,::1],"
    " i2[:,::1], f4[::1], f4[::1])",
)
def make_heads_back(
    rows: Any,
    first: int,
    bias: Any,
    weight: Any,
    cos: Any,
    sin: Any,
    grad: Any,
    scales: Any,
    d_rows: Any,
    d_bias: Any,
    d_weight: Any,
) -> None:
    """The gradients of `make_heads`, each in its columns, and by the norm's weight.

    Rows of zeros behind the last position are for the caller to write.
    """
    n_batch, n_positions, n = grad.shape
    is_normed, is_turned, width = weight.shape[0] > 0, cos.shape[0] > 0, n // scales.shape[1]
    added, errors = bias[first : first + n], np.empty(n, np.float32)
    d_added, d_weights = np.zeros(n, np.float32), np.zeros(n, np.float32)  # of every head
    normed, along = np.empty(n, np.float32), np.empty(n, np.float32)
    scale, weights = np.empty(n, np.float32), np.empty(n, np.float32)
    for i in range(n if is_normed else 0):
        weights[i] = weight[i % width]
    for b in range(n_batch):
        for t in range(n_positions):
            number, above = b * n_positions + t, grad[b, t]
            row, target = rows[number, first : first + n], d_rows[number, first : first + n]
            if is_turned:
                c, s = cos[b % cos.shape[0], t], sin[b % sin.shape[0], t]
                turn_row(above, width, c, s, -ONE, errors)
            else:
                for i in range(n):
                    errors[i] = above[i]
            if is_normed:
                for h in range(scales.shape[1]):
                    for i in range(h * width, (h + 1) * width):
                        scale[i] = scales[number, h]
                for i in range(n):
                    normed[i] = (loaded(row[i]) + added[i]) * scale[i]
                    d_weights[i] += errors[i] * normed[i]
                    errors[i] *= weights[i]
                    along[i] = errors[i] * normed[i]
                for h in range(scales.shape[1]):
                    head, total = along[h * width : (h + 1) * width], ZERO
                    for i in range(width):
                        total += head[i]
                    for i in range(width):
                        head[i] = total / np.float32(width)
                for i in range(n):
                    errors[i] = (errors[i] - normed[i] * along[i]) * scale[i]
            for i in range(n):
                d_added[i] += errors[i]
                target[i] = stored(errors[i], target[i])
    for i in range(n):
        d_bias[first + i] = d_added[i]
    for i in range(weight.shape[0]):
        d_weight[i] = ZERO
        for start in range(0, n, width):
            d_weight[i] += d_weights[start + i]
