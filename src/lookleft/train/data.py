"""From the settings of a run to batches: corpora, tokenizer, feeds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lookleft.data.batch import Batch, pack_documents, translation_batch
from lookleft.data.bucket import ByLength, Feed, Packed, Position, Row
from lookleft.data.corpus import (
    Corpus,
    JsonLines,
    JsonPairs,
    Line,
    Pair,
    ParallelPairs,
    Summary,
    TextLines,
    TsvPairs,
)
from lookleft.data.examples import Example, pair_examples, text_examples
from lookleft.data.phrases import PhrasePair, split
from lookleft.errors import ConfigError, FileError
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.settings import PHRASES, RunSettings

Spec = str | tuple[str, str]


@dataclass(frozen=True)
class Phrases(Corpus[Pair]):
    """Sentences of the built-in grammar, as if they were lines of a file."""

    sentences: tuple[PhrasePair, ...]

    def _records(self, after: int, summary: Summary) -> Iterator[Pair]:
        for number, pair in enumerate(self.sentences[after:], start=after + 1):
            yield Pair(pair.english, pair.hindi, number)


def open_pairs(spec: Spec, part: str) -> Corpus[Pair]:
    """The pairs that a setting names; part is "train" or "dev"."""
    if spec == PHRASES:
        made = split()
        return Phrases(tuple(made.train if part == "train" else made.dev))
    if isinstance(spec, tuple):
        return ParallelPairs(source=_there(spec[0], part), target=_there(spec[1], part))
    path = _there(spec, part)
    return JsonPairs(path=path) if ".jsonl" in path.suffixes else TsvPairs(path=path)


def open_texts(spec: Spec, part: str) -> Corpus[Line]:
    """The texts that a setting names, one a line."""
    if not isinstance(spec, str) or spec == PHRASES:
        raise ConfigError(f"data.{part} = {spec!r}: a language model needs one text file")
    path = _there(spec, part)
    return JsonLines(path=path) if ".jsonl" in path.suffixes else TextLines(path=path)


def train_tokenizer(settings: RunSettings) -> Tokenizer:
    """A tokenizer learned from the training text, both sides together."""
    chosen = settings.text
    return Tokenizer.train(_texts(settings), kind=chosen.kind, vocab_size=chosen.vocab_size)


def training_feed(
    settings: RunSettings, tokenizer: Tokenizer, start: Position | None = None
) -> Feed[Example] | Feed[Row]:
    """Micro-batches without end, from a position on: pairs, or rows of packed documents."""
    data, train = settings.data, settings.train
    if settings.task == "translate":
        examples = pair_examples(
            open_pairs(data.train, "train"),
            tokenizer,
            tokenizer,
            dropout=data.bpe_dropout,
            seed=train.seed,
        )
        cut = ByLength(tokens=train.tokens, max_len=data.max_tokens)
        return Feed(examples, cut, seed=train.seed, start=start)
    texts = text_examples(open_texts(data.train, "train"), tokenizer)
    return Feed(texts, _packing(settings), seed=train.seed, start=start)


def dev_batches(settings: RunSettings, tokenizer: Tokenizer, start_id: int) -> Iterator[Batch]:
    """All of the dev set once, in order."""
    data, train = settings.data, settings.train
    assert data.dev is not None, "asked only of runs with a dev set"
    if settings.task == "translate":
        examples = pair_examples(open_pairs(data.dev, "dev"), tokenizer, tokenizer)
        cut = ByLength(tokens=train.tokens, max_len=data.max_tokens)
        for batch in Feed(examples, cut, seed=None, n_epochs=1):
            yield make_batch(batch, start_id)
    else:
        texts = text_examples(open_texts(data.dev, "dev"), tokenizer)
        for rows in Feed(texts, _packing(settings), seed=None, n_epochs=1):
            yield make_batch(rows, start_id)


def make_batch(items: Sequence[Example | Row], start_id: int) -> Batch:
    """A micro-batch of a feed as tensors; the shift by one happens in data/batch.py."""
    pairs = [item for item in items if isinstance(item, Example)]
    if pairs:
        return translation_batch([p.source for p in pairs], [p.target for p in pairs], start_id)
    return pack_documents([item for item in items if not isinstance(item, Example)])


def fingerprint(settings: RunSettings) -> dict[str, str]:
    """Name and content of every data file, to notice that one changed between two sittings."""
    marks = {}
    for part, spec in (("train", settings.data.train), ("dev", settings.data.dev)):
        for name in [spec] if isinstance(spec, str) else list(spec or ()):
            marks[name] = "built in" if name == PHRASES else _sha256(_there(name, part))
    return marks


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error


def _texts(settings: RunSettings) -> Iterator[str]:
    if settings.task == "lm":
        yield from (line.text for line in open_texts(settings.data.train, "train"))
        return
    for pair in open_pairs(settings.data.train, "train"):
        yield pair.source
        yield pair.target


def _packing(settings: RunSettings) -> Packed:
    train = settings.train
    return Packed(length=train.length, n_rows=max(train.tokens // train.length, 1))


def _there(name: str, part: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise FileError(f"data.{part} = {name!r}: there is no such file")
    return path
