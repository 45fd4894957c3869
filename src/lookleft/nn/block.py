"""The residual block: self-attention, cross-attention if there is a source, feed-forward.

Dimensions: B batch, T positions, S source positions, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from lookleft.config import ModelConfig, Relative, Rotary
from lookleft.masks import Mask
from lookleft.nn.attention import KV, Attention, Bias, Turn, unturned
from lookleft.nn.cache import KVCache, Slots
from lookleft.nn.layers import Dropout, FeedForward, RMSNorm, make_norm
from lookleft.nn.positions import RelativeBias, RotaryPositions, added_positions


@dataclass(frozen=True)
class View:
    """How the positions of one forward see others: made once, the same for every layer."""

    mask: Mask
    turn: Turn = unturned
    bias: Bias | None = None


@dataclass(frozen=True)
class Source:
    """What cross-attention looks at in one layer, and who may see what of it."""

    kv: KV
    mask: Mask


Remember = Callable[[KV], KV]  # adds new keys and values to a cache and gives all of them


class Block(nn.Module):
    """One layer. Each part reads x, and what it finds is added to x (the residual)."""

    def __init__(self, config: ModelConfig, has_cross: bool = False) -> None:
        super().__init__()
        make_attention = partial(
            Attention,
            config.d_model,
            config.n_heads,
            config.kv_heads,
            config.head_dim,
            qkv_bias=config.qkv_bias,
            out_bias=config.out_bias,
            scale=config.attention_scale,
            dropout=config.attention_dropout,
        )
        qk_norm = partial(RMSNorm, eps=config.norm_eps) if config.qk_norm else None
        self.is_pre = config.norm_order == "pre"
        self.self_attention = make_attention(qk_norm=qk_norm)
        self.self_norm = make_norm(config)
        if has_cross:
            self.cross_attention = make_attention()
            self.cross_norm = make_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, view: View, remember: Remember, source: Source | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D)."""

        def look_around(h: Tensor) -> Tensor:
            kv = remember(self.self_attention.keys_values(h, view.turn))
            out: Tensor = self.self_attention(h, kv, view.mask, view.turn, view.bias)
            return out

        x = self.residual(x, self.self_norm, look_around)
        if source is not None:
            look_at_source = partial(self.cross_attention, kv=source.kv, mask=source.mask)
            x = self.residual(x, self.cross_norm, look_at_source)
        return self.residual(x, self.feed_norm, self.feed_forward)

    def residual(self, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        """x + part(norm(x)) before (pre) or norm(x + part(x)) after, as in the paper (post)."""
        if self.is_pre:
            return self.dropout.added(x, part(norm(x)))
        normed: Tensor = norm(self.dropout.added(x, part(x)))
        return normed


class Stack(nn.Module):
    """Layers one after another, and all that positions do to them: the two cannot be separated."""

    def __init__(
        self, config: ModelConfig, n_layers: int, *, is_bidirectional: bool, has_cross: bool = False
    ) -> None:
        super().__init__()
        positions = config.positions
        self.positions = added_positions(positions, config.d_model)
        self.embed_norm = make_norm(config) if config.embed_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Block(config, has_cross) for _ in range(n_layers))
        self.norm = make_norm(config) if config.final_norm else nn.Identity()
        self.rotary = (
            RotaryPositions(positions, config.head_dim) if isinstance(positions, Rotary) else None
        )
        self.relative = (
            RelativeBias(positions, config.n_heads, is_bidirectional)
            if isinstance(positions, Relative)
            else None
        )

    def view(self, mask: Mask, q_pos: Tensor, k_pos: Tensor) -> View:
        """The mask together with what positions do to queries, keys and scores."""
        return View(
            mask=mask,
            turn=unturned if self.rotary is None else self.rotary.turn(q_pos),
            bias=None if self.relative is None else self.relative.between(q_pos, k_pos),
        )

    def forward(
        self,
        x: Tensor,
        pos: Tensor,
        view: View,
        cache: tuple[KVCache, Slots] | None = None,
        memory: tuple[list[KV], Mask] | None = None,
    ) -> Tensor:
        """Embedded tokens at these positions, through all layers. (B, T, D) -> (B, T, D)."""
        if self.positions is not None:
            x = x + self.positions(pos, x.dtype)
        x = self.dropout(self.embed_norm(x))
        for i, layer in enumerate(self.layers):
            remember = keep if cache is None else partial(cache[0].write, i, cache[1])
            source = None if memory is None else Source(memory[0][i], memory[1])
            x = layer(x, view, remember, source)
        out: Tensor = self.norm(x)
        return out

    def source_keys_values(self, encoded: Tensor) -> list[KV]:
        """What each layer can look at in an encoded source: computed once. (B, S, D) -> KVs."""
        return [
            layer.cross_attention.keys_values(encoded)
            for layer in self.layers
            if isinstance(layer, Block)
        ]


def keep(kv: KV) -> KV:
    """Without a cache the new keys and values are all there are."""
    return kv
