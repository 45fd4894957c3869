"""What every model offers, and what the families share.

    score(batch)             one parallel pass: logits for every position at once   (training)
    prefill(batch, room=n)   read a prompt, get logits for its last token and a state (generation)
    step(ids, state)         feed one more token per row, get the next logits
    extend(rows, state)      the same with several tokens at once

Between steps rows may change places, leave (`state.reorder`), join (`state.join`) or forget their
newest tokens (`state.roll_back`). The engine offers the same calls, so one loop drives either.

`score` and `prefill` + `step` are one function computed in two ways; tests/invariants holds them
together. Dimensions: B batch, T positions, S source positions, D model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lookleft.config import ModelConfig
from lookleft.data.batch import Batch, Rows, as_rows
from lookleft.errors import InputError
from lookleft.masks import Side
from lookleft.nn.attention import KV
from lookleft.nn.cache import KVCache
from lookleft.nn.layers import Embedding, Head


class Scorer(Protocol):
    """Gives logits (B, T, V) for a whole batch in one pass."""

    def score(self, batch: Batch) -> Tensor: ...


class State(Protocol):
    """What generation keeps of a batch between steps; rows are independent of each other."""

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row has read. (B,)."""

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of old row rows[i]; the batch may shrink or grow. (N,)."""

    def join(self, other: Self) -> None:
        """Put the rows of another state of the same runner behind ours; `other` is used up."""

    def roll_back(self, lengths: Tensor) -> None:
        """Forget the newest tokens, so that each row holds so many again. (B,)."""


StateT = TypeVar("StateT", bound=State)


class Runner(Scorer, Protocol[StateT]):
    """Can also be driven token by token: a network, the engine, or a slow twin of either."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def device(self) -> torch.device: ...
    def prefill(self, batch: Batch, *, room: int) -> tuple[Tensor, StateT]:
        """Read a prompt and keep room for so many more tokens. -> logits (B, V), state."""

    def extend(self, rows: Rows, state: StateT) -> Tensor:
        """Feed several more tokens per row. -> logits (B, T, V)."""

    def step(self, ids: Tensor, state: StateT) -> Tensor:
        """Feed one more token per row. (B,) -> logits (B, V)."""


@dataclass
class Memory:
    """An encoded source: per decoder layer what cross-attention looks at, computed once."""

    kvs: list[KV]
    side: Side  # its positions and padding
    owner: Tensor | None = None  # (B,) rows with the same number share a source; unset: none do

    @property
    def owners(self) -> Tensor:
        if self.owner is not None:
            return self.owner
        return torch.arange(self.side.pos.size(0), device=self.side.pos.device)

    def reorder(self, rows: Tensor) -> None:
        before = self.owners
        self.owner = before[rows]
        if torch.equal(self.owner, before):
            return  # beams changed places among themselves: they read the same source
        self.kvs = [KV(kv.keys[rows], kv.values[rows]) for kv in self.kvs]
        self.side = Side(self.side.pos[rows], self.side.is_token[rows])

    def join(self, other: Memory) -> None:
        length = max(self.side.pos.size(1), other.side.pos.size(1))
        mine, theirs = self._padded(length), other._padded(length)
        pairs = zip(mine.kvs, theirs.kvs, strict=True)
        self.kvs = [
            KV(torch.cat((a.keys, b.keys)), torch.cat((a.values, b.values))) for a, b in pairs
        ]
        self.owner = torch.cat((self.owners, other.owners + int(self.owners.max()) + 1))
        pos, is_token = zip(mine.side[:2], theirs.side[:2], strict=True)
        self.side = Side(torch.cat(pos), torch.cat(is_token))

    def _padded(self, length: int) -> Memory:
        """The same with so many source positions. (B, G, S, K) -> (B, G, length, K)."""
        more = length - self.side.pos.size(1)
        if not more:
            return self
        kvs = [
            KV(F.pad(kv.keys, (0, 0, 0, more)), F.pad(kv.values, (0, 0, 0, more)))
            for kv in self.kvs
        ]
        return Memory(
            kvs, Side(F.pad(self.side.pos, (0, more)), F.pad(self.side.is_token, (0, more)))
        )


@dataclass
class DecodeState:
    """What generation keeps between steps."""

    cache: KVCache
    memory: Memory | None = None
    prefix: Tensor | None = None  # (B,) positions that saw each other both ways

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row has read. (B,)."""
        return self.cache.lengths

    def join(self, other: DecodeState) -> None:
        """Put the rows of another state of the same model behind ours; `other` is used up."""
        if (self.prefix is None) != (other.prefix is None):
            raise InputError("rows with a prefix seen both ways cannot join rows without one")
        self.cache.join(other.cache)
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)
        if self.prefix is not None and other.prefix is not None:
            self.prefix = torch.cat((self.prefix, other.prefix))

    def roll_back(self, lengths: Tensor) -> None:
        """Forget the newest tokens, so that each row holds so many again. (B,)."""
        self.cache.roll_back(lengths)

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of old row rows[i], in every part. (N,)."""
        self.cache.reorder(rows)
        if self.memory is not None:
            self.memory.reorder(rows)
        if self.prefix is not None:
            self.prefix = self.prefix[rows]


class Network(nn.Module):
    """Shared by the three families: a seeded start, the vocabulary check, the device."""

    config: ModelConfig
    embedding: Embedding
    head: Head

    def logits(self, states: Tensor) -> Tensor:
        """What the head makes of the last layer's states. (..., D) -> (..., V)."""
        out: Tensor = self.head(states, self.embedding)
        return out

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def initialise(self, generator: torch.Generator | None = None) -> Self:
        """Redraw all weights: matrices by their fan-in, embeddings by their width, norms at 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5, generator=generator)
            elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()
        for name, parameter in self.named_parameters():
            if name.endswith("own_weight"):
                nn.init.normal_(parameter, std=parameter.size(1) ** -0.5, generator=generator)
            elif name.endswith("head.bias"):
                nn.init.zeros_(parameter)
        return self

    def audit_subject(self) -> nn.Module:
        """What the audit should call instead: this network behind a forward that takes tensors."""
        from lookleft.models.forward import as_module  # late: it imports the three families

        return as_module(self)  # type: ignore[arg-type]  # one of the three, all there are

    def check(self, rows: Rows, vocab_size: int) -> None:
        """Refuse ids outside the vocabulary and texts beyond the context, naming both."""
        ids = rows.ids
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= vocab_size):
            wrong = ids[(ids < 0) | (ids >= vocab_size)][0]
            raise InputError(f"id {int(wrong)} is outside the vocabulary 0..{vocab_size - 1}")
        if rows.pos.numel() and int(rows.pos.max()) >= self.config.context:
            raise InputError(
                f"{int(rows.pos.max()) + 1} tokens, but this model reads at most "
                f"{self.config.context}"
            )


def last_places(is_token: Tensor) -> Tensor:
    """Where the last real token of each row stands. (B, T) -> (B,)."""
    if not bool(is_token.any(1).all()):
        raise InputError("a prompt is empty: every row needs at least one token to start from")
    place = torch.arange(is_token.size(1), device=is_token.device)
    return torch.where(is_token, place, -1).amax(1)


def last_of(states: Tensor, is_token: Tensor) -> Tensor:
    """What stands at the last real token of each row. (B, T, D), (B, T) -> (B, D).

    Taken before the head: logits of a whole prompt, (B, T, V), would be the largest tensor of all.
    """
    last = last_places(is_token)  # (B,)
    return states[torch.arange(states.size(0), device=states.device), last]


def continue_rows(rows: Rows, cache: KVCache) -> Rows:
    """The same rows with positions that go on where the cache ends."""
    if rows.docs is not None:
        raise InputError("packed documents cannot be continued: give each document its own row")
    # Padding gets position 0: a full row may rest while others go on, and stays in its context.
    pos = torch.where(rows.is_token, rows.pos + cache.lengths[:, None], 0)
    return Rows(ids=rows.ids, is_token=rows.is_token, pos=pos)


def one_token(ids: Tensor) -> Rows:
    """A step's ids as rows of length one. (B,) -> (B, 1)."""
    if ids.ndim != 1:
        raise InputError(f"a step takes one id per row, shape (batch,), got {tuple(ids.shape)}")
    return as_rows(ids[:, None])
