"""Translation: an encoder that sees all of the source, a decoder that sees only its own past.

The paper's order (Vaswani et al. 2017, 3.1): masked self-attention, cross-attention to the
encoded source, feed-forward. Dimensions: B batch, T target, S source, D width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, Rows
from lookleft.errors import InputError
from lookleft.masks import Side, visible
from lookleft.models.base import (
    DecodeState,
    Memory,
    Network,
    continue_rows,
    last_of,
    one_token,
)
from lookleft.nn.block import Stack, View
from lookleft.nn.cache import KVCache
from lookleft.nn.layers import Embedding, Head


class EncoderDecoder(Network):
    """A translator."""

    def __init__(
        self, config: EncoderDecoderConfig, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.config: EncoderDecoderConfig = config
        self.embedding = Embedding(config, config.vocab_size)
        self.source_embedding = (
            Embedding(config, config.source_vocab_size) if config.source_vocab_size else None
        )
        self.encoder = Stack(config, config.n_encoder_layers, is_bidirectional=True)
        self.decoder = Stack(
            config, config.n_decoder_layers, is_bidirectional=False, has_cross=True
        )
        self.head = Head(config)
        self.initialise(generator)

    def score(self, batch: Batch) -> Tensor:
        """Logits of every target token, in one parallel pass. -> (B, T, V)."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Tensor:
        """What the head reads at every target position. -> (B, T, D)."""
        rows, source = batch.inputs, _source_of(batch)
        self.check(rows, self.config.vocab_size)
        kvs = self.decoder.source_keys_values(self.encode(source))
        out: Tensor = self.decoder(
            self.embedding(rows.ids),
            rows.pos,
            self.view(rows.side, rows.side),
            memory=(kvs, visible(rows.side, source.side, is_causal=False)),
        )
        return out

    def encode(self, source: Rows) -> Tensor:
        """The source, each position having seen all of it. -> (B, S, D)."""
        embedding = self.source_embedding or self.embedding
        self.check(source, embedding.tokens.num_embeddings)
        mask = visible(source.side, source.side, is_causal=False)
        view = self.encoder.view(mask, source.pos, source.pos)
        out: Tensor = self.encoder(embedding(source.ids), source.pos, view)
        return out

    def view(self, queries: Side, keys: Side) -> View:
        """Who sees whom among the target, in any pass or step: only the positions differ."""
        mask = visible(queries, keys, is_causal=self.config.mask == "causal")
        return self.decoder.view(mask, queries.pos, keys.pos)

    def prefill(self, batch: Batch, *, room: int) -> tuple[Tensor, DecodeState]:
        """Encode the source and read what is given of the target, at least the start token.

        -> logits (B, V) of the next token, state with room for so many more tokens.
        """
        rows, source, config = batch.inputs, _source_of(batch), self.config
        encoded = self.encode(source)
        cache = KVCache(
            n_layers=config.n_decoder_layers,
            batch=rows.shape[0],
            capacity=max(int(rows.is_token.sum(1).max()) + room, 1),
            n_kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            dtype=encoded.dtype,
            device=encoded.device,
        )
        memory = Memory(self.decoder.source_keys_values(encoded), source.side)
        state = DecodeState(cache, memory)
        last = last_of(self._read(rows, state), rows.is_token)  # (B, D)
        return self.logits(last), state

    def extend(self, rows: Rows, state: DecodeState) -> Tensor:
        """Feed several more target tokens through a warm cache. -> logits (B, T, V)."""
        return self.logits(self._read(rows, state))

    def _read(self, rows: Rows, state: DecodeState) -> Tensor:
        """What the head reads after these tokens went through the cache. -> (B, T, D)."""
        if state.memory is None:
            raise InputError("this state has no encoded source: start it with prefill")
        cache, rows = state.cache, continue_rows(rows, state.cache)
        self.check(rows, self.config.vocab_size)
        slots = cache.place(rows.pos, rows.is_token)
        out: Tensor = self.decoder(
            self.embedding(rows.ids),
            rows.pos,
            self.view(rows.side, cache.side),
            cache=(cache, slots),
            memory=(state.memory.kvs, visible(rows.side, state.memory.side, is_causal=False)),
        )
        return out

    def step(self, ids: Tensor, state: DecodeState) -> Tensor:
        """Feed one more target token per row. (B,) -> logits (B, V)."""
        return self.extend(one_token(ids), state)[:, 0]


def _source_of(batch: Batch) -> Rows:
    if batch.source is None:
        raise InputError("an encoder-decoder needs a source: Batch(inputs=..., source=...)")
    if batch.source.shape[0] != batch.inputs.shape[0]:
        raise InputError(
            f"{batch.source.shape[0]} source rows but {batch.inputs.shape[0]} target rows"
        )
    return batch.source
