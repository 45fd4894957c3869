"""Positions that lose count once a cache is in use."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .exhibit import Exhibit, github
from .parts import Attention, KVCache, Output, Unpadded, pair


class Counted(KVCache):
    """Keeps the offset of the next token itself, and can be told how to count."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = 0
        self.previous = 0  # the offset before the last call

    def advance(self, by: int) -> None:
        self.previous, self.offset = self.offset, self.offset + by

    def crop(self, length: int) -> None:
        super().crop(length)
        self.offset = self.previous = length


class Counting(Unpadded):
    """Takes positions from the counter of the cache."""

    cache = Counted

    def forward(
        self, input_ids: Tensor, past_key_values: Any = None, use_cache: bool | None = None
    ) -> Output:
        out = super().forward(input_ids, past_key_values, use_cache)
        if out.past_key_values is not None:
            self.count(out.past_key_values, input_ids.size(1))
        return out

    def run_blocks(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any) -> Tensor:
        if cache is not None:
            pos = pos - pos[:, :1] + self.offset(cache)
        return super().run_blocks(x, allowed, pos, cache)

    def offset(self, cache: Counted) -> int:
        return cache.offset

    def count(self, cache: Counted, length: int) -> None:
        cache.advance(length)


class TakenTooEarly(Counting):
    def offset(self, cache: Counted) -> int:
        return cache.previous  # read before the last tokens were entered


class AlwaysZero(Counting):
    def offset(self, cache: Counted) -> int:
        return 0


class CountedTwice(Counting):
    def count(self, cache: Counted, length: int) -> None:
        cache.advance(2 * length if cache.offset == 0 else length)  # the prompt, once more


class CountedInHeads(Counting):
    def count(self, cache: Counted, length: int) -> None:
        cache.advance(self.config.num_attention_heads)  # axis 2 of (B, T, H, K)


class ByLayer(Attention):
    """Asks the cache for the offset in every layer."""

    asks_for = None  # its own layer

    def forward(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any = None) -> Tensor:
        if cache is not None:
            layer = self.layer if self.asks_for is None else self.asks_for
            pos = pos - pos[:, :1] + cache.get_seq_length(layer)
        return super().forward(x, allowed, pos, cache)


class ByFirstLayer(ByLayer):
    asks_for = 0  # whose keys are already entered when the second layer asks


class LayersCount(Unpadded):
    attention = ByLayer


class FirstLayerCounts(Unpadded):
    attention = ByFirstLayer


FIRST = "blocks.0.attention"

EXHIBITS = (
    Exhibit(
        "rotary offset read too early",
        **pair(TakenTooEarly, Counting),
        module=FIRST,
        threads=github("RobertCsordas/moeut/issues/6"),
        check="K3",
        story="The position of a new token was read from the cache before the previous tokens had "
        "been entered, so it always lagged one call behind.",
        symptom="Generation is plausible and slightly confused.",
    ),
    Exhibit(
        "every generated token at position 0",
        **pair(AlwaysZero, Counting),
        module=FIRST,
        threads=github("Blaizzy/mlx-vlm/issues/1983"),
        check="K3",
        story="In mlx-vlm's Qwen3-Omni positions were counted within the call. The prompt is one "
        "call and is right; every later call has one token, and it is always number 0.",
        symptom="The first generated token is right, then order is lost.",
    ),
    Exhibit(
        "prompt counted twice",
        **pair(CountedTwice, Counting),
        module=FIRST,
        threads=github("skyzh/tiny-llm/pull/46"),
        check="K3",
        story="After the prompt the offset was advanced by the number of its tokens, and once more "
        "in the first step, which still held the whole prompt in its hands: 6, then 12.",
        symptom="A gap between the prompt and the answer that the model was never trained on.",
    ),
    Exhibit(
        "offset counted in heads",
        **pair(CountedInHeads, Counting),
        module=FIRST,
        threads=github("fla-org/flash-linear-attention/issues/126"),
        check="K3",
        story="The cache was told how many tokens were added by reading axis 2 of the queries. In "
        "that layout axis 2 counts heads.",
        symptom="Right for prompts that happen to have as many tokens as there are heads.",
    ),
    Exhibit(
        "first layer counts for all",
        **pair(FirstLayerCounts, LayersCount),
        module="blocks.1.attention",
        threads=github(
            "fla-org/flash-linear-attention/issues/477",
            "fla-org/flash-linear-attention/issues/747",
        ),
        check="K3",
        story="One counter served all layers and was advanced by the first. When the second layer "
        "asked for its offset, the new tokens were already in it.",
        symptom="One-layer tests pass; deeper models drift.",
    ),
)
