"""The tensors of a beam search: hypotheses that run, and candidates for their next token.

Dimensions: B requests, W beam (1 in the first step), C candidates, V vocabulary, N tokens so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Candidates(NamedTuple):
    """Continuations of the hypotheses of each request, best first. All (B, C)."""

    totals: Tensor  # summed log-probabilities, -inf where there is none
    parents: Tensor  # which hypothesis of the request goes on
    ids: Tensor  # with which token
    gains: Tensor  # the token's log-probability

    def take(self, chosen: Tensor) -> Candidates:
        """Those at these places. (B, C')."""
        return Candidates(*(column.gather(1, chosen) for column in self))


@dataclass(frozen=True)
class Paths:
    """Hypotheses of all requests, best first, each with the tokens it has written."""

    sums: Tensor  # (B, W)
    tokens: Tensor  # (B, W, N); a request that began later has written fewer
    gains: Tensor  # (B, W, N) the log-probability of each
    n_new: Tensor  # (B,) how many

    @classmethod
    def begin(cls, n_requests: int, device: torch.device) -> Paths:
        """One hypothesis per request: its prompt, with nothing written yet."""
        return cls(
            sums=torch.zeros(n_requests, 1, dtype=torch.float64, device=device),
            tokens=torch.zeros(n_requests, 1, 0, dtype=torch.long, device=device),
            gains=torch.zeros(n_requests, 1, 0, dtype=torch.float64, device=device),
            n_new=torch.zeros(n_requests, dtype=torch.long, device=device),
        )

    def continued(self, logits: Tensor, norm: Tensor, n_candidates: int) -> Candidates:
        """The best continuations of each request. (B * W, V), (B * W, 1) -> n_candidates each.

        A hypothesis gives at most so many of the best, so the vocabulary is searched row by row;
        and only what is found needs its norm taken off.
        """
        n_requests, width = self.sums.shape
        n_each = min(n_candidates, logits.size(1))
        best, ids = logits.topk(n_each)  # (B * W, n_each)
        gains = (best - norm).double().nan_to_num(nan=-math.inf, posinf=-math.inf)
        gains, ids = gains.view(n_requests, -1), ids.view(n_requests, -1)  # (B, W * n_each)
        parents = torch.arange(width, device=ids.device).repeat_interleave(n_each)
        parents = parents.expand(n_requests, -1)
        every = Candidates(self.sums.gather(1, parents) + gains, parents, ids, gains)
        missing = n_candidates - ids.size(1)
        if missing > 0:  # a tiny vocabulary: the rest is impossible
            totals = F.pad(every.totals, (0, missing), value=-math.inf)
            every = Candidates(totals, *(F.pad(column, (0, missing)) for column in every[1:]))
        return every.take(every.totals.topk(n_candidates).indices)

    def extended(self, by: Candidates) -> Paths:
        """Each candidate written behind its parent. (B, W') -> W' hypotheses."""
        b = torch.arange(self.n_new.numel(), device=by.ids.device)[:, None]
        missing = int(self.n_new.max()) + 1 - self.tokens.size(2)
        tokens, gains = (
            F.pad(history[b, by.parents], (0, max(missing, 0)))
            for history in (self.tokens, self.gains)
        )
        here = (b, torch.arange(by.ids.size(1), device=b.device), self.n_new[:, None])
        tokens[here], gains[here] = by.ids, by.gains
        return Paths(by.totals, tokens, gains, self.n_new + 1)

    def of(self, requests: list[int]) -> Paths:
        """Only these requests."""
        return Paths(
            self.sums[requests], self.tokens[requests], self.gains[requests], self.n_new[requests]
        )

    def joined(self, other: Paths) -> Paths:
        """These and the others behind them."""
        longest = max(self.tokens.size(2), other.tokens.size(2))

        def both(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.cat([F.pad(x, (0, longest - x.size(2))) for x in (mine, theirs)])

        return Paths(
            sums=torch.cat((self.sums, other.sums)),
            tokens=both(self.tokens, other.tokens),
            gains=both(self.gains, other.gains),
            n_new=torch.cat((self.n_new, other.n_new)),
        )

    def texts(self) -> list[list[list[int]]]:
        """The tokens of each hypothesis of each request."""
        pairs = zip(self.tokens.tolist(), self.n_new.tolist(), strict=True)
        return [[tokens[:n] for tokens in rows] for rows, n in pairs]
