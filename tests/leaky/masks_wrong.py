"""Masks that were applied and hid the wrong keys, or too little, or too much."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .exhibit import Exhibit, github
from .parts import Attention, Decoder, Output, Unpacked, Unpadded, View, attend, pair, weigh


class MultipliedWindow(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        gap = torch.arange(k.size(2) - q.size(2), k.size(2))[:, None] - torch.arange(k.size(2))
        hidden = (gap < 0).to(q.dtype) * torch.finfo(q.dtype).min  # 0 shows, the minimum hides
        near = gap.abs() < (self.config.sliding_window or 0)
        return weigh(q, k, v, hidden * near)  # far away, hidden x 0 = shown


class Multiplied(Unpadded):
    attention = MultipliedWindow


class Inverted(Decoder):
    """The mask says which keys to hide; the kernel reads which keys to show."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        return ~super().in_time(gap, view)


class AddedTriangle(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return weigh(q, k, v, allowed.to(q.dtype))  # +1 where it may look, +0 where it may not


class TriangleAdded(Decoder):
    attention = AddedTriangle


class Prefixed(Decoder):
    """The first tokens see each other both ways. They come in one piece: there is no cache."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        return super().forward(input_ids, attention_mask)


class PrefixOneTooLong(Prefixed):
    def in_prefix(self, view: View) -> Tensor:
        return view.is_token.cumsum(1)[:, None] <= self.config.prefix_length + 1


class CausalMaskType(Unpacked):
    """The kernel's mask type is "causal", and that type does not look at the mask it is given."""

    def allowed(self, view: View) -> Tensor:
        seen = view.q_slot[:, None] >= view.k_slot[None, :]
        return seen.expand(view.is_token.size(0), 1, -1, -1)


class TinyConstant(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        scores = q @ k.mT / math.sqrt(q.size(-1))
        return scores.masked_fill(~allowed, -1e-9).softmax(-1) @ v  # -1e9 was meant


class TinyMasked(Decoder):
    attention = TinyConstant


class LargeConstant(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        hide = torch.tensor(-1e9, dtype=q.dtype)  # minus infinity in half precision
        return weigh(q, k, v, (~allowed).to(q.dtype) * hide)  # and 0 x infinity is not a number


class LargeMasked(Decoder):
    attention = LargeConstant


class MaskedByMinimum(Attention):
    """Adds the smallest number of the dtype, once, wherever something is hidden."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        """As fused kernels do it: every block of keys by itself, then all of them joined."""
        scores = q @ k.mT / math.sqrt(q.size(-1)) + self.bias(allowed, q.dtype)
        tops, sums, outs = [], [], []
        for part, values in zip(scores.split(4, -1), v.split(4, -2), strict=True):
            tops.append(part.amax(-1, keepdim=True))
            weights = (part - tops[-1]).exp()
            sums.append(weights.sum(-1, keepdim=True))
            outs.append(weights @ values)
        share = (torch.stack(tops) - torch.stack(tops).amax(0)).exp()
        return (share * torch.stack(outs)).sum(0) / (share * torch.stack(sums)).sum(0)

    def bias(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        return (~allowed).to(dtype) * torch.finfo(dtype).min


class OneMinimum(Unpacked):
    """Lets padding rows see nothing at all, and trusts that a minimum is not infinity."""

    attention = MaskedByMinimum

    def allowed(self, view: View) -> Tensor:
        gap = view.q_slot[:, None] - view.k_slot[None, :]
        return ((gap >= 0) & view.is_token[:, None, :])[:, None]


class AddedMinima(MaskedByMinimum):
    def bias(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        length, n_keys = allowed.shape[-2:]
        ahead = torch.ones(length, n_keys, dtype=torch.bool).triu(n_keys - length + 1)
        padding = ~allowed[:, :, -1:, :]  # what even the last query may not see
        lowest = torch.finfo(dtype).min
        return (
            ahead.to(dtype) * lowest + padding.to(dtype) * lowest
        )  # twice the minimum is minus infinity


class TwoMinima(OneMinimum):
    attention = AddedMinima


class InfiniteMask(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return attend(q, k, v, allowed)  # a row with nothing to see: 0 / 0


class EmptyRows(OneMinimum):
    attention = InfiniteMask


FIRST = "blocks.0.attention"

EXHIBITS = (
    Exhibit(
        "sliding mask multiplied instead of added",
        **pair(Multiplied, Unpadded, sliding_window=5, num_hidden_layers=1),
        module=FIRST,
        threads=github("huggingface/transformers/issues/31673"),
        check="K1",
        story="Masks of zeros and very negative numbers are meant to be added to scores. A window "
        "of ones and zeros was multiplied into one: outside the window, hidden times zero is "
        "shown.",
        symptom="Nothing is wrong until a text is longer than the window.",
        audit_options={"spec": "window:5"},
    ),
    Exhibit(
        "boolean mask with the wrong polarity",
        **pair(Inverted),
        module=FIRST,
        threads=github("rasbt/LLMs-from-scratch/issues/1061"),
        check="K1",
        story="In one function of PyTorch True hides a key, in the next it shows it. A bonus "
        "chapter of LLMs-from-scratch passed the first kind of mask to the second function.",
        symptom="Tokens see the future, and only the future.",
    ),
    Exhibit(
        "triangle of ones added to the scores",
        **pair(TriangleAdded),
        module=FIRST,
        threads=github("pytorch/pytorch/issues/21518"),
        check="K1",
        story="A float mask is added to the scores in PyTorch. People passed a lower triangle of "
        "ones and zeros, which favours the past a little and hides nothing.",
        symptom="The loss is somewhat too good; attention maps look almost right.",
    ),
    Exhibit(
        "prefix one token too long",
        **pair(PrefixOneTooLong, Prefixed, prefix_length=8),
        module=FIRST,
        threads=github(
            "bigscience-workshop/Megatron-DeepSpeed/pull/167",
            "huggingface/transformers/pull/30967",
        ),
        check="K1",
        story="In a prefix language model the first tokens may look both ways. Whether the prefix "
        "index names its last token or the first one after it was understood differently in "
        "the mask and in the loss, and the first token to be predicted became visible.",
        symptom="The first predicted token is always right.",
        audit_options={"spec": "prefix:8"},
    ),
    Exhibit(
        "mask ignored for its type",
        **pair(CausalMaskType, Unpacked),
        module=FIRST,
        threads=github("AI-Hypercomputer/maxtext/issues/878"),
        check="K4",
        story="MaxText told its fused attention that the mask is of type 'causal' and passed the "
        "mask with the padding as well. For that type the kernel does not read it.",
        symptom="Results depend on how much padding a row has.",
    ),
    Exhibit(
        "hidden by -1e-9",
        **pair(TinyMasked),
        module=FIRST,
        threads=github("Shujun-He/RibonanzaNet/issues/5", "awslabs/gluonts/pull/1401"),
        check="K1",
        story="Scores that are to be hidden were filled with -1e-9 where -1e9 was meant. That is "
        "zero for all purposes, and zero is a perfectly good score.",
        symptom="The mask is there, drawn correctly, and has no effect.",
    ),
    Exhibit(
        "mask constant too large for half precision",
        **pair(LargeMasked, dtype=torch.float16),
        module=FIRST,
        threads=github("facebookresearch/fairseq/issues/3575", "NVIDIA/apex/issues/1105"),
        check="K11",
        story="-1e8 or -1e9 does not fit into a half-precision number, whose range ends at 65504. "
        "Depending on how it is applied that is an error, an infinity, or not a number.",
        symptom="Runs in float32; in float16 the first loss is NaN.",
    ),
    Exhibit(
        "two minima added",
        **pair(TwoMinima, OneMinimum),
        module=FIRST,
        threads=github("NVIDIA-NeMo/Automodel/pull/2658"),
        check="K4",
        story="The causal mask and the padding mask each wrote the smallest number of the dtype, "
        "and the two were added. Twice the minimum is minus infinity, and a kernel that meets a "
        "block of nothing else divides zero by zero.",
        symptom="NaN in the first step, but only with padded batches.",
    ),
    Exhibit(
        "row with nothing to see",
        **pair(EmptyRows, OneMinimum),
        module=FIRST,
        threads=github("pytorch/pytorch/issues/103749"),
        check="K4",
        story="A padding row that may attend to nobody gives 0/0. One layer on, the NaN is a value "
        "that others multiply with zero, and zero times NaN is NaN.",
        symptom="One padded row turns the whole batch to NaN.",
    ),
)
