"""Text in, more text out: tokenizer, model and decode loop together, for language models."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.generate.methods import Way
from lookleft.generate.request import Answer, Event, Request, Token, numbered
from lookleft.generate.scheduler import AHEAD, ROWS, Scheduler, rows_of
from lookleft.generate.speculate import DraftModel, PromptLookup, speculate
from lookleft.generate.stream import TextStream
from lookleft.models import DecoderOnly
from lookleft.models.base import Runner
from lookleft.text.tokenizer import Tokenizer

Prompt = str | Sequence[int]  # text, or ids as they are


@dataclass(frozen=True)
class Written:
    """What a model wrote after a prompt."""

    text: str
    ids: list[int]  # all new tokens: those of a stop string too, and what a beam wrote after it
    finish: Literal["end", "stop", "length", "stuck"]  # "stop": a stop string
    n_prompt: int  # tokens read
    log_probs: list[float] | None = None  # of each id, and of the end token
    score: float | None = None  # of a beam


class Writer:
    """A model and its tokenizer, set to write in one way."""

    def __init__(
        self,
        bundle: Bundle,
        way: Way,
        *,
        max_new: int = 128,
        stops: str | Sequence[str] = (),
        ends: Sequence[int] = (),
        wants_log_probs: bool = False,
        runner: Runner[Any] | None = None,
        draft: Runner[Any] | None = None,
    ) -> None:
        """ends: tokens that end the text besides the model's own; draft: guesses tokens ahead."""
        if not isinstance(bundle.network, DecoderOnly):
            family = bundle.network.config.family
            hint = "use translate" if family == "encoder-decoder" else "it can only be scored"
            raise InputError(f"this is a {family} model: it continues no text; {hint}")
        if bundle.tokenizer is None:
            raise InputError("this model came without a tokenizer, so it cannot read text")
        self.bundle, self.way, self.draft = bundle, way, draft
        self.tokenizer: Tokenizer = bundle.tokenizer
        self.runner: Runner[Any] = bundle.network if runner is None else runner
        self.stops = (stops,) if isinstance(stops, str) else tuple(stops)
        TextStream(self.tokenizer, self.stops)  # refuses a bad stop string before work begins
        own_end = () if bundle.specials.eos is None else (bundle.specials.eos,)
        self._blank = Request(
            max_new=max_new,
            ends=(*own_end, *ends),
            method=way.method,
            # Some models have more rows than their tokenizer has tokens, to fill up blocks.
            forbidden=tuple(range(len(self.tokenizer), bundle.network.config.vocab_size)),
            rules=way.rules,
            wants_log_probs=wants_log_probs,
        )

    def request(self, prompt: Prompt, number: int = 0) -> Request:
        """What is asked of the decoder; each prompt of a batch draws from its own seed."""
        ids = self.bundle.encode(prompt) if isinstance(prompt, str) else prompt
        return replace(self._blank, prompt=tuple(ids), method=numbered(self.way.method, number))

    def stream(self, prompt: Prompt) -> Generator[str, None, Written]:
        """Pieces of the text as they get certain; joined they are the text. Returns all of it.

        A beam shows nothing before it is done.
        """
        request = self.request(prompt)
        page = _Page(self, request)
        for event in self._events(request):
            if piece := page.take(event):
                yield piece
            if page.answers:
                break
        assert page.answers, "every request ends in an answer"
        return page.answers[0]

    def write(self, prompts: Sequence[Prompt]) -> list[list[Written]]:
        """For each prompt its answers, best first: one, or a beam's n best."""
        requests = [self.request(prompt, number) for number, prompt in enumerate(prompts)]
        pages = [_Page(self, request) for request in requests]
        if self.draft is not None or self.way.is_lookup:
            for page in pages:
                for event in self._events(page.request):
                    page.take(event)
                    if page.answers:
                        break
            return [page.answers for page in pages]
        scheduler = self._scheduler(ahead=AHEAD)
        by_ticket = {scheduler.submit(page.request): page for page in pages}
        while not scheduler.is_idle:
            for event in scheduler.step():
                page = by_ticket[event.ticket]
                if not page.answers:
                    page.take(event)
                    if page.answers:
                        scheduler.cancel(event.ticket)  # it met a stop string, or is done anyway
        return [page.answers for page in pages]

    def _events(self, request: Request) -> Iterator[Event]:
        if self.draft is not None:
            yield from speculate(self.runner, request, DraftModel(self.draft, request.method))
        elif self.way.is_lookup:
            yield from speculate(self.runner, request, PromptLookup())
        else:
            scheduler = self._scheduler()
            scheduler.submit(request)
            yield from scheduler.run()

    def _scheduler(self, ahead: int = 1) -> Scheduler[Any]:
        """With room for one request at least, however wide its beam."""
        max_rows = max(ROWS, rows_of(self._blank))
        return Scheduler(self.runner, max_rows=max_rows, ahead=ahead)


class _Page:
    """One prompt and what has been written after it."""

    def __init__(self, writer: Writer, request: Request) -> None:
        self.writer, self.request = writer, request
        self.text = self._blank_text()
        self.ids: list[int] = []
        self.log_probs: list[float] = []
        self.answers: list[Written] = []  # none before it is done

    def take(self, event: Event) -> str:
        """Write down what happened; get what can be shown now."""
        if isinstance(event, Token):
            self.ids.append(event.id)
            self.log_probs += [] if event.log_prob is None else [event.log_prob]
            piece = self.text.push(event.id)
            if self.text.is_stopped:
                answer = Answer(self.ids, "end", None, self.log_probs or None)
                self.answers = [self._written(answer, self.text)]
            return piece
        if self.ids:  # shown as it came
            piece = self.text.finish()
            self.answers = [self._written(event.answers[0], self.text)]
            return piece
        self.answers = [self._written(answer, self._whole(answer)) for answer in event.answers]
        return self.answers[0].text

    def _whole(self, answer: Answer) -> TextStream:
        text = self._blank_text()
        for id in answer.ids:
            text.push(id)
        text.finish()
        return text

    def _blank_text(self) -> TextStream:
        return TextStream(self.writer.tokenizer, self.writer.stops, self.request.prompt)

    def _written(self, answer: Answer, text: TextStream) -> Written:
        return Written(
            text=text.text,
            ids=answer.ids,
            finish="stop" if text.is_stopped else answer.finish,
            n_prompt=len(self.request.prompt),
            log_probs=answer.log_probs,
            score=answer.score,
        )
