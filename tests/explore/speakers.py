"""Tiny untrained models of each family that read English and Hindi, for the explorer's tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from lookleft.bundle import Bundle
from lookleft.config import EncoderDecoderConfig, EncoderOnlyConfig
from lookleft.explore.card import make_card
from lookleft.explore.lesson import TraceRequest
from lookleft.explore.trace import Trace, make_trace
from lookleft.models import AnyConfig, build, presets
from lookleft.text.tokenizer import Tokenizer

ENGLISH, HINDI = "I am going home.", "मैं घर जा रहा हूँ।"
TEXTS = [ENGLISH, HINDI, "how are you?", "आप कैसे हैं?", "the cat sat on the mat"]


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, kind="bpe", vocab_size=420)


def bundle(config: AnyConfig, seed: int = 0) -> Bundle:
    """A freshly drawn network; its numbers are large enough to differ from row to row."""
    network = build(config, torch.Generator().manual_seed(seed)).eval()
    return Bundle(network, tokenizer(), tokenizer().specials)


def translator(**options: Any) -> Bundle:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 2, "n_decoder_layers": 2}
    shared = {"vocab_size": len(tokenizer()), "start_id": 1, "embed_scale": 4.0}
    return bundle(EncoderDecoderConfig(**{**sizes, **shared, **options}))


def writer() -> Bundle:
    return bundle(presets.gpt(len(tokenizer()), d_model=16, n_layers=2, n_heads=2, max_len=300))


def llama() -> Bundle:
    return bundle(
        presets.llama(len(tokenizer()), d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=24)
    )


def guesser() -> Bundle:
    config = EncoderOnlyConfig(
        vocab_size=len(tokenizer()), d_model=16, n_heads=2, d_ff=24, n_layers=2, embed_scale=4.0
    )
    return bundle(config)


def trace_of(speaker: Bundle, **asked: Any) -> Trace:
    """The trace of a request; a translator gets the sentence above unless told otherwise."""
    if speaker.network.config.family == "encoder-decoder":
        asked = {"source": ENGLISH, "target": HINDI, **asked}
    else:
        asked = {"target": "the cat sat", **asked}
    return make_trace(speaker, make_card(speaker, "main", "tiny"), TraceRequest(**asked))
