"""llama.cpp through its Python binding: the same GGUF file, driven token by token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LlamaCpp:
    """One GGUF file, ready to read and to write."""

    def __init__(
        self, path: Path, *, n_threads: int, room: int, wants_all_logits: bool = False
    ) -> None:
        """room: tokens of the longest text. wants_all_logits: needed for `log_probs` alone."""
        import llama_cpp

        self._library: Any = llama_cpp
        self._model = llama_cpp.Llama(
            str(path),
            n_ctx=room,
            n_batch=room,  # a prompt in one call
            n_ubatch=room,
            n_threads=n_threads,
            n_threads_batch=n_threads,
            logits_all=wants_all_logits,
            verbose=False,
        )

    def read(self, prompt: Sequence[int]) -> int:
        """Read a prompt from the beginning; the likeliest token behind it."""
        self._model.reset()
        return self._feed(prompt)

    def write(self, prompt: Sequence[int], n_new: int) -> list[int]:
        """The likeliest tokens behind a prompt, one after another, whatever they are."""
        ids = [self.read(prompt)]
        while len(ids) < n_new:
            ids.append(self._feed(ids[-1:]))
        return ids

    def log_probs(self, ids: Sequence[int]) -> NDArray[np.float64]:
        """The log-probability of every token but the first. (T,) -> (T - 1,)."""
        self._model.reset()
        self._model.eval(ids)
        return log_probs_of(ids[1:], self._model.scores[: len(ids) - 1])

    def close(self) -> None:
        """Give back the memory now and not at some later time."""
        self._model.close()

    def _feed(self, ids: Sequence[int]) -> int:
        self._model.eval(ids)
        pointer = self._library.llama_get_logits_ith(self._model.ctx, -1)
        logits = np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab(),))
        return int(logits.argmax())


def log_probs_of(ids: Sequence[int], logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """The log-probability that each row of logits gives to its id. (T,), (T, V) -> (T,)."""
    exact = logits.astype(np.float64)  # (T, V)
    highest = exact.max(-1)  # (T,)
    norms = highest + np.log(np.exp(exact - highest[:, None]).sum(-1))  # (T,)
    found: NDArray[np.float64] = exact[np.arange(len(norms)), list(ids)] - norms
    return found
