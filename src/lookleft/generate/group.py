"""Requests that advance together: what a way of decoding offers to the loop that drives it.

Dimensions: B rows now, M rows of the next step, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from lookleft.data.batch import Batch
from lookleft.generate.best import Best, Chooser, Integers
from lookleft.generate.pick import draw, probabilities
from lookleft.generate.request import (
    GREEDY,
    Done,
    Entry,
    Event,
    Finish,
    Request,
    Rule,
    Sample,
    Token,
)
from lookleft.models.base import StateT


class Move(NamedTuple):
    """What happens between two steps."""

    rows: Integers  # (M,) which rows go on, by their number; a row may go on more than once
    ids: Integers  # (M,) what each reads next

    def is_still(self, n_rows: int) -> bool:
        """True if all of so many rows go on where they are."""
        return len(self.rows) == n_rows and bool((self.rows == np.arange(n_rows)).all())

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Both as a runner and its state take them."""
        return torch.from_numpy(self.rows).to(device), torch.from_numpy(self.ids).to(device)


class Group(Protocol):
    """Requests decoded in the same way, step by step, each in one row or more."""

    entries: list[Entry]

    @property
    def n_rows(self) -> int: ...
    @property
    def wants_logits(self) -> bool:
        """Whether the best tokens of a row do not suffice to choose from."""

    def begin(self, chooser: Chooser[StateT], batch: Batch, room: int) -> tuple[Best, StateT]:
        """Read the prompts; get what `choose` is to be given first."""

    def ask(
        self, chooser: Chooser[StateT], ids: Tensor, state: StateT, ahead: int
    ) -> tuple[Best, list[Event]]:
        """Feed these ids, and what comes of them, for up to `ahead` steps; get what `choose` is to
        be given after the last, and what there is to tell of those before it."""

    def advance(self, logits: Tensor) -> tuple[Move, list[Event]]:
        """Choose what comes next. (B, V) -> the move, and what there is to tell."""

    def choose(self, found: Best) -> tuple[Move, list[Event]]:
        """The same, given only the best tokens of each row."""

    def join(self, other: Self) -> None:
        """Put the requests of another group behind ours."""

    def drop(self, tickets: set[int]) -> Tensor:
        """Forget these requests; get the rows that stay. -> (M,)."""


class Singles:
    """Requests of one row each: greedy, or drawn at random from a stream of their own."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self.streams = [_stream(entry) for entry in entries]
        self._settle()

    @property
    def n_rows(self) -> int:
        return len(self.entries)

    def begin(self, chooser: Chooser[StateT], batch: Batch, room: int) -> tuple[Best, StateT]:
        """The best token behind each prompt."""
        found, state = chooser.prefill_best(batch, room=room, n=1, forbidden=self._forbidden)
        return Best(*found), state

    def ask(
        self, chooser: Chooser[StateT], ids: Tensor, state: StateT, ahead: int
    ) -> tuple[Best, list[Event]]:
        """The best token of each row; the first row that ends makes a step the last."""
        room = min(entry.max_new - len(entry.new) for entry in self.entries)
        steps = chooser.write_best(ids, state, min(room, ahead), self._ends, self._forbidden)
        return Best(*steps[-1]), self._passed([Best(*step) for step in steps[:-1]])

    def advance(self, logits: Tensor) -> tuple[Move, list[Event]]:
        """The next token of every row. (B, V) -> the move, the tokens, and the answers."""
        requests = [entry.request for entry in self.entries]
        ruled = without_forbidden(logits, requests)
        if any(request.rules for request in requests):
            rows = [(entry.request.rules, entry.read + entry.new) for entry in self.entries]
            ruled = apply_rules(ruled.clone(), rows)
        highest, ids = ruled.max(-1)  # (B,), (B,)
        is_possible = highest.isfinite().tolist()  # not if all is forbidden, or not a number
        ids = self._drawn(ruled, ids, is_possible)
        log_probs = self._log_probs(logits, ids)
        return self._written(ids.tolist(), is_possible, log_probs)

    def choose(self, found: Best) -> tuple[Move, list[Event]]:
        """The same for rows that are all greedy, given the best token of each."""
        is_possible = np.isfinite(found.logits[:, 0]).tolist()
        return self._written(found.ids[:, 0].tolist(), is_possible, self._log_probs_of(found))

    def join(self, other: Singles) -> None:
        """Put the requests of another group behind ours."""
        self.entries += other.entries
        self.streams += other.streams
        self._settle()

    def drop(self, tickets: set[int]) -> Tensor:
        """Forget these requests; get the rows that stay. -> (M,)."""
        kept = [b for b, entry in enumerate(self.entries) if entry.ticket not in tickets]
        self._keep(kept)
        return torch.tensor(kept, dtype=torch.long)

    def _settle(self) -> None:
        """Put down what the requests say, once for all steps that they share."""
        requests = [entry.request for entry in self.entries]
        self.wants_logits = any(r.method != GREEDY or r.rules for r in requests)
        self._forbidden = filled([request.forbidden for request in requests])
        self._ends = filled([request.ends for request in requests])
        self._wants_log_probs = any(request.wants_log_probs for request in requests)

    def _passed(self, steps: list[Best]) -> list[Event]:
        """Put down the tokens of steps after which every row went on. -> what there is to tell."""
        events: list[Event] = []
        for step in steps:
            ids = step.ids[:, 0].tolist()
            log_probs: Sequence[float | None] = self._log_probs_of(step) or [None] * len(ids)
            for entry, id, log_prob in zip(self.entries, ids, log_probs, strict=True):
                entry.new.append(id)
                if log_prob is not None:
                    entry.log_probs.append(log_prob)
                events.append(Token(entry.ticket, id, log_prob))
        return events

    def _written(
        self, ids: list[int], is_possible: list[bool], log_probs: list[float]
    ) -> tuple[Move, list[Event]]:
        """Put a token behind every row. -> the move, the tokens, and the answers."""
        events: list[Event] = []
        on = []
        for b, (entry, token) in enumerate(zip(self.entries, ids, strict=True)):
            finish: Finish | None = "stuck"
            if is_possible[b]:
                entry.log_probs += log_probs[b : b + 1]
                finish = entry.write(token)
                if finish != "end":
                    events.append(Token(entry.ticket, token, *log_probs[b : b + 1]))
            if finish is None:
                on.append(b)
            else:
                events.append(Done(entry.ticket, [entry.answer(finish)]))
        self._keep(on)
        return Move(np.array(on, np.int64), np.array([ids[b] for b in on], np.int64)), events

    def _drawn(self, logits: Tensor, ids: Tensor, is_possible: list[bool]) -> Tensor:
        """The ids with those of sampled rows drawn anew. (B, V), (B,) -> (B,)."""
        by_method: dict[tuple[float, int, float, float], list[int]] = {}
        for b, entry in enumerate(self.entries):
            if is_possible[b] and isinstance(m := entry.request.method, Sample):
                by_method.setdefault((m.temperature, m.top_k, m.top_p, m.min_p), []).append(b)
        for rows in by_method.values():
            method = self.entries[rows[0]].request.method
            assert isinstance(method, Sample)
            chances = [torch.rand((), generator=self.streams[b], dtype=torch.float64) for b in rows]
            probs = probabilities(logits[rows], method)
            ids[rows] = draw(probs, torch.stack(chances).to(ids.device))
        return ids

    def _log_probs(self, logits: Tensor, ids: Tensor) -> list[float]:
        """The model's own log-probability of each id, if anybody asked; else none at all."""
        if not self._wants_log_probs:
            return []
        picked = logits.gather(1, ids[:, None])[:, 0] - logits.logsumexp(-1)
        found: list[float] = picked.tolist()
        return found

    def _log_probs_of(self, found: Best) -> list[float]:
        """The same of the best token of each row."""
        if not self._wants_log_probs:
            return []
        log_probs: list[float] = (found.logits[:, 0] - found.norms).tolist()
        return log_probs

    def _keep(self, kept: list[int]) -> None:
        if len(kept) < len(self.entries):
            self.entries = [self.entries[b] for b in kept]
            self.streams = [self.streams[b] for b in kept]
            self._settle()


def without_forbidden(logits: Tensor, requests: Sequence[Request]) -> Tensor:
    """The logits with -inf where a row's request forbids a token; a copy if any does. (B, V)."""
    rows = [b for b, request in enumerate(requests) for _ in request.forbidden]
    if not rows:
        return logits
    columns = [id for request in requests for id in request.forbidden]
    changed = logits.clone()
    changed[rows, columns] = -math.inf
    return changed


def filled(lists: Sequence[Sequence[int]]) -> Integers:
    """Lists of ids as rows of one array, the short ones filled up with -1. (B, longest)."""
    longest = max(map(len, lists), default=0)
    rows = [[*ids, *[-1] * (longest - len(ids))] for ids in lists]
    return np.array(rows, np.int64).reshape(len(lists), longest)


def apply_rules(logits: Tensor, rows: Sequence[tuple[Sequence[Rule], list[int]]]) -> Tensor:
    """What each row's rules make of it, given its tokens so far; changes `logits`. (B, V)."""
    for b, (rules, text) in enumerate(rows):
        for rule in rules:
            logits[b] = rule(logits[b], text)
    return logits


def _stream(entry: Entry) -> torch.Generator | None:
    method = entry.request.method
    if not isinstance(method, Sample):
        return None
    return torch.Generator().manual_seed(method.seed)
