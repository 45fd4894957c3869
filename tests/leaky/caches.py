"""Caches that disagree with the full forward: misaligned masks, lost or stale entries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .exhibit import Exhibit, github
from .parts import (
    Attention,
    Config,
    Decoder,
    KVCache,
    Output,
    View,
    merge_heads,
    pair,
    split_heads,
)
from .recurrent import OneStepWhenWarm, Recurrent, Retention, RetentionForms, ShortPrompt


class TopLeft(Decoder):
    """Draws the triangle from the shape alone: (T, S) filled from its upper left corner."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        return torch.ones_like(gap, dtype=torch.bool).tril()


class MasklessWhenWarm(Decoder):
    def in_time(self, gap: Tensor, view: View) -> Tensor:
        if view.past > 0:  # true for one new token, false for several
            return torch.ones_like(gap, dtype=torch.bool)
        return super().in_time(gap, view)


class FlagLeftOn(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        if q.size(2) == 1 and k.size(2) > 1:  # fine in the prompt; now it shows the first key only
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return super().attend(q, k, v, allowed)


class CausalWhileStepping(Decoder):
    attention = FlagLeftOn


class Unused(KVCache):
    """Is filled, is handed on, and is never read."""

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        super().update(keys, values, layer)
        return keys, values


class CacheNeverUsed(Decoder):
    """The new tokens see only each other; their positions are right."""

    cache = Unused

    def allowed(self, view: View) -> Tensor:
        return super().allowed(view)[..., view.past :]


class Borrowing(Attention):
    """The second layer has no keys of its own: it borrows those of the first."""

    def forward(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any = None) -> Tensor:
        if self.layer == 0:
            return super().forward(x, allowed, pos, cache)
        k, v = self.borrowed(x, pos, cache)
        q = self.turn(split_heads(self.to_q(x), self.n_heads), pos)
        return self.to_out(merge_heads(self.attend(q, k, v, allowed)))

    def borrowed(self, x: Tensor, pos: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
        return cache.layers[0]


class Sharing(Decoder):
    """Makes a cache for itself when it was given none, so that there is one to borrow from."""

    attention = Borrowing

    def run_blocks(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any) -> Tensor:
        return super().run_blocks(x, allowed, pos, KVCache() if cache is None else cache)


class BorrowingIfCached(Borrowing):
    def borrowed(self, x: Tensor, pos: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
        if cache is not None:
            return super().borrowed(x, pos, cache)
        k, v = split_heads(self.to_k(x), self.n_heads), split_heads(self.to_v(x), self.n_heads)
        return self.turn(k, pos), v  # projections that were never trained


class WrongWithoutCache(Decoder):
    attention = BorrowingIfCached


class Unsorted(KVCache):
    def reorder_cache(self, rows: Tensor) -> None:
        """Beams changed places; the cache has not heard of it."""


class BeamsNotReordered(Decoder):
    cache = Unsorted


class Shifted(Decoder):
    """Moves all positions of a row by something its first token says, as an image would."""

    def forward(self, input_ids: Tensor) -> Output:
        pos = torch.arange(input_ids.size(1)) + self.shift(input_ids)
        return super().forward(input_ids, position_ids=pos)

    def shift(self, ids: Tensor) -> Tensor:
        return ids[:, :1] % 5 + 1  # (B, 1)


class StaleShift(Shifted):
    """Works the shift out once, and keeps it for the next input."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.kept: Tensor | None = None

    def shift(self, ids: Tensor) -> Tensor:
        if self.kept is None:
            self.kept = super().shift(ids)
        return self.kept if self.kept.size(0) == ids.size(0) else self.kept[:1]


FIRST = "blocks.0.attention"

EXHIBITS = (
    Exhibit(
        "triangle aligned top left",
        **pair(TopLeft),
        module=FIRST,
        threads=github(
            "pytorch/pytorch/issues/108108",
            "lucidrains/x-transformers/issues/187",
            "Dao-AILab/flash-attention/issues/282",
        ),
        check="K3",
        story="With more keys than queries a triangle can be put into either corner. Several "
        "kernels chose the upper left, where the first new token sees the first key only.",
        symptom="Exact without a cache, nonsense with one.",
    ),
    Exhibit(
        "no mask on a warm cache",
        **pair(MasklessWhenWarm),
        module=FIRST,
        threads=github("QwenLM/Qwen/issues/979", "huggingface/transformers/pull/30311"),
        check="K3",
        story="One new token may see everything in the cache, so no mask was drawn once the cache "
        "was warm. Speculative decoding sends several new tokens, and they saw each other.",
        symptom="Token by token is right, several at once are not.",
    ),
    Exhibit(
        "causal flag left on while stepping",
        **pair(CausalWhileStepping),
        module=FIRST,
        threads=github("EleutherAI/gpt-neox/pull/1178"),
        check="K3",
        story="GPT-NeoX called its fused attention with causal=True in every step. For one query "
        "and many keys the kernel's triangle has one cell.",
        symptom="Generation ignores the prompt except for its first token.",
    ),
    Exhibit(
        "cache that is never read",
        **pair(CacheNeverUsed),
        module=FIRST,
        threads=github("huggingface/transformers/issues/42188"),
        check="K3",
        story="The cache is filled, handed on, and not consulted: a new token sees nothing before "
        "the call it arrives in.",
        symptom="Generation is fast, and has no memory.",
    ),
    Exhibit(
        "wrong without a cache",
        **pair(WrongWithoutCache, Sharing),
        module="blocks.1.attention",
        threads=github("ml-explore/mlx-lm/pull/323", "ml-explore/mlx-lm/issues/322"),
        check="K3",
        story="Late layers of Gemma 3n take keys and values from an earlier one, by way of the "
        "cache. Called without a cache they found nothing there and gave completely "
        "different outputs.",
        symptom="Chat works; scoring the same text without a cache gives absurd probabilities.",
    ),
    Exhibit(
        "beams not reordered",
        **pair(BeamsNotReordered),
        module="",
        threads=github("huggingface/transformers/issues/46612", "wenet-e2e/wenet/issues/1625"),
        check="K3",
        story="In beam search the survivors change places after every step, and the cache must "
        "follow. For caches with other names or in other places it did not.",
        symptom="Beam search is worse than greedy search.",
    ),
    Exhibit(
        "recurrent form differs from parallel form",
        **pair(RetentionForms, Retention),
        module="",
        threads=github("syncdoth/RetNet/issues/7", "huggingface/transformers/issues/46190"),
        check="K3",
        story="Retention and its relatives are trained in parallel and run step by step. The two "
        "formulas must agree to the last factor; in several implementations they did not.",
        symptom="Excellent training loss, weak generation.",
        audit_options=lambda model: {"step": model.step},
    ),
    Exhibit(
        "state kept from the previous input",
        **pair(StaleShift, Shifted, positions="learned"),
        module="",
        threads=github("huggingface/transformers/pull/36013"),
        check="K0",
        story="Qwen2-VL stores on the model by how much an image shifts positions, and did not "
        "work it out again for the next input.",
        symptom="The second call is wrong, or the first, depending on the order.",
    ),
    Exhibit(
        "prompt shorter than the convolution",
        **pair(ShortPrompt, Recurrent),
        module="layers.0.mixer",
        threads=github("hyprstream/hyprstream/issues/1557"),
        check="K3",
        story="The short convolution in front of a recurrent layer needs the last three inputs. "
        "After a prompt of one or two there are not three. In hyprstream the next token then "
        "crashed; this model fills up at the wrong end and goes on.",
        symptom="'Hi' breaks the model, a long question does not.",
    ),
    Exhibit(
        "several tokens treated as one step",
        **pair(OneStepWhenWarm, Recurrent),
        module="layers.0.mixer",
        threads=github("huggingface/transformers/pull/46741"),
        check="K3",
        story="Several Mamba-like models chose the one-token path whenever a state was there. A "
        "chunk of a long prompt, or the drafts of speculative decoding, came in as one token.",
        symptom="Chunked prefill silently degrades everything after it.",
    ),
)
