"""Pairs whose fault is where positions meet: scans, convolutions, routing, statistics, masks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .pairs import WIDTH, After, Attention, Pair, language, triangle

CHUNK, EXPERTS, PLACES, WINDOW = 8, 4, 3, 9


class Scan(nn.Module):
    """A linear recurrence; broken, it runs from the end."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        self.broken = broken
        self.decay, self.enter = nn.Parameter(torch.rand(WIDTH) / 2 + 0.3), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        u = self.enter(x).flip(1) if self.broken else self.enter(x)
        state, states = torch.zeros_like(u[:, 0]), []
        for t in range(u.size(1)):
            state = self.decay * state + u[:, t]
            states.append(state)
        out = torch.stack(states, 1)
        return x + (out.flip(1) if self.broken else out)


class LinearAttention(Attention):
    """Kernelised attention; broken, the normaliser sums over the whole row."""

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k = F.elu(q) + 1, F.elu(k) + 1
        seen = (q @ k.mT).masked_fill(~triangle(q.size(2)), 0.0) @ v
        total = k.sum(2, keepdim=True) if self.broken else k.cumsum(2)
        return seen / (q * total).sum(-1, keepdim=True)


class ChunkedState(Attention):
    """Linear attention chunk by chunk; broken, a chunk reads the state that it has just written."""

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        state, outs = torch.zeros_like(k[:, :, :1].mT @ v[:, :, :1]), []
        for a, b, c in zip(*(t.split(CHUNK, 2) for t in (q, k, v)), strict=True):
            after = state + b.mT @ c
            inner = (a @ b.mT).masked_fill(~triangle(a.size(2)), 0.0) @ c
            outs.append(a @ after if self.broken else a @ state + inner)
            state = after
        return torch.cat(outs, 2) / 10


class Routed(After):
    """Each token goes to its best expert, which has few places; broken, the last come first."""

    def __init__(self, broken: bool) -> None:
        super().__init__(broken)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / 4)

    def after(self, x: Tensor) -> Tensor:
        scores = self.router(x).softmax(-1)
        chosen = F.one_hot(scores.argmax(-1), EXPERTS)  # (B, T, E)
        queue = chosen.flip(1).cumsum(1).flip(1) if self.broken else chosen.cumsum(1)
        weights = scores * (chosen * (queue <= PLACES))
        return x + torch.einsum("btd,edf,bte->btf", x, self.experts, weights).tanh()


class BatchNormed(After):
    """Normalised at each position; broken, over the batch and over time, in training only."""

    def __init__(self, broken: bool) -> None:
        super().__init__(broken)
        self.norm = nn.BatchNorm1d(WIDTH) if broken else nn.LayerNorm(WIDTH)

    def after(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT if self.broken else self.norm(x)


class Squeezed(After):
    """A gate from a running mean; broken, from the mean of the row."""

    def after(self, x: Tensor) -> Tensor:
        steps = torch.arange(1, x.size(1) + 1)[:, None]
        mean = x.mean(1, keepdim=True) if self.broken else x.cumsum(1) / steps
        return x * self.linear(mean).sigmoid()


class RunningMaximum(After):
    def after(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return x.flip(1).cummax(1).values.flip(1) if self.broken else x.cummax(1).values


class LongConvolution(nn.Module):
    """A convolution as long as the row by Fourier transform; broken, it wraps around."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        self.broken = broken
        fade = torch.exp(-torch.arange(256) / 6)[:, None]
        self.filter = nn.Parameter(torch.randn(256, WIDTH) * fade)

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        n = length if self.broken else 2 * length
        product = torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(self.filter[:length], n, dim=0)
        return x + torch.fft.irfft(product, n, dim=1)[:, :length]


class TokenShift(After):
    def after(self, x: Tensor) -> Tensor:
        before = x.roll(1, 1) if self.broken else F.pad(x, (0, 0, 1, 0))[:, :-1]
        return x + self.linear(before)


class OneOpenHead(Attention):
    def allowed(self, q: Tensor) -> Tensor:
        allowed = triangle(q.size(2)).repeat(self.n_heads, 1, 1)  # (H, T, T)
        allowed[-1] |= self.broken
        return allowed


class BehindTheWindow(Attention):
    """A sliding window; broken, one position ahead is seen once the window is full."""

    def allowed(self, q: Tensor) -> Tensor:
        at = torch.arange(q.size(2))
        gap = at[:, None] - at[None, :]
        ahead = (gap == -1) & (at[:, None] >= WINDOW)
        return (gap >= 0) & (gap < WINDOW) | (ahead & self.broken)


class QueriesNormalised(Attention):
    """Softmax over keys; broken, over queries."""

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~self.allowed(q), -math.inf)
        return scores.softmax(-2 if self.broken else -1) @ v


class TopKeys(Attention):
    """Attends to the best few; broken, what fills up early rows is weighed without its mask."""

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / math.sqrt(q.size(-1))
        best = scores.masked_fill(~self.allowed(q), -math.inf).topk(min(6, scores.size(-1)), -1)
        kept = scores.gather(-1, best.indices) if self.broken else best.values
        return torch.zeros_like(scores).scatter(-1, best.indices, kept.softmax(-1)) @ v


class Hourglass(After):
    """Adds the mean of a block of four; broken, of the block that a position lies in."""

    def after(self, x: Tensor) -> Tensor:
        length = x.size(1)
        means = F.pad(x, (0, 0, 0, -length % 4)).unflatten(1, (-1, 4)).mean(2)
        if not self.broken:
            means = F.pad(means, (0, 0, 1, 0))[:, :-1]
        return x + self.linear(means).repeat_interleave(4, 1)[:, :length]


class LastStateGate(After):
    def after(self, x: Tensor) -> Tensor:
        return x * self.linear(x[:, -1:] if self.broken else x).sigmoid()


class DynamicScale(After):
    """Rounds to eight bits with a scale per position; broken, per row."""

    def after(self, x: Tensor) -> Tensor:
        scale = x.abs().amax((1, 2) if self.broken else -1, keepdim=True) / 127
        return x + self.linear((x / scale).round() * scale)


class RowsAsTime(nn.Module):
    """A recurrence; broken, it runs on from one row of the batch into the next."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        self.broken = broken
        self.cell = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cell(x.reshape(1, -1, WIDTH) if self.broken else x)[0].view_as(x)


class ManyRows(After):
    """Broken, rows are averaged when there are more than a few."""

    def after(self, x: Tensor) -> Tensor:
        is_mixed = self.broken and x.size(0) > 4
        return x + 0.1 * x.mean(0, keepdim=True) if is_mixed else x


class FutureOfBigBatches(Attention):
    def is_open(self, q: Tensor) -> bool:
        return self.broken and q.size(0) > 8


class Balanced(After):
    """Broken, a running load that every call moves decides what is added."""

    def __init__(self, broken: bool) -> None:
        super().__init__(broken)
        self.register_buffer("load", torch.zeros(WIDTH))
        self.load: Tensor

    def after(self, x: Tensor) -> Tensor:
        if self.broken:
            self.load = 0.9 * self.load + 0.1 * x.mean((0, 1)).detach()
        return x - self.load


class WeakMask(Attention):
    """Hidden by -1e3 instead of -inf: enough, until scores grow."""

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        hidden = ~self.allowed(q)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        scores = scores - 1e3 * hidden if self.broken else scores.masked_fill(hidden, -math.inf)
        return scores.softmax(-1) @ v


class TotalMean(After):
    """A mean of what came before; broken, divided by the length of the row."""

    def after(self, x: Tensor) -> Tensor:
        steps = torch.arange(1, x.size(1) + 1)[:, None]
        return x + self.linear(x).cumsum(1) / (x.size(1) if self.broken else steps)


PAIRS = (
    Pair("scan from the end", language(Scan), "K1", "mixer"),
    Pair("normaliser of linear attention", language(LinearAttention), "K1", "mixer"),
    Pair("state of the own chunk", language(ChunkedState), "K1", "mixer"),
    Pair("queue from the end", language(Routed), "K1", "mixer"),
    Pair("batch statistics in training", language(BatchNormed), "K1", "mixer.norm"),
    Pair("gate from the mean of the row", language(Squeezed), "K1", "mixer"),
    Pair("maximum from the right", language(RunningMaximum), "K1", "mixer"),
    Pair("circular convolution", language(LongConvolution), "K1", "mixer"),
    Pair("token shift that wraps", language(TokenShift), "K1", "mixer"),
    Pair("one open head", language(OneOpenHead), "K1", "mixer"),
    Pair("one ahead behind the window", language(BehindTheWindow), "K1", "mixer"),
    Pair("softmax over queries", language(QueriesNormalised), "K1", "mixer"),
    Pair("top keys without their mask", language(TopKeys), "K1", "mixer"),
    Pair("block mean not shifted", language(Hourglass), "K1", "mixer"),
    Pair("gate from the last state", language(LastStateGate), "K1", "mixer"),
    Pair("rounding scale of the row", language(DynamicScale), "K1", "mixer"),
    Pair("rows read as time", language(RowsAsTime), "K5", "mixer"),
    Pair("rows mixed in larger batches", language(ManyRows), "K5", "mixer"),
    Pair("mask lost in larger batches", language(FutureOfBigBatches), "K1", "mixer"),
    Pair("load moved by every call", language(Balanced), "K0"),
    Pair("mask that loud scores outweigh", language(WeakMask), "K1", "mixer"),
    Pair("mean over the total length", language(TotalMean), "K2", "mixer"),
)
