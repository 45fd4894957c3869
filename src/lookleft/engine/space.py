"""Work space of a forward: one row per token for everything that exists between two parts."""

from __future__ import annotations

import numpy as np

from lookleft.engine.layout import BLOCK, WIDTH
from lookleft.engine.lines import empty_lines, zero_lines
from lookleft.engine.panels import fill_up
from lookleft.engine.weights import Record

_ROWS = ("x", "h", "q", "k", "v", "mixed")  # of the model's width
_WIDE = ("hidden", "gate")  # of the feed-forward's width
MIN_ROWS, MIN_KEYS = 16, 256


class Space:
    """Arrays that grow with the longest job so far; all jobs of a runner share them."""

    def __init__(self, jobs: list[Record], n_threads: int) -> None:
        self.jobs, self.n_threads = jobs, n_threads
        self.n_rows = self.n_keys = 0
        self.arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}

    def fit(self, n_rows: int, n_keys: int) -> None:
        """Make room for so many tokens that look at so many keys."""
        width, wide = int(self.jobs[0]["width"][0]), int(self.jobs[0]["hidden_width"][0])
        if n_rows > self.n_rows:
            # Zeros: what lies beyond the real width of a row is read and must add nothing.
            self.n_rows = max(n_rows, MIN_ROWS)
            for name in _ROWS:
                self._place(name, zero_lines((self.n_rows, width), np.float32))
            for name in _WIDE:
                self._place(name, zero_lines((self.n_rows, wide), np.float32))
            self._place("codes", zero_lines((self.n_rows, wide), np.int16))
            for name in ("code_scales", "code_sums"):
                self._place(name, zero_lines((self.n_rows, wide // BLOCK), np.float32))
        if n_keys > self.n_keys:
            self.n_keys = max(n_keys, 2 * self.n_keys, MIN_KEYS)
            width = fill_up(self.n_keys + 4, WIDTH)  # they are taken by fours, then by vectors
            self._place("scores", zero_lines((self.n_threads, width), np.float32))
            for job in self.jobs:
                job["max_keys"] = width

    def logits(self, n_rows: int) -> int:
        """The address of room for the logits of so many rows, which nobody keeps."""
        held = self.arrays.get("logits")
        if held is None or len(held) < n_rows:
            shape = (max(n_rows, MIN_ROWS), int(self.jobs[0]["logit_width"][0]))
            held = self.arrays["logits"] = empty_lines(shape, np.float32)
        return held.ctypes.data

    def _place(self, name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
        self.arrays[name] = array
        for job in self.jobs:
            job[name] = array.ctypes.data
