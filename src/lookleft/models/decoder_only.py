"""GPT and Llama style: one stack of masked blocks; every position predicts the next token.

Dimensions: B batch, T queries, S keys, D model width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookleft.config import DecoderOnlyConfig
from lookleft.data.batch import Batch, Rows, as_rows
from lookleft.masks import Side, visible
from lookleft.models.base import DecodeState, Network, continue_rows, last_of, one_token
from lookleft.nn.block import Stack, View
from lookleft.nn.cache import KVCache
from lookleft.nn.layers import Embedding, Head


class DecoderOnly(Network):
    """A language model."""

    def __init__(self, config: DecoderOnlyConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config: DecoderOnlyConfig = config
        self.embedding = Embedding(config, config.vocab_size)
        self.decoder = Stack(config, config.n_layers, is_bidirectional=False)
        self.head = Head(config)
        self.initialise(generator)

    def score(self, batch: Batch) -> Tensor:
        """Logits of every next token, in one parallel pass. -> (B, T, V)."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Tensor:
        """What the head reads at every position. -> (B, T, D)."""
        rows = batch.inputs
        self.check(rows, self.config.vocab_size)
        view = self.view(rows.side, rows.side, batch.prefix)
        out: Tensor = self.decoder(self.embedding(rows.ids), rows.pos, view)
        return out

    def view(self, queries: Side, keys: Side, prefix: Tensor | None) -> View:
        """Who sees whom, in any pass or step: only the positions differ."""
        mask = visible(
            queries,
            keys,
            is_causal=self.config.mask == "causal",
            window=self.config.window,
            prefix=prefix,
        )
        return self.decoder.view(mask, queries.pos, keys.pos)

    def prefill(self, batch: Batch, *, room: int) -> tuple[Tensor, DecodeState]:
        """Read a prompt and keep room for so many more tokens. -> logits (B, V), state."""
        rows = batch.inputs
        state = DecodeState(self.make_cache(rows, room), prefix=batch.prefix)
        last = last_of(self._read(rows, state), rows.is_token)  # (B, D)
        return self.logits(last), state

    def make_cache(self, rows: Rows, room: int) -> KVCache:
        """A cache for these rows and `room` more tokens; a ring if the model has a window."""
        config, longest = self.config, int(rows.is_token.sum(1).max())
        capacity = max(longest + room, 1)
        is_ring = config.window is not None and capacity > config.window + max(longest, 1) - 1
        if is_ring and config.window is not None:
            capacity = config.window + max(longest, 1) - 1
        return KVCache(
            n_layers=config.n_layers,
            batch=rows.shape[0],
            capacity=capacity,
            n_kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            window=config.window if is_ring else None,
            dtype=self.embedding.tokens.weight.dtype,
            device=self.device,
        )

    def extend(self, rows: Rows, state: DecodeState) -> Tensor:
        """Feed several more tokens per row through a warm cache. -> logits (B, T, V)."""
        return self.logits(self._read(rows, state))

    def _read(self, rows: Rows, state: DecodeState) -> Tensor:
        """What the head reads after these tokens went through the cache. -> (B, T, D)."""
        most = state.cache.max_chunk
        if state.cache.window is not None and int(rows.is_token.sum(1).max()) > most:
            # A ring takes only so many at once: its oldest slots must be read before reuse.
            columns = [slice(i, i + most) for i in range(0, rows.shape[1], most)]
            pieces = [as_rows(rows.ids[:, part], rows.is_token[:, part]) for part in columns]
            return torch.cat([self._read(piece, state) for piece in pieces], 1)
        cache, rows = state.cache, continue_rows(rows, state.cache)
        self.check(rows, self.config.vocab_size)
        slots = cache.place(rows.pos, rows.is_token)
        view = self.view(rows.side, cache.side, state.prefix)
        out: Tensor = self.decoder(self.embedding(rows.ids), rows.pos, view, cache=(cache, slots))
        return out

    def step(self, ids: Tensor, state: DecodeState) -> Tensor:
        """Feed one more token per row. (B,) -> logits (B, V)."""
        return self.extend(one_token(ids), state)[:, 0]
