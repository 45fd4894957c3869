"""Tiny models with tokenizers: they write nonsense, and always the same."""

from __future__ import annotations

import torch

from lookleft.api import Model
from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, Rotary
from lookleft.models import AnyConfig, build
from lookleft.text.tokenizer import Tokenizer

TEXTS = ["Once upon a time there was a house.", "मैं घर जा रहा हूँ ।", "I am going home."] * 3
TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="bpe", vocab_size=330)


def speaker(kind: str, *, seed: int = 0, context: int = 64, **fields: object) -> Model:
    """A "writer", a "translator" or a "reader" (an encoder)."""
    words = tokenizer()
    sizes = {
        "vocab_size": len(words),
        "d_model": 16,
        "n_heads": 2,
        "d_ff": 24,
        "max_len": context,
        "tie_embeddings": False,
    }
    configs: dict[str, AnyConfig] = {
        "writer": DecoderOnlyConfig(**sizes, n_layers=1, positions=Rotary()),
        "translator": EncoderDecoderConfig(
            **sizes, n_encoder_layers=1, n_decoder_layers=1, start_id=1
        ),
        "reader": EncoderOnlyConfig(**sizes, n_layers=1),
    }
    network = build(configs[kind], torch.Generator().manual_seed(seed)).eval()
    with torch.no_grad():
        network.embedding.tokens.weight.mul_(6)
        for parameter in network.head.parameters():
            parameter[5:261] = 0  # single bytes are no nice reading
    fields = {"engine": "torch", **fields}
    return Model(network, words, words.specials, **fields)  # type: ignore[arg-type]
