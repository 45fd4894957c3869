"""What can be asked of a decoder, and what comes back. Ids only: text is somebody else's job."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from torch import Tensor

from lookleft.config import MAX_PENALTY, EncoderDecoderConfig, EncoderOnlyConfig, ModelConfig
from lookleft.errors import InputError

Rule = Callable[[Tensor, Sequence[int]], Tensor]  # logits (V,), the row's tokens so far -> (V,)
Finish = Literal["end", "length", "stuck"]  # an end token; no more room; no token was possible


@dataclass(frozen=True)
class Power:
    """A hypothesis of L tokens scores its summed log-probability over L^a, as in transformers."""

    a: float = 1.0

    def __call__(self, length: int) -> float:
        return float(length**self.a)


@dataclass(frozen=True)
class Wu:
    """A hypothesis of L tokens scores its summed log-probability over ((5 + L) / 6)^a.

    Wu et al. 2016, section 7, as in OpenNMT and fairseq's ancestors.
    """

    a: float = 0.6

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.a)


@dataclass(frozen=True)
class Greedy:
    """The likeliest token, always."""


@dataclass(frozen=True)
class Sample:
    """A random token of a distribution made sharper and cut at its tail, as `pick` explains."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0  # of this request alone: neighbours in a batch do not change its draws

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise InputError(
                f"temperature={self.temperature} must be a number above 0; 0 is `greedy`"
            )
        if self.top_k < 0:
            raise InputError(f"top_k={self.top_k} must be 0 (all tokens) or more")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p={self.top_p} must be above 0 and at most 1")
        if not 0 <= self.min_p <= 1:
            raise InputError(f"min_p={self.min_p} must lie between 0 and 1")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed={self.seed} must be a whole number from 0 to 2**63 - 1")


@dataclass(frozen=True)
class Beam:
    """The `width` best beginnings side by side; of those that end, the best by the stated score.

    stop="exact" goes on while a running hypothesis could still win, whatever its length;
    "estimate" takes its score at the present length for the best it can reach, which is what
    transformers does unless told otherwise, and can miss a better and longer one.
    """

    width: int = 5
    length_penalty: Power | Wu = Power(1.0)
    n_best: int = 1
    stop: Literal["exact", "estimate"] = "exact"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"a beam of width {self.width} holds nothing; give 1 (greedy) or more")
        if not 1 <= self.n_best <= self.width:
            raise InputError(
                f"n_best={self.n_best} of a beam of {self.width}: give 1..{self.width}"
            )
        if not abs(self.length_penalty.a) <= MAX_PENALTY:
            raise InputError(
                f"length penalty {self.length_penalty.a} must be a number between "
                f"-{MAX_PENALTY} and {MAX_PENALTY}"
            )


Method = Greedy | Sample | Beam


def numbered(method: Method, number: int) -> Method:
    """The same method for request `number` of a batch: each draws from a seed of its own."""
    if isinstance(method, Sample):
        return replace(method, seed=method.seed + number)
    return method


GREEDY = Greedy()


@dataclass(frozen=True)
class Request:
    """One text to continue, or one source to translate."""

    prompt: tuple[int, ...] = ()  # the text; of a translation, what it must begin with
    source: tuple[int, ...] | None = None
    max_new: int = 128
    ends: tuple[int, ...] = ()  # a token that ends the answer; without any it fills max_new
    method: Method = GREEDY
    forbidden: tuple[int, ...] = ()  # tokens that never come: padding, in most vocabularies
    rules: tuple[Rule, ...] = ()
    wants_log_probs: bool = False  # a beam always has them


@dataclass(frozen=True)
class Answer:
    """What was written."""

    ids: list[int]  # new tokens without the end token
    finish: Finish
    score: float | None = None  # of a beam, after its length penalty
    # Of each id and of the end token: the model's own; of a beam with rules, what these made of it.
    log_probs: list[float] | None = None


class Token(NamedTuple):
    """A new token of a request that is being answered."""

    ticket: int
    id: int
    log_prob: float | None = None


class Done(NamedTuple):
    """A request is answered: the answers, best first."""

    ticket: int
    answers: list[Answer]


Event = Token | Done


@dataclass
class Entry:
    """A request in the works."""

    ticket: int
    request: Request
    max_new: int  # what the context leaves of what was asked
    read: list[int]  # what the decoder reads first
    new: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def write(self, id: int) -> Finish | None:
        """Put a token behind the answer; get why it is over, if it is. An end token is not kept."""
        if id in self.request.ends:
            return "end"
        self.new.append(id)
        return "length" if len(self.new) >= self.max_new else None

    def answer(self, finish: Finish) -> Answer:
        """What has been written, now that it is over."""
        log_probs = self.log_probs if self.request.wants_log_probs else None
        return Answer(self.new, finish, None, log_probs)


def admit(request: Request, ticket: int, config: ModelConfig) -> Entry:
    """The request as an entry, or an error that says why this model cannot answer it."""
    if request.max_new < 1:
        raise InputError(f"max_new={request.max_new}: at least one token must be asked for")
    if isinstance(config, EncoderOnlyConfig):
        raise InputError("an encoder-only model writes nothing; it can only be scored")
    read = list(request.prompt)
    if isinstance(config, EncoderDecoderConfig):
        if not request.source:
            raise InputError("the source is empty: there is nothing to translate")
        _check_ids(request.source, config.source_vocab_size or config.vocab_size, "source")
        _check_length(request.source, config.context, "source")
        read.insert(0, config.start_id)
    elif request.source is not None:
        raise InputError(f"a {_family(config)} model takes no source; give a prompt")
    elif not read:
        raise InputError("the prompt is empty: there is nothing to go on from")
    _check_ids(read, config.vocab_size, "prompt")
    _check_length(read, config.context, "prompt")
    _check_ids(request.ends, config.vocab_size, "list of end tokens")
    _check_ids(request.forbidden, config.vocab_size, "list of forbidden tokens")
    room = config.context - len(read) + 1  # the last token is written and never read
    return Entry(ticket, request, min(request.max_new, room), read)


def _check_ids(ids: Sequence[int], vocab_size: int, where: str) -> None:
    wrong = [id for id in ids if not 0 <= id < vocab_size]
    if wrong:
        raise InputError(
            f"the {where} has id {wrong[0]}, outside the vocabulary 0..{vocab_size - 1}"
        )


def _check_length(ids: Sequence[int], context: int, where: str) -> None:
    if len(ids) > context:
        raise InputError(
            f"the {where} has {len(ids):,} tokens, but this model reads at most {context:,}; "
            "shorten it"
        )


def _family(config: ModelConfig) -> str:
    return str(getattr(config, "family", "decoder-only"))
