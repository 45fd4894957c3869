"""Whole networks: three families, built from nn/ by a frozen config."""

from __future__ import annotations

import torch

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig
from lookleft.models.base import DecodeState, Network
from lookleft.models.decoder_only import DecoderOnly
from lookleft.models.encoder_decoder import EncoderDecoder
from lookleft.models.encoder_only import EncoderOnly

AnyConfig = DecoderOnlyConfig | EncoderDecoderConfig | EncoderOnlyConfig
AnyModel = DecoderOnly | EncoderDecoder | EncoderOnly


def build(config: AnyConfig, generator: torch.Generator | None = None) -> AnyModel:
    """The network that this config describes, freshly drawn."""
    if isinstance(config, DecoderOnlyConfig):
        return DecoderOnly(config, generator)
    if isinstance(config, EncoderDecoderConfig):
        return EncoderDecoder(config, generator)
    return EncoderOnly(config, generator)


__all__ = [
    "AnyConfig",
    "AnyModel",
    "DecodeState",
    "DecoderOnly",
    "EncoderDecoder",
    "EncoderOnly",
    "Network",
    "build",
]
