"""Could the check have failed? Redrawn weights and a planted leak of known size."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def scramble(module: nn.Module, seed: int) -> None:
    """Redraw every float parameter in place, leaving no zeros.

    Zero-initialised gates and projections hide a leak until training has begun.
    """
    generator = torch.Generator().manual_seed(seed + 71)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                parameter.copy_(_redrawn(parameter.detach().float(), generator))


def amplify(module: nn.Module, factor: float) -> None:
    """Multiply every matrix of weights in place; norms keep their size, or they would undo it."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.dim() > 1:
                parameter.mul_(factor)


def _redrawn(old: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(old.shape, generator=generator)
    noise = torch.where(noise < 0, noise - 0.1, noise + 0.1)  # never close to zero
    spread = float(old.std()) if old.numel() > 1 else 0.0
    if old.dim() > 1:
        return noise * max(spread, 0.5 / math.sqrt(old.size(-1)))
    centre = float(old.mean()) if old.numel() else 0.0
    return centre + noise * max(spread, 0.3)
