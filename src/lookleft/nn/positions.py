"""How a model knows where a token stands: sinusoidal, learned, rotary, relative.

All take positions (B, T), never lengths, so that a cached step at position 40 gets what position
40 got in training. Dimensions: B batch, T queries, S keys, D width, H heads, K head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lookleft.config import Learned, Positions, Relative, RopeScaling, Rotary, Sinusoidal
from lookleft.errors import InputError
from lookleft.nn.attention import Bias
from lookleft.once import once


class SinusoidalPositions(nn.Module):
    """Fixed waves, computed for the positions at hand. (B, T) -> (B, T, D)."""

    def __init__(self, config: Sinusoidal, d_model: int) -> None:
        super().__init__()
        self.config, self.d_model = config, d_model

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        half = self.d_model // 2
        last = half if self.config.spacing == "paper" else max(half - 1, 1)
        i = torch.arange(half, dtype=torch.float64, device=pos.device)
        wave = torch.exp(-math.log(10_000.0) * i / last)  # (D/2,)
        angle = (pos + self.config.offset)[..., None].double() * wave  # (B, T, D/2)
        sin, cos = angle.sin(), angle.cos()
        if self.config.layout == "halves":
            return torch.cat((sin, cos), -1).to(dtype)  # (B, T, D)
        return torch.stack((sin, cos), -1).flatten(-2).to(dtype)  # (B, T, D)


class LearnedPositions(nn.Module):
    """One trained vector per position. (B, T) -> (B, T, D)."""

    def __init__(self, config: Learned, d_model: int) -> None:
        super().__init__()
        self.max_len, self.offset = config.max_len, config.offset
        self.table = nn.Embedding(config.max_len + config.offset, d_model)

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        if pos.numel() and int(pos.max()) >= self.max_len:
            raise InputError(
                f"position {int(pos.max())} is beyond the {self.max_len} learned positions "
                f"(0..{self.max_len - 1}): shorten the text"
            )
        vectors: Tensor = self.table(pos + self.offset)
        return vectors.to(dtype)


class RotaryPositions(nn.Module):
    """Turns queries and keys so that their product depends on the distance between them."""

    def __init__(self, config: Rotary, head_dim: int) -> None:
        super().__init__()
        self.config, self.head_dim = config, head_dim

    def frequencies(self, device: torch.device) -> Tensor:
        """Turns per position of each pair, in radians, float64. (K/2,)."""
        i = torch.arange(0, self.head_dim, 2, dtype=torch.float64, device=device)
        frequency = self.config.theta ** -(i / self.head_dim)
        return scale_frequencies(frequency, self.config.scaling)

    def turn(self, pos: Tensor) -> Rotation:
        """The rotation for these positions. (B, T) -> a function on (B, H, T, K).

        Pair i is (x[i], x[i + K/2]). Angles are made in float64: position 100,000 in 16 bits
        would be off by whole turns.
        """
        return Rotation(pos, self.frequencies(pos.device))


class Rotation:
    """A turn by angles that grow with position. Called with heads, (B, H, T, K) -> the same."""

    def __init__(self, pos: Tensor, frequencies: Tensor) -> None:
        self.pos, self.frequencies = pos, frequencies  # (B, T), (K/2,)

    @once
    def waves(self) -> tuple[Tensor, Tensor]:
        """Cosines and sines, float64. (B, 1, T, K/2) each."""
        angle = self.pos[:, None, :, None].double() * self.frequencies
        return angle.cos(), angle.sin()

    @once
    def tables(self) -> tuple[Tensor, Tensor]:
        """The same as kernels read them, float32. (B, T, K/2) each.

        In a batch few positions differ, so few waves are computed.
        """
        known, where = torch.unique(self.pos, return_inverse=True)
        angle = known.double()[:, None] * self.frequencies
        return angle.cos().float()[where], angle.sin().float()[where]

    def __call__(self, x: Tensor) -> Tensor:
        cos, sin = (wave.to(x.dtype) for wave in self.waves)
        first, second = x.chunk(2, -1)  # (B, H, T, K/2) each
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def scale_frequencies(frequency: Tensor, scaling: RopeScaling | None) -> Tensor:
    """Slower turns for longer texts: all of them, or (llama3) only the slow ones."""
    if scaling is None:
        return frequency
    if scaling.kind == "linear":
        return frequency / scaling.factor
    # llama3: waves shorter than the old context stay, those longer are stretched, between the
    # two bounds a blend.
    turns = scaling.original_max_len * frequency / (2 * math.pi)  # turns within the old context
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return keep * frequency + (1 - keep) * frequency / scaling.factor


class RelativeBias(nn.Module):
    """A learned number per head and distance bucket, added to the scores (T5)."""

    def __init__(self, config: Relative, n_heads: int, is_bidirectional: bool) -> None:
        super().__init__()
        self.config, self.is_bidirectional = config, is_bidirectional
        self.table = nn.Embedding(config.n_buckets, n_heads)

    def between(self, q_pos: Tensor, k_pos: Tensor) -> Bias:
        """The bias of these queries towards these keys. (B, T), (B, S) -> Bias."""
        return Bias(lambda start, stop: self(q_pos[:, start:stop], k_pos), q_pos.size(1))

    def forward(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """(B, T), (B, S) -> (B, H, T, S)."""
        ahead = k_pos[:, None, :] - q_pos[:, :, None]  # (B, T, S), negative = looks left
        bias: Tensor = self.table(self.bucket(ahead))  # (B, T, S, H)
        return bias.permute(0, 3, 1, 2)

    def bucket(self, ahead: Tensor) -> Tensor:
        """Near distances have a bucket each, far ones share, on a log scale. Same shape, long."""
        n_buckets = self.config.n_buckets
        first = torch.zeros_like(ahead)
        if self.is_bidirectional:
            n_buckets //= 2
            first = (ahead > 0).long() * n_buckets
            distance = ahead.abs()
        else:
            distance = (-ahead).clamp(min=0)
        n_exact = n_buckets // 2
        # float32 on purpose: trained models drew their bucket borders with it.
        share = torch.log(distance.clamp(min=1).float() / n_exact) / math.log(
            self.config.max_distance / n_exact
        )
        far = n_exact + (share * (n_buckets - n_exact)).long()
        return first + torch.where(distance < n_exact, distance, far.clamp(max=n_buckets - 1))


def added_positions(positions: Positions, d_model: int) -> nn.Module | None:
    """The module whose vectors are added to the embeddings, if this kind adds any."""
    if isinstance(positions, Sinusoidal):
        return SinusoidalPositions(positions, d_model)
    if isinstance(positions, Learned):
        return LearnedPositions(positions, d_model)
    return None
