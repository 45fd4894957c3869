"""The numbers of a beam search: hypotheses that run, and candidates for their next token.

Plain arrays: they are small, and an operation on a small tensor costs more than the sum it does.
Dimensions: B requests, W beam (1 in the first step), C candidates, N tokens written so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookleft.generate.best import Best, Floats, Integers


class Candidates(NamedTuple):
    """Continuations of the hypotheses of each request, best first. All (B, C)."""

    totals: Floats  # summed log-probabilities, -inf where there is none
    parents: Integers  # which hypothesis of the request goes on
    ids: Integers  # with which token
    gains: Floats  # the token's log-probability

    def take(self, chosen: Integers) -> Candidates:
        """Those at these places. (B, C')."""
        at = (np.arange(len(chosen))[:, None], chosen)
        return Candidates(self.totals[at], self.parents[at], self.ids[at], self.gains[at])

    def first(self, n: int) -> Candidates:
        """The n best. (B, n)."""
        return Candidates(
            self.totals[:, :n], self.parents[:, :n], self.ids[:, :n], self.gains[:, :n]
        )


@dataclass(frozen=True)
class Paths:
    """Hypotheses of all requests, best first, each with the tokens it has written."""

    sums: Floats  # (B, W)
    tokens: Integers  # (B, W, N); a request that began later has written fewer
    gains: Floats  # (B, W, N) the log-probability of each
    n_new: Integers  # (B,) how many

    @classmethod
    def begin(cls, n_requests: int) -> Paths:
        """One hypothesis per request: its prompt, with nothing written yet."""
        return cls(
            sums=np.zeros((n_requests, 1)),
            tokens=np.zeros((n_requests, 1, 0), np.int64),
            gains=np.zeros((n_requests, 1, 0)),
            n_new=np.zeros(n_requests, np.int64),
        )

    def continued(self, best: Best, n_candidates: int) -> Candidates:
        """The best continuations of each request, n_candidates each; among equals the first.

        best: of every hypothesis (B * W rows) as many tokens: no more can be among the best.
        """
        n_requests, width = self.sums.shape
        n_each = best.ids.shape[1]
        with np.errstate(invalid="ignore"):  # inf - inf: such a token is impossible
            gains = (best.logits - best.norms[:, None]).astype(np.float64)  # (B * W, n_each)
        gains[~np.isfinite(gains)] = -np.inf
        gains = gains.reshape(n_requests, width, n_each)
        totals = (self.sums[:, :, None] + gains).reshape(n_requests, -1)  # (B, W * n_each)
        order = (-totals).argsort(axis=1, kind="stable")[:, :n_candidates]
        b = np.arange(n_requests)[:, None]
        found = Candidates(
            totals[b, order],
            order // n_each,
            best.ids.reshape(n_requests, -1)[b, order],
            gains.reshape(n_requests, -1)[b, order],
        )
        missing = n_candidates - order.shape[1]
        if missing > 0:  # a tiny vocabulary: the rest is impossible
            totals = padded(found.totals, missing, -np.inf)
            found = Candidates(totals, *(padded(column, missing) for column in found[1:]))
        return found

    def extended(self, by: Candidates) -> Paths:
        """Each candidate written behind its parent. (B, W') -> W' hypotheses."""
        b = np.arange(len(self.n_new))[:, None]
        missing = max(int(self.n_new.max()) + 1 - self.tokens.shape[2], 0)
        tokens = padded(self.tokens[b, by.parents], missing)
        gains = padded(self.gains[b, by.parents], missing)
        here = (b, np.arange(by.ids.shape[1]), self.n_new[:, None])
        tokens[here], gains[here] = by.ids, by.gains
        return Paths(by.totals, tokens, gains, self.n_new + 1)

    def of(self, requests: list[int]) -> Paths:
        """Only these requests."""
        return Paths(
            self.sums[requests], self.tokens[requests], self.gains[requests], self.n_new[requests]
        )

    def joined(self, other: Paths) -> Paths:
        """These and the others behind them."""
        longest = max(self.tokens.shape[2], other.tokens.shape[2])

        def both(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([padded(x, longest - x.shape[2]) for x in (mine, theirs)])

        return Paths(
            sums=np.concatenate((self.sums, other.sums)),
            tokens=both(self.tokens, other.tokens),
            gains=both(self.gains, other.gains),
            n_new=np.concatenate((self.n_new, other.n_new)),
        )

    def texts(self) -> list[list[list[int]]]:
        """The tokens of each hypothesis of each request."""
        pairs = zip(self.tokens.tolist(), self.n_new.tolist(), strict=True)
        return [[tokens[:n] for tokens in rows] for rows, n in pairs]


def padded(array: NDArray[Any], n_more: int, value: float = 0) -> NDArray[Any]:
    """The array with so many more columns, all of this value, at the end of its last axis."""
    wider = np.full((*array.shape[:-1], array.shape[-1] + n_more), value, array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider
