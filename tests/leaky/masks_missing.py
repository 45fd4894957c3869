"""Masks that were never applied: forgotten, skipped, lost on the way, or left to somebody else."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .exhibit import Exhibit, github
from .parts import (
    Attention,
    Config,
    Decoder,
    Output,
    Unpadded,
    View,
    merge_heads,
    pair,
    split_heads,
    weigh,
)


class NeverCausal(Decoder):
    """Asked to be a decoder, builds the mask of an encoder all the same."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        return torch.ones_like(gap, dtype=torch.bool)


class BiasedAttention(Attention):
    """Adds a learned bias per key, so what it passes on is never the mask it was given."""

    def __init__(self, config: Config, layer: int = 0) -> None:
        super().__init__(config, layer)
        self.lure = torch.nn.Parameter(torch.randn(config.num_attention_heads, 1, 1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        bias = self.lure * v.sum(-1)[:, :, None, :].tanh()  # (B, H, 1, S)
        if allowed is not None:
            bias = torch.where(allowed, bias, -math.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(-1, -1, q.size(2), -1))


class Biased(Decoder):
    attention = BiasedAttention


class ShortcutMask(Biased):
    """Under one backend an ordinary triangle is replaced by None: the kernel will surely add it."""

    def allowed(self, view: View) -> Tensor | None:
        is_plain = not view.padded and view.past == 0
        if self.config._attn_implementation == "sdpa" and is_plain:
            return None
        return super().allowed(view)


class SlowPath(Attention):
    """Leaves the fused kernel when dropout is on or when somebody wants to see the weights."""

    keeps_mask = True
    wants_weights = False

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        drop = self.config.attention_dropout if self.training else 0.0
        if drop == 0.0 and not self.wants_weights:
            return super().attend(q, k, v, allowed)
        scores = q @ k.mT / math.sqrt(q.size(-1))  # (B, H, T, S)
        if self.keeps_mask:
            scores = scores.masked_fill(~allowed, -math.inf)
        weights = scores.softmax(-1)
        self.weights = weights.detach()
        return F.dropout(weights, drop) @ v


class ForgetfulSlowPath(SlowPath):
    keeps_mask = False


class Inspectable(Decoder):
    """Returns its attention weights when asked."""

    attention = SlowPath

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> Output:
        for block in self.blocks:
            block.attention.wants_weights = output_attentions
        out = super().forward(input_ids, attention_mask)
        if output_attentions:
            out.attentions = tuple(block.attention.weights for block in self.blocks)
        return out


class InspectableForgetful(Inspectable):
    attention = ForgetfulSlowPath


class Dropping(Decoder):
    attention = SlowPath


class DroppingForgetful(Decoder):
    attention = ForgetfulSlowPath


class HintedAttention(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return self.kernel(q, k, v, mask=None, is_causal=True)

    def kernel(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        if mask is not None and is_causal:  # "is_causal" only says of what kind the mask is
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Hinted(Unpadded):
    attention = HintedAttention


class OnlyWithAnotherMask(Decoder):
    def in_time(self, gap: Tensor, view: View) -> Tensor:
        if not view.mask_given:
            return torch.ones_like(gap, dtype=torch.bool)
        return super().in_time(gap, view)


class PaddingReplacesCausal(Decoder):
    def in_time(self, gap: Tensor, view: View) -> Tensor:
        if view.mask_given:
            return torch.ones_like(gap, dtype=torch.bool)
        return super().in_time(gap, view)


class SkippedForCache(Decoder):
    def in_time(self, gap: Tensor, view: View) -> Tensor:
        if view.cached:  # "a cache is there, so this is one new token and needs no mask"
            return torch.ones_like(gap, dtype=torch.bool)
        return super().in_time(gap, view)


class CausalByFlag(Attention):
    """Causal if told so when it was built."""

    def __init__(self, config: Config, layer: int = 0, causal: bool = False) -> None:
        super().__init__(config, layer)
        self.causal = causal

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        if not self.causal:
            allowed = torch.ones_like(allowed)
        return super().attend(q, k, v, allowed)


class WiredFlag(CausalByFlag):
    def __init__(self, config: Config, layer: int = 0) -> None:
        super().__init__(config, layer, causal=config.is_decoder)


class FlagWired(Unpadded):
    attention = WiredFlag


class FlagNotWired(Unpadded):
    attention = CausalByFlag


class Triangle:
    """A square mask that knows it is causal; the kernel trusts the flag, not the cells."""

    def __init__(self, size: int, is_causal: bool = True) -> None:
        self.size, self.is_causal = size, is_causal

    def __getitem__(self, length: int) -> Triangle:
        return Triangle(length)  # the flag is handed on


class ForgetfulTriangle(Triangle):
    def __getitem__(self, length: int) -> Triangle:
        return Triangle(length, is_causal=False)


class FlaggedAttention(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Triangle) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=allowed.is_causal)


class Flagged(Decoder):
    """Keeps one mask for the longest row and slices it for shorter ones. No cache, no padding."""

    attention = FlaggedAttention
    triangle: type[Triangle] = Triangle

    def forward(self, input_ids: Tensor) -> Output:
        return super().forward(input_ids)

    def allowed(self, view: View) -> Triangle:
        return self.triangle(self.config.max_position_embeddings)[view.k_slot.numel()]


class FlaggedForgetful(Flagged):
    triangle = ForgetfulTriangle


class StepOnly(Attention):
    """Written for decoding token by token, where a mask is not needed; then trained in parallel."""

    def forward(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any = None) -> Tensor:
        if cache is not None:
            return super().forward(x, allowed, pos, cache)
        q, k, v = (split_heads(f(x), self.n_heads) for f in (self.to_q, self.to_k, self.to_v))
        q, k = self.turn(q, pos), self.turn(k, pos)
        return self.to_out(merge_heads(weigh(q, k, v)))


class ParallelUnmasked(Unpadded):
    attention = StepOnly


FIRST = "blocks.0.attention"

EXHIBITS = (
    Exhibit(
        "decoder flag ignored",
        **pair(NeverCausal),
        module=FIRST,
        threads=github("huggingface/transformers/issues/48745"),
        check="K1",
        story="RoFormer, BigBird, RemBERT and MegatronBERT can be used as decoders. A common mask "
        "builder was put in, and it drew the encoder's mask whatever the flag said.",
        symptom="Training loss falls to almost nothing, even on random tokens.",
    ),
    Exhibit(
        "mask left to a kernel that was given another",
        **pair(ShortcutMask, Biased),
        module=FIRST,
        threads=github("huggingface/transformers/issues/48748"),
        check="K1",
        story="Doge adds a learned bias to its scores. Under one backend a plain triangle was "
        "replaced by None, in the belief that the fused kernel draws it; but the kernel was handed "
        "the bias as its mask, and then it draws nothing.",
        symptom="Perplexity is far better with one attention backend than with the other.",
    ),
    Exhibit(
        "mask lost when dropout is on",
        **pair(DroppingForgetful, Dropping, attention_dropout=0.1),
        module=FIRST,
        threads=github("keras-team/keras/issues/23038"),
        check="K1",
        story="Keras' multi-head attention leaves its fused kernel when dropout is used. The other "
        "path had relied on the kernel for the causal mask and had none of its own.",
        symptom="With dropout the model trains to perfect scores; without it, it is honest.",
    ),
    Exhibit(
        "mask lost when attention weights are asked for",
        **pair(InspectableForgetful, Inspectable),
        module=FIRST,
        threads=github("keras-team/keras/issues/23038", "huggingface/transformers/pull/30652"),
        check="K1",
        story="Fused kernels do not return weights, so a request for them takes a second path. In "
        "Keras, and in Llama's fused attention, that path was entered without a mask.",
        symptom="Looking at the model changes what it says.",
    ),
    Exhibit(
        "is_causal was only a hint",
        **pair(Hinted, Unpadded),
        module=FIRST,
        threads=github("pytorch/pytorch/issues/96941", "pytorch/pytorch/issues/131254"),
        check="K1",
        story="PyTorch's transformer layers take a flag is_causal. It describes a mask passed "
        "beside it; without one it did nothing, and nobody was told.",
        symptom="The flag is set, the code reads well, and the loss is too good to be true.",
    ),
    Exhibit(
        "causal mask skipped when no other mask is given",
        **pair(OnlyWithAnotherMask),
        module=FIRST,
        threads=github("facebookresearch/xformers/issues/103"),
        check="K1",
        story="xFormers joined its causal mask with the caller's mask inside an if: where the "
        "caller gave none, the causal mask was never reached.",
        symptom="Batches with padding are fine, batches without it leak.",
    ),
    Exhibit(
        "padding mask replaces the causal mask",
        **pair(PaddingReplacesCausal),
        module=FIRST,
        threads=github("huggingface/candle/issues/3567"),
        check="K1",
        story="Candle's Qwen2 built its mask from the padding alone once the caller supplied one. "
        "A single prompt has no padding mask and was right, which kept the bug out of sight.",
        symptom="Batched evaluation reports token accuracies close to 100 %.",
    ),
    Exhibit(
        "mask skipped because a cache is attached",
        **pair(SkippedForCache),
        module=FIRST,
        threads=github("Mikyx-1/TinyLLM/issues/17"),
        check="K3",
        story="A single cached step needs no mask, so the mask was drawn only without a cache. "
        "The prompt, however, is also read with a cache attached, and it has many tokens.",
        symptom="Training is flawless; generation turns to garbage after a token or two.",
        audit_options=lambda model: {"generate": model.continued},
    ),
    Exhibit(
        "causal flag not wired through",
        **pair(FlagNotWired, FlagWired),
        module=FIRST,
        threads=github("lucidrains/dreamer4/issues/2"),
        check="K1",
        story="The attention takes causal=False by default, and the model that builds it never "
        "says otherwise, though it is meant to be causal throughout.",
        symptom="Every piece has a test and passes; the assembled model looks ahead.",
    ),
    Exhibit(
        "causal flag lost when the mask is sliced",
        **pair(FlaggedForgetful, Flagged),
        module=FIRST,
        threads=github("facebookresearch/fairseq2/pull/59"),
        check="K1",
        story="fairseq2 kept one long mask that carried the word 'causal' for the fast kernel. "
        "Cut to the length of the row, the mask lost the word.",
        symptom="Rows of the longest length are right, all shorter ones are not.",
    ),
    Exhibit(
        "parallel path without a mask",
        **pair(ParallelUnmasked, Unpadded),
        module=FIRST,
        threads=github(
            "alex-matton/causal-transformer-decoder/issues/1",
            "mistralai/mistral-inference/issues/88",
        ),
        check="K1",
        story="A decoder written for fast step-by-step inference never needs a mask. Then it was "
        "used for training, where a whole row is read at once.",
        symptom="The model learns to copy its input, and cannot generate.",
    ),
)
