"""A trace: one sentence through one model, both lanes, every head.

Every number in it was produced by the forward pass that trains or by the steps that generate.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lookleft.bundle import Bundle
from lookleft.explore.card import ModelCard
from lookleft.explore.lanes import Inference, Training, infer_steps, kinds_of, train_pass
from lookleft.explore.lesson import PLACES, Kind, Lesson, TraceRequest, make_lesson, masks_of
from lookleft.explore.states import ExploreError
from lookleft.explore.tokens import Token
from lookleft.models import DecoderOnly, EncoderDecoder
from lookleft.once import once


@dataclass(eq=False)
class Trace:
    """What was recorded of one sentence."""

    bundle: Bundle
    card: ModelCard
    request: TraceRequest
    lesson: Lesson
    training: Training
    inference: Inference | None  # None: nothing in this model goes word by word

    @once
    def id(self) -> str:
        """A name for this trace: the same model and request have the same."""
        asked = self.request.model_dump(exclude={"kind", "layer", "head"}, mode="json")
        text = json.dumps([self.card.hash, asked], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @once
    def masks(self) -> dict[Kind, tuple[Tensor | None, Tensor, Tensor]]:
        """Per kind: the causal rule if any, padding, and what is allowed. All (T, S)."""
        return masks_of(self.lesson)

    @once
    def log_probs(self) -> Tensor:
        """Of what each row should say, after one pass. (T,)."""
        wanted = torch.tensor([token.id for token in self.lesson.wanted])
        every = self.training.logits.double().log_softmax(-1)  # (T, V)
        return every.gather(1, wanted[:, None])[:, 0]

    @once
    def n_bytes(self) -> int:
        """Memory that the recorded tensors hold."""
        lanes: list[Training | Inference] = [self.training]
        if self.inference is not None:
            lanes.append(self.inference)
        tensors = [lane.logits for lane in lanes]
        tensors += [
            t for lane in lanes for layer in lane.layers.values() for t in vars(layer).values()
        ]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @property
    def is_target_typed(self) -> bool:
        """False if the model wrote the target, also because none was given."""
        is_left_to_model = self.lesson.source is not None and self.request.target is None
        return self.request.target_from == "typed" and not is_left_to_model

    @property
    def is_masked(self) -> bool:
        """True if the decoder was kept from seeing the future."""
        return getattr(self.lesson.network.config, "mask", None) == "causal"

    @property
    def first_kind(self) -> Kind:
        """The attention to show first: the decoder's own, if there is a decoder."""
        return next(iter(kinds_of(self.lesson.network)))

    def labels(self, kind: Kind) -> tuple[list[Token], list[Token]]:
        """Which tokens the rows and the columns of this kind of attention are."""
        lesson = self.lesson
        rows = list(lesson.columns[: lesson.n_rows])
        if lesson.source is None or kind == "decoder_self":
            return rows, list(lesson.columns)
        source = list(lesson.source.tokens)
        return (rows, source) if kind == "cross" else (source, source)

    def bias(self, kind: Kind, head: int) -> Tensor | None:
        """What relative positions add to the scores of a head. (T, S)."""
        stack = self.lesson.network.get_submodule(PLACES[kind].split(".")[0])
        relative: Any = getattr(stack, "relative", None)
        if relative is None or kind == "cross":
            return None
        is_source = kind == "encoder_self" and self.lesson.batch.source is not None
        rows = self.lesson.batch.source if is_source else self.lesson.batch.inputs
        assert rows is not None
        with torch.no_grad():
            whole: Tensor = relative.between(rows.pos, rows.pos).whole  # (1, H, T, S)
        return whole[0, head, : self.training.layers[kind, 0].q.size(1)]

    def scale(self, kind: Kind, layer: int) -> float:
        """What q·k is multiplied by."""
        attention: Any = self.lesson.network.get_submodule(PLACES[kind].format(layer))
        width: int = self.training.layers[kind, layer].q.size(-1)
        return float(width**-0.5 if attention.scale is None else attention.scale)

    def check_head(self, kind: Kind, layer: int, head: int) -> None:
        """Refuse a head that this model has not, naming those it has."""
        there, n_heads = kinds_of(self.lesson.network), self.lesson.network.config.n_heads
        if kind not in there:
            raise ExploreError(
                "cannot", f"this model has no {kind} attention; it has {', '.join(there)}"
            )
        if not (0 <= layer < there[kind] and 0 <= head < n_heads):
            raise ExploreError(
                "bad_request",
                f"layer {layer}, head {head}: {kind} has layers 0 to {there[kind] - 1} and heads "
                f"0 to {n_heads - 1}",
                field="head",
            )


def make_trace(bundle: Bundle, card: ModelCard, request: TraceRequest) -> Trace:
    """Run the sentence through both lanes and keep what they did."""
    lesson = make_lesson(bundle, request)
    training = train_pass(lesson)
    inference = None
    if isinstance(lesson.network, DecoderOnly | EncoderDecoder):
        is_own = request.inputs == "own"
        inference = infer_steps(lesson, is_own=is_own, is_cached=request.is_cached)
    made = Trace(bundle, card, request, lesson, training, inference)
    if request.kind is not None:
        made.check_head(request.kind, request.layer, request.head)
    return made
