"""What `lookleft.load` gives: a model that translates, writes, streams and scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import torch

from lookleft.bundle import Bundle
from lookleft.bundle import load as load_bundle
from lookleft.engine import pick_runner
from lookleft.engine.pick import Bits, Engine
from lookleft.errors import InputError
from lookleft.evaluate.score import score_ids
from lookleft.generate.methods import Way, choose
from lookleft.generate.recompute import Recompute
from lookleft.generate.request import Power, Wu
from lookleft.generate.translate import Options, Translation, Translator
from lookleft.generate.write import Prompt, Writer, Written
from lookleft.models import DecoderOnly
from lookleft.models.base import Runner

Several = list[str] | tuple[str, ...]  # a string is a sequence of strings too


class Ways(TypedDict, total=False):
    """Options of every method that decodes; `generate.methods.choose` explains and checks them."""

    temperature: float  # 0: greedy
    top_k: int
    top_p: float
    min_p: float
    seed: int
    beam: int
    length_penalty: Power | Wu
    n_best: int
    repetition: float
    no_repeat_ngram: int
    bias: Mapping[int, float]
    allowed: Callable[[Sequence[int]], Collection[int]]
    is_lookup: bool


class Translating(Ways, total=False):
    """Options of `Model.translations`, which explains them."""

    max_new: int | None
    prefix: str
    source_language: str | None
    target_language: str | None
    is_cached: bool


class Writing(Ways, total=False):
    """Options of `Model.write`, which explains them."""

    max_new: int
    stop: Sequence[str]
    draft: Bundle | None
    is_cached: bool


@dataclass
class Model(Bundle):
    """A network with its tokenizer, ready to be asked."""

    engine: Engine = "auto"  # what computes; "auto" takes the compiled engine where it can
    activations: Bits = 16  # bits of what weights of 8 bits are multiplied with in the engine

    @overload
    def translate(self, sentences: str, **options: Unpack[Translating]) -> str: ...
    @overload
    def translate(self, sentences: Several, **options: Unpack[Translating]) -> list[str]: ...
    def translate(
        self, sentences: str | Several, **options: Unpack[Translating]
    ) -> str | list[str]:
        """The best translation of each sentence, in their order; an empty one stays empty."""
        several = [sentences] if isinstance(sentences, str) else sentences
        texts = [found[0].text for found in self.translations(several, **options)]
        return texts[0] if isinstance(sentences, str) else texts

    def translations(
        self,
        sentences: Sequence[str],
        *,
        max_new: int | None = None,
        prefix: str = "",
        source_language: str | None = None,
        target_language: str | None = None,
        is_cached: bool = True,
        **ways: Unpack[Ways],
    ) -> list[list[Translation]]:
        """The n best translations of each sentence, with their scores and log-probabilities.

        max_new: tokens of an answer at most; unset: twice those of the source, and 10. prefix:
        what every translation begins with. Languages are codes, for models of many of them.
        length_penalty, of a beam, is the model's own unless given.
        """
        ways.setdefault("length_penalty", Power(self.length_penalty))
        way = choose(**ways)
        if way.is_lookup:
            raise InputError("is_lookup is for language models: a translation repeats little")
        options = Options(
            method=way.method,
            rules=way.rules,
            max_new=max_new,
            prefix=prefix,
            source_language=source_language,
            target_language=target_language,
            wants_log_probs=True,
        )
        sentences = [sentences] if isinstance(sentences, str) else sentences
        translator = Translator(self, options, runner=self.runner(is_cached=is_cached))
        places: list[list[Translation]] = [[] for _ in sentences]
        for place, found in translator.each(sentences):
            if isinstance(found, InputError):
                raise InputError(f"sentence {place + 1}: {found}") from found
            places[place] = found
        return places

    @overload
    def generate(self, prompt: str, **options: Unpack[Writing]) -> str: ...
    @overload
    def generate(self, prompt: Several, **options: Unpack[Writing]) -> list[str]: ...
    def generate(self, prompt: str | Several, **options: Unpack[Writing]) -> str | list[str]:
        """What the model writes after each prompt, without the prompt."""
        prompts = [prompt] if isinstance(prompt, str) else prompt
        texts = [found[0].text for found in self.write(prompts, **options)]
        return texts[0] if isinstance(prompt, str) else texts

    def write(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new: int = 128,
        stop: str | Sequence[str] = (),
        draft: Bundle | None = None,
        is_cached: bool = True,
        **ways: Unpack[Ways],
    ) -> list[list[Written]]:
        """For each prompt, text or ids, its n best answers with ids and log-probabilities.

        stop: strings before which the text ends. draft: a smaller model of the same vocabulary
        that guesses tokens ahead; the text stays the same.
        """
        runner = self.runner(is_cached=is_cached)
        writer = self.writer(choose(**ways), max_new=max_new, stop=stop, draft=draft, runner=runner)
        return writer.write([prompts] if isinstance(prompts, str) else prompts)

    def stream(
        self,
        prompt: Prompt,
        *,
        max_new: int = 128,
        stop: str | Sequence[str] = (),
        draft: Bundle | None = None,
        is_cached: bool = True,
        **ways: Unpack[Ways],
    ) -> Iterator[str]:
        """The same text in pieces, each shown as soon as later tokens cannot change it."""
        runner = self.runner(is_cached=is_cached)
        writer = self.writer(choose(**ways), max_new=max_new, stop=stop, draft=draft, runner=runner)
        return writer.stream(prompt)

    def score(self, text: Prompt, *, source: Prompt | None = None) -> list[float | None]:
        """The log-probability of each token of a text; None for a first one nothing precedes.

        A translator scores `text` as the translation of `source`.
        """
        target = self.encode(text) if isinstance(text, str) else text
        given = self.encode_source(source) if isinstance(source, str) else source
        return score_ids(self.network, target, given)

    def runner(
        self, *, is_cached: bool = True, say: Callable[[str], None] | None = None
    ) -> Runner[Any]:
        """What the decode loop drives: the network, the engine, or the twin without a cache.

        say: is told, in a sentence, what makes one wait, and why the engine is not used.
        """
        runner = pick_runner(self, self.engine, activations=self.activations, say=say)
        return runner if is_cached else Recompute(runner)

    def writer(
        self,
        way: Way,
        *,
        max_new: int = 128,
        stop: str | Sequence[str] = (),
        ends: Sequence[int] = (),
        draft: Bundle | None = None,
        runner: Runner[Any] | None = None,
    ) -> Writer:
        """The model set to write in one way, for many prompts."""
        guesser: Runner[Any] | None = None
        if draft is not None:
            if not isinstance(draft.network, DecoderOnly):
                family = draft.network.config.family
                raise InputError(f"the draft model is {family}: it continues no text")
            guesser = draft.network
        return Writer(
            self,
            way,
            max_new=max_new,
            stops=stop,
            ends=ends,
            wants_log_probs=True,
            runner=self.runner() if runner is None else runner,
            draft=guesser,
        )


def load(
    path: str | Path | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    engine: Engine = "auto",
    activations: Bits = 16,
) -> Model:
    """The model in a run folder, a model folder (ours or Hugging Face's) or a GGUF file.

    None means the English-Hindi translator that comes with lookleft, "en-hi". activations: 8 makes
    a model with weights of 8 bits faster on processors with AVX-512 VNNI, and rounds more.
    """
    bundle = vars(load_bundle(path, dtype=dtype))
    return Model(**bundle, engine=engine, activations=activations)
