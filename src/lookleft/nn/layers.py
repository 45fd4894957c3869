"""Norms, feed-forwards, embeddings and the output head: the parts of a block around attention.

Dimensions: B batch, T positions, D model width, F feed-forward width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lookleft.config import ModelConfig
from lookleft.errors import InputError
from lookleft.nn.fused import are_kernels_wanted, is_fusable, rms_norm
from lookleft.nn.narrow import Linear, linear


def relu2(x: Tensor) -> Tensor:
    """The square of what is positive."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu2": relu2,
}


class RMSNorm(nn.RMSNorm):
    """PyTorch's, which on a CPU takes a dozen passes there and back; training takes one each."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        if are_kernels_wanted(self.training) and is_fusable(x) and self.eps is not None:
            return rms_norm(x, self.weight, self.eps)
        return super().forward(x)


Norm = nn.LayerNorm | RMSNorm


def make_norm(config: ModelConfig) -> Norm:
    """The norm of this model over its width."""
    kind = nn.LayerNorm if config.norm == "layer" else RMSNorm
    return kind(config.d_model, eps=config.norm_eps)


class Dropout(nn.Module):
    """Zeroes a share of the numbers while training and scales up the rest, keeping the mean.

    On a CPU `nn.Dropout` spends more time on random numbers than the layer before it spends on
    products. A random byte per number is enough: the share is rounded to 1/256, and the scale
    is that of the rounded share. `generator` None is torch's own.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise InputError(f"dropout={share}: must be at least 0 and below 1")
        self.share = share
        self.strength = 1.0  # how much of the share is dropped now: training may change it
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        n_dropped = self.n_dropped
        if not self.training or n_dropped == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.share * self.strength)
        kept = torch.empty_like(x, requires_grad=False, memory_format=torch.contiguous_format)
        # 0.0 or 1.0 at once: a bool costs five times more
        torch.ge(self.chance(x.numel()).view(x.shape), n_dropped, out=kept)
        return x * kept.mul_(256 / (256 - n_dropped))

    @property
    def n_dropped(self) -> int:
        """How many of 256 byte values are dropped now."""
        return min(round(self.share * self.strength * 256), 255)

    def chance(self, n: int) -> Tensor:
        """So many random bytes."""
        # The whole range of int64: the default range leaves the sign bit, so a byte of 8, biased.
        words = torch.empty(-(-n // 8), dtype=torch.int64)
        words.random_(-(2**63), None, generator=self.generator)
        return words.view(torch.uint8)[:n]

    def extra_repr(self) -> str:
        return f"share={self.share}"


def set_dropout(model: nn.Module, strength: float) -> None:
    """From now on the model drops so much of the shares it was made with: 0 nothing, 1 all."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.strength = strength


class FeedForward(nn.Module):
    """Each position on its own: widen, bend, narrow (paper, 3.3). (B, T, D) -> (B, T, D)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.to_hidden = Linear(config.d_model, config.d_ff, bias=config.ff_bias)
        self.to_gate = (
            Linear(config.d_model, config.d_ff, bias=config.ff_bias) if config.gated else None
        )
        self.to_out = Linear(config.d_ff, config.d_model, bias=config.ff_bias)
        self.activation = ACTIVATIONS[config.activation]

    @property
    def ways_in(self) -> list[Linear]:
        """The products that read x."""
        return [self.to_hidden] if self.to_gate is None else [self.to_hidden, self.to_gate]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.to_out(self.bent(*(linear(x) for linear in self.ways_in)))
        return out

    def bent(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """The activation, of the gate if there is one, which then lets through. (..., F), same."""
        return self.activation(hidden) if gate is None else self.activation(gate) * hidden


class Embedding(nn.Module):
    """Ids, and segment numbers if the model has them, to vectors. (B, T) -> (B, T, D)."""

    def __init__(self, config: ModelConfig, vocab_size: int, n_types: int = 0) -> None:
        super().__init__()
        self.scale = config.embed_scale
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.types = nn.Embedding(n_types, config.d_model) if n_types else None

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        x: Tensor = self.tokens(ids) * self.scale
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids) if types is None else types)
        return x


class Head(nn.Module):
    """Vectors to logits; shares the embedding matrix or has its own. (B, T, D) -> (B, T, V)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = config.logit_scale
        shape = (config.vocab_size, config.d_model)
        self.own_weight = None if config.tie_embeddings else nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(config.vocab_size)) if config.logit_bias else None

    def weight(self, embedding: Embedding) -> Tensor:
        """The (V, D) matrix of the output projection."""
        return embedding.tokens.weight if self.own_weight is None else self.own_weight

    def forward(self, x: Tensor, embedding: Embedding) -> Tensor:
        return linear(x * self.scale, self.weight(embedding), self.bias)
