"""Attention of short rows as kernels: scores, softmax and mixture of a head while it is in cache.

`fused.py` puts them behind autograd, beside `attend`, which they must equal; all that kernels.py
says of its kernels holds here. Dimensions: B batch, T queries, S keys, H heads, K head width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lookleft.nn.arithmetic import exponential, larger, prefetch, product
from lookleft.nn.compiling import inlined, kernel

ZERO, ONE = np.float32(0), np.float32(1)
LOWEST, NOTHING = np.float32(np.finfo(np.float32).min), np.float32(-np.inf)


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
