"""Sentences in, sentences out: tokenizer, model and decode loop together."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.generate.languages import frame_for
from lookleft.generate.request import (
    GREEDY,
    Answer,
    Beam,
    Method,
    Power,
    Request,
    Rule,
    admit,
    numbered,
)
from lookleft.generate.scheduler import answer_all, rows_of
from lookleft.models import EncoderDecoder
from lookleft.models.base import Runner
from lookleft.text.tokenizer import Tokenizer

REQUESTS = 64  # sentences decoded together


@dataclass(frozen=True)
class Options:
    """How to translate."""

    method: Method = GREEDY
    max_new: int | None = None  # tokens of an answer; unset: twice the source's, and 10
    prefix: str = ""  # what every translation begins with
    source_language: str | None = None  # codes, such as "en"
    target_language: str | None = None
    rules: tuple[Rule, ...] = ()
    wants_log_probs: bool = False


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence."""

    text: str
    ids: list[int]  # of the whole text, with what it had to begin with
    answer: Answer  # what was decoded, and its score


class Translator:
    """A model and its tokenizer, set to translate in one way."""

    def __init__(
        self, bundle: Bundle, options: Options, *, runner: Runner[Any] | None = None
    ) -> None:
        if not isinstance(bundle.network, EncoderDecoder):
            raise InputError(
                f"this is a {bundle.network.config.family} model: it does not translate"
            )
        if bundle.tokenizer is None:
            raise InputError("this model came without a tokenizer, so it cannot read text")
        if options.max_new is not None and options.max_new < 1:
            raise InputError(f"max_new={options.max_new}: at least one token must be asked for")
        self.tokenizer: Tokenizer = bundle.tokenizer
        self._reader = bundle.source_tokenizer or bundle.tokenizer
        self.options = options
        self.runner: Runner[Any] = bundle.network if runner is None else runner
        self._end = self.tokenizer.specials.require("eos")
        pad = self.tokenizer.specials.pad
        # Models that begin with padding were never taught not to say it.
        padding = () if pad is None or pad == self._end else (pad,)
        # And some have more rows than their tokenizer has tokens, to fill up blocks.
        beyond = range(len(self.tokenizer), bundle.network.config.vocab_size)
        self._never = (*padding, *beyond)
        languages = options.source_language, options.target_language
        frame = frame_for(bundle, self.tokenizer, *languages)
        self._before_source = frame.source
        begin = self.tokenizer.encode(options.prefix) if options.prefix else []
        self._before_target = (*frame.target, *begin)

    def each(
        self, sentences: Sequence[str]
    ) -> Iterator[tuple[int, list[Translation] | InputError]]:
        """The place of each sentence and its translations, best first, as they get done.

        One that cannot be translated comes with the reason, and the others are not affected. An
        empty one stays empty.
        """
        requests: dict[int, Request] = {}
        for place, sentence in enumerate(sentences):
            try:
                if not sentence.strip():
                    yield place, [Translation("", [], Answer([], "end"))]
                    continue
                request = self.request(sentence, place)
                admit(request, place, self.runner.config)
                requests[place] = request
            except InputError as error:
                yield place, error
        # Neighbours of similar length waste no work on padding.
        order = sorted(requests, key=lambda place: len(requests[place].source or ()))
        max_rows = REQUESTS * max(map(rows_of, requests.values()), default=1)
        for done in answer_all(
            self.runner,
            [requests[place] for place in order],
            max_rows=max_rows,
            join_at_least=max_rows // 4,  # sources are read faster many at a time
        ):
            yield order[done.ticket], [self.translation(answer) for answer in done.answers]

    def with_method(self, method: Method) -> Translator:
        """The same translator, decoding in another way."""
        made = copy.copy(self)
        made.options = replace(self.options, method=method)
        return made

    def request(self, sentence: str, number: int = 0) -> Request:
        """What is asked of the decoder for this sentence, the `number`-th of its batch."""
        options = self.options
        source = (*self._before_source, *self._reader.encode(sentence, eos=True))
        return Request(
            prompt=self._before_target,
            source=source,
            max_new=2 * len(source) + 10 if options.max_new is None else options.max_new,
            ends=(self._end,),
            forbidden=self._never,
            method=numbered(options.method, number),
            rules=options.rules,
            wants_log_probs=options.wants_log_probs,
        )

    def translation(self, answer: Answer) -> Translation:
        """The text of an answer, without space around it: a first word may come as one that
        follows another."""
        ids = [*self._before_target, *answer.ids]
        return Translation(self.tokenizer.decode(ids).strip(), ids, answer)


def beam_for(bundle: Bundle, width: int) -> Method:
    """A beam as wide as that, with the model's own length penalty; 1 is greedy.

    For corpora: its early stop costs no score worth speaking of, and much less time than "exact".
    """
    penalty = Power(bundle.length_penalty)
    return GREEDY if width == 1 else Beam(width, penalty, stop="estimate")


def translate(
    bundle: Bundle,
    sentences: Sequence[str],
    max_new: int | None = None,
    *,
    method: Method = GREEDY,
    runner: Runner[Any] | None = None,
) -> list[str]:
    """The best translation of each sentence, in their order; an empty one stays empty."""
    translator = Translator(bundle, Options(method=method, max_new=max_new), runner=runner)
    texts = [""] * len(sentences)
    for place, found in translator.each(sentences):
        if isinstance(found, InputError):
            raise InputError(f"sentence {place + 1}: {found}") from found
        texts[place] = found[0].text
    return texts
