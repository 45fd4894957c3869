"""The best few logits of a row, and the sum of all: what greedy and beam search need of them.

Done within the forward, by the thread that has the row, while its logits are still in the cache.
`generate/best.py` has the same as plain operations on tensors. Dimension: V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from lookleft.engine.compiling import compiled, instruction
from lookleft.engine.kernels import ZERO, share
from lookleft.engine.records import floats, integers
from lookleft.engine.vectors import Writer
from lookleft.nn.arithmetic import exponential

STRIDE = 32  # logits that are looked at together


@instruction
def largest_of_stride(typing: Any, address: Any) -> Any:
    """The largest of 32 float32 at an address."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write = Writer(builder)
        parts = [write.load(write.floats, values[0], 4 * i) for i in range(0, STRIDE, write.lanes)]
        return write.across(write.larger, *parts)

    return types.float32(types.int64), generate


@compiled
def find_best(job: Any, step: int, rows: Any, crew: Any) -> None:
    """Of this thread's share of the rows: what `Best` in generate/best.py says."""
    first, last = rows
    begin, end = share(last - first, *crew)
    n, wide = job.n_best, job.logit_width
    for row in range(first + begin, first + end):
        address = job.logits + 4 * row * wide
        logits = floats(address, wide)
        norm = log_sum(address, job.vocab_size)
        place = step * job.n_wanted + row
        floats(job.norms, place + 1)[place] = norm
        values, ids = (
            floats(job.best_logits + 4 * place * n, n),
            integers(job.best_ids + 8 * place * n, n),
        )
        if norm != norm:
            for i in range(n):
                values[i], ids[i] = norm, i  # nothing can be chosen
        else:
            forbidden = integers(job.forbidden + 8 * row * job.n_forbidden, job.n_forbidden)
            for i in range(job.n_forbidden):
                if forbidden[i] >= 0:
                    logits[forbidden[i]] = np.float32(-np.inf)
            take_largest(address, job.vocab_size, values, ids, n)
        if step + 1 < job.n_steps and not job.n_beams:
            feed_back(job, step, row, values[0], ids[0])


@compiled
def is_number(x: float) -> bool:
    """True if x is finite, by comparing: `math.isfinite` is x - x == 0 here, and where sums may be
    regrouped the compiler takes that for granted."""
    return -np.inf < x < np.inf


@compiled
def feed_back(job: Any, step: int, row: int, logit: Any, id: int) -> None:
    """Let the row read its best token next; say so if it comes to an end instead."""
    is_over = not is_number(logit)  # no token was possible
    ends = integers(job.ends + 8 * row * job.n_ends, job.n_ends)
    for i in range(job.n_ends):
        is_over |= ends[i] == id
    if is_over:
        integers(job.is_over, step + 1)[step] = 1  # whichever thread: all write the same
    integers(job.ids, row + 1)[row] = id
    integers(job.position, row + 1)[row] += 1


@compiled
def log_sum(address: int, size: int) -> Any:
    """The logarithm of the summed exponentials; NaN if there is one among the numbers."""
    numbers = floats(address, size)
    largest, n_whole = np.float32(-np.inf), size // STRIDE * STRIDE
    for i in range(0, n_whole, STRIDE):
        largest = max(largest, largest_of_stride(address + 4 * i))
    for i in range(n_whole, size):
        largest = max(largest, numbers[i])
    oddness = ZERO
    for i in range(size):
        oddness += numbers[i] * ZERO  # NaN for what is not finite
    if oddness != oddness:
        for i in range(size):
            if numbers[i] != numbers[i]:
                return numbers[i]
        if largest == np.float32(np.inf) or largest == np.float32(-np.inf):
            return largest
    total = ZERO
    for i in range(size):
        total += exponential(numbers[i] - largest)
    return largest + np.float32(math.log(total))


@compiled
def take_largest(address: int, size: int, values: Any, ids: Any, n: int) -> None:
    """The n largest of the numbers, the largest first, and where they are; of equals the first."""
    numbers = floats(address, size)
    for i in range(n):
        insert(numbers[i], i, values, ids, i)
    i = n
    while i < size:
        if i + STRIDE <= size and not largest_of_stride(address + 4 * i) > values[n - 1]:
            i += STRIDE
            continue
        for place in range(i, min(i + STRIDE, size)):
            if numbers[place] > values[n - 1]:
                insert(numbers[place], place, values, ids, n - 1)
        i += STRIDE


@compiled
def insert(number: Any, place: int, values: Any, ids: Any, last: int) -> None:
    """Put a number among those before `last`, behind those not smaller; what was last goes."""
    i = last
    while i > 0 and values[i - 1] < number:
        values[i], ids[i] = values[i - 1], ids[i - 1]
        i -= 1
    values[i], ids[i] = number, place
