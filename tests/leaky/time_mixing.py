"""Leaks that no attention mask can stop: something else mixes the positions of a row."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .exhibit import Exhibit, github
from .parts import Attention, Config, Decoder, FeedForward, pair, split_heads

SLOTS = 6  # keys that a row is squeezed into, tokens that an expert picks
PLACES = 2  # tokens that an expert has room for


class Plain(Decoder):
    """Tokens in, logits out; nothing else is asked of these models."""

    def forward(self, input_ids: Tensor) -> Any:
        return super().forward(input_ids)


class ProjectedKeys(Attention):
    """Squeezes the keys of the whole row into a few, then masks a triangle of what is left."""

    def __init__(self, config: Config, layer: int = 0) -> None:
        super().__init__(config, layer)
        self.squeeze = nn.Parameter(torch.randn(SLOTS, config.max_position_embeddings) / 4)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        squeeze = self.squeeze[:, : k.size(2)]  # (SLOTS, T)
        k, v = squeeze @ k, squeeze @ v
        triangle = torch.ones(q.size(2), SLOTS, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=triangle)


class Projected(Plain):
    attention = ProjectedKeys


class Experts(nn.Module):
    """Four small networks and a router; every token goes to the one it scores best."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.router = nn.Linear(config.hidden_size, 4)
        self.experts = nn.ModuleList(FeedForward(config) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x).softmax(-1)  # (B, T, 4)
        chosen = self.route(scores)  # (B, T, 4)
        outputs = torch.stack([expert(x) for expert in self.experts], -1)  # (B, T, D, 4)
        return (outputs * (scores * chosen)[:, :, None]).sum(-1)

    def route(self, scores: Tensor) -> Tensor:
        """True where a token is given to an expert. (B, T, 4) -> (B, T, 4)."""
        return F.one_hot(scores.argmax(-1), 4).bool()


class Mixture(Plain):
    feed_forward = Experts


class ExpertsChoose(Experts):
    def route(self, scores: Tensor) -> Tensor:
        best = scores.topk(min(SLOTS, scores.size(1)), dim=1).indices  # of the whole row
        return torch.zeros_like(scores, dtype=torch.bool).scatter(1, best, True)


class ExpertChoice(Plain):
    feed_forward = ExpertsChoose


class FullByScore(Experts):
    """An expert has few places, and the tokens with the best scores get them."""

    def route(self, scores: Tensor) -> Tensor:
        chosen = super().route(scores)
        wish = scores.masked_fill(~chosen, -1.0)
        rank = wish.argsort(dim=1, descending=True).argsort(dim=1)
        return chosen & (rank < PLACES)


class CapacityByScore(Plain):
    feed_forward = FullByScore


class FullAcrossRows(Experts):
    """An expert has few places for the whole batch, first come, first served."""

    def route(self, scores: Tensor) -> Tensor:
        chosen = super().route(scores)
        taken = chosen.flatten(0, 1).cumsum(0).view_as(chosen)
        return chosen & (taken <= SLOTS)


class CapacityAcrossRows(Plain):
    feed_forward = FullAcrossRows


class Convolution(nn.Module):
    """A convolution along time that pads before the row only."""

    kernel = 5

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Conv1d(width, width, self.kernel)

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(F.pad(x.mT, self.padding())).mT  # (B, T, D)

    def padding(self) -> tuple[int, int]:
        return self.kernel - 1, 0


class CentredConvolution(Convolution):
    def padding(self) -> tuple[int, int]:
        return self.kernel // 2, self.kernel // 2


class Filtered(nn.Module):
    """Frames in, responses out, as in a model of an eye. (B, T, D) -> (B, T, 3)."""

    width = 6
    convolution: type[Convolution] = Convolution

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.first, self.second = Convolution(self.width), self.convolution(self.width)
        self.readout = nn.Linear(self.width, 3)

    def forward(self, frames: Tensor) -> Tensor:
        return self.readout(self.second(self.first(frames).tanh()).tanh())


class FilteredBothWays(Filtered):
    convolution = CentredConvolution


class ScrambledHeads(Attention):
    def forward(self, x: Tensor, allowed: Tensor, pos: Tensor, cache: Any = None) -> Tensor:
        q, k, v = (split_heads(f(x), self.n_heads) for f in (self.to_q, self.to_k, self.to_v))
        seen = self.attend(self.turn(q, pos), self.turn(k, pos), v, allowed)  # (B, H, T, K)
        return self.to_out(seen.reshape(x.shape))  # heads were not moved back behind time


class ReshapedNotPermuted(Plain):
    attention = ScrambledHeads


class Column(nn.Module):
    """A column of air from the top down: level t may depend on the levels above it only."""

    width = 6

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.down = nn.GRU(self.width, 8, batch_first=True)
        self.readout = nn.Linear(8, 3)

    def forward(self, levels: Tensor) -> Tensor:
        states, _ = self.down(levels)  # (B, T, 8)
        return self.readout(self.gather(states))

    def gather(self, states: Tensor) -> Tensor:
        return states


class ColumnUndone(Column):
    """Reads every output off the whole column, which undoes what the recurrence enforced."""

    def gather(self, states: Tensor) -> Tensor:
        return states + states.mean(1, keepdim=True)


class LengthScaled(Attention):
    """Sharpens attention by the logarithm of how much there is to look at."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return super().attend(q * self.sharpness(q.size(2)), k, v, allowed)

    def sharpness(self, length: int) -> Tensor:
        return torch.arange(1, length + 1).log2().add(1)[:, None].to(self.to_q.weight.dtype)


class TotalLengthScaled(LengthScaled):
    def sharpness(self, length: int) -> Tensor:
        return torch.tensor(math.log2(length) + 1, dtype=self.to_q.weight.dtype)


class Sharpened(Plain):
    attention = LengthScaled


class SharpenedByTotal(Plain):
    attention = TotalLengthScaled


def frames(model: nn.Module) -> dict[str, Any]:
    """Options for a model that reads continuous values."""
    width, dtype = model.width, next(model.parameters()).dtype
    return {"inputs": lambda: torch.randn(3, 37, width, dtype=dtype)}


EXHIBITS = (
    Exhibit(
        "keys projected along time",
        **pair(Projected, Plain, num_hidden_layers=1),
        module="blocks.0.attention",
        threads=github("tatp22/linformer-pytorch/issues/25", "tatp22/linformer-pytorch/issues/16"),
        check="K1",
        story="Linformer squeezes all keys of a row into a few. Each of the few is a sum over the "
        "whole row, future included, so a triangular mask over what is left protects nothing.",
        symptom="A causal mask is in the code, is tested, and is meaningless.",
    ),
    Exhibit(
        "experts choose their tokens",
        **pair(ExpertChoice, Mixture, num_hidden_layers=1),
        module="blocks.0.feed_forward",
        threads=github("piotrpiekos/MoSA/issues/3", "allenai/OLMoE/issues/46"),
        check="K1",
        story="With expert-choice routing every expert takes the tokens of a row that score best. "
        "Whether a token is taken depends on the tokens that come after it.",
        symptom="Better in training than routing by token, and not usable for generation.",
    ),
    Exhibit(
        "expert capacity given to the best scores",
        **pair(CapacityByScore, Mixture, num_hidden_layers=1),
        module="blocks.0.feed_forward",
        threads=github("microsoft/Tutel/issues/230"),
        check="K1",
        story="Tokens choose their expert, but an expert has room for so many only and keeps those "
        "with the highest scores. A later token can push an earlier one out.",
        symptom="Token by token the model answers differently than over the whole row.",
    ),
    Exhibit(
        "expert capacity shared by the batch",
        **pair(CapacityAcrossRows, Mixture, num_hidden_layers=1),
        module="blocks.0.feed_forward",
        threads=github("microsoft/Tutel/issues/230"),
        check="K5",
        story="The places of an expert are filled in the order of the flattened batch, so the rows "
        "before decide whether there is room for this one.",
        symptom="A prompt's answer changes with its neighbours.",
    ),
    Exhibit(
        "convolution padded on both sides",
        **pair(FilteredBothWays, Filtered),
        module="second",
        threads=github("open-retina/open-retina/issues/136", "open-retina/open-retina/pull/138"),
        check="K1",
        story="open-retina's published models of the mouse retina padded their second convolution "
        "along time on both sides. The model eye answered to frames it had not been shown yet.",
        symptom="Responses begin a few frames before the stimulus.",
        audit_options=frames,
    ),
    Exhibit(
        "reshape without permute",
        **pair(ReshapedNotPermuted, Plain),
        module="blocks.0.attention",
        threads=github("PKU-YuanGroup/Open-Sora-Plan/issues/171"),
        check="K1",
        story="After attention the axes are batch, head, time, width. Reshaping them to batch, "
        "time, width without moving the heads first has the right shape and the wrong contents: "
        "every position receives pieces of others.",
        symptom="Trains, because the scrambling is always the same; a little worse, and leaky.",
    ),
    Exhibit(
        "readout that undoes the recurrence",
        **pair(ColumnUndone, Column),
        module="",
        threads=github("ai2cm/fv3net/issues/1522"),
        check="K1",
        story="A weather model was to compute every level of a column of air from those above. The "
        "recurrence did so; the layer after it mixed all levels again. A plot of the Jacobian "
        "showed a triangle that had to be empty and was not.",
        symptom="An enforced order that nothing downstream respects.",
        audit_options=frames,
    ),
    Exhibit(
        "attention sharpened by the total length",
        **pair(SharpenedByTotal, Sharpened, num_hidden_layers=1),
        module="blocks.0.attention",
        threads=github("microsoft/torchscale/issues/77"),
        check="K2",
        story="Something is scaled by the length of the whole input instead of by what a position "
        "can see. Later tokens may hold anything, so swapping them shows nothing; but their mere "
        "number is known in advance. Normalisation by chunk length is a relative of this bug.",
        symptom="Scores of a prefix change when the text goes on.",
    ),
)
