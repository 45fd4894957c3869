"""An honest little decoder, cut into pieces that a mutant can replace one at a time.

It is written for being broken, not for speed, and shares nothing with the package: a mutant of
the package's own masks would hide the same mistakes the package makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

IGNORED = -100  # a label that counts for nothing


@dataclass
class Config:
    """Sizes and switches; the names are those that model auditors already look for."""

    vocab_size: int = 64
    hidden_size: int = 16
    num_attention_heads: int = 2
    num_hidden_layers: int = 2
    max_position_embeddings: int = 192
    pad_token_id: int = 0
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    prefix_length: int = 0  # so many first tokens see each other both ways
    is_decoder: bool = True
    is_encoder_decoder: bool = False
    use_cache: bool = False
    positions: str = "rotary"  # or "learned"
    attention_dropout: float = 0.0
    _attn_implementation: str = "sdpa"  # or "eager"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Output:
    """What a forward returns; the fields that were not asked for stay empty."""

    logits: Tensor
    loss: Tensor | None = None
    past_key_values: Any = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass(frozen=True)
class View:
    """Everything that decides who may look at whom. S keys: those in the cache, then T new ones."""

    q_slot: Tensor  # (T,) place of each query in the row, padding counted
    k_slot: Tensor  # (S,)
    is_token: Tensor  # (B, S) False: padding
    document: Tensor | None  # (B, S) which packed document; None on a warm cache
    mask_given: bool  # the caller passed an attention_mask
    cached: bool  # a cache is attached, empty or not
    past: int  # keys already in it
    padded: bool  # some key is padding


class Store:
    """Keys and values of every layer, (B, H, S, K) each."""

    def __init__(self) -> None:
        self.layers: list[tuple[Tensor, Tensor]] = []

    def get_seq_length(self, layer: int = 0) -> int:
        return self.layers[layer][0].size(2) if len(self.layers) > layer else 0

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Append, then return all keys and values of that layer."""
        if len(self.layers) == layer:
            self.layers.append((keys, values))
        else:
            old_keys, old_values = self.layers[layer]
            joined = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
            self.layers[layer] = joined
        return self.layers[layer]

    def reorder_cache(self, rows: Tensor) -> None:
        self.layers = [(k[rows], v[rows]) for k, v in self.layers]


class KVCache(Store):
    """A store that can also be rolled back."""

    def crop(self, length: int) -> None:
        self.layers = [(k[:, :, :length], v[:, :, :length]) for k, v in self.layers]


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, T, D) -> (B, H, T, K)


def merge_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, H, T, K) -> (B, T, D)


def turn(x: Tensor, pos: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Rotary positions. (B, H, T, K), (B, T) -> (B, H, T, K); angles in at least float32."""
    dtype = dtype or torch.promote_types(x.dtype, torch.float32)
    half = x.size(-1) // 2
    rates = 100.0 ** (-torch.arange(half, dtype=dtype) / half)  # (K/2,)
    angles = pos[:, None, :, None].to(dtype) * rates  # (B, 1, T, K/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


def attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Attention in plain sight; hidden keys get a weight of exactly zero."""
    scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~allowed, -math.inf)
    return scores.softmax(-1) @ v  # every query sees itself, so no row is empty


def weigh(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    """Attention with whatever is added to the scores, and no mask of its own."""
    return (q @ k.mT / math.sqrt(q.size(-1)) + bias).softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, config: Config, layer: int = 0) -> None:
        super().__init__()
        self.config, self.layer, self.n_heads = config, layer, config.num_attention_heads
        width = config.hidden_size
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.to_out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, allowed: Any, pos: Tensor, cache: Any = None) -> Tensor:
        q, k = split_heads(self.to_q(x), self.n_heads), split_heads(self.to_k(x), self.n_heads)
        v = split_heads(self.to_v(x), self.n_heads)  # (B, H, T, K)
        if self.config.positions == "rotary":
            q, k = self.turn(q, pos), self.turn(k, pos)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)  # (B, H, S, K)
        return self.to_out(merge_heads(self.attend(q, k, v, allowed)))

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        return turn(x, pos)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Any) -> Tensor:
        if self.config._attn_implementation == "eager":
            return attend(q, k, v, allowed)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


class FeedForward(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, 24)
        self.down = nn.Linear(24, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, attention: nn.Module, feed_forward: nn.Module, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = attention, feed_forward

    def forward(self, x: Tensor, allowed: Any, pos: Tensor, cache: Any = None) -> Tensor:
        x = x + self.attention(self.norm1(x), allowed, pos, cache)
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """Tokens to logits, with padding, packing, a cache, two backends, labels and greedy text."""

    attention: type[nn.Module] = Attention
    feed_forward: type[nn.Module] = FeedForward
    cache: type = KVCache

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.positions == "learned":
            self.place = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.blocks = nn.ModuleList(self.block(i) for i in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size)

    def block(self, layer: int) -> Block:
        config = self.config
        return Block(self.attention(config, layer), self.feed_forward(config), config.hidden_size)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
    ) -> Output:
        cache = past_key_values
        if cache is None and (self.config.use_cache if use_cache is None else use_cache):
            cache = self.cache()
        past = 0 if cache is None else self.past_length(cache)
        rows, n_keys = input_ids.size(0), past + input_ids.size(1)
        is_token = torch.ones(rows, n_keys, dtype=torch.bool)
        if attention_mask is not None:
            is_token = attention_mask.bool()  # (B, S)
        if position_ids is None:
            position_ids = self.positions(is_token, past)  # (B, T)
        slots = torch.arange(n_keys)
        view = View(
            q_slot=slots[past:],
            k_slot=slots,
            is_token=is_token,
            document=self.documents(position_ids, is_token) if past == 0 else None,
            mask_given=attention_mask is not None,
            cached=cache is not None,
            past=past,
            padded=not bool(is_token.all()),
        )
        x = self.embedded(input_ids, position_ids, past)  # (B, T, D)
        x = self.run_blocks(x, self.allowed(view), position_ids, cache)
        logits = self.head(self.norm(x))  # (B, T, V)
        loss = None if labels is None else self.loss(logits, labels, view)
        return Output(logits, loss, cache)

    def embedded(self, ids: Tensor, pos: Tensor, past: int) -> Tensor:
        x = self.embed(ids)
        return x + self.place(pos) if self.config.positions == "learned" else x

    def run_blocks(self, x: Tensor, allowed: Any, pos: Tensor, cache: Any) -> Tensor:
        for block in self.blocks:
            x = block(x, allowed, pos, cache)
        return x

    def past_length(self, cache: Any) -> int:
        return cache.get_seq_length()

    def positions(self, is_token: Tensor, past: int) -> Tensor:
        """Count tokens, not padding. (B, S) -> (B, T)."""
        return (is_token.long().cumsum(1) - 1).clamp(min=0)[:, past:]

    def documents(self, pos: Tensor, is_token: Tensor) -> Tensor | None:
        """A new document starts where positions start again. (B, S) -> (B, S)."""
        return ((pos == 0) & is_token).cumsum(1)

    def allowed(self, view: View) -> Any:
        """True where query t may attend to key s: (B, 1, T, S). Everybody sees itself."""
        gap = view.q_slot[:, None] - view.k_slot[None, :]  # (T, S)
        allowed = self.in_time(gap, view) & view.is_token[:, None, :]  # (B, T, S)
        if view.document is not None:
            allowed = allowed & (view.document[:, :, None] == view.document[:, None, :])
        return (allowed | (gap == 0))[:, None]

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        """The part of the mask that knows only of time. (T, S) -> something like (B, T, S)."""
        seen = gap >= 0
        if self.config.sliding_window is not None:
            seen = seen & (gap < self.config.sliding_window)
        return seen | self.in_prefix(view)

    def in_prefix(self, view: View) -> Tensor:
        return view.is_token.cumsum(1)[:, None] <= self.config.prefix_length  # (B, 1, S)

    def loss(self, logits: Tensor, labels: Tensor, view: View) -> Tensor:
        """Mean loss of the labels that count; the logits at t answer the label at t + 1."""
        targets = labels[:, 1:]
        if view.document is not None:  # the first token of a document is not foreseen by the last
            crossing = view.document[:, 1:] != view.document[:, :-1]
            targets = targets.masked_fill(crossing, IGNORED)
        return mean_loss(logits[:, :-1], targets)

    def set_attn_implementation(self, name: str) -> None:
        self.config._attn_implementation = name

    @torch.no_grad()
    def continued(self, ids: Tensor, n: int) -> Tensor:
        """The prompt and `n` greedy tokens after it, by the cache. (B, T) -> (B, T + n)."""
        cache, new = self.cache(), ids
        for _ in range(n):
            logits = self(new, past_key_values=cache).logits  # (B, T, V)
            new = logits[:, -1:].argmax(-1)  # (B, 1)
            ids = torch.cat([ids, new], 1)
        return ids


class Unpacked(Decoder):
    """Knows padding and a cache; its positions cannot be set, so documents cannot be packed."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
    ) -> Output:
        return super().forward(input_ids, attention_mask, None, past_key_values, use_cache)


class Unpadded(Decoder):
    """Knows a cache and nothing else."""

    def forward(
        self, input_ids: Tensor, past_key_values: Any = None, use_cache: bool | None = None
    ) -> Output:
        return super().forward(input_ids, None, None, past_key_values, use_cache)


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy over the targets that count; no such target gives zero, not NaN."""
    total = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return total / (targets != IGNORED).sum().clamp(min=1)


def make(kind: type[nn.Module], *, dtype: torch.dtype = torch.float32, **config: Any) -> nn.Module:
    """A model with reproducible weights that leaves the global random state alone."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(Config(**config)).to(dtype).eval()


def pair(
    mutant: type[nn.Module], twin: type[nn.Module] = Decoder, **config: Any
) -> dict[str, Callable[[], nn.Module]]:
    """Builders of a broken and an honest model with the same settings, for an exhibit."""
    return {"mutant": partial(make, mutant, **config), "twin": partial(make, twin, **config)}
