"""Small models, honest and broken, for the tests of the audit."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, WIDTH = 53, 16


class Attention(nn.Module):
    """One head; `fault` names what is wrong with it."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, is_token: Tensor | None = None, past: Any = None) -> Any:
        q, k, v = self.mix(x).chunk(3, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        T, S = q.size(1), k.size(1)
        start = 0 if self.fault == "cache aligned top left" else S - T
        allowed = torch.ones(T, S, dtype=torch.bool).tril(start + (self.fault == "off by one"))
        if self.fault == "no mask" or (self.fault == "no mask in train" and self.training):
            allowed = torch.ones_like(allowed)
        allowed = allowed.expand(x.size(0), T, S)
        if is_token is not None and self.fault != "padding seen":
            own = torch.arange(T)[:, None] + S - T == torch.arange(S)
            allowed = allowed & is_token[:, None, :] | own
        scores = (q @ k.mT / math.sqrt(WIDTH)).masked_fill(~allowed, -math.inf)
        return self.out(scores.softmax(-1) @ v), (k, v)


class Decoder(nn.Module):
    """Ids to logits, with a padding mask, positions and a cache."""

    def __init__(self, fault: str = "", layers: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Embedding(160, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(
            Attention(fault if i == layers - 1 else "") for i in range(layers)
        )
        self.gate = nn.Parameter(torch.zeros(()) if fault == "hidden by a gate" else torch.ones(()))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
    ) -> tuple[Tensor, Any]:
        past = 0 if cache is None else cache[0][0].size(1)
        if position_ids is None:
            position_ids = torch.arange(past, past + ids.size(1)).expand(ids.shape)
        x = self.embed(ids) + self.place(position_ids)
        is_token = None if attention_mask is None else attention_mask.bool()
        kept = []
        for index, block in enumerate(self.blocks):
            mixed, state = block(self.norm(x), is_token, None if cache is None else cache[index])
            kept.append(state)
            x = x + mixed
        if self.fault == "hidden by a gate":
            x = x + self.gate * x.roll(-1, 1)
        if self.fault == "row mixing":
            x = x + 0.1 * x.mean(0, keepdim=True)
        if self.fault == "length scale":
            x = x * math.log(x.size(1) + 1)
        if self.fault == "dropout in eval":
            x = F.dropout(x, 0.1)
        if self.fault == "mean over time":
            x = x + 1e-4 * x.mean(1, keepdim=True)
        return self.head(x), kept


class Remembering(nn.Module):
    """Keeps the longest position table it was ever asked for, scaled by its length."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.longest = 0

    def forward(self, ids: Tensor) -> Tensor:
        self.longest = max(self.longest, ids.size(1))
        x = self.embed(ids).cumsum(1) / self.longest
        return self.head(x)


class CausalConvolution(nn.Module):
    """(B, C, T) values; padded on the left only, unless told otherwise."""

    def __init__(self, *, is_centred: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.is_centred = is_centred
        self.filter = nn.Conv1d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(F.pad(x, (1, 1) if self.is_centred else (2, 0)))


class Experts(nn.Module):
    """Each expert picks the tokens it likes best among all of them."""

    def __init__(self, *, tokens_choose: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens_choose = tokens_choose
        self.embed, self.router = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).cumsum(1)
        scores = self.router(x)  # (B, T, E)
        if self.tokens_choose:
            chosen = F.one_hot(scores.argmax(-1), 4).bool()
        else:
            best = scores.topk(max(ids.size(1) // 4, 1), dim=1).indices
            chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(1, best, True)
        parts = [e(x) * chosen[..., i : i + 1] for i, e in enumerate(self.experts)]
        return x + torch.stack(parts).sum(0)


class Packed(nn.Module):
    """Ids to logits; documents are told apart by ids of their own, if they are told apart."""

    def __init__(self, *, is_leaky: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.is_leaky = is_leaky
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        x, T = self.embed(ids), ids.size(1)
        allowed = torch.ones(T, T, dtype=torch.bool).tril().expand(ids.size(0), T, T)
        if document_ids is not None and not self.is_leaky:
            allowed = allowed & (document_ids[:, :, None] == document_ids[:, None, :])
        weights = (x @ x.mT).masked_fill(~allowed, -math.inf).softmax(-1)
        return self.head(x + weights @ x)


class Translator(nn.Module):
    """Source and target ids to logits; `fault` names what is wrong with it."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def encode(self, source: Tensor, source_is_token: Tensor | None = None) -> Tensor:
        x = self.embed(source)
        allowed = torch.ones(x.size(1), x.size(1), dtype=torch.bool)
        if self.fault == "causal encoder":
            allowed = allowed.tril()
        if self.fault == "half of the source unseen":  # or its neighbours would pass it on
            allowed = torch.eye(x.size(1), dtype=torch.bool)
        return x + self.mix(self.attend(x, x, allowed, source_is_token))

    def forward(
        self, source: Tensor, target: Tensor, source_is_token: Tensor | None = None
    ) -> Tensor:
        memory, x = self.encode(source, source_is_token), self.embed(target)
        T = target.size(1)
        x = x + self.attend(x, x, torch.ones(T, T, dtype=torch.bool).tril(), None)
        seen = None if self.fault == "source padding seen" else source_is_token
        whole = torch.ones(T, source.size(1), dtype=torch.bool)
        if self.fault == "half of the source unseen":
            whole = whole & (torch.arange(source.size(1)) % 2 == 0)
        return self.head(x + self.attend(x, memory, whole, seen))

    def attend(self, q: Tensor, kv: Tensor, allowed: Tensor, is_token: Tensor | None) -> Tensor:
        scores = (q @ kv.mT / math.sqrt(WIDTH)).masked_fill(~allowed, -math.inf)
        if is_token is not None:
            scores = scores.masked_fill(~is_token[:, None, :], -math.inf)
        return scores.softmax(-1) @ kv


class Recurrent(nn.Module):
    """A gated recurrence with a step of its own, which may forget to add the input twice."""

    def __init__(self, *, is_wrong: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.is_wrong = is_wrong
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        total, outs = torch.zeros(ids.size(0), WIDTH, dtype=self.head.weight.dtype), []
        for t in range(ids.size(1)):
            total = 0.5 * total + self.embed(ids[:, t])
            outs.append(total)
        return self.head(torch.stack(outs, 1))

    def step(self, ids: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        past = 0.0 if state is None else (0.4 if self.is_wrong else 0.5) * state
        state = past + self.embed(ids)
        return self.head(state), state
