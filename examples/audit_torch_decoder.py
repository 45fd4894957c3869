"""A translator around torch.nn.TransformerDecoder, with its causal mask and without.

torch's decoder masks nothing by itself: the caller passes `tgt_mask`, or nothing complains.

    lookleft audit examples/audit_torch_decoder.py:build --quick
    lookleft audit examples/audit_torch_decoder.py:build_without_mask --quick
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCAB, WIDTH = 100, 64


class Translator(nn.Module):
    """Source ids and target ids to logits of the next target id."""

    def __init__(self, has_mask: bool) -> None:
        super().__init__()
        self.has_mask = has_mask
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Embedding(256, WIDTH)
        layer = nn.TransformerDecoderLayer(WIDTH, nhead=4, dim_feedforward=128, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, num_layers=2)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = None
        if self.has_mask:
            mask = nn.Transformer.generate_square_subsequent_mask(
                target.size(1), dtype=self.head.weight.dtype
            )
        decoded: Tensor = self.decoder(self._placed(target), self._placed(source), tgt_mask=mask)
        logits: Tensor = self.head(decoded)
        return logits

    def _placed(self, ids: Tensor) -> Tensor:
        placed: Tensor = self.embed(ids) + self.place(torch.arange(ids.size(1)))
        return placed


def build() -> nn.Module:
    """With the mask."""
    return Translator(has_mask=True)


def build_without_mask() -> nn.Module:
    """The mask forgotten."""
    return Translator(has_mask=False)
