"""Beam search: the best few beginnings side by side, for many requests at once.

Each step extends every running hypothesis by its likeliest tokens and keeps, per request, the
best `width` that have not ended. One that ends while among the best goes into the request's pool.
A request is done when nothing that still runs can beat the best of its pool.

Dimensions: B requests, W beam (1 in the first step), C candidates, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookleft.data.batch import Batch
from lookleft.generate.best import Best, Chooser, best_of
from lookleft.generate.group import Move, apply_rules, filled, without_forbidden
from lookleft.generate.paths import Candidates, Paths
from lookleft.generate.request import Answer, Beam, Done, Entry, Event
from lookleft.models.base import StateT


class Beams:
    """The running hypotheses of requests that ask for the same beam."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        method = entries[0].request.method
        assert isinstance(method, Beam)
        self.method = method
        self._n_needed = method.n_best if method.stop == "exact" else method.width  # that ended
        self.entries = list(entries)
        self.pools: list[list[Answer]] = [[] for _ in entries]  # what has ended
        self.paths = Paths.begin(len(self.entries))
        self._settle()

    @property
    def n_rows(self) -> int:
        return self.paths.sums.size

    @property
    def wants_logits(self) -> bool:
        """Rules want to see all of them."""
        return self._has_rules

    def begin(self, chooser: Chooser[StateT], batch: Batch, room: int) -> tuple[Best, StateT]:
        """The best tokens behind each prompt."""
        n, forbidden = self._n_candidates, self._forbidden
        found, state = chooser.prefill_best(batch, room=room, n=n, forbidden=forbidden)
        return Best(*found), state

    def ask(
        self, chooser: Chooser[StateT], ids: Tensor, state: StateT, ahead: int
    ) -> tuple[Best, list[Event]]:
        """The best tokens of one step. While no hypothesis may end, the chooser goes on by itself,
        and what it went on with is written down here: then it is a later step."""
        paths, width = self.paths, self.paths.sums.shape[1]
        n_steps = min(ahead, int((self._limits - paths.n_new).min()))
        if any(len(pool) >= self._n_needed for pool in self.pools):
            n_steps = 1  # what runs may have lost against what has ended
        ends, forbidden = (table.repeat(width, axis=0) for table in (self._ends, self._forbidden))
        went_on, last = chooser.write_beams(
            ids, state, n_steps, paths.sums, self._n_candidates, ends, forbidden
        )
        for columns in went_on:
            self.paths = self.paths.extended(Candidates(*columns))
        return Best(*last), []

    def advance(self, logits: Tensor) -> tuple[Move, list[Event]]:
        """One step for every hypothesis. (B * W, V) -> which rows go on, and what they read."""
        n_beams = self.paths.sums.shape[1]
        requests = [entry.request for entry in self.entries for _ in range(n_beams)]
        norms = logits.logsumexp(-1)  # of all tokens, the forbidden too
        logits = without_forbidden(logits, requests)
        if self._has_rules:
            logits, norms = self._ruled(logits - norms[:, None]), torch.zeros_like(norms)
        return self.choose(best_of(logits, norms, self._n_candidates))

    def choose(self, found: Best) -> tuple[Move, list[Event]]:
        """One step, given the best tokens of every hypothesis. (B * W rows)."""
        n_beams = self.paths.sums.shape[1]
        best = self.paths.continued(found, self._n_candidates)
        is_end = (best.ids[:, :, None] == self._ends[:, None]).any(-1)  # (B, C)
        if is_end.any() or (self.paths.n_new + 1 >= self._limits).any():
            self._collect(best, is_end)
            # Stable: those that do not end come first. What remains of the others is dead.
            best.totals[is_end] = -math.inf
            best = best.take(is_end.argsort(axis=1, kind="stable"))
        best = best.first(self.method.width)  # (B, W)
        self.paths = self.paths.extended(best)

        events: list[Event] = []
        on = []
        for b, (total, n) in enumerate(self._leaders()):
            if self._can_win(b, total, n):
                on.append(b)
            else:
                events.append(Done(self.entries[b].ticket, self._best_of(b)))
        rows = best.parents + np.arange(len(self.entries))[:, None] * n_beams
        move = Move(rows[on].reshape(-1), best.ids[on].reshape(-1))
        self._keep(on)
        return move, events

    def join(self, other: Beams) -> None:
        """Put the requests of another group behind ours."""
        self.paths = self.paths.joined(other.paths)
        self.entries += other.entries
        self.pools += other.pools
        self._settle()

    def drop(self, tickets: set[int]) -> Tensor:
        """Forget these requests; get the rows that stay. -> (M,)."""
        kept = [b for b, entry in enumerate(self.entries) if entry.ticket not in tickets]
        rows = np.arange(self.n_rows).reshape(self.paths.sums.shape)[kept]
        self._keep(kept)
        return torch.from_numpy(rows.reshape(-1))

    def _settle(self) -> None:
        """Put down in arrays what the requests say, once for all steps that they share."""
        requests = [entry.request for entry in self.entries]
        n_ends = max((len(request.ends) for request in requests), default=0)
        self._n_candidates = (1 + max(n_ends, 1)) * self.method.width  # `width` do not end
        self._has_rules = any(request.rules for request in requests)
        self._ends = filled([request.ends for request in requests])  # (B, E)
        self._limits = np.array([entry.max_new for entry in self.entries], np.int64)  # (B,)
        self._forbidden = filled([request.forbidden for request in requests])  # (B, F)

    def _ruled(self, log_probs: Tensor) -> Tensor:
        """What the rules of each request make of its rows. (B * W, V)."""
        rows = [
            (entry, entry.read + text)
            for entry, texts in zip(self.entries, self.paths.texts(), strict=True)
            for text in texts
        ]
        return apply_rules(log_probs, [(entry.request.rules, text) for entry, text in rows])

    def _collect(self, best: Candidates, is_end: NDArray[np.bool_]) -> None:
        """Put those of the best `width` candidates that end, or fill their room, into the pools."""
        is_over = is_end | (self.paths.n_new + 1 >= self._limits)[:, None]  # (B, C)
        is_over &= np.isfinite(best.totals)
        for b, c in np.argwhere(is_over[:, : self.method.width]).tolist():
            n, parent = int(self.paths.n_new[b]), int(best.parents[b, c])
            written = [*self.paths.tokens[b, parent, :n].tolist(), int(best.ids[b, c])]
            gains = [*self.paths.gains[b, parent, :n].tolist(), float(best.gains[b, c])]
            has_end = bool(is_end[b, c])
            score = float(best.totals[b, c]) / self.method.length_penalty(n + 1)
            ids = written[:-1] if has_end else written
            self.pools[b].append(Answer(ids, "end" if has_end else "length", score, gains))

    def _leaders(self) -> list[tuple[float, int]]:
        """Of each request the best running sum, and how many tokens have been written."""
        best: list[float] = self.paths.sums[:, 0].tolist()
        return list(zip(best, self.paths.n_new.tolist(), strict=True))

    def _can_win(self, b: int, best: float, n: int) -> bool:
        """Whether a running hypothesis, the best of which has this sum, may still be returned."""
        method, pool, max_new = self.method, self.pools[b], self.entries[b].max_new
        if best == -math.inf or n >= max_new:
            return False
        if method.width == 1 and pool:
            return False  # a beam of one follows one path, and that has ended
        if len(pool) < self._n_needed:
            return True
        to_beat = sorted((score_of(answer) for answer in pool), reverse=True)[self._n_needed - 1]
        # No token adds to the sum, so its score is best at one of the two ends of its lengths.
        lengths = (n + 1, max_new) if method.stop == "exact" else (n,)
        return max(best / method.length_penalty(length) for length in lengths) > to_beat

    def _best_of(self, b: int) -> list[Answer]:
        ranked = sorted(self.pools[b], key=score_of, reverse=True)
        return ranked[: self.method.n_best] or [Answer([], "stuck")]

    def _keep(self, kept: list[int]) -> None:
        """Forget all requests but these."""
        if len(kept) < len(self.entries):
            self.paths = self.paths.of(kept)
            self.entries = [self.entries[b] for b in kept]
            self.pools = [self.pools[b] for b in kept]
            self._settle()


def score_of(answer: Answer) -> float:
    """The score of a beam's answer; every one has it."""
    assert answer.score is not None
    return answer.score
