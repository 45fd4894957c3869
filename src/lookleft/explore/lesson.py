"""What a sentence asks of a model: what each row reads, what it should say, who may see whom."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from lookleft.bundle import Bundle
from lookleft.config import Frozen
from lookleft.data.batch import Batch, as_rows, next_token_batch, pad_rows, translation_batch
from lookleft.explore.states import HARD_LIMIT, LIMIT, MAX_NEW, ExploreError
from lookleft.explore.tokens import Token, Tokens, read_text, single, written_text
from lookleft.generate.decode import generate_ids
from lookleft.masks import Mask, causal, everything, real_keys, visible
from lookleft.models import AnyModel, DecoderOnly, EncoderDecoder, EncoderOnly

Kind = Literal["decoder_self", "cross", "encoder_self"]
Count = Annotated[int, Field(ge=0, le=HARD_LIMIT)]
Words = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=HARD_LIMIT)]  # as ids

# Where the attention of each kind lies in a network: the names that `capture` uses.
PLACES: dict[Kind, str] = {
    "decoder_self": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
    "encoder_self": "encoder.layers.{}.self_attention",
}


class TraceRequest(Frozen):
    """One sentence, and how to look at it."""

    model: str = "main"
    source: str | None = None  # what a translator reads
    target: str | None = None  # what the decoder works on; for an encoder-only model the text
    target_from: Literal["typed", "model"] = "typed"  # who wrote the target, or goes on from it
    inputs: Literal["same", "own"] = "same"  # what inference reads: the target, or its own words
    forced: Words = ()  # what its first steps are taken to say, if it reads its own words
    is_masked: bool | None = None  # None: as the model was trained
    is_cached: bool = True
    cover: tuple[Count, ...] = ()  # tokens replaced by the mask token (encoder-only)
    pad: Annotated[int, Field(ge=0, le=8)] = 0  # columns of padding, to see that nobody sees them
    max_new: Annotated[int, Field(ge=1, le=MAX_NEW)] = 24
    long: Literal["refuse", "cut", "window"] = "refuse"  # what to do with more tokens than fit
    kind: Kind | None = None  # the head to send along; None: the first kind there is
    layer: Annotated[int, Field(ge=0)] = 0
    head: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class Cut:
    """A text that was shortened because the request said so."""

    side: Literal["source", "target"]
    kept: int
    of: int


@dataclass(frozen=True)
class Lesson:
    """A sentence made ready: the labels of rows and columns, and the batch that both lanes use."""

    network: AnyModel  # without its mask, if the request takes it away
    source: Tokens | None
    target: Tokens
    columns: tuple[Token, ...]  # what the T rows read, then the padding
    wanted: tuple[Token, ...]  # what each row should say. T
    batch: Batch  # (1, T + padding)
    n_given: int  # tokens inference starts from when it reads its own words
    forced: tuple[int, ...] = ()  # what its first steps say, whatever the model would
    eos: int | None = None  # the token with which the model ends
    cut: Cut | None = None

    @property
    def n_rows(self) -> int:
        return len(self.wanted)


def make_lesson(bundle: Bundle, request: TraceRequest) -> Lesson:
    """The request as tokens and tensors; refuses what this model cannot do."""
    network = with_mask(bundle.network, request.is_masked)
    _check_forced(network, request)
    if isinstance(network, EncoderDecoder):
        return _translation(bundle, network, request)
    if request.source is not None:
        raise ExploreError(
            "cannot",
            f"this {network.config.family} model has no encoder that reads a source: give its text "
            f"as the target",
        )
    if isinstance(network, DecoderOnly):
        return _continuation(bundle, network, request)
    return _covered(bundle, network, request)


def with_mask(network: AnyModel, is_masked: bool | None) -> AnyModel:
    """The same weights with or without the causal mask; None leaves it as it is.

    A twin that shares every parameter and has a config of its own: the original is not touched.
    """
    if is_masked is None:
        return network
    if isinstance(network, EncoderOnly):
        raise ExploreError("cannot", "this model is an encoder: it has no mask to put on or off")
    twin = copy.copy(network)
    twin.config = network.config.model_copy(update={"mask": "causal" if is_masked else "none"})
    return twin


def masks_of(lesson: Lesson) -> dict[Kind, tuple[Tensor | None, Tensor, Tensor]]:
    """Per kind of attention: the causal rule if there is one, padding, and what is allowed.

    All are the first T rows of (T, S). The last is the very mask that the network uses.
    """
    network, inputs, n_rows = lesson.network, lesson.batch.inputs, lesson.n_rows
    found: dict[Kind, tuple[Tensor | None, Tensor, Tensor]] = {}
    width = inputs.shape[1]

    def rows(mask: Mask) -> Tensor:
        return mask.allowed[0, 0, :n_rows].expand(n_rows, mask.n_keys)

    padding = rows(real_keys(inputs.is_token, width))
    if isinstance(network, EncoderOnly):
        return {"encoder_self": (None, padding, padding)}
    if isinstance(network, DecoderOnly):
        used, window = network.view(inputs.side, inputs.side, None).mask, network.config.window
    else:
        used, window = network.view(inputs.side, inputs.side).mask, None
    is_causal = network.config.mask == "causal"
    rule = causal(inputs.pos, inputs.pos, window) if is_causal else everything(width, width)
    found["decoder_self"] = (rows(rule), padding, rows(used))
    if lesson.batch.source is not None:
        source = lesson.batch.source
        seen = rows(visible(inputs.side, source.side, is_causal=False))
        found["cross"] = (None, seen, seen)
        n_source = source.shape[1]
        whole = visible(source.side, source.side, is_causal=False).allowed[0, 0]
        whole = whole.expand(n_source, n_source)
        found["encoder_self"] = (None, whole, whole)
    return found


def _translation(bundle: Bundle, network: EncoderDecoder, request: TraceRequest) -> Lesson:
    _refuse_cover(request)
    source, cut = _fitting(
        read_text(bundle, request.source or "", is_ended=True), "source", request
    )
    eos = bundle.specials.eos
    if request.target_from == "typed" and request.target is not None:
        typed = read_text(bundle, request.target, is_ended=True)
        target, target_cut = _fitting(typed, "target", request)
        cut = cut or target_cut
    else:
        ids = generate_ids(network, [source.ids], max_new=request.max_new, eos=eos)[0]
        is_ended = len(ids) < request.max_new
        target = written_text(bundle, [*ids, eos] if is_ended and eos is not None else ids)
    start = single(bundle, network.config.start_id, "start")
    return _padded(
        Lesson(
            network=network,
            source=source,
            target=target,
            columns=(start, *target.tokens)[:-1],
            wanted=target.tokens,
            batch=translation_batch([source.ids], [target.ids], network.config.start_id),
            n_given=1,
            forced=request.forced,
            eos=eos,
            cut=cut,
        ),
        request.pad,
    )


def _continuation(bundle: Bundle, network: DecoderOnly, request: TraceRequest) -> Lesson:
    _refuse_cover(request)
    text, cut = _fitting(read_text(bundle, request.target or "", is_ended=False), "target", request)
    n_given, eos = 1, bundle.specials.eos
    if request.target_from == "model":
        n_given = len(text.ids)
        ids = generate_ids(network, [text.ids], max_new=request.max_new, eos=eos)[0]
        text = written_text(bundle, ids, after=text)
    if len(text.ids) < 2:
        raise ExploreError(
            "empty",
            f"{text.text!r:.40} is one token: nothing comes after it that could be predicted; type "
            f"more, or let the model go on from it",
        )
    return _padded(
        Lesson(
            network=network,
            source=None,
            target=text,
            columns=text.tokens[:-1],
            wanted=text.tokens[1:],
            batch=next_token_batch([text.ids]),
            n_given=n_given,
            forced=request.forced,
            eos=eos,
            cut=cut,
        ),
        request.pad,
    )


def _covered(bundle: Bundle, network: EncoderOnly, request: TraceRequest) -> Lesson:
    if request.inputs == "own" or request.target_from == "model":
        raise ExploreError(
            "cannot", "an encoder sees the whole text at once: it writes nothing word by word"
        )
    text, cut = _fitting(read_text(bundle, request.target or "", is_ended=False), "target", request)
    columns = list(text.tokens)
    for place in request.cover:
        if place >= len(columns):
            raise ExploreError(
                "bad_request",
                f"token {place} cannot be covered: the tokens are 0 to {len(columns) - 1}",
                field="cover",
            )
        if bundle.specials.mask is None:
            raise ExploreError("cannot", "this vocabulary has no mask token to cover a word with")
        columns[place] = single(bundle, bundle.specials.mask, "mask")
    return _padded(
        Lesson(
            network=network,
            source=None,
            target=text,
            columns=tuple(columns),
            wanted=text.tokens,
            batch=Batch(pad_rows([[token.id for token in columns]])),
            n_given=0,
            cut=cut,
        ),
        request.pad,
    )


def _padded(lesson: Lesson, pad: int) -> Lesson:
    """The lesson with columns behind it that are no tokens, if any are asked for."""
    rows = lesson.batch.inputs
    assert [token.id for token in lesson.columns] == rows.ids[0].tolist()  # labels are the inputs
    if not pad:
        return lesson
    ids = torch.cat([rows.ids, rows.ids.new_zeros(1, pad)], 1)  # (1, T + pad)
    padded = as_rows(ids, torch.arange(ids.size(1))[None] < rows.shape[1])
    return replace(
        lesson,
        batch=replace(lesson.batch, inputs=padded),
        columns=(*lesson.columns, *[Token(0, "<pad>", "", "pad")] * pad),
    )


def _fitting(
    tokens: Tokens, side: Literal["source", "target"], request: TraceRequest
) -> tuple[Tokens, Cut | None]:
    """The tokens if they fit; shortened only when the request says so."""
    limit, count = HARD_LIMIT if request.long == "window" else LIMIT, len(tokens.tokens)
    if count <= limit:
        return tokens, None
    if request.long != "cut":
        raise ExploreError(
            "too_long",
            f"{count} tokens; this page shows up to {limit}",
            side=side,
            tokens=count,
            limit=limit,
            hard_limit=HARD_LIMIT,
        )
    return replace(tokens, tokens=tokens.tokens[:limit]), Cut(side, limit, count)


def _check_forced(network: AnyModel, request: TraceRequest) -> None:
    """Words can be put into the mouth of a model only where it reads its own."""
    if request.forced and request.inputs != "own":
        raise ExploreError(
            "bad_request", "forced words need inputs 'own': else the target is read", field="forced"
        )
    size = network.config.vocab_size
    if any(id >= size for id in request.forced):
        raise ExploreError(
            "bad_request",
            f"token {max(request.forced)} cannot be forced: the vocabulary has {size:,}",
            field="forced",
        )


def _refuse_cover(request: TraceRequest) -> None:
    if request.cover:
        raise ExploreError("cannot", "only encoder-only models predict words that are covered up")
