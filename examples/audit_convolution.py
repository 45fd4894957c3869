"""A small WaveNet: dilated convolutions over time, padded on the left or, wrongly, on both sides.

lookleft audit examples/audit_convolution.py:build --quick
lookleft audit examples/audit_convolution.py:build_centred --quick
lookleft audit examples/audit_convolution.py:build --quick --spec window:8
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, WIDTH = 64, 32


class WaveNet(nn.Module):
    """Ids to logits through three convolutions of two taps: each output sees eight inputs."""

    def __init__(self, is_centred: bool) -> None:
        super().__init__()
        self.is_centred = is_centred
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(
            nn.Conv1d(WIDTH, WIDTH, kernel_size=2, dilation=gap) for gap in (1, 2, 4)
        )
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).mT  # (B, width, T)
        for layer in self.layers:
            gap = layer.dilation[0]
            right = gap // 2 if self.is_centred else 0  # "same" padding, as for images
            x = x + F.gelu(layer(F.pad(x, (gap - right, right))))
        logits: Tensor = self.head(x.mT)  # (B, T, vocab)
        return logits


def build() -> nn.Module:
    """Padded on the left only."""
    return WaveNet(is_centred=False)


def build_centred() -> nn.Module:
    """Padded on both sides."""
    return WaveNet(is_centred=True)
