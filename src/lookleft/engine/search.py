"""What is looked for among the logits of a forward, and the arrays that it is written to."""

from __future__ import annotations

import numpy as np

from lookleft.engine.state import Integers
from lookleft.engine.weights import Record
from lookleft.quantised import Floats


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

    def fill(self, job: Record) -> None:
        """Write into a job where everything lies."""
        job["n_best"], job["n_forbidden"] = self.ids.shape[2], self._forbidden.shape[1]
        job["forbidden"], job["best_ids"] = self._forbidden.ctypes.data, self.ids.ctypes.data
        job["best_logits"], job["norms"] = self.logits.ctypes.data, self.norms.ctypes.data
        job["n_steps"], job["is_over"] = self.n_steps, self._is_over.ctypes.data
        job["n_ends"], job["ends"] = self._ends.shape[1], self._ends.ctypes.data
