"""BERT style: every position sees every other; a head predicts tokens that were covered up.

Dimensions: B batch, T positions, D model width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lookleft.config import EncoderOnlyConfig
from lookleft.data.batch import Batch, Rows
from lookleft.errors import InputError
from lookleft.masks import visible
from lookleft.models.base import Network
from lookleft.nn.block import Stack
from lookleft.nn.layers import ACTIVATIONS, Embedding, Head, make_norm
from lookleft.nn.narrow import Linear


class EncoderOnly(Network):
    """A masked-token model. It has no prefill and no step: nothing in it is left to right."""

    def __init__(self, config: EncoderOnlyConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config: EncoderOnlyConfig = config
        self.embedding = Embedding(config, config.vocab_size, config.n_types)
        self.encoder = Stack(config, config.n_layers, is_bidirectional=True)
        self.head_transform = HeadTransform(config) if config.head_transform else nn.Identity()
        self.head = Head(config)
        self.initialise(generator)

    def score(self, batch: Batch) -> Tensor:
        """Logits of the token at every position itself. -> (B, T, V)."""
        return self.logits(self.head_transform(self.states(batch)))

    def states(self, batch: Batch) -> Tensor:
        """The encoded text. -> (B, T, D)."""
        rows = batch.inputs
        self.check(rows, self.config.vocab_size)
        _check_types(rows, self.config.n_types)
        mask = visible(rows.side, rows.side, is_causal=False)
        view = self.encoder.view(mask, rows.pos, rows.pos)
        out: Tensor = self.encoder(self.embedding(rows.ids, rows.types), rows.pos, view)
        return out


def _check_types(rows: Rows, n_types: int) -> None:
    if rows.types is None or not rows.types.numel():
        return
    if rows.types.shape != rows.shape:
        raise InputError(f"segment numbers {tuple(rows.types.shape)}, ids {tuple(rows.shape)}")
    lowest, highest = (int(number) for number in rows.types.aminmax())
    if lowest < 0 or highest >= n_types:
        raise InputError(f"segments {lowest} to {highest}, but this model has {n_types} kinds")


class HeadTransform(nn.Module):
    """BERT's dense layer before the vocabulary. (B, T, D) -> (B, T, D)."""

    def __init__(self, config: EncoderOnlyConfig) -> None:
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model, bias=config.ff_bias)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = make_norm(config)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.activation(self.dense(x)))
        return out
