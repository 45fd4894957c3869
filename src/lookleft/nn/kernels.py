"""What training computes between its large products, row by row, each row while it is in cache.

PyTorch makes a pass over memory for every operation; here a row is read once, worked on, and
written once. `fused.py` puts these kernels behind autograd, beside the plain operations that they
must equal. All numbers are float32, all arrays contiguous. No kernel starts threads or holds
Python's lock: the micro-batches of a step call them side by side.

Importing this file compiles all of them, or loads what was compiled before. Dimensions: B batch,
T queries, S keys, H heads, K head width, N rows, D width.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookleft.nn.arithmetic import (
    exponential,
    larger,
    narrow_row,
    prefetch,
    product,
    widen,
    widen_row,
)
from lookleft.nn.compiling import inlined, kernel

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LOWEST, NOTHING = np.float32(np.finfo(np.float32).min), np.float32(-np.inf)


@kernel("void(i2[:,::1], f4[::1], f4[:,::1])")
def widen_rows(rows: Any, bias: Any, out: Any) -> None:
    """As many rows of bfloat16 as `out` has, as float32, plus a bias. (N, F), (F,) or (0,)."""
    n = rows.shape[1]
    for number in range(out.shape[0]):
        row, target = rows[number], out[number]
        if bias.shape[0] == 0:
            widen_row(row, target)
        else:
            for i in range(n):
                target[i] = widen(row[i]) + bias[i]


@kernel("void(f4[:,::1], i2[:,::1], f4[::1])")
def narrow_rows(rows: Any, out: Any, total: Any) -> None:
    """Rows as bfloat16, zeros behind them, and their sum. (N, F) -> (M, F), (F,) or (0,)."""
    n = rows.shape[1]
    for number in range(rows.shape[0], out.shape[0]):
        for i in range(n):
            out[number, i] = np.int16(0)
    for i in range(total.shape[0]):
        total[i] = ZERO
    for number in range(rows.shape[0]):
        row = rows[number]
        narrow_row(row, out[number])
        for i in range(total.shape[0]):
            total[i] += row[i]


@kernel("void(f4[:,::1], f4[::1], f4, f4[:,::1], f4[::1])")
def norm_rows(x: Any, weight: Any, eps: Any, out: Any, scales: Any) -> None:
    """RMSNorm (Zhang & Sennrich 2019), and by what each row was scaled. (N, D), (D,)."""
    n = x.shape[1]
    for number in range(x.shape[0]):
        row, target = x[number], out[number]
        total = ZERO
        for i in range(n):
            total += row[i] * row[i]
        scale = ONE / np.float32(math.sqrt(total / np.float32(n) + eps))
        for i in range(n):
            target[i] = row[i] * scale * weight[i]
        scales[number] = scale


@kernel("void(f4[:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], f4[::1])")
def norm_rows_back(x: Any, weight: Any, scales: Any, grad: Any, d_x: Any, d_weight: Any) -> None:
    """The gradients of `norm_rows` by x and, added up over rows, by the weight."""
    n = x.shape[1]
    for i in range(n):
        d_weight[i] = ZERO
    for number in range(x.shape[0]):
        row, above, target, scale = x[number], grad[number], d_x[number], scales[number]
        total = ZERO
        for i in range(n):
            total += above[i] * weight[i] * row[i]
        shrink = total * scale * scale * scale / np.float32(n)
        for i in range(n):
            target[i] = above[i] * weight[i] * scale - row[i] * shrink
        for i in range(n):
            d_weight[i] += above[i] * row[i] * scale


@kernel("void(f4[::1], f4[::1])")
def square_positive(x: Any, out: Any) -> None:
    """The squares of positive numbers, 0 for others (ReLU^2, So et al. 2021). (N,)."""
    for i in range(x.shape[0]):
        positive = ZERO if x[i] < ZERO else x[i]  # this way round what is no number stays none
        out[i] = positive * positive


@kernel("void(f4[::1], f4[::1], f4[::1])")
def square_positive_back(x: Any, grad: Any, d_x: Any) -> None:
    """The gradient of `square_positive`. (N,)."""
    for i in range(x.shape[0]):
        positive = ZERO if x[i] < ZERO else x[i]
        d_x[i] = TWO * positive * grad[i]


@kernel("void(f4[::1], f4[::1], u1[::1], u1, f4, f4[::1])")
def add_kept(x: Any, part: Any, chance: Any, n_dropped: Any, scale: Any, out: Any) -> None:
    """x plus a part of which some numbers are left out, the others scaled (dropout). (N,)."""
    for i in range(x.shape[0]):
        kept = scale if chance[i] >= n_dropped else ZERO
        out[i] = x[i] + part[i] * kept


@kernel("void(f4[::1], u1[::1], u1, f4, f4[::1])")
def add_kept_back(grad: Any, chance: Any, n_dropped: Any, scale: Any, d_part: Any) -> None:
    """The gradient of `add_kept` by the part; that by x is the gradient itself. (N,)."""
    for i in range(grad.shape[0]):
        kept = scale if chance[i] >= n_dropped else ZERO
        d_part[i] = grad[i] * kept


@kernel("void(f4[:,:,:,::1], f4[:,:,::1], f4[:,:,::1], f4, f4[:,:,:,::1])")
def turn_heads(x: Any, cos: Any, sin: Any, sign: Any, out: Any) -> None:
    """Each pair (x[i], x[i + K/2]) turned by its angle; sign -1 turns back.

    x (B, T, H, K), cos and sin (B or 1, T, K/2).
    """
    n_batch, n_positions, n_heads, width = x.shape
    half = width // 2
    for b in range(n_batch):
        for t in range(n_positions):
            c, s = cos[b % cos.shape[0], t], sin[b % sin.shape[0], t]
            for h in range(n_heads):
                head, target = x[b, t, h], out[b, t, h]
                first, second = head[:half], head[half:]
                for i in range(half):
                    target[i] = first[i] * c[i] - second[i] * s[i] * sign
                behind = target[half:]
                for i in range(half):
                    behind[i] = second[i] * c[i] + first[i] * s[i] * sign


@inlined
def lay_down(x: Any, b: int, h: int, scale: Any, out: Any) -> None:
    """One head, scaled, on its side, with zeros behind it. (B, T, H, K) -> (K, T rounded up)."""
    n_positions, width = x.shape[1], x.shape[3]
    for t in range(n_positions):
        for i in range(width):
            out[i, t] = x[b, t, h, i] * scale
    for t in range(n_positions, out.shape[1]):
        for i in range(width):
            out[i, t] = ZERO


@inlined
def call_up(x: Any, b: int) -> None:
    """Ask for all heads of a row of the batch, if it has one; they lie together. (B, T, H, K).

    One head at a time they would be read in pieces too short for the processor to foresee.
    """
    if b < x.shape[0]:
        for line in range(0, 4 * x[0].size, 64):
            prefetch(x[b].ctypes.data + line)


@inlined
def soften(scores: Any, hidden: Any, highest: Any, total: Any) -> None:
    """Softmax of each column, in place; what is hidden weighs exactly 0, also if all is. (S, T).

    hidden (S, T): 1, or 0 for what is seen; highest and total (T,): space to work in.
    """
    n_keys, n_queries = scores.shape
    for t in range(n_queries):
        highest[t], total[t] = LOWEST, ZERO
    for s in range(n_keys):
        row, veil = scores[s], hidden[s]
        for t in range(n_queries):
            score, is_hidden = row[t], veil[t]  # read at once: a branch could not be a vector
            seen = NOTHING if is_hidden > ZERO else score
            row[t] = seen
            highest[t] = larger(seen, highest[t])  # of a NaN and a number the number
    for s in range(n_keys):
        row = scores[s]
        for t in range(n_queries):
            row[t] = exponential(row[t] - highest[t])
            total[t] += row[t]
    for t in range(n_queries):
        total[t] = ONE / total[t] if total[t] > ZERO else ZERO
    for s in range(n_keys):
        row = scores[s]
        for t in range(n_queries):
            row[t] *= total[t]


@inlined
def soften_back(weights: Any, errors: Any, mean: Any) -> None:
    """The gradient of `soften` by the scores, written over that by its weights. (S, T)."""
    n_keys, n_queries = weights.shape
    for t in range(n_queries):
        mean[t] = ZERO
    for s in range(n_keys):
        row, error = weights[s], errors[s]
        for t in range(n_queries):
            mean[t] += row[t] * error[t]
    for s in range(n_keys):
        row, error = weights[s], errors[s]
        for t in range(n_queries):
            error[t] = row[t] * (error[t] - mean[t])


@kernel(
    "void(f4[:,:,:,::1], f4[:,:,:,::1], f4[:,:,:,::1], b1[:,:,::1], f4, f4[:,:,:,::1],"
    " f4[:,:,:,::1])"
)
def attend_heads(
    q: Any, keys: Any, values: Any, allowed: Any, scale: Any, weights: Any, out: Any
) -> None:
    """Scaled dot-product attention with its weights, which the way back needs.

    q, out (B, T, H, K), keys and values (B, S, H, K), allowed (B or 1, T, S), weights
    (B, H, S, T rounded up to LANES): a row per key, so that softmax never sums across a vector.
    """
    n_batch, n_queries, n_heads, width = q.shape
    n_keys, n_columns, stride = keys.shape[1], weights.shape[3], n_heads * width
    down = np.empty((width, n_columns), np.float32)
    hidden = np.ones((n_keys, n_columns), np.float32)  # what is behind the last query stays so
    highest, total = np.empty(n_columns, np.float32), np.empty(n_columns, np.float32)
    down_at = down.ctypes.data
    for b in range(n_batch):
        call_up(q, b + 1)
        call_up(keys, b + 1)
        call_up(values, b + 1)
        if b < allowed.shape[0]:  # a mask of one row is that of all
            for t in range(n_queries):
                seen = allowed[b, t]
                for s in range(n_keys):
                    hidden[s, t] = ONE - np.float32(seen[s])
        for h in range(n_heads):
            scores = weights[b, h]
            at, to = scores.ctypes.data, out[b, 0, h].ctypes.data
            key, value = keys[b, 0, h].ctypes.data, values[b, 0, h].ctypes.data
            lay_down(q, b, h, scale, down)
            sizes = (n_keys, n_columns, width)
            product(key, (stride, 1), down_at, n_columns, at, n_columns, sizes)
            soften(scores, hidden, highest, total)
            product(at, (1, n_columns), value, stride, to, stride, (n_queries, width, n_keys))


@kernel(
    "void(f4[:,:,:,::1], f4[:,:,:,::1], f4[:,:,:,::1], f4[:,:,:,::1], f4, f4[:,:,:,::1],"
    " f4[:,:,:,::1], f4[:,:,:,::1], f4[:,:,:,::1])"
)
def attend_heads_back(
    q: Any,
    keys: Any,
    values: Any,
    weights: Any,
    scale: Any,
    grad: Any,
    d_q: Any,
    d_keys: Any,
    d_values: Any,
) -> None:
    """The gradients of `attend_heads` by queries, keys and values, of the same shapes."""
    n_batch, n_queries, n_heads, width = q.shape
    n_keys, n_columns, stride = keys.shape[1], weights.shape[3], n_heads * width
    down = np.empty((width, n_columns), np.float32)
    errors = np.empty((n_keys, n_columns), np.float32)  # gradients by weights, then by scores
    mean = np.empty(n_columns, np.float32)
    down_at, at = down.ctypes.data, errors.ctypes.data
    for b in range(n_batch):
        call_up(q, b + 1)
        call_up(keys, b + 1)
        call_up(values, b + 1)
        call_up(weights, b + 1)
        call_up(grad, b + 1)
        for h in range(n_heads):
            seen, query = weights[b, h].ctypes.data, q[b, 0, h].ctypes.data
            key, value = keys[b, 0, h].ctypes.data, values[b, 0, h].ctypes.data
            lay_down(grad, b, h, scale, down)
            sizes = (n_keys, n_columns, width)
            product(value, (stride, 1), down_at, n_columns, at, n_columns, sizes)
            soften_back(weights[b, h], errors, mean)
            to = d_q[b, 0, h].ctypes.data
            product(at, (1, n_columns), key, stride, to, stride, (n_queries, width, n_keys))
            to = d_keys[b, 0, h].ctypes.data
            product(at, (n_columns, 1), query, stride, to, stride, (n_keys, width, n_queries))
            above, to = grad[b, 0, h].ctypes.data, d_values[b, 0, h].ctypes.data
            product(seen, (n_columns, 1), above, stride, to, stride, (n_keys, width, n_queries))
