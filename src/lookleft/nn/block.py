"""The residual block: self-attention, cross-attention if there is a source, feed-forward.

Dimensions: B batch, T positions, S source positions, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import Tensor, nn

from lookleft.config import ModelConfig, Relative, Rotary
from lookleft.masks import Mask
from lookleft.nn.as_made import (
    does_anyone_listen_to_all,
    is_as_made,
    is_attention_as_made,
    is_feed_as_made,
    is_norm_as_made,
)
from lookleft.nn.attention import KV, Attention, Bias, Turn, merge_heads, unturned
from lookleft.nn.branch import bend, enter, leave
from lookleft.nn.cache import KVCache, Slots
from lookleft.nn.fused import are_kernels_wanted, is_fusable
from lookleft.nn.heads import Part, make_heads
from lookleft.nn.layers import Dropout, FeedForward, RMSNorm, make_norm
from lookleft.nn.positions import RelativeBias, RotaryPositions, Rotation, added_positions


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
        self.is_pre, self.has_cross = config.norm_order == "pre", has_cross
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
        way = self.forward_fused if self.can_fuse(x, view) else self.forward_plain
        return way(x, view, remember, source)

    def forward_plain(
        self, x: Tensor, view: View, remember: Remember, source: Source | None = None
    ) -> Tensor:
        """The block in the words of its modules."""

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
            out: Tensor = x + self.dropout(part(norm(x)))
            return out
        normed: Tensor = norm(x + self.dropout(part(x)))
        return normed

    def forward_fused(
        self, x: Tensor, view: View, remember: Remember, source: Source | None = None
    ) -> Tensor:
        """The same in few passes over memory, to train on a CPU: see branch.py."""
        shape, layer = x.shape, self.self_attention
        linears = [layer.to_q, layer.to_k, layer.to_v]
        x, rows = enter(x, self.self_norm if self.is_pre else None, linears)
        q, keys, values = make_heads(rows, shape, parts_of(layer, view.turn), linears)
        seen = layer.look(q, remember(KV(keys, values)), view.mask, view.bias)
        x = self.finish(x, merge_heads(seen), layer.to_out, self.self_norm)
        if source is not None:
            layer = self.cross_attention
            x, rows = enter(x, self.cross_norm if self.is_pre else None, [layer.to_q])
            (q,) = make_heads(rows, shape, parts_of(layer)[:1], [layer.to_q])
            seen = layer.look(q, source.kv, source.mask)
            x = self.finish(x, merge_heads(seen), layer.to_out, self.cross_norm)
        feed = self.feed_forward
        x, rows = enter(x, self.feed_norm if self.is_pre else None, feed.ways_in)
        return self.finish(x, bend(rows, feed), feed.to_out, self.feed_norm)

    def finish(self, x: Tensor, rows: Tensor, linear: nn.Linear, norm: nn.Module) -> Tensor:
        """x plus what a branch made, through its norm if that comes after. (B, T, D), same."""
        x = leave(x, rows, linear, self.dropout)
        return x if self.is_pre else norm(x)

    def can_fuse(self, x: Tensor, view: View) -> bool:
        """Whether kernels may do the modules' work: the block is as it was made."""
        if not (may_fuse(self, x) and x.ndim == 3 and is_known(view.turn)):
            return False
        if type(self) is not Block or self.__dict__.keys() & vars(Block).keys():
            return False
        norms, is_cross_as_made = [self.self_norm, self.feed_norm], True
        if self.has_cross:  # keys and values of the source are made elsewhere
            norms.append(self.cross_norm)
            is_cross_as_made = is_attention_as_made(self.cross_attention, ("to_q", "to_out"))
        return (
            is_cross_as_made
            and is_attention_as_made(self.self_attention, ("to_q", "to_k", "to_v", "to_out"))
            and is_feed_as_made(self.feed_forward)
            and is_as_made(self.dropout, Dropout)
            and all(is_norm_as_made(norm) for norm in norms)
        )


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
        made = []
        for layer in self.layers:
            attention = cast(Block, layer).cross_attention
            if may_fuse(layer, encoded) and is_attention_as_made(attention, ("to_k", "to_v")):
                linears = [attention.to_k, attention.to_v]
                encoded, rows = enter(encoded, None, linears)
                parts = parts_of(attention)[1:]
                made.append(KV(*make_heads(rows, encoded.shape, parts, linears)))
            else:
                made.append(attention.keys_values(encoded))
        return made


def may_fuse(module: nn.Module, x: Tensor) -> bool:
    """Whether kernels may work on x in this module, if its parts are as they were made."""
    return are_kernels_wanted(module.training) and is_fusable(x) and not does_anyone_listen_to_all()


def parts_of(layer: Attention, turn: Turn = unturned) -> list[Part]:
    """What becomes of queries, keys and values after their products."""
    tables = turn.tables if isinstance(turn, Rotation) else None
    return [
        Part(layer.n_heads, layer.norm_q, tables),
        Part(layer.n_kv_heads, layer.norm_k, tables),
        Part(layer.n_kv_heads),
    ]


def is_known(turn: Turn) -> bool:
    """Whether kernels know what this does to heads."""
    return turn is unturned or isinstance(turn, Rotation)


def keep(kv: KV) -> KV:
    """Without a cache the new keys and values are all there are."""
    return kv
