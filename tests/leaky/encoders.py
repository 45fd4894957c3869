"""Encoders that became causal by accident, and cross-attention that reads padding."""

from __future__ import annotations

import torch
from torch import Tensor

from .exhibit import Exhibit, github
from .padding import Encoder
from .parts import Decoder, KVCache, View, pair
from .translators import Translator


class ShortcutEncoder(Translator):
    """Nothing to hide, so no mask; and the kernel takes no mask for "be causal"."""

    def source_allowed(self, is_token: Tensor) -> Tensor:
        allowed = super().source_allowed(is_token)
        if self.config._attn_implementation == "sdpa" and bool(is_token.all()):
            return torch.ones(allowed.shape[-2:], dtype=torch.bool).tril()
        return allowed


class Switchable(Encoder):
    """One class for both: the config says whether it may look ahead."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        if self.config.is_decoder:
            return gap >= 0
        return super().in_time(gap, view)


class SwitchIgnored(Switchable):
    """The config says it is no decoder; the code that draws masks has not read it."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        return gap >= 0


class ReusedDecoder(Encoder):
    """A pretrained decoder is taken for the encoder, causal mask and all."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        return Decoder.in_time(self, gap, view)


class SourcePaddingSeen(Translator):
    def memory_allowed(self, is_token: Tensor, cache: KVCache | None) -> Tensor:
        return torch.ones_like(is_token)[:, None, None, :]


class SourcePaddingSeenInSteps(Translator):
    """The full forward hides the padding; the decoding kernel was never told the lengths."""

    def memory_allowed(self, is_token: Tensor, cache: KVCache | None) -> Tensor:
        seen = super().memory_allowed(is_token, cache)
        return seen if cache is None else torch.ones_like(seen)


EXHIBITS = (
    Exhibit(
        "encoder causal by a shortcut",
        **pair(ShortcutEncoder, Translator),
        module="encoder.0.attention",
        threads=github("huggingface/transformers/pull/42820"),
        check="K7",
        story="T5Gemma2's encoder carried the flag is_causal from its decoder parts. As long as "
        "there was a mask the flag was idle; when an all-visible mask was dropped to save time, "
        "the kernel fell back on the flag.",
        symptom="Sentences without padding are encoded worse than sentences with it.",
    ),
    Exhibit(
        "encoder causal by a config flag",
        **pair(SwitchIgnored, Switchable, is_decoder=False, num_hidden_layers=1),
        module="blocks.0.attention",
        threads=github("huggingface/transformers/issues/46077"),
        check="K8",
        story="Gemma 4 offers bidirectional attention by a setting. The attention layers obeyed, "
        "the mask was drawn elsewhere, from another setting, and stayed causal.",
        symptom="Embeddings of a text know nothing of its end until the last token.",
        audit_options={"spec": "bidirectional"},
    ),
    Exhibit(
        "encoder made from a decoder",
        **pair(ReusedDecoder, Encoder, num_hidden_layers=1),
        module="blocks.0.attention",
        threads=github("ArcInstitute/state/pull/227", "McGill-NLP/llm2vec/issues/74"),
        check="K8",
        story="A cell model used Llama as its encoder and meant to switch the causal mask off. The "
        "override did not take: the cells of a set were read in order.",
        symptom="Results depend on the order of a set.",
        audit_options={"spec": "bidirectional"},
    ),
    Exhibit(
        "source padding seen by cross-attention",
        **pair(SourcePaddingSeen, Translator),
        module="decoder.0.cross_attention",
        threads=github("huggingface/diffusers/issues/1890"),
        check="K7",
        story="A prompt of ten tokens is padded to 77 before it reaches an image model. The mask "
        "stopped at the text encoder; cross-attention looked at all 77.",
        symptom="The same words give another picture when the padding changes.",
    ),
    Exhibit(
        "source padding seen while decoding",
        **pair(SourcePaddingSeenInSteps, Translator),
        module="decoder.0.cross_attention",
        threads=github("NVIDIA/FasterTransformer/issues/270"),
        check="K7",
        story="In FasterTransformer the same source, padded to another length, left different keys "
        "in the decoder's cross-attention cache and sometimes gave other tokens.",
        symptom="Teacher-forced scores are stable, generated text is not.",
    ),
)
