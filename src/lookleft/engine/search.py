"""What is looked for among the logits of a forward, and the arrays that it is written to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookleft.engine.state import Integers
from lookleft.engine.weights import Record
from lookleft.quantised import Floats

Doubles = NDArray[np.float64]


class Search:
    """The n best tokens of each row, and the norm of all; of several steps, each with the best
    token of the one before. Dimensions: S steps, B rows, N tokens of each."""

    def __init__(
        self, n: int, forbidden: Integers, ends: Integers | None = None, *, n_steps: int = 1
    ) -> None:
        """forbidden, ends: lists of ids for each row, filled up with -1. (B, any)."""
        n_rows = len(forbidden)
        self.n_steps = n_steps
        self.logits: Floats = np.empty((n_steps, n_rows, n), np.float32)
        self.ids: Integers = np.empty((n_steps, n_rows, n), np.int64)
        self.norms: Floats = np.empty((n_steps, n_rows), np.float32)
        self._is_over = np.zeros(n_steps, np.int64)
        self._forbidden = forbidden
        self._ends = np.empty((n_rows, 0), np.int64) if ends is None else ends

    @property
    def n_done(self) -> int:
        """How many steps were made."""
        ended = self._is_over.nonzero()[0]
        return int(ended[0]) + 1 if len(ended) else self.n_steps

    def best(self, step: int) -> tuple[Floats, Integers, Floats]:
        """What one step found: logits (B, N), ids (B, N), norms (B,)."""
        return self.logits[step], self.ids[step], self.norms[step]

    def fill(self, job: Record) -> None:
        """Write into a job where everything lies."""
        job["n_best"], job["n_forbidden"] = self.ids.shape[2], self._forbidden.shape[1]
        job["forbidden"], job["best_ids"] = self._forbidden.ctypes.data, self.ids.ctypes.data
        job["best_logits"], job["norms"] = self.logits.ctypes.data, self.norms.ctypes.data
        job["n_steps"], job["is_over"] = self.n_steps, self._is_over.ctypes.data
        job["n_ends"], job["ends"] = self._ends.shape[1], self._ends.ctypes.data
        job["n_beams"] = 0


class BeamSearch(Search):
    """The same for rows that are hypotheses, W of each request: the best of them go on together."""

    def __init__(
        self,
        n: int,
        forbidden: Integers,
        ends: Integers,
        sums: Doubles,
        *,
        n_steps: int,
    ) -> None:
        """sums: of the log-probabilities of each hypothesis. (B / W, W)."""
        super().__init__(n, forbidden, ends, n_steps=n_steps)
        self._sums = np.array(sums, np.float64, order="C")  # the compiled loop adds to them
        shape = (n_steps, *sums.shape)
        self._parents, self._chosen = np.empty(shape, np.int64), np.empty(shape, np.int64)
        self._gains, self._totals = np.empty(shape), np.empty(shape)
        self._ranks = np.empty(n), np.empty(n, np.int64)

    def went_on(self, step: int) -> tuple[Doubles, Integers, Integers, Doubles]:
        """What the requests went on with: totals, parents, ids and gains. (B / W, W) each."""
        return self._totals[step], self._parents[step], self._chosen[step], self._gains[step]

    def fill(self, job: Record) -> None:
        super().fill(job)
        job["n_beams"], job["sums"] = self._sums.shape[1], self._sums.ctypes.data
        job["parents"], job["chosen"] = self._parents.ctypes.data, self._chosen.ctypes.data
        job["gains"], job["totals"] = self._gains.ctypes.data, self._totals.ctypes.data
        job["rank_totals"], job["rank_places"] = (array.ctypes.data for array in self._ranks)
        # A hypothesis may have several heirs, so the past of each is copied by way of a spare one.
        self._spare = np.empty((self._sums.shape[1], int(job["table_width"][0])), np.int32)
        job["spare_table"] = self._spare.ctypes.data
