"""The key/value cache: keys, values, and the position of each.

Generation feeds one token at a time; keys and values of earlier tokens do not change, so they
are kept. The cache knows the *position* of every entry, and masks are computed from positions:
a cached step therefore asks `masks.causal` the same question as a training pass.

Rows are independent: each has its own length, padding is never stored, and slot i of a row holds
its i-th token (modulo the capacity when the cache is a ring). One `place` per forward reserves
slots for the new tokens; then every layer writes its keys and values there.

Dimensions: B batch, T new tokens, C capacity, G key/value heads, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lookleft.errors import InputError
from lookleft.masks import Side
from lookleft.nn.attention import KV


@dataclass(frozen=True)
class Slots:
    """Where the tokens of one forward go: three parallel lists over the real tokens."""

    row: Tensor  # (N,) which row of the batch
    column: Tensor  # (N,) which of the T new tokens
    slot: Tensor  # (N,) where in the cache


class KVCache:
    """Preallocated keys and values of all layers, for a batch of rows of unequal length."""

    def __init__(
        self,
        *,
        n_layers: int,
        batch: int,
        capacity: int,
        n_kv_heads: int,
        head_dim: int,
        window: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """capacity: tokens a row can hold. With a window the cache is a ring: a row may then grow
        without end, and capacity - window + 1 is the most tokens that may come at once."""
        if capacity < 1 or batch < 1:
            raise InputError(f"a cache needs room: batch={batch}, capacity={capacity}")
        if window is not None and window > capacity:
            raise InputError(f"a ring of {capacity} slots cannot hold a window of {window}")
        shape = (batch, n_kv_heads, capacity, head_dim)  # (B, G, C, K)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layers)]
        self.pos = torch.zeros(batch, capacity, dtype=torch.long, device=device)
        self.is_token = torch.zeros(batch, capacity, dtype=torch.bool, device=device)
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)  # tokens ever stored
        self.window = window

    @property
    def batch(self) -> int:
        return self.lengths.size(0)

    @property
    def capacity(self) -> int:
        return self.pos.size(1)

    @property
    def max_chunk(self) -> int:
        """The most tokens that may come at once: a ring must not overwrite what they still see."""
        return self.capacity if self.window is None else self.capacity - self.window + 1

    @property
    def n_used(self) -> int:
        """Slots in use in the fullest row; layers look at no more than these."""
        return min(int(self.lengths.max()), self.capacity)

    @property
    def side(self) -> Side:
        """Positions and padding of the slots in use, for `masks.visible`."""
        used = self.n_used
        return Side(self.pos[:, :used], self.is_token[:, :used])

    @property
    def bytes(self) -> int:
        """Memory of the keys and values."""
        return sum(t.numel() * t.element_size() for t in (*self.keys, *self.values))

    def place(self, pos: Tensor, is_token: Tensor) -> Slots:
        """Reserve slots for new tokens at the given positions. (B, T), (B, T) -> Slots.

        Padding (is_token False) gets no slot. Positions must continue each row: they rise.
        """
        if pos.shape != is_token.shape or pos.size(0) != self.batch:
            raise InputError(
                f"positions {tuple(pos.shape)} and is_token {tuple(is_token.shape)} must both be "
                f"({self.batch}, new tokens)"
            )
        n_new = is_token.sum(1)  # (B,)
        most = int(n_new.max())
        if most > self.max_chunk:
            raise InputError(f"{most} tokens at once, but this cache takes {self.max_chunk}")
        longest = int((self.lengths + n_new).max())
        if self.window is None and longest > self.capacity:
            raise InputError(
                f"the cache is full: {longest} tokens do not fit into a capacity of {self.capacity}"
            )
        row, column = is_token.nonzero(as_tuple=True)  # (N,), (N,)
        order = self.lengths[:, None] + is_token.cumsum(1) - 1  # (B, T): how many came before
        slots = Slots(row, column, order[row, column] % self.capacity)
        self.pos[slots.row, slots.slot] = pos[row, column]
        self.is_token[slots.row, slots.slot] = True
        self.lengths = self.lengths + n_new
        return slots

    def write(self, layer: int, slots: Slots, new: KV) -> KV:
        """Store one layer's new keys and values; get all of that layer's. (B, G, T, K) -> KV."""
        index = (slots.row, slice(None), slots.slot)
        keys = new.keys[slots.row, :, slots.column]  # (N, G, K)
        values = new.values[slots.row, :, slots.column]
        if torch.is_grad_enabled() and (keys.requires_grad or self.keys[layer].requires_grad):
            # Earlier steps still need the old tensor for their gradients: write into a copy.
            self.keys[layer] = self.keys[layer].clone()
            self.values[layer] = self.values[layer].clone()
        self.keys[layer][index] = keys
        self.values[layer][index] = values
        used = self.n_used
        return KV(self.keys[layer][:, :, :used], self.values[layer][:, :, :used])

    def roll_back(self, lengths: Tensor | int) -> None:
        """Forget the newest tokens, so that each row holds `lengths` again. int or (B,)."""
        wanted = torch.as_tensor(lengths, device=self.lengths.device)
        if wanted.shape not in ((), (self.batch,)):
            raise InputError(f"{tuple(wanted.shape)} lengths to roll back {self.batch} rows")
        wanted = wanted.expand(self.batch)
        if bool((wanted > self.lengths).any()) or bool((wanted < 0).any()):
            raise InputError(
                f"cannot roll back to {wanted.tolist()}: the rows hold {self.lengths.tolist()}"
            )
        if self.window is not None:
            # A ring keeps only its newest tokens; the next query needs `window - 1` of them. What
            # an earlier roll-back forgot had overwritten older ones, so count what is there.
            oldest = self.lengths - self.is_token.sum(1)  # (B,) order of the oldest kept
            needed = (wanted - self.window + 1).clamp(min=0)
            if bool(((oldest > needed) & (needed < wanted)).any()):
                raise InputError(
                    f"cannot roll back to {wanted.tolist()}: the ring of {self.capacity} has "
                    f"overwritten tokens that a window of {self.window} still sees"
                )
        newest = self.lengths[:, None]  # order of the token in slot s: the last one = s mod C
        slot = torch.arange(self.capacity, device=wanted.device)[None]  # (1, C)
        order = newest - 1 - (newest - 1 - slot) % self.capacity  # (B, C)
        self.is_token &= order < wanted[:, None]
        self.lengths = wanted.clone()

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of old row rows[i]; the batch may shrink or grow. (N,)."""
        if rows.ndim != 1 or bool((rows < 0).any()) or bool((rows >= self.batch).any()):
            raise InputError(
                f"rows {rows.tolist()} must name rows 0..{self.batch - 1} of the cache"
            )
        used = self.n_used  # the rest is empty: copying it would cost most of the time
        self.keys = [_first_slots(keys, used, self.capacity, rows) for keys in self.keys]
        self.values = [_first_slots(values, used, self.capacity, rows) for values in self.values]
        self.pos, self.is_token = self.pos[rows], self.is_token[rows]
        self.lengths = self.lengths[rows]

    def join(self, other: KVCache) -> None:
        """Put the rows of another cache of the same model behind ours; `other` is used up."""
        capacity = max(self.capacity, other.capacity)
        for cache in (self, other):
            cache._resize(capacity)
        self.keys = [torch.cat(pair) for pair in zip(self.keys, other.keys, strict=True)]
        self.values = [torch.cat(pair) for pair in zip(self.values, other.values, strict=True)]
        self.pos = torch.cat((self.pos, other.pos))
        self.is_token = torch.cat((self.is_token, other.is_token))
        self.lengths = torch.cat((self.lengths, other.lengths))
        self.window = self.window or other.window  # short rows may have needed no ring

    def _resize(self, capacity: int) -> None:
        """Lay the rows out in so many slots, at least as many as now."""
        if capacity == self.capacity:
            return
        newest = self.lengths[:, None] - 1
        slot = torch.arange(capacity, device=newest.device)[None]  # (1, C)
        order = newest - (newest - slot) % capacity  # (B, C): which token a slot holds from now on
        old_slot = order % self.capacity
        is_there = (order >= 0) & (order > newest - self.capacity)
        self.is_token = self.is_token.gather(1, old_slot) & is_there
        self.pos = self.pos.gather(1, old_slot)
        index = old_slot[:, None, :, None]  # (B, 1, C, 1)
        self.keys = [keys.take_along_dim(index, 2) for keys in self.keys]
        self.values = [values.take_along_dim(index, 2) for values in self.values]


def _first_slots(stored: Tensor, n_slots: int, capacity: int, rows: Tensor) -> Tensor:
    """Some rows in a new tensor, of which only the first slots are filled. (N, G, C, K)."""
    moved = stored.new_zeros(rows.numel(), stored.size(1), capacity, stored.size(3))
    moved[:, :, :n_slots] = stored[:, :, :n_slots].index_select(0, rows)
    return moved
