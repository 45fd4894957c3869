"""An honest little encoder-decoder, built from the same pieces as the decoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .parts import (
    IGNORED,
    Attention,
    Block,
    Config,
    FeedForward,
    KVCache,
    Output,
    mean_loss,
    merge_heads,
    split_heads,
)


class CrossAttention(Attention):
    """Queries from the target, keys and values from the encoded source."""

    def look(self, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
        q = split_heads(self.to_q(x), self.n_heads)  # (B, H, T, K)
        k, v = (split_heads(f(memory), self.n_heads) for f in (self.to_k, self.to_v))
        return self.to_out(merge_heads(self.attend(q, k, v, allowed)))

    def forward(self, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
        return self.look(x, memory, allowed)


class TargetBlock(nn.Module):
    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(config, layer)
        self.cross_attention = CrossAttention(config, layer)
        self.feed_forward = FeedForward(config)

    def forward(
        self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any, memory: Tensor, seen: Tensor
    ) -> Tensor:
        x = x + self.attention(self.norm1(x), allowed, pos, cache)
        x = x + self.cross_attention(self.norm2(x), memory, seen)
        return x + self.feed_forward(self.norm3(x))


class Translator(nn.Module):
    """Source ids and target ids to logits; the source may be padded, the target may be cached."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        config.is_encoder_decoder = True
        width, depth = config.hidden_size, range(config.num_hidden_layers)
        self.embed = nn.Embedding(config.vocab_size, width)
        self.encoder = nn.ModuleList(
            Block(Attention(config), FeedForward(config), width) for _ in depth
        )
        self.decoder = nn.ModuleList(TargetBlock(config, layer) for layer in depth)
        self.head = nn.Linear(width, config.vocab_size)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        past_key_values: KVCache | None = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
    ) -> Output:
        is_token = torch.ones_like(input_ids, dtype=torch.bool)
        if attention_mask is not None:
            is_token = attention_mask.bool()  # (B, S)
        if decoder_input_ids is None and labels is not None:
            decoder_input_ids = self.shifted(labels)
        assert decoder_input_ids is not None
        cache = KVCache() if past_key_values is None and use_cache else past_key_values
        memory = self.encode(input_ids, is_token)
        logits = self.decode(decoder_input_ids, memory, is_token, cache)
        loss = None if labels is None else self.loss(logits, labels)
        return Output(logits, loss, cache)

    def encode(self, ids: Tensor, is_token: Tensor) -> Tensor:
        """(B, S) -> (B, S, D)."""
        pos = (is_token.cumsum(1) - 1).clamp(min=0)
        x, allowed = self.embed(ids), self.source_allowed(is_token)
        for block in self.encoder:
            x = block(x, allowed, pos)
        return x

    def source_allowed(self, is_token: Tensor) -> Tensor:
        """Everybody sees every token of the source, and itself. (B, S) -> (B, 1, S, S)."""
        own = torch.eye(is_token.size(1), dtype=torch.bool)
        return is_token[:, None, None, :] | own

    def decode(
        self, ids: Tensor, memory: Tensor, is_token: Tensor, cache: KVCache | None
    ) -> Tensor:
        """(B, T) -> (B, T, V)."""
        past = 0 if cache is None else cache.get_seq_length()
        slots = torch.arange(past + ids.size(1))
        allowed = slots[past:, None] >= slots[None, :]  # (T, past + T)
        seen = self.memory_allowed(is_token, cache)
        x, pos = self.embed(ids), slots[past:].expand(ids.size(0), -1)
        for block in self.decoder:
            x = block(x, allowed, pos, cache, memory, seen)
        return self.head(x)

    def memory_allowed(self, is_token: Tensor, cache: KVCache | None) -> Tensor:
        """Padding of the source is seen by nobody. (B, S) -> (B, 1, 1, S)."""
        return is_token[:, None, None, :]

    def shifted(self, labels: Tensor) -> Tensor:
        """What the decoder reads while it is asked for the labels: the same, one later."""
        start = torch.full_like(labels[:, :1], self.config.pad_token_id)
        return torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, 0)], 1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return mean_loss(logits, labels)  # they are aligned already

    def set_attn_implementation(self, name: str) -> None:
        self.config._attn_implementation = name
