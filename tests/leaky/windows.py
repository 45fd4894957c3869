"""Windows and chunks whose edges depend on the cache, the backend or the padding."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .exhibit import Exhibit, github
from .parts import Decoder, Store, View, pair


class Rolling(Store):
    """Keeps no more past keys than the window can still need, and counts all it has seen."""

    spare = 0

    def __init__(self, window: int) -> None:
        super().__init__()
        self.keep, self.seen = window - 1 + self.spare, 0

    def get_seq_length(self, layer: int = 0) -> int:
        return self.seen

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        k, v = super().update(keys, values, layer)
        start = max(k.size(2) - self.keep, 0)
        self.layers[layer] = k[:, :, start:], v[:, :, start:]
        self.seen += keys.size(2) if layer == 0 else 0
        return k, v


class RolledLate(Rolling):
    spare = 1


class Windowed(Decoder):
    """In a single step everything in the cache is in the window, so no mask is drawn there."""

    roll: type[Rolling] = Rolling

    def cache(self) -> Rolling:
        return self.roll(self.config.sliding_window or 0)

    def allowed(self, view: View) -> Tensor:
        allowed, length = super().allowed(view), view.q_slot.numel()
        if view.past == 0:
            return allowed
        kept = min(view.past, self.cache().keep)
        if length == 1:
            return view.is_token[:, None, None, view.past - kept :]
        return allowed[..., view.past - kept :]


class WindowRolledLate(Windowed):
    roll = RolledLate


class WindowPerBackend(Decoder):
    """Counts the query itself as part of the window under one backend and not under the other."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        window = self.config.sliding_window or 0
        extra = int(self.config._attn_implementation == "sdpa")
        return (gap >= 0) & (gap < window + extra)


class WindowLost(Decoder):
    def in_time(self, gap: Tensor, view: View) -> Tensor:
        if self.config._attn_implementation == "eager":
            return gap >= 0
        return super().in_time(gap, view)


class Chunked(Decoder):
    """Attends within chunks of fixed size, counted in the tokens of a document."""

    def in_time(self, gap: Tensor, view: View) -> Tensor:
        chunk = self.counted(view) // (self.config.attention_chunk_size or 1)  # (B, S)
        return (gap >= 0) & (chunk[:, view.past :, None] == chunk[:, None, :])

    def counted(self, view: View) -> Tensor:
        count = (view.is_token.cumsum(1) - 1).clamp(min=0)
        if view.document is None:
            return count
        begins = view.is_token & (view.document != F.pad(view.document, (1, -1)))
        return count - torch.where(begins, count, 0).cummax(1).values


class ChunksCountPadding(Chunked):
    """Counts the slots of the row, whatever is in them."""

    def counted(self, view: View) -> Tensor:
        return view.k_slot.expand_as(view.is_token)


FIRST = "blocks.0.attention"

EXHIBITS = (
    Exhibit(
        "window cache rolled late",
        **pair(WindowRolledLate, Windowed, sliding_window=5, num_hidden_layers=1),
        module=FIRST,
        threads=github("huggingface/transformers/issues/37574"),
        check="K3",
        story="A cache for a window of fixed size drops its oldest entry when it is full. It was "
        "off by one about when that is.",
        symptom="Results change at the moment the text becomes as long as the window.",
        audit_options={"spec": "window:5"},
    ),
    Exhibit(
        "window one wider on one backend",
        **pair(WindowPerBackend, sliding_window=5, num_hidden_layers=1),
        module=FIRST,
        threads=github("huggingface/transformers/issues/39408", "vllm-project/vllm/issues/3385"),
        check="K8",
        story="A window of 4096 includes the token itself in one implementation and does not in "
        "another, so the same setting gave 4096 visible tokens here and 4097 there.",
        symptom="Two engines disagree on long texts only.",
        audit_options={"spec": "window:5"},
    ),
    Exhibit(
        "window lost on one backend",
        **pair(WindowLost, sliding_window=5, num_hidden_layers=1),
        module=FIRST,
        threads=github("huggingface/transformers/issues/35924"),
        check="K8",
        story="A refactoring took the window out of the mask and kept passing it as an argument, "
        "which the plain implementation of Qwen2's attention did not read.",
        symptom="Everything is right up to the length of the window.",
        audit_options={"spec": "window:5"},
    ),
    Exhibit(
        "chunks counted with padding",
        **pair(ChunksCountPadding, Chunked, attention_chunk_size=7),
        module=FIRST,
        threads=github("huggingface/transformers/pull/40324"),
        check="K4",
        story="Llama 4 attends within chunks of fixed size. With padding on the left, the chunks "
        "of a short row began in its padding and ended too early in its text.",
        symptom="Batched long prompts differ from the same prompts alone.",
    ),
)
