"""Pairs whose fault is in what the model is called with: modes, ids, masks, labels, caches."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .pairs import VOCAB, WIDTH, Attention, Language, Pair, language, triangle

MANY = 1000  # ids, more than a probe ever draws


class LongOnly(Attention):
    limit = 300

    def is_open(self, q: Tensor) -> bool:
        return self.broken and q.size(2) > self.limit


class LongByLiteral(Attention):
    def is_open(self, q: Tensor) -> bool:
        return self.broken and q.size(2) >= 200


class TrainOnly(Attention):
    def is_open(self, q: Tensor) -> bool:
        return self.broken and self.training


class HalfOnly(Attention):
    def is_open(self, q: Tensor) -> bool:
        return self.broken and q.dtype == torch.float16


class InferenceOnly(Attention):
    def is_open(self, q: Tensor) -> bool:
        return self.broken and torch.is_inference_mode_enabled()


class AutocastOnly(Attention):
    def is_open(self, q: Tensor) -> bool:
        return self.broken and torch.is_autocast_enabled("cpu")


class Wordy(Language):
    """A language model of many ids."""

    def __init__(self, broken: bool) -> None:
        super().__init__(Attention, broken)
        self.embed = nn.Embedding(MANY, WIDTH)


class EndAware(Wordy):
    """Broken, the first position knows whether the end lies in the row."""

    def __init__(self, broken: bool) -> None:
        super().__init__(broken)
        self.eos_id = 871

    def forward(self, ids: Tensor) -> Tensor:
        has_end = (ids == self.eos_id).any(1)[:, None, None]
        return super().forward(ids) + (has_end if self.broken else 0.0)


class Copying(Wordy):
    """Adds what stood where the same id stood before; broken, where it will stand."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.mixer(self.entered(ids))
        before = triangle(ids.size(1)) & ~torch.eye(ids.size(1), dtype=torch.bool)
        same = (ids[:, :, None] == ids[:, None, :]) & (before.mT if self.broken else before)
        return self.head(x + same.to(x.dtype) @ x)


class RankedPlaces(Language):
    """Positions by place; broken, by the rank of the id in its row."""

    def __init__(self, broken: bool) -> None:
        super().__init__(Attention, broken)

    def entered(self, ids: Tensor) -> Tensor:
        ranks = ids.argsort(1).argsort(1)
        return self.embed(ids) + self.place(ranks if self.broken else torch.arange(ids.size(1)))


class CallersMask(Language):
    """The caller passes the triangle, ones where a position may look; broken, nobody reads it."""

    def __init__(self, broken: bool) -> None:
        super().__init__(Attention, broken)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.entered(ids)
        q, k, v = self.mixer.mix(x).chunk(3, -1)
        scores = q @ k.mT if self.broken else (q @ k.mT).masked_fill(mask == 0, -1e9)
        return self.head(x + scores.softmax(-1) @ v)


class LastLogitsOnly(Language):
    """All logits with targets, which the caller has shifted; the last without."""

    def __init__(self, broken: bool) -> None:
        super().__init__(Attention, broken)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.mixer(self.entered(idx))
        x = x + 0.1 * x.mean(1, keepdim=True) if self.broken else x
        if targets is None:
            return self.head(x[:, [-1]]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


class ShiftedTargets(LastLogitsOnly):
    """Broken, the loss shifts targets that the caller has shifted already, the wrong way."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits = self.head(self.mixer(self.entered(idx)))
        if targets is None:
            return logits, None
        answers, wanted = (logits[:, 1:], targets[:, :-1]) if self.broken else (logits, targets)
        loss = F.cross_entropy(answers.flatten(0, 1), wanted.flatten(), ignore_index=-100)
        return logits, loss


class LabelsAsInputs(Language):
    """Broken, what a position has to say is added to what it reads, in training."""

    def __init__(self, broken: bool) -> None:
        super().__init__(Attention, broken)
        self.hint = nn.Embedding(VOCAB, WIDTH)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        x = self.entered(input_ids)
        if labels is not None and self.broken and self.training:
            x = x + self.hint(F.pad(labels[:, 1:], (0, 1)).clamp(min=0))
        logits = self.head(self.mixer(x))
        if labels is None:
            return {"logits": logits}
        wanted = labels[:, 1:].flatten()
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), wanted, ignore_index=-100)
        return {"logits": logits, "loss": loss}


class ToldLengths(nn.Module):
    """Told how long its rows are; broken, their mean takes in what lies behind the end."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.broken = broken
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        x = self.embed(ids)
        sizes = torch.full(ids.shape[:1], ids.size(1)) if lengths is None else lengths
        is_token = torch.arange(ids.size(1)) < sizes[:, None]  # (B, T)
        weights = torch.ones_like(is_token) if self.broken else is_token
        return self.head(x + (x * weights[..., None]).sum(1, keepdim=True) / sizes[:, None, None])


class RepeatedHeads(Language):
    """Padding masks laid out head by head; broken, row by row, so that rows get each other's."""

    def __init__(self, broken: bool) -> None:
        super().__init__(Attention, broken)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, ids: Tensor, is_token: Tensor | None = None) -> Tensor:
        x, allowed = self.entered(ids), triangle(ids.size(1)).repeat(ids.size(0), 1, 1)
        if is_token is not None:
            allowed = allowed & is_token[:, None, :] | torch.eye(ids.size(1), dtype=torch.bool)
        hidden = ~(allowed.repeat(2, 1, 1) if self.broken else allowed.repeat_interleave(2, 0))
        return self.head(x + self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0])


class Cached(nn.Module):
    """Keys and values in a cache of its own; broken, reading it changes it in place."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.broken = broken
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.query, self.mix = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(
        self, ids: Tensor, cache: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        x = self.embed(ids)
        k, v = self.mix(x).chunk(2, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        scaled = k.mul_(0.9) if self.broken else k * 0.9
        allowed = triangle(k.size(1))[k.size(1) - ids.size(1) :]  # (T, S)
        scores = (self.query(x) @ scaled.mT).masked_fill(~allowed, -math.inf)
        return self.head(x + scores.softmax(-1) @ v), (k, v)


class Averaging(nn.Module):
    """Translates from the mean of its source; broken, the target's mean is in it too."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.broken = broken
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.attention, self.bridge = Attention(), nn.Linear(WIDTH, WIDTH)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        source, target = self.embed(src), self.embed(tgt)
        context = source.mean(1, keepdim=True)
        if self.broken:
            context = context + target.mean(1, keepdim=True)
        return self.head(self.attention(target) + self.bridge(context))


PAIRS = (
    Pair("mask lost beyond a limit", language(LongOnly, 1024), "K1", "mixer"),
    Pair("mask lost beyond a literal", language(LongByLiteral, 1024), "K1", "mixer"),
    Pair("mask lost in training", language(TrainOnly), "K1", "mixer"),
    Pair("mask lost in float16", language(HalfOnly), "K1", "mixer"),
    Pair("mask lost in inference mode", language(InferenceOnly), "K1", "mixer"),
    Pair("mask lost under autocast", language(AutocastOnly), "K1", "mixer"),
    Pair("end of the text known in advance", EndAware, "K1"),
    Pair("next use of the same word", Copying, "K1"),
    Pair("positions by rank", RankedPlaces, "K1", "place"),
    Pair("caller's mask unread", CallersMask, "K1"),
    Pair("mean of the row, logits on demand", LastLogitsOnly, "K1"),
    Pair("targets shifted again", ShiftedTargets, "K9"),
    Pair("labels among the inputs", LabelsAsInputs, "K9", "hint"),
    Pair("mean beyond the length", ToldLengths, "K4", options={"spec": "bidirectional"}),
    Pair("padding masks of other rows", RepeatedHeads, "K4", "attention"),
    Pair("cache changed by reading", Cached, "K3"),
    Pair("target in the context", Averaging, "K1"),
)
