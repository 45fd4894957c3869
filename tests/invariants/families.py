"""Tiny models of every family and kind of part, and the batches that the invariants run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    Learned,
    NoPositions,
    Relative,
    RopeScaling,
    Rotary,
)
from lookleft.data.batch import Batch, Rows, as_rows
from lookleft.models import AnyConfig, AnyModel, build

VOCAB = 50
SMALL: dict[str, Any] = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 4, "d_ff": 24}
PRE: dict[str, Any] = {"norm_order": "pre", "final_norm": True}
RMS: dict[str, Any] = {"norm": "rms", **PRE}
LLAMA: dict[str, Any] = {
    **RMS,
    "n_kv_heads": 2,
    "activation": "silu",
    "gated": True,
    "qkv_bias": False,
    "out_bias": False,
    "ff_bias": False,
}
LLAMA3 = RopeScaling(kind="llama3", factor=4.0, original_max_len=16)
LINEAR = RopeScaling(kind="linear", factor=2.0)
NEAR_AND_FAR = Relative(n_buckets=8, max_distance=12)


def decoder_only(**options: Any) -> DecoderOnlyConfig:
    return DecoderOnlyConfig(**{**SMALL, "n_layers": 2, **options})


def encoder_decoder(**options: Any) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(
        **{**SMALL, "n_encoder_layers": 2, "n_decoder_layers": 2, "start_id": 1, **options}
    )


def encoder_only(**options: Any) -> EncoderOnlyConfig:
    return EncoderOnlyConfig(**{**SMALL, "n_layers": 2, **options})


DECODERS_ONLY: dict[str, DecoderOnlyConfig] = {
    "sinusoidal-post": decoder_only(),
    "learned-pre": decoder_only(positions=Learned(max_len=64, offset=2), **PRE),
    "rotary-grouped": decoder_only(positions=Rotary(), **LLAMA),
    "rotary-llama3-qk-norm": decoder_only(positions=Rotary(scaling=LLAMA3), qk_norm=True, **RMS),
    "rotary-linear-wide-heads": decoder_only(positions=Rotary(scaling=LINEAR), head_width=6),
    "relative-one-kv-head": decoder_only(positions=NEAR_AND_FAR, n_kv_heads=1, **RMS),
    "none-untied": decoder_only(
        positions=NoPositions(), tie_embeddings=False, logit_bias=True, **PRE
    ),
    "window-rotary": decoder_only(positions=Rotary(), window=4, **LLAMA),
    "window-sinusoidal": decoder_only(window=3, embed_norm=True, norm="rms"),
}
TRANSLATORS: dict[str, EncoderDecoderConfig] = {
    "sinusoidal-post": encoder_decoder(embed_scale=4.0),
    "learned-pre-two-vocabularies": encoder_decoder(
        positions=Learned(max_len=64), source_vocab_size=VOCAB - 7, **PRE
    ),
    "relative-rms": encoder_decoder(positions=NEAR_AND_FAR, attention_scale=1.0, **RMS),
    "rotary-grouped": encoder_decoder(positions=Rotary(), qk_norm=True, **LLAMA),
    "none": encoder_decoder(positions=NoPositions()),
}
ENCODERS_ONLY: dict[str, EncoderOnlyConfig] = {
    "learned-post-types": encoder_only(
        positions=Learned(max_len=64), n_types=2, embed_norm=True, logit_bias=True
    ),
    "rotary-pre": encoder_only(positions=Rotary(), **LLAMA),
    "relative": encoder_only(positions=NEAR_AND_FAR, head_transform=False),
}
CAUSAL: dict[str, AnyConfig] = {
    **{f"decoder-only {name}": config for name, config in DECODERS_ONLY.items()},
    **{f"encoder-decoder {name}": config for name, config in TRANSLATORS.items()},
}
ALL: dict[str, AnyConfig] = {
    **CAUSAL,
    **{f"encoder-only {name}": config for name, config in ENCODERS_ONLY.items()},
}


def make(config: AnyConfig, dtype: torch.dtype = torch.float64, seed: int = 0) -> AnyModel:
    """The model, drawn from a seed, with norms and biases that do something."""
    generator = torch.Generator().manual_seed(seed)
    model = build(config, generator).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, 1.0 if bool((parameter == 1).all()) else 0.0, 0.3, generator)
    return model.to(dtype)


def random_ids(*shape: int, seed: int = 0, vocab: int = VOCAB - 7) -> Tensor:
    """Uniform ids, valid on both sides of every model here."""
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def some_source(batch: int, seed: int = 99) -> Rows:
    """Sources of unequal length, padded on the right. (B, 5)."""
    lengths = 5 - torch.arange(batch) % 3
    return as_rows(random_ids(batch, 5, seed=seed), torch.arange(5)[None] < lengths[:, None])


def as_batch(config: AnyConfig, rows: Rows, source: Rows | None = None) -> Batch:
    """These rows for a model of this config, with a source if the model needs one."""
    if isinstance(config, EncoderDecoderConfig) and source is None:
        source = some_source(rows.shape[0])
    return Batch(inputs=rows, source=source)


def row_of(batch: Batch, b: int) -> Batch:
    """Row b on its own, without its padding: what the batched model must agree with."""

    def alone(rows: Rows) -> Rows:
        kept = rows.is_token[b]
        short = as_rows(rows.ids[b : b + 1, kept])
        types = None if rows.types is None else rows.types[b : b + 1, kept]
        return replace(short, types=types)

    prefix = None if batch.prefix is None else batch.prefix[b : b + 1]
    source = None if batch.source is None else alone(batch.source)
    return Batch(inputs=alone(batch.inputs), source=source, prefix=prefix)
