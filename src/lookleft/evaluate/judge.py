"""Judges for training: what the dev set says of a model besides its loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lookleft.bundle import Bundle
from lookleft.data.corpus import Pair
from lookleft.evaluate.bleu import corpus_scores, default_tokenize
from lookleft.evaluate.perplexity import Surprise, text_surprise
from lookleft.generate.decode import generate_ids
from lookleft.generate.translate import translate
from lookleft.models import DecoderOnly
from lookleft.train.corpora import open_pairs, open_stream, open_texts
from lookleft.train.judge import Judge, Opinion, Sample, no_opinion
from lookleft.train.settings import RunSettings

PROMPT_TOKENS = 8  # of a dev text, which a language model goes on from
CONTINUATION = 48  # tokens
PAGE = 1_000  # characters of a stream that are measured together


def make_judge(settings: RunSettings) -> Judge:
    """The judge that fits a run: none without a dev set, or for a model that writes no text."""
    data, train = settings.data, settings.train
    if data.dev_set is None or not train.eval_sentences:
        return no_opinion
    if settings.task == "lm":
        reading = Reading.of(settings)
        return TextJudge(dev_texts(settings), reading, n_samples=train.samples)
    if settings.task != "translate":
        return no_opinion
    return TranslationJudge(
        list(islice(open_pairs(data, "dev"), train.eval_sentences)),
        max_tokens=data.max_tokens,
        tokenize=tokenize_for(settings),
        n_samples=train.samples,
    )


def dev_texts(settings: RunSettings) -> list[str]:
    """The dev texts of a language model; a stream comes in pieces of a page each."""
    data, n = settings.data, settings.train.eval_sentences
    if not data.stream:
        return [line.text for line in islice(open_texts(data, "dev"), n)]
    text = open_stream(data, "dev")
    return [text[start : start + PAGE] for start in range(0, len(text), PAGE)][:n]


def tokenize_for(settings: RunSettings) -> str:
    """How BLEU cuts words in a run: as the settings say, or as the target language wants it."""
    return settings.train.bleu_tokenize or default_tokenize(settings.data.languages[1])


def short_enough(pairs: Iterable[Pair], bundle: Bundle, most: int) -> Iterator[Pair]:
    """Those whose source has at most so many tokens: a model may not be able to read more."""
    return (pair for pair in pairs if len(bundle.encode_source(pair.source)) <= most)


class TranslationJudge:
    """Translates dev sentences greedily, and scores them against their references."""

    def __init__(
        self, pairs: Sequence[Pair], *, max_tokens: int, tokenize: str, n_samples: int
    ) -> None:
        self._pairs, self._max_tokens = list(pairs), max_tokens
        self._tokenize, self._n_samples = tokenize, n_samples

    def __call__(self, bundle: Bundle) -> Opinion:
        pairs = list(short_enough(self._pairs, bundle, self._max_tokens))
        if not pairs:
            return Opinion()
        outputs = translate(bundle, [pair.source for pair in pairs])
        references = [pair.target for pair in pairs]
        scores = corpus_scores(outputs, references, tokenize=self._tokenize)
        samples = [
            Sample(pair.source, pair.target, output)
            for pair, output in zip(pairs, outputs, strict=True)
        ]
        return Opinion(
            bleu=scores.bleu,
            chrf=scores.chrf,
            signature=scores.signature,
            samples=tuple(samples[: self._n_samples]),
        )


@dataclass(frozen=True)
class Reading:
    """How a language model was trained to read: in rows of what length, with ends of texts or not.

    Read otherwise, it is more surprised than it need be.
    """

    length: int
    has_ends: bool

    @classmethod
    def of(cls, settings: RunSettings) -> Reading:
        """As the settings of a run say."""
        return cls(settings.train.length, has_ends=not settings.data.stream)

    def surprise(self, bundle: Bundle, texts: Sequence[str]) -> Surprise:
        """How surprised the model is by texts that it reads so."""
        return text_surprise(bundle, texts, self.length, eos=self.has_ends)


class TextJudge:
    """Measures bits per byte of dev texts, and lets the model go on from their beginnings."""

    def __init__(self, texts: Sequence[str], reading: Reading, *, n_samples: int) -> None:
        self._texts, self._reading, self._n_samples = list(texts), reading, n_samples

    def __call__(self, bundle: Bundle) -> Opinion:
        surprise = self._reading.surprise(bundle, self._texts)
        samples = tuple(_continued(bundle, text) for text in self._texts[: self._n_samples])
        return Opinion(bits_per_byte=surprise.bits_per_byte, samples=samples)


def _continued(bundle: Bundle, text: str) -> Sample:
    assert bundle.tokenizer is not None, "text_surprise has read texts with it"
    assert isinstance(bundle.network, DecoderOnly), "the same"
    context = bundle.network.config.context
    prompt = bundle.tokenizer.encode(text)[: min(PROMPT_TOKENS, context)]
    max_new = min(CONTINUATION, context - len(prompt) + 1)  # the last token is not read
    eos = bundle.tokenizer.specials.eos
    [ids] = generate_ids(bundle.network, [prompt], max_new=max_new, eos=eos)
    return Sample(bundle.tokenizer.decode(prompt), "", bundle.tokenizer.decode(ids))
