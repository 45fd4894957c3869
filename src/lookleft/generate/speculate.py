"""Speculative decoding: guess several tokens cheaply, check them in one pass, keep what is right.

Exact: greedy text is the same, and a sampled text has the same distribution (Leviathan et al.
2023, 2.3). Guesses come from a smaller model or from the text itself, which often repeats.

Dimensions: N guesses, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig
from lookleft.data.batch import Batch, as_rows, pad_rows
from lookleft.errors import InputError
from lookleft.generate.group import apply_rules, without_forbidden
from lookleft.generate.pick import draw, probabilities
from lookleft.generate.request import (
    Beam,
    Done,
    Event,
    Method,
    Request,
    Rule,
    Sample,
    Token,
    admit,
)
from lookleft.models.base import Runner

ROOM = 512  # tokens for which a draft makes room at a time


class Guess(NamedTuple):
    """Tokens that may come next, and the distributions they were drawn from."""

    ids: list[int]  # N
    probs: Tensor  # (N, V)

    def first(self, n: int) -> Guess:
        return Guess(self.ids[:n], self.probs[:n])


class Guesser(Protocol):
    """Whoever guesses; asked again and again about one growing text."""

    def guess(self, text: Sequence[int], n: int, vocab_size: int) -> Guess:
        """At most `n` tokens after `text`."""


@dataclass
class PromptLookup:
    """Guesses that what followed the last few tokens before will follow them again."""

    longest: int = 3  # tokens that must agree, tried first; then fewer

    def guess(self, text: Sequence[int], n: int, vocab_size: int) -> Guess:
        """What came after the latest earlier place that ends like the text."""
        text = list(text)
        for size in range(min(self.longest, len(text) - 1), 0, -1):
            end = text[-size:]
            for start in range(len(text) - size - 1, -1, -1):
                if text[start : start + size] == end:
                    ids = text[start + size : start + size + n]
                    return Guess(ids, one_hot(torch.tensor(ids), vocab_size))
        return Guess([], torch.zeros(0, vocab_size, dtype=torch.float64))


@dataclass
class DraftModel:
    """Guesses what a smaller model of the same vocabulary would write."""

    runner: Runner[Any]
    method: Method
    source: tuple[int, ...] | None = None
    _state: Any = None
    _read: list[int] = field(default_factory=list)  # what the state has read
    _room_ends: int = 0  # the longest text it has room for
    _stream: torch.Generator = field(default_factory=torch.Generator)

    def __post_init__(self) -> None:
        if isinstance(self.method, Sample):
            self._stream.manual_seed(self.method.seed + 1)  # not the stream that checks the guesses

    def guess(self, text: Sequence[int], n: int, vocab_size: int) -> Guess:
        """The draft's own continuation."""
        if self.runner.config.vocab_size != vocab_size:
            raise InputError(
                f"the draft model has {self.runner.config.vocab_size:,} ids, the model "
                f"{vocab_size:,}: they must share one vocabulary"
            )
        n = min(n, self.runner.config.context - len(text))
        ids: list[int] = []
        rows = []
        while len(ids) < n:
            logits = self._logits([*text, *ids])  # (1, V)
            probs = distribution(logits, self.method)
            chance = torch.rand(1, generator=self._stream, dtype=torch.float64)
            ids.append(int(draw(probs, chance)))
            rows.append(probs[0])
        empty = torch.zeros(0, vocab_size, dtype=torch.float64)
        return Guess(ids, torch.stack(rows) if rows else empty)

    def _logits(self, text: list[int]) -> Tensor:
        """Of the token after `text`, reading only what is new. -> (1, V)."""
        known = 0
        for mine, theirs in zip(self._read, text, strict=False):
            if mine != theirs:
                break
            known += 1
        known = min(known, len(text) - 1)  # the last token is read for its logits
        self._read = list(text)
        if not self._goes_back_to(known) or len(text) > self._room_ends:
            device = self.runner.device
            source = None if self.source is None else pad_rows([self.source]).to(device)
            batch = Batch(pad_rows([text]).to(device), source=source)
            logits, self._state = self.runner.prefill(batch, room=ROOM)
            self._room_ends = len(text) + ROOM
            return logits
        more = as_rows(torch.tensor([text[known:]])).to(self.runner.device)
        return self.runner.extend(more, self._state)[:, -1]

    def _goes_back_to(self, length: int) -> bool:
        """Whether the state holds so many tokens from now on; a ring may have overwritten them."""
        if self._state is None or not length:
            return False
        try:
            self._state.roll_back(torch.tensor([length]))
        except InputError:
            return False
        return True


def one_hot(ids: Tensor, vocab_size: int) -> Tensor:
    """Certainty as a distribution. (N,) -> (N, V)."""
    return F.one_hot(ids.long(), vocab_size).double()


def distribution(logits: Tensor, method: Method) -> Tensor:
    """What a method draws from: greedy is certain of one token. (N, V) -> (N, V)."""
    if isinstance(method, Sample):
        return probabilities(logits, method)
    return one_hot(logits.argmax(-1), logits.size(-1))


def accept(target: Tensor, guess: Guess, chances: Tensor) -> list[int]:
    """The guesses that pass, and one token more. (N + 1, V), N guesses, (N + 1,) in [0, 1).

    A guess x drawn with probability q(x) passes with probability min(1, p(x) / q(x)); in place of
    the first that fails a token is drawn from max(p - q, 0), scaled to 1. Together that is p:
    q(x) min(1, p(x)/q(x)) + (1 - sum of all min(p, q)) max(p - q, 0)(x) / (the same) = p(x).
    """
    for i, id in enumerate(guess.ids):
        p, q = target[i], guess.probs[i]
        if float(chances[i]) * float(q[id]) < float(p[id]):
            continue
        # What failed says where in [p/q, 1) the chance lay: spread over [0, 1) it is fresh again.
        passed = float(p[id]) / float(q[id])
        fresh = ((chances[i : i + 1] - passed) / (1 - passed)).clamp(min=0)
        rest = (p - q).clamp(min=0)[None]
        if not float(rest.sum()):
            rest = p[None]  # equal but for rounding
        return [*guess.ids[:i], int(draw(rest, fresh))]
    return [*guess.ids, int(draw(target[-1:], chances[-1:]))]


def ruled(
    rows: Tensor, guess: Guess, rules: Sequence[Rule], text: list[int]
) -> tuple[Tensor, Guess]:
    """The rows under the rules, and the guesses, up to one that a rule forbids: no rule is asked
    about a text that could not have been written. (N + 1, V)."""
    done: list[Tensor] = []
    for i in range(len(guess.ids) + 1):
        so_far = [*text, *guess.ids[:i]]
        done.append(apply_rules(rows[i : i + 1].clone(), [(rules, so_far)]))  # (1, V)
        if i < len(guess.ids) and float(done[-1][0, guess.ids[i]]) == -math.inf:
            break
    return torch.cat(done), guess.first(len(done) - 1)


@torch.no_grad()
def speculate(
    runner: Runner[Any], request: Request, guesser: Guesser, *, n_guesses: int = 5
) -> Iterator[Event]:
    """The tokens of one answer, then the answer, with fewer passes of the model."""
    if isinstance(request.method, Beam):
        raise InputError("a beam cannot be speculated on: it keeps several texts; take greedy")
    config = runner.config
    entry = admit(request, 0, config)
    stream = torch.Generator()
    if isinstance(request.method, Sample):
        stream.manual_seed(request.method.seed)
    if isinstance(config, DecoderOnlyConfig) and config.window is not None:
        # A ring can take back no more tokens than it has slots beyond its window.
        n_guesses = min(n_guesses, len(entry.read) - 1)
    source = None
    if isinstance(config, EncoderDecoderConfig):
        source = pad_rows([request.source or ()]).to(runner.device)
    batch = Batch(pad_rows([entry.read]).to(runner.device), source=source)
    logits, state = runner.prefill(batch, room=entry.max_new + n_guesses)
    guess = Guess([], logits.new_zeros(0, logits.size(1)))
    while True:
        rows = without_forbidden(logits, [request] * (len(guess.ids) + 1))  # (N + 1, V)
        if request.rules:
            rows, guess = ruled(rows, guess, request.rules, [*entry.read, *entry.new])
        is_possible = rows.amax(-1).isfinite()  # (N + 1,)
        n_rows = int(is_possible.cumprod(0).sum())
        if not n_rows:
            yield Done(0, [entry.answer("stuck")])
            return
        rows, guess = rows[:n_rows], guess.first(n_rows - 1)
        chances = torch.rand(n_rows, generator=stream, dtype=torch.float64)
        new = accept(distribution(rows, request.method), guess, chances)
        log_probs = logits.log_softmax(-1) if request.wants_log_probs else None
        for i, id in enumerate(new):
            if log_probs is not None:
                entry.log_probs.append(float(log_probs[i, id]))
            finish = entry.write(id)
            if finish != "end":
                yield Token(0, id, entry.log_probs[-1] if entry.log_probs else None)
            if finish is not None:
                yield Done(0, [entry.answer(finish)])
                return
        text = [*entry.read, *entry.new]
        state.roll_back(torch.tensor([len(text) - 1]))
        n = min(n_guesses, entry.max_new - len(entry.new) - 1)
        guess = guesser.guess(text, n, config.vocab_size)
        more = as_rows(torch.tensor([[text[-1], *guess.ids]])).to(runner.device)
        logits = runner.extend(more, state)[0]
