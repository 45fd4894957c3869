"""Cross-entropy of rows of logits, with its gradient written over them, while a row is in cache.

The plain operations that these kernels must equal are `surprise` in train/loss.py; all that
kernels.py says of its kernels holds here. Dimensions: N rows, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookleft.nn.arithmetic import exponential, larger, narrow_row, widen_row
from lookleft.nn.compiling import inlined, kernel

ZERO, ONE = np.float32(0), np.float32(1)
NOTHING = np.float32(-np.inf)


@inlined
def surprise_row(row: Any, target: int, smoothing: Any) -> float:
    """Cross-entropy of one row of logits; its gradient is written over them. (V,)."""
    n = row.shape[0]
    share, rest = smoothing / np.float32(n), ONE - smoothing
    highest = NOTHING
    for i in range(n):
        highest = larger(row[i], highest)
    cost = float(rest) * float(highest - row[target])
    z, gaps = ZERO, ZERO
    for i in range(n):
        gap = row[i] - highest
        row[i] = exponential(gap)
        z += row[i]
        gaps += gap
    cost += math.log(z)
    if smoothing > 0 or math.isnan(gaps):  # the maximum and the exponentials hide a NaN
        cost -= float(share) * float(gaps)
    scale = ONE / z
    for i in range(n):  # what the model says - what the target says
        row[i] = row[i] * scale - share
    row[target] -= rest
    return cost


@inlined
def surprise_twins(
    one: Any, other: Any, target: int, smoothing: Any, pull: Any, exps: Any
) -> float:
    """What two rows of logits for one target cost, each by itself and by their disagreement.

    That is cross-entropy of both + pull * (KL(one || other) + KL(other || one)); the gradients are
    written over the rows. (V,) each; exps (2, V): space to work in.
    """
    n = one.shape[0]
    share, rest = smoothing / np.float32(n), ONE - smoothing
    p, q = exps[0], exps[1]
    top_one, top_other = NOTHING, NOTHING
    for i in range(n):
        top_one, top_other = larger(one[i], top_one), larger(other[i], top_other)
    cost = float(rest) * (float(top_one - one[target]) + float(top_other - other[target]))
    z_one, z_other, gaps, seen_by_one, seen_by_other = ZERO, ZERO, ZERO, ZERO, ZERO
    for i in range(n):
        below_one, below_other = one[i] - top_one, other[i] - top_other
        p[i], q[i] = exponential(below_one), exponential(below_other)
        z_one += p[i]
        z_other += q[i]
        gaps += below_one + below_other
        one[i] = below_one - below_other  # from here on: how far apart they are
        seen_by_one += p[i] * one[i]
        seen_by_other += q[i] * one[i]
    cost += math.log(z_one) + math.log(z_other)
    if smoothing > 0 or math.isnan(gaps):  # as in `surprise_row`
        cost -= float(share) * float(gaps)
    scale_one, scale_other = ONE / z_one, ONE / z_other
    # Means of the distance log p - log q without its constant part, which leaves their difference.
    mean_one, mean_other = seen_by_one * scale_one, seen_by_other * scale_other
    cost += float(pull) * float(mean_one - mean_other)
    for i in range(n):
        apart, mine, its = one[i], p[i] * scale_one, q[i] * scale_other
        one[i] = mine - share + pull * (mine * (apart - mean_one + ONE) - its)
        other[i] = its - share + pull * (its * (mean_other - apart + ONE) - mine)
    one[target] -= rest
    other[target] -= rest
    return cost


@kernel("f8(f4[:,::1], i8[::1], f4)")
def surprise_rows(logits: Any, targets: Any, smoothing: Any) -> float:
    """Cross-entropy summed over rows; its gradient is written over the logits. (N, V), (N,)."""
    total = 0.0
    for number in range(logits.shape[0]):
        total += surprise_row(logits[number], targets[number], smoothing)
    return total


@kernel("f8(i2[:,::1], i8[::1], f4)")
def surprise_narrow_rows(logits: Any, targets: Any, smoothing: Any) -> float:
    """The same of bfloat16: each row is widened, worked on, and its gradient narrowed."""
    wide, total = np.empty(logits.shape[1], np.float32), 0.0
    for number in range(logits.shape[0]):
        widen_row(logits[number], wide)
        total += surprise_row(wide, targets[number], smoothing)
        narrow_row(wide, logits[number])
    return total


@kernel("f8(f4[:,:,::1], i8[::1], f4, f4)")
def surprise_twin_rows(logits: Any, targets: Any, smoothing: Any, pull: Any) -> float:
    """`surprise_twins` summed over the targets of two passes. (2, N, V), (N,)."""
    exps, total = np.empty((2, logits.shape[2]), np.float32), 0.0
    for number in range(logits.shape[1]):
        one, other = logits[0, number], logits[1, number]
        total += surprise_twins(one, other, targets[number], smoothing, pull, exps)
    return total


@kernel("f8(i2[:,:,::1], i8[::1], f4, f4)")
def surprise_narrow_twin_rows(logits: Any, targets: Any, smoothing: Any, pull: Any) -> float:
    """The same of bfloat16."""
    n = logits.shape[2]
    wide, exps, total = np.empty((2, n), np.float32), np.empty((2, n), np.float32), 0.0
    for number in range(logits.shape[1]):
        for i in range(2):
            widen_row(logits[i, number], wide[i])
        total += surprise_twins(wide[0], wide[1], targets[number], smoothing, pull, exps)
        for i in range(2):
            narrow_row(wide[i], logits[i, number])
    return total
