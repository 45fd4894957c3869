"""Tiny models, prompts and every way to decode, for the tests of generation."""

from __future__ import annotations

from typing import Any

import torch

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, Rotary
from lookleft.generate.methods import Way, choose
from lookleft.generate.request import Answer, Beam, Done, Request, Wu
from lookleft.generate.scheduler import answer_all
from lookleft.generate.speculate import PromptLookup, speculate
from lookleft.models import AnyConfig, build

VOCAB, ENDS = 40, (2, 29, 7)  # several, so that some texts end early
SMALL: dict[str, Any] = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 4, "d_ff": 24}
UNTIED: dict[str, Any] = SMALL | {"tie_embeddings": False, "max_len": 64}
CONFIGS: dict[str, AnyConfig] = {
    "decoder": DecoderOnlyConfig(**UNTIED, n_layers=2, positions=Rotary()),
    "window": DecoderOnlyConfig(**UNTIED, n_layers=2, positions=Rotary(), window=4),
    "translator": EncoderDecoderConfig(**UNTIED, n_encoder_layers=1, n_decoder_layers=2),
}
PROMPTS = [(5, 6, 7), (8,), (9, 10, 11, 12, 13), (20, 3, 20, 3, 20, 3)]


def make(family: str, *, vocab: int = VOCAB, seed: int = 3) -> Any:
    """A model in float64, so that no answer hangs on rounding, with texts that differ and end."""
    config = CONFIGS[family].model_copy(update={"vocab_size": vocab})
    model = build(config, torch.Generator().manual_seed(seed)).eval().double()
    assert model.head.own_weight is not None
    with torch.no_grad():
        model.embedding.tokens.weight.mul_(4)
        model.head.own_weight.mul_(3)
    return model


def even_after_odd(text: Any) -> range:
    """Allowed tokens: even ones after odd ones, odd after even."""
    return range((text[-1] + 1) % 2, VOCAB, 2)


# What `choose` is asked for. A new option of it must appear here; a test looks.
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sample": {"temperature": 1.0, "seed": 1},
    "sample-top-k": {"temperature": 0.7, "top_k": 5, "seed": 2},
    "sample-top-p": {"temperature": 1.3, "top_p": 0.8, "seed": 3},
    "sample-min-p": {"temperature": 1.5, "min_p": 0.1, "seed": 4},
    "sample-no-repeat": {"temperature": 1.0, "no_repeat_ngram": 2, "seed": 5},
    "beam": {"beam": 4},
    "beam-n-best-wu": {"beam": 3, "length_penalty": Wu(0.6), "n_best": 3},
    "beam-no-repeat": {"beam": 3, "no_repeat_ngram": 1},
    "beam-bias": {"beam": 3, "bias": {23: 3.0, 38: -3.0}},
    "greedy-repetition": {"repetition": 1.5},
    "greedy-bias": {"bias": {23: 3.0, 38: -3.0}},
    "greedy-allowed": {"allowed": even_after_odd},
    "greedy-lookup": {"is_lookup": True},
    "sample-lookup": {"temperature": 0.8, "seed": 6, "is_lookup": True},
}
WAYS: dict[str, Way] = {
    **{name: choose(**options) for name, options in OPTIONS.items()},
    "beam-of-one": Way(Beam(1)),
    "beam-estimate": Way(Beam(4, stop="estimate")),
}


def request(family: str, ids: tuple[int, ...], way: Way, max_new: int = 7) -> Request:
    """The ids as a prompt, or as a source to translate."""
    is_translator = isinstance(CONFIGS[family], EncoderDecoderConfig)
    return Request(
        prompt=() if is_translator else ids,
        source=ids if is_translator else None,
        max_new=max_new,
        ends=ENDS,
        method=way.method,
        rules=way.rules,
        wants_log_probs=True,
    )


def answers(runner: Any, requests: list[Request], way: Way) -> list[list[Answer]]:
    """The answers to all requests, asked together where the way can."""
    if way.is_lookup:
        done = [list(speculate(runner, one, PromptLookup()))[-1] for one in requests]
        return [event.answers for event in done if isinstance(event, Done)]
    found = {event.ticket: event.answers for event in answer_all(runner, requests)}
    return [found[ticket] for ticket in range(len(requests))]


def texts(found: list[list[Answer]]) -> list[list[list[int]]]:
    """Only the ids."""
    return [[answer.ids for answer in each] for each in found]
