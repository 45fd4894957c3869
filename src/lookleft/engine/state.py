"""What the engine keeps between steps: keys and values in a pool, and who reads which of them.

Every token ever read has a slot in the pool. A row of the batch is a list of slots, so that
reordering rows (beams) copies lists of numbers and moves no keys; rows that share a past share
its slots. A slot that no row names any more is free again, which is found out when none is left.

Dimensions: B rows of the batch, C tokens a row can hold, N slots, L layers, G key/value heads,
K head width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookleft.engine.lines import empty_lines
from lookleft.engine.weights import Record
from lookleft.errors import InputError

Integers = NDArray[np.int64]


class Pool:
    """Keys and values of all layers for so many tokens. (L, G, N, K) each."""

    def __init__(self, shape: tuple[int, int, int], size: int, n_bytes: int = 4) -> None:
        """shape: layers, heads, width of a head; n_bytes: of a number, 4 or 2."""
        n_layers, n_heads, head_dim = self.shape = shape
        self.n_bytes = n_bytes
        dtype = np.float32 if n_bytes == 4 else np.float16
        # Not zeroed: a slot is written before it is read.
        self.keys = empty_lines((n_layers, n_heads, size, head_dim), dtype)
        self.values = empty_lines((n_layers, n_heads, size, head_dim), dtype)
        # Asked for at every step, and slow to ask.
        self.addresses = self.keys.ctypes.data, self.values.ctypes.data

    @property
    def size(self) -> int:
        return int(self.keys.shape[2])

    def grown(self, size: int) -> Pool:
        """A larger pool with the same tokens in the same slots."""
        larger = Pool(self.shape, size, self.n_bytes)
        slots = np.arange(self.size)
        larger.copy_from(self, slots, slots)
        return larger

    def copy_from(self, other: Pool, theirs: NDArray[Any], ours: NDArray[Any]) -> None:
        """Take over tokens of another pool."""
        self.keys[:, :, ours] = other.keys[:, :, theirs]
        self.values[:, :, ours] = other.values[:, :, theirs]


class Memory:
    """Encoded sources: each a run of neighbours in a pool of what cross-attention looks at."""

    def __init__(self, pool: Pool, start: Integers, length: Integers) -> None:
        self.pool, self.start, self.length = pool, start, length
        self.n_used = pool.size

    def reorder(self, rows: Integers) -> None:
        self.start, self.length = self.start[rows], self.length[rows]

    def join(self, other: Memory) -> None:
        """Append the sources of another memory; those that no row reads any more go first."""
        if self.n_used + other.n_used > self.pool.size:
            self._compact(other.n_used)
        place = np.arange(self.n_used, self.n_used + other.n_used)
        self.pool.copy_from(other.pool, np.arange(other.n_used), place)
        self.start = np.concatenate((self.start, other.start + self.n_used))
        self.length = np.concatenate((self.length, other.length))
        self.n_used += other.n_used

    def _compact(self, n_more: int) -> None:
        """Keep what is read, in a pool with room for it twice over, and for so many more."""
        starts, which = np.unique(self.start, return_inverse=True)
        lengths = np.zeros_like(starts)
        lengths[which] = self.length
        kept = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
        old = self.pool
        self.pool = Pool(old.shape, 2 * (len(kept) + n_more), old.n_bytes)
        self.pool.copy_from(old, kept, np.arange(len(kept)))
        self.start = (np.cumsum(lengths) - lengths)[which]
        self.n_used = len(kept)


class EngineState:
    """What generation keeps between steps, with the calls of `models.base.DecodeState`."""

    def __init__(
        self,
        *,
        batch: int,
        room: int,
        shape: tuple[int, int, int],
        n_bytes: int = 4,
        window: int = 0,
        prefix: Integers | None = None,
        memory: Memory | None = None,
    ) -> None:
        """room: tokens a row will hold at first; shape: layers, key/value heads, head width;
        n_bytes: of a number among keys and values, 4 or 2."""
        self.window = window  # of keys that a row still sees; 0: all
        self.memory = memory
        self.prefix = np.zeros(batch, np.int64) if prefix is None else prefix
        self.held = np.zeros(batch, np.int64)  # tokens of each row
        self.table = np.zeros((batch, room), np.int32)  # (B, C)
        kept = min(room, 2 * window) if window else room
        self.pool = Pool(shape, max(batch * kept, 1), n_bytes)
        self._free = spread(np.arange(self.pool.size, dtype=np.int32), batch)
        self._n_taken = 0  # of the free ones
        self.oldest = np.zeros(batch, np.int64)  # position of each row from which slots are kept

    @property
    def batch(self) -> int:
        return len(self.held)

    @property
    def lengths(self) -> Tensor:
        """Tokens that each row has read. (B,)."""
        return torch.from_numpy(self.held.copy())

    def place(self, sequence: Integers, position: Integers, n_each: int = 1) -> None:
        """Slots for new tokens: which row each belongs to, and its position there.

        n_each: with more than one, also for those that will follow each, step by step.
        """
        n_new = len(sequence)
        if n_each > 1:
            position = (np.arange(n_each)[:, None] + position).reshape(-1)
            sequence = np.tile(sequence, n_each)
        longest = int(position.max()) + 1
        if longest > self.table.shape[1]:
            wider = np.zeros((self.batch, max(longest, 2 * self.table.shape[1])), np.int32)
            wider[:, : self.table.shape[1]] = self.table
            self.table = wider
        taken = self._take(len(sequence)).reshape(n_each, n_new)
        self.table[sequence, position] = np.sort(taken, axis=1).reshape(-1)
        self.held[sequence] = position + 1  # of a row that comes several times, the last stays

    def give_back(self, n_steps: int) -> None:
        """Every row lets go of its newest tokens: they were placed last and never read."""
        self.held -= n_steps
        self._n_taken -= n_steps * self.batch

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes old row rows[i]; the batch may shrink or grow. Nothing is moved. (N,)."""
        order = rows.numpy()
        if order.ndim != 1 or len(order) == 0 or order.min() < 0 or order.max() >= self.batch:
            raise InputError(f"rows {rows.tolist()} must name rows 0..{self.batch - 1}")
        self.table, self.held, self.prefix = self.table[order], self.held[order], self.prefix[order]
        self.oldest = self.oldest[order]
        if self.memory is not None:
            self.memory.reorder(order)

    def roll_back(self, lengths: Tensor | int) -> None:
        """Forget the newest tokens, so that each row holds `lengths` again. int or (B,)."""
        wanted = np.broadcast_to(torch.as_tensor(lengths).numpy(), (self.batch,))
        if (wanted > self.held).any() or (wanted < 0).any():
            raise InputError(
                f"cannot roll back to {wanted.tolist()}: the rows hold {self.held.tolist()}"
            )
        if self.window and (np.maximum(wanted + 1 - self.window, 0) < self.oldest).any():
            raise InputError(
                f"cannot roll back to {wanted.tolist()}: with a window of {self.window} older "
                f"tokens are gone"
            )
        self.held = wanted.astype(np.int64)

    def join(self, other: EngineState) -> None:
        """Append the rows of another state of the same runner, which is not used again."""
        if (self.memory is None) != (other.memory is None):
            raise InputError("only states of the same runner can be joined")
        theirs, is_seen = other._seen()
        slots, which = np.unique(theirs[is_seen], return_inverse=True)
        ours = self._take(len(slots))
        self.pool.copy_from(other.pool, slots, ours)
        first, width = self.batch, max(self.table.shape[1], other.table.shape[1])
        table = np.zeros((first + other.batch, width), np.int32)
        table[:first, : self.table.shape[1]] = self.table
        table[first:, : theirs.shape[1]][is_seen] = ours[which]
        self.table = table
        self.held = np.concatenate((self.held, other.held))
        self.prefix = np.concatenate((self.prefix, other.prefix))
        self.oldest = np.concatenate((self.oldest, other._first_kept()))
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)

    def fill(self, job: Record) -> None:
        """Write into a job where everything lies."""
        job["table"], job["table_width"] = self.table.ctypes.data, self.table.shape[1]
        job["keys"], job["values"] = self.pool.addresses
        job["pool_size"] = self.pool.size
        job["lengths"], job["prefix"] = self.held.ctypes.data, self.prefix.ctypes.data
        if self.memory is not None:
            memory = self.memory
            job["memory_start"] = memory.start.ctypes.data
            job["memory_length"] = memory.length.ctypes.data
            job["memory_keys"], job["memory_values"] = memory.pool.addresses
            job["memory_size"] = memory.pool.size

    def _seen(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """The table, and which of its entries some row can still see. (B, C) each."""
        column = np.arange(self.table.shape[1])[None]
        is_seen = (column < self.held[:, None]) & (column >= self._first_kept()[:, None])
        return self.table, is_seen

    def _first_kept(self) -> Integers:
        """The position of each row from which it may still need what it has read. (B,)."""
        if not self.window:
            return np.zeros(self.batch, np.int64)
        # Twice: a row may be rolled back by up to a window and then still sees one.
        return np.maximum(self.held - 2 * self.window, self.oldest)

    def _take(self, n: int) -> NDArray[np.int32]:
        """So many free slots; collected from what no row names, or from a larger pool."""
        if self._n_taken + n > len(self._free):
            table, is_seen = self._seen()
            self.oldest = self._first_kept()
            is_used = np.zeros(self.pool.size, np.bool_)
            is_used[table[is_seen]] = True
            free = np.flatnonzero(~is_used).astype(np.int32)
            if len(free) < n:
                old = self.pool.size
                self.pool = self.pool.grown(max(2 * old, old + n))
                free = np.concatenate((free, np.arange(old, self.pool.size, dtype=np.int32)))
            self._free, self._n_taken = spread(free, self.batch), 0
        taken = self._free[self._n_taken : self._n_taken + n]
        self._n_taken += n
        return taken


def spread(slots: NDArray[np.int32], n_rows: int) -> NDArray[np.int32]:
    """The slots in an order in which rows that take one each, step by step, get neighbours.

    What a row reads again at every step then lies together.
    """
    n_each = len(slots) // max(n_rows, 1)
    n_shared = n_rows * n_each
    by_step = slots[:n_shared].reshape(n_rows, n_each).T.reshape(-1)
    return np.concatenate((by_step, slots[n_shared:]))
