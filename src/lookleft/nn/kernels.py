"""What training computes between its large products, row by row, each row while it is in cache.

PyTorch makes a pass over memory for every operation; here a row is read once, worked on, and
written once. `fused.py` and `branch.py` put these kernels behind autograd, beside the plain
operations that they must equal. All arrays are contiguous. No kernel starts threads or holds
Python's lock: the micro-batches of a step call them side by side.

What a product reads or has made comes in two types, float32 or the bits of bfloat16, and every
kernel that meets such rows is compiled for both: `loaded` and `stored` are the only places that
know. All else is float32. Narrow rows may be followed by others that stand for nothing and get no
gradient (`narrow_rows`).

Importing this file compiles all of them, or loads what was compiled before. Dimensions: N rows,
M rows with those behind the last, D and F widths.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookleft.nn.arithmetic import loaded, narrow_row, stored, widen_row
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

    rows (M, D), bias (D,), x and out (N, D), chance (N * D,) or, if all are kept, (0,).
    """
    n, is_whole = x.shape[1], chance.shape[0] == 0
    for number in range(x.shape[0]):
        row, stream, target = rows[number], x[number], out[number]
        bytes_here = chance[number * n : (number + 1) * n]
        if is_whole:
            for i in range(n):
                target[i] = stream[i] + (loaded(row[i]) + bias[i])
        else:
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
    n, is_whole = grad.shape[1], chance.shape[0] == 0
    for i in range(n):
        d_bias[i] = ZERO
    clear_rows(d_rows, grad.shape[0])
    for number in range(grad.shape[0]):
        above, target = grad[number], d_rows[number]
        bytes_here = chance[number * n : (number + 1) * n]
        if is_whole:
            for i in range(n):
                d_bias[i] += above[i]
                target[i] = stored(above[i], target[i])
        else:
            for i in range(n):
                error = above[i] * (scale if bytes_here[i] >= n_dropped else ZERO)
                d_bias[i] += error
                target[i] = stored(error, target[i])
