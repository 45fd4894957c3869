"""Named configurations, as functions of what must be chosen."""

from __future__ import annotations

import math

from lookleft.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    Learned,
    Rotary,
    Sinusoidal,
)

# The paper alternates sines and cosines; Marian lays them side by side. It is the same model up
# to the order of the axes, and in this order it can be exported.
SIDE_BY_SIDE = Sinusoidal(layout="halves")


def paper_base(vocab_size: int) -> EncoderDecoderConfig:
    """The base model of "Attention is all you need", table 3."""
    return EncoderDecoderConfig(
        vocab_size=vocab_size,
        positions=SIDE_BY_SIDE,
        d_model=512,
        n_heads=8,
        d_ff=2048,
        embed_scale=math.sqrt(512),
        dropout=0.1,
    )


def tiny(vocab_size: int) -> EncoderDecoderConfig:
    """Transformer-Tiny (Wu et al. 2021): 4+4 layers, for corpora of some ten thousand pairs."""
    return EncoderDecoderConfig(
        vocab_size=vocab_size,
        positions=SIDE_BY_SIDE,
        d_model=128,
        n_heads=4,
        d_ff=256,
        n_encoder_layers=4,
        n_decoder_layers=4,
        embed_scale=math.sqrt(128),
        dropout=0.3,
    )


def gpt(
    vocab_size: int, d_model: int = 768, n_layers: int = 12, n_heads: int = 12, max_len: int = 1024
) -> DecoderOnlyConfig:
    """GPT-2's shape: learned positions, pre-norm, GELU."""
    return DecoderOnlyConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=4 * d_model,
        positions=Learned(max_len=max_len),
        norm_order="pre",
        final_norm=True,
        activation="gelu_tanh",
    )


def llama(
    vocab_size: int,
    d_model: int = 576,
    n_layers: int = 30,
    n_heads: int = 9,
    n_kv_heads: int = 3,
    d_ff: int = 1536,
) -> DecoderOnlyConfig:
    """Llama's shape: rotary positions, RMSNorm, SwiGLU, grouped queries, no biases."""
    return DecoderOnlyConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_ff=d_ff,
        positions=Rotary(),
        norm="rms",
        norm_order="pre",
        final_norm=True,
        activation="silu",
        gated=True,
        qkv_bias=False,
        out_bias=False,
        ff_bias=False,
    )


def bert(
    vocab_size: int, d_model: int = 768, n_layers: int = 12, n_heads: int = 12, max_len: int = 512
) -> EncoderOnlyConfig:
    """BERT's shape: learned positions, post-norm, GELU, two segment kinds."""
    return EncoderOnlyConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=4 * d_model,
        positions=Learned(max_len=max_len),
        norm_eps=1e-12,
        embed_norm=True,
        activation="gelu",
        logit_bias=True,
        n_types=2,
    )
