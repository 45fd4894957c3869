"""Beam search between two steps without Python: which hypotheses go on, and with which token.

`generate/beam.py` does the same and all that is rarer. Where a hypothesis may come to an end,
nothing is decided here: the run stops, and it is asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lookleft.engine.best import is_number
from lookleft.engine.compiling import compiled
from lookleft.engine.records import doubles, floats, integers, slots

NOTHING = np.float32(-np.inf)


@compiled
def follow_beams(job: Any, step: int) -> None:
    """Let every request go on with its best hypotheses; if one of them cannot, none does."""
    n_requests = job.n_rows // job.n_beams
    for request in range(n_requests):
        rank(job, step, request)
        if not is_plain(job, step, request):
            integers(job.is_over, step + 1)[step] = 1
            return
        put_down(job, step, request)
    for request in range(n_requests):
        go_on(job, step, request)


@compiled
def gain_of(job: Any, step: int, row: int, i: int) -> np.float32:
    """The log-probability of a row's i-th best token; -inf if that is no number."""
    place = step * job.n_rows + row
    logit = floats(job.best_logits, (place + 1) * job.n_best)[place * job.n_best + i]
    gain = logit - floats(job.norms, place + 1)[place]
    return gain if is_number(gain) else NOTHING


@compiled
def rank(job: Any, step: int, request: int) -> None:
    """The best n continuations of a request, best first; of equal ones the first found."""
    n, first = job.n_best, request * job.n_beams
    sums = doubles(job.sums, job.n_rows)
    totals, places = doubles(job.rank_totals, n), integers(job.rank_places, n)
    n_found = 0
    for beam in range(job.n_beams):
        for i in range(n):
            total = sums[first + beam] + np.float64(gain_of(job, step, first + beam, i))
            if n_found == n and not total > totals[n - 1]:
                break  # nor will the rest of this row be better
            at = min(n_found, n - 1)
            while at > 0 and totals[at - 1] < total:
                totals[at], places[at] = totals[at - 1], places[at - 1]
                at -= 1
            totals[at], places[at] = total, beam * n + i
            n_found = min(n_found + 1, n)


@compiled
def is_plain(job: Any, step: int, request: int) -> bool:
    """True if none of the ranked continuations is an end, and enough of them are possible."""
    n, first = job.n_best, request * job.n_beams
    totals, places = doubles(job.rank_totals, n), integers(job.rank_places, n)
    ends = integers(job.ends + 8 * first * job.n_ends, job.n_ends)
    ids = integers(job.best_ids + 8 * (step * job.n_rows + first) * n, job.n_beams * n)
    for c in range(n):
        for i in range(job.n_ends):
            if ids[places[c]] == ends[i]:
                return False
    return is_number(totals[job.n_beams - 1])


@compiled
def put_down(job: Any, step: int, request: int) -> None:
    """The continuations that a request goes on with, as Python will read them."""
    n, first = job.n_best, request * job.n_beams
    totals, places = doubles(job.rank_totals, n), integers(job.rank_places, n)
    ids = integers(job.best_ids + 8 * (step * job.n_rows + first) * n, job.n_beams * n)
    for c in range(job.n_beams):
        at = step * job.n_rows + first + c
        row, i = first + places[c] // n, places[c] % n
        integers(job.parents, at + 1)[at] = places[c] // n
        integers(job.chosen, at + 1)[at] = ids[places[c]]
        doubles(job.gains, at + 1)[at] = gain_of(job, step, row, i)
        doubles(job.totals, at + 1)[at] = totals[c]


@compiled
def go_on(job: Any, step: int, request: int) -> None:
    """Each hypothesis takes the place of its parent: its sum, its next token, its past."""
    first = request * job.n_beams
    at = step * job.n_rows + first
    parents = integers(job.parents + 8 * at, job.n_beams)
    chosen = integers(job.chosen + 8 * at, job.n_beams)
    totals = doubles(job.totals + 8 * at, job.n_beams)
    sums, ids = doubles(job.sums, job.n_rows), integers(job.ids, job.n_rows)
    position = integers(job.position, job.n_rows)
    width, n_read = job.table_width, position[first] + 1
    spare = slots(job.spare_table, job.n_beams * width)
    table = slots(job.table + 4 * first * width, job.n_beams * width)
    for c in range(job.n_beams):
        for s in range(n_read):
            spare[c * width + s] = table[parents[c] * width + s]
    for c in range(job.n_beams):
        for s in range(n_read):
            table[c * width + s] = spare[c * width + s]
        sums[first + c], ids[first + c] = totals[c], chosen[c]
        position[first + c] += 1
