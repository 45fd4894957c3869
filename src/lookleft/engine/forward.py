"""A whole forward of a stack as one compiled function, run by every thread of a team at once.

Threads share the work of each part (rows, heads, or output features) and wait for each other
between parts. If the job is split, each thread has rows of its own instead and waits for nobody.
The order of the parts is that of `nn/block.py`. What one step reads: every weight once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lookleft.engine.beams import follow_beams
from lookleft.engine.best import find_best
from lookleft.engine.compiling import compiled
from lookleft.engine.heads import copy_narrow
from lookleft.engine.kernels import (
    activate,
    embed_row,
    encode_row,
    look,
    norm_head,
    norm_row,
    product,
    share,
    turn_head,
)
from lookleft.engine.records import floats, integers, job_at, layer_of, slots
from lookleft.engine.spin import wait_for_all


@compiled
def row_at(job: Any, address: int, row: int) -> Any:
    """One row of the work space."""
    return floats(address + 4 * row * job.width, job.width)


@compiled
def prepare(job: Any, row: int, norm: int) -> None:
    """What the next part reads of a row: x itself or normed, in 16 bits too if it wants that."""
    x, h = row_at(job, job.x, row), row_at(job, job.h, row)
    if norm >= 0:
        norm_row(job, norm, x, h)
    else:
        for i in range(job.d_model):
            h[i] = x[i]
    if job.is_quantised:
        encode_row(job, row, job.h + 4 * row * job.width, job.d_model)


@compiled
def enter(job: Any, rows: Any, crew: Any) -> None:
    """Embeddings and added positions."""
    ids, position = integers(job.ids, job.n_rows), integers(job.position, job.n_rows)
    first, last = rows
    begin, end = share(last - first, *crew)
    for row in range(first + begin, first + end):
        x = row_at(job, job.x, row)
        embed_row(job, ids[row], x)
        scale = job.embed_scale
        for i in range(job.d_model):
            x[i] *= scale
        if job.added:
            added = floats(job.added + 4 * position[row] * job.d_model, job.d_model)
            for i in range(job.d_model):
                x[i] += added[i]
        if job.embed_norm >= 0:
            norm_row(job, job.embed_norm, x, x)


@compiled
def prepare_rows(job: Any, before: int, norm: int, rows: Any, crew: Any) -> None:
    """End the last part (`before`: its norm, in post order) and begin the next (in pre order)."""
    first, last = rows
    begin, end = share(last - first, *crew)
    for row in range(first + begin, first + end):
        if not job.is_pre and before >= 0:
            x = row_at(job, job.x, row)
            norm_row(job, before, x, x)
        prepare(job, row, norm if job.is_pre else -1)


@compiled
def pool_of(job: Any, layer: int, size: int, head: int) -> Any:
    """Where the tokens of one query head's group begin in a pool of this size, in bytes."""
    group = head * job.n_kv_heads // job.n_heads
    heads_before = layer * job.is_kept * job.n_kv_heads + group
    return job.kept_bytes * heads_before * size * job.head_dim


@compiled
def remember(job: Any, layer_index: int, rows: Any, crew: Any) -> None:
    """Queries and keys get their norm and turn; keys and values go to their place in the pool."""
    layer = layer_of(job, layer_index)
    sequence, position = integers(job.sequence, job.n_rows), integers(job.position, job.n_rows)
    n, heads_in_group = job.head_dim, job.n_heads // job.n_kv_heads
    first, last = rows
    begin, end = share(last - first, *crew)
    for row in range(first + begin, first + end):
        for head in range(job.n_heads):
            finish_head(job, layer.norm_q, position[row], job.q + 4 * (row * job.width + head * n))
        table = slots(job.table + 4 * sequence[row] * job.table_width, job.table_width)
        for group in range(job.n_kv_heads):
            pool = pool_of(job, layer_index, job.pool_size, group * heads_in_group)
            place = pool + job.kept_bytes * np.int64(table[position[row]]) * n
            source = 4 * (row * job.width + group * n)
            finish_head(job, layer.norm_k, position[row], job.k + source)
            keep(job, job.k + source, job.keys + place)
            keep(job, job.v + source, job.values + place)


@compiled
def finish_head(job: Any, norm: int, position: int, address: int) -> None:
    """A query or key gets its norm and its turn, where the model has them."""
    head = floats(address, job.head_dim)
    if norm >= 0:
        norm_head(job, norm, head)
    if job.turns:
        turn_head(job, position, head)


@compiled
def keep(job: Any, source: int, target: int) -> None:
    """A key or value at an address goes to its place, in as few bytes as are kept."""
    n = job.head_dim
    if job.kept_bytes == 2:
        copy_narrow(source, target, n)
        return
    read, write = floats(source, n), floats(target, n)
    for i in range(n):
        write[i] = read[i]


@compiled
def sight(job: Any, sequence: int, position: int) -> Any:
    """The first and last + 1 position that this one sees of its sequence: `masks.visible`."""
    length = integers(job.lengths, sequence + 1)[sequence]
    prefix = integers(job.prefix, sequence + 1)[sequence]
    if not job.is_causal:
        return 0, length
    first, last = 0, position + 1
    if job.window:
        first = max(0, position + 1 - job.window)
    if position < prefix:
        first, last = 0, max(last, min(prefix, length))
    return first, last


@compiled
def look_around(job: Any, layer_index: int, rows: Any, me: int, crew: Any) -> None:
    """Self-attention of every row and head."""
    sequence, position = integers(job.sequence, job.n_rows), integers(job.position, job.n_rows)
    first, last = rows
    begin, end = share((last - first) * job.n_heads, *crew)
    for unit in range(begin, end):
        row, head = first + unit // job.n_heads, unit % job.n_heads
        seen = sight(job, sequence[row], position[row])
        table = job.table + 4 * sequence[row] * job.table_width
        pool = pool_of(job, layer_index, job.pool_size, head)
        look(job, row, head, job.keys + pool, job.values + pool, (table, 0), seen, me)


@compiled
def look_at_source(job: Any, layer_index: int, rows: Any, me: int, crew: Any) -> None:
    """Cross-attention of every row and head."""
    sequence = integers(job.sequence, job.n_rows)
    first, last = rows
    begin, end = share((last - first) * job.n_heads, *crew)
    for unit in range(begin, end):
        row, head = first + unit // job.n_heads, unit % job.n_heads
        start = integers(job.memory_start, sequence[row] + 1)[sequence[row]]
        length = integers(job.memory_length, sequence[row] + 1)[sequence[row]]
        pool = pool_of(job, layer_index, job.memory_size, head)
        keys, values = job.memory_keys + pool, job.memory_values + pool
        look(job, row, head, keys, values, (0, start), (0, length), me)


@compiled
def mix(job: Any, matrix: int, rows: Any, crew: Any, sync: int) -> None:
    """What the heads found, through the output matrix, onto x."""
    first, last = rows
    if job.is_quantised:
        begin, end = share(last - first, *crew)
        for row in range(first + begin, first + end):
            mixed = job.mixed + 4 * row * job.width
            encode_row(job, row, mixed, job.n_heads * job.head_dim)
        wait_for_all(sync, crew)
    product(job, matrix, job.mixed, job.width, job.x, job.width, rows, crew, 1)
    wait_for_all(sync, crew)


@compiled
def feed(job: Any, layer: Any, rows: Any, crew: Any, sync: int) -> None:
    """The feed-forward: widen, bend, narrow, onto x."""
    width = job.hidden_width
    first, last = rows
    product(job, layer.to_hidden, job.h, job.width, job.hidden, width, rows, crew, 0)
    if layer.to_gate >= 0:
        product(job, layer.to_gate, job.h, job.width, job.gate, width, rows, crew, 0)
    wait_for_all(sync, crew)
    begin, end = share(last - first, *crew)
    for row in range(first + begin, first + end):
        hidden = floats(job.hidden + 4 * row * width, width)
        if layer.to_gate >= 0:
            gate = floats(job.gate + 4 * row * width, width)
            activate(job.activation, gate, job.d_ff)
            for i in range(job.d_ff):
                hidden[i] *= gate[i]
        else:
            activate(job.activation, hidden, job.d_ff)
        if job.is_quantised:
            encode_row(job, row, job.hidden + 4 * row * width, job.d_ff)
    wait_for_all(sync, crew)
    product(job, layer.from_hidden, job.hidden, width, job.x, job.width, rows, crew, 1)
    wait_for_all(sync, crew)


@compiled
def run_layers(job: Any, rows: Any, me: int, crew: Any, sync: int) -> int:
    """All layers; gives the norm that is still due at the end of the last, in post order."""
    before = -1
    for index in range(job.n_layers):
        layer = layer_of(job, index)
        prepare_rows(job, before, layer.self_norm, rows, crew)
        wait_for_all(sync, crew)
        product(job, layer.to_q, job.h, job.width, job.q, job.width, rows, crew, 0)
        product(job, layer.to_k, job.h, job.width, job.k, job.width, rows, crew, 0)
        product(job, layer.to_v, job.h, job.width, job.v, job.width, rows, crew, 0)
        wait_for_all(sync, crew)
        remember(job, index, rows, crew)
        wait_for_all(sync, crew)
        look_around(job, index, rows, me, crew)
        wait_for_all(sync, crew)
        mix(job, layer.to_out, rows, crew, sync)
        before = layer.self_norm
        if job.has_cross:
            prepare_rows(job, before, layer.cross_norm, rows, crew)
            wait_for_all(sync, crew)
            product(job, layer.cross_q, job.h, job.width, job.q, job.width, rows, crew, 0)
            wait_for_all(sync, crew)
            look_at_source(job, index, rows, me, crew)
            wait_for_all(sync, crew)
            mix(job, layer.cross_out, rows, crew, sync)
            before = layer.cross_norm
        prepare_rows(job, before, layer.feed_norm, rows, crew)
        wait_for_all(sync, crew)
        feed(job, layer, rows, crew, sync)
        before = layer.feed_norm
    return before


@compiled
def leave(job: Any, step: int, before: int, rows: Any, crew: Any, sync: int) -> None:
    """The end of the stack: last norms; then the logits of the rows that are wanted."""
    first, last = rows
    begin, end = share(last - first, *crew)
    for row in range(first + begin, first + end):
        x = row_at(job, job.x, row)
        if not job.is_pre and before >= 0:
            norm_row(job, before, x, x)
        if job.final_norm >= 0:
            norm_row(job, job.final_norm, x, x)
    wait_for_all(sync, crew)
    if job.head < 0:
        return
    wanted = integers(job.wanted, job.n_wanted)
    # Rows are wanted in rising order: those among mine are neighbours.
    lowest, highest = 0, 0
    for i in range(job.n_wanted):
        lowest += wanted[i] < first
        highest += wanted[i] < last
    begin, end = share(highest - lowest, *crew)
    for i in range(lowest + begin, lowest + end):
        x, h = row_at(job, job.x, wanted[i]), row_at(job, job.h, i)
        scale = job.logit_scale
        for j in range(job.d_model):
            h[j] = x[j] * scale
        if job.is_quantised:
            encode_row(job, i, job.h + 4 * i * job.width, job.d_model)
    wait_for_all(sync, crew)
    wide = job.logit_width
    mine = (lowest, highest)
    product(job, job.head, job.h, job.width, job.logits, wide, mine, crew, 0)
    if job.n_best:
        wait_for_all(sync, crew)
        find_best(job, step, mine, crew)


@compiled
def project_source(job: Any, rows: Any, crew: Any, sync: int) -> None:
    """Keys and values of the encoded source (in x), for the cross-attention of every layer."""
    first, last = rows
    begin, end = share(last - first, *crew)
    for row in range(first + begin, first + end):
        prepare(job, row, -1)
    wait_for_all(sync, crew)
    n, heads_in_group = job.head_dim, job.n_heads // job.n_kv_heads
    place = integers(job.position, job.n_rows)  # where a source token lies in the memory
    for index in range(job.n_layers):
        layer = layer_of(job, index)
        product(job, layer.cross_k, job.h, job.width, job.k, job.width, rows, crew, 0)
        product(job, layer.cross_v, job.h, job.width, job.v, job.width, rows, crew, 0)
        wait_for_all(sync, crew)
        for row in range(first + begin, first + end):
            for group in range(job.n_kv_heads):
                pool = pool_of(job, index, job.memory_size, group * heads_in_group)
                target = pool + job.kept_bytes * place[row] * n
                source = 4 * (row * job.width + group * n)
                keep(job, job.k + source, job.memory_keys + target)
                keep(job, job.v + source, job.memory_values + target)
        wait_for_all(sync, crew)


@compiled
def forward(address: int, me: int, team: int, sync: int) -> None:
    """The share of thread `me` in the job that lies at an address.

    A job of several steps reads the best token of each row again and again, until one ends.
    """
    job = job_at(address)
    rows, crew = (0, job.n_rows), (me, team)
    if job.is_split:
        bounds = integers(job.bounds, team + 1)
        rows, crew = (bounds[me], bounds[me + 1]), (0, 1)
    if job.n_sources:
        project_source(job, rows, crew, sync)
        return
    for step in range(job.n_steps):
        enter(job, rows, crew)
        wait_for_all(sync, crew)
        before = run_layers(job, rows, me, crew, sync)
        if job.is_split and job.n_wanted != job.n_rows:
            # The rows that are wanted move up, into the work space of others.
            wait_for_all(sync, (me, team))
        leave(job, step, before, rows, crew, sync)
        if step + 1 == job.n_steps:
            break
        wait_for_all(sync, (me, team))  # all, even if rows are split: one may come to an end
        if job.n_beams:
            if me == 0:
                follow_beams(job, step)
            wait_for_all(sync, (me, team))
        if integers(job.is_over, job.n_steps)[step]:
            break
