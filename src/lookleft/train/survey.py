"""What the data of a run looks like before anybody trains on it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from lookleft.data.bucket import ByLength
from lookleft.data.corpus import Summary
from lookleft.data.examples import Example
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.corpora import open_pairs, open_stream, open_texts
from lookleft.train.data import token_budget
from lookleft.train.settings import Part, RunSettings

MOST = 200_000  # records looked at; a corpus may be larger than anybody wants to wait for
SHOWN = 10  # shared sentences that are named
_AT_ONCE = 1_000


@dataclass
class Side:
    """Counts over one side of a corpus."""

    n_words: int = 0
    n_tokens: int = 0
    n_letters: int = 0
    n_devanagari: int = 0
    n_not_nfc: int = 0  # texts that NFC would change

    def add(self, text: str, n_tokens: int) -> None:
        self.n_words += len(text.split())
        self.n_tokens += n_tokens
        letters = [char for char in text if char.isalpha()]
        self.n_letters += len(letters)
        self.n_devanagari += sum("\u0900" <= char <= "\u097f" for char in letters)
        self.n_not_nfc += not unicodedata.is_normalized("NFC", text)

    @property
    def tokens_per_word(self) -> float:
        return self.n_tokens / max(self.n_words, 1)

    @property
    def devanagari_share(self) -> float:
        return self.n_devanagari / max(self.n_letters, 1)


@dataclass
class Survey:
    """What was found; of a language model's text there is a target side only."""

    n_train: int = 0
    n_dev: int = 0
    unit: str = "records"  # what these two count
    n_too_long: int = 0  # pairs that training will leave out
    n_dev_too_long: int = 0  # pairs of dev that will not be measured
    left_out: str = ""  # what the reader of train leaves out for other reasons, in words
    dev_left_out: str = ""  # the same of dev
    n_shared: int = 0  # dev sentences that also occur in train
    first_shared: list[str] = field(default_factory=list)
    is_whole: bool = True  # False: only the first `MOST` records were looked at
    source: Side = field(default_factory=Side)
    target: Side = field(default_factory=Side)


def survey(
    settings: RunSettings, tokenizer: Tokenizer, source_tokenizer: Tokenizer | None = None
) -> Survey:
    """Read train and dev once, and count."""
    found = Survey()
    source_tokenizer = source_tokenizer or tokenizer
    held_out: set[str] = set()
    if settings.data.dev_set is not None and not settings.data.stream:
        read = Summary()
        for source, target, example in _encoded(settings, "dev", source_tokenizer, tokenizer, read):
            found.n_dev += 1
            found.n_dev_too_long += not fits(settings, "dev", example)
            held_out.add(source or target)
        found.dev_left_out = str(read)
    shared: set[str] = set()
    read = Summary()
    for source, target, example in _encoded(settings, "train", source_tokenizer, tokenizer, read):
        found.n_train += 1
        found.n_too_long += not fits(settings, "train", example)
        found.target.add(target, len(example.target) - 1)
        if source:
            found.source.add(source, len(example.source) - 1)
        if (source or target) in held_out:
            shared.add(source or target)
    found.n_shared, found.first_shared = len(shared), sorted(shared)[:SHOWN]
    found.is_whole, found.left_out = found.n_train < MOST, str(read)
    if settings.data.stream:
        found.unit, found.n_train = "characters", len(open_stream(settings.data, "train"))
        if settings.data.dev_set is not None:
            found.n_dev = len(open_stream(settings.data, "dev"))
    return found


def fits(settings: RunSettings, part: Part, example: Example) -> bool:
    """Whether a pair is short enough to be used; the texts of a language model are cut instead."""
    if settings.task != "translate":
        return True
    budget = ByLength(tokens=token_budget(settings, part), max_len=settings.data.max_tokens)
    return budget.fits(example)


def _encoded(
    settings: RunSettings,
    part: Part,
    source_tokenizer: Tokenizer,
    tokenizer: Tokenizer,
    read: Summary,
) -> Iterator[tuple[str, str, Example]]:
    """Source, target and their ids, of every record of a part; `read` counts the lines."""
    for chunk in _chunks(records(settings, part, read)):
        sources = source_tokenizer.encode_batch([source for source, _ in chunk], eos=True)
        targets = tokenizer.encode_batch([target for _, target in chunk], eos=True)
        for (source, target), one, other in zip(chunk, sources, targets, strict=True):
            yield source, target, Example(one, other, 0)


def records(settings: RunSettings, part: Part, read: Summary) -> Iterator[tuple[str, str]]:
    """(source, target) of a part, at most `MOST`; the source is empty for a language model."""
    data = settings.data
    if data.stream:
        yield "", open_stream(data, part)
    elif settings.task == "translate":
        for pair in islice(open_pairs(data, part).read(summary=read), MOST):
            yield pair.source, pair.target
    else:
        for line in islice(open_texts(data, part).read(summary=read), MOST):
            yield "", line.text


def _chunks(items: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    rest = iter(items)
    while chunk := list(islice(rest, _AT_ONCE)):
        yield chunk
