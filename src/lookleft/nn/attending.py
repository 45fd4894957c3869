"""Attention of short rows as kernels: products to heads, then a head while it is in cache.

`heads.py` and `fused.py` put them behind autograd, beside the plain operations that they must
equal; all that kernels.py says of its kernels holds here. Dimensions: B batch, T queries, S keys,
H heads, K head width, M rows and C columns of a product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookleft.nn.arithmetic import (
    LANES,
    exponential,
    larger,
    loaded,
    prefetch,
    product,
    stored,
    turn_lanes,
)
from lookleft.nn.compiling import inlined, kernel

ZERO, ONE = np.float32(0), np.float32(1)
LOWEST, NOTHING = np.float32(np.finfo(np.float32).min), np.float32(-np.inf)


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
                here, to = source + 4 * (start + i), target + 4 * (start + i)
                turn_lanes(here, cos.ctypes.data + 4 * i, sin.ctypes.data + 4 * i, sign, half, to)
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
    without rotation, (0, 0, 0); out (B, T, H*K), scales (B * T, H) or, without a norm, (0, H).
    Loops are over whole rows where they can be: those over one head are too short to be fast.
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
