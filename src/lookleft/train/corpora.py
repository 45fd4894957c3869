"""The corpora that the settings of a run name: where the files lie, and which lines count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lookleft.data.corpus import (
    Corpus,
    JsonLines,
    JsonPairs,
    Line,
    Pair,
    ParallelPairs,
    Summary,
    TextDocuments,
    TextLines,
    TsvPairs,
)
from lookleft.data.lines import count_lines
from lookleft.data.mixture import Joined, OfOrigins, check_origins, origins_beside
from lookleft.data.phrases import PhrasePair, Split, split
from lookleft.data.stream import read_stream
from lookleft.errors import ConfigError, FileError
from lookleft.train.settings import PHRASES, DataSettings, Part, RunSettings, Spec

REMEDY = "Fix the line, or leave such pairs out: --data.skip-empty true"
WHICH_SIDES = "Say which are source and target: --data.source KEY --data.target KEY"
WHICH_TEXT = "Say which is the text: --data.target KEY"


@dataclass(frozen=True)
class Phrases(Corpus[Pair]):
    """Sentences of the built-in grammar, as if they were lines of a file."""

    sentences: tuple[PhrasePair, ...]
    to_english: bool = False

    def _records(self, after: int, summary: Summary) -> Iterator[Pair]:
        for number, pair in enumerate(self.sentences[after:], start=after + 1):
            source, target = pair.english, pair.hindi
            if self.to_english:
                source, target = target, source
            yield Pair(source, target, number)


@cache
def built_in() -> Split:
    """The built-in corpus, made once: that takes seconds, and every evaluation reads it."""
    return split()


def open_pairs(data: DataSettings, part: Part) -> Corpus[Pair]:
    """The pairs to train on, or to measure on."""
    spec = named(data, part)
    if spec == PHRASES:
        made = built_in()
        sentences = made.train if part == "train" else made.dev
        return Phrases(tuple(sentences), to_english=data.phrases_to_english)
    files = find_files(data, part)
    pairs: Corpus[Pair]
    empty: dict[str, Any] = {"skip_empty": data.skip_empty, "remedy": REMEDY}
    if len(files) == 2:
        pairs = ParallelPairs(source=files[0], target=files[1], **empty)
    elif ".jsonl" in files[0].suffixes:
        keys = (data.source, data.target)
        pairs = JsonPairs(path=files[0], other_keys=keys, key_remedy=WHICH_SIDES, **empty)
    else:
        pairs = TsvPairs(path=files[0], **empty)
    if data.origins:
        wanted, beside = frozenset(data.origins), origins_beside(files[0])
        must_occur = wanted if part == "train" else frozenset()  # a small dev set may lack some
        check_origins(beside, must_occur, files[0], count_lines(files[0]))
        pairs = OfOrigins(pairs, beside, wanted)
    if data.add_phrases and part == "train":
        few = tuple(built_in().train[: data.add_phrases])
        added = Phrases(few, to_english=data.phrases_to_english)
        pairs = Joined(pairs, count_lines(files[0]), added)
    return pairs


def open_texts(data: DataSettings, part: Part) -> Corpus[Line]:
    """The texts to train on, or to measure on: one a line, or with a line that ends each."""
    texts = texts_of(_text_file(data, part), data.document_end, data.target)
    # Only what is trained on: a dev set may well be a single document.
    if part == "train" and isinstance(texts, TextDocuments) and not texts.has_end():
        raise ConfigError(
            f"data.document_end = {texts.end!r}: no line of {texts.path} says that, so it would be "
            "one document. Give the line that ends each: --data.document-end TEXT; or leave it out"
            " if every line is a text of its own; or, for one long text: --data.stream true"
        )
    return texts


def texts_of(path: Path, end: str | None = None, language: str | None = None) -> Corpus[Line]:
    """The texts of a file: strings of JSON, or lines, or documents that a line `end` ends.

    Where JSON has no `text`, the code of the language is the key.
    """
    if ".jsonl" in path.suffixes:
        return JsonLines(path=path, other_key=language, remedy=WHICH_TEXT)
    return TextLines(path=path) if end is None else TextDocuments(path=path, end=end)


def open_stream(data: DataSettings, part: Part) -> str:
    """The one long text to train on, or the part of it to measure on."""
    return read_stream(_text_file(data, part), *data.stream_part(part))


def check_dev(settings: RunSettings) -> None:
    """Read the dev set once: what is wrong with it would else be found an evaluation later."""
    data = settings.data
    if data.dev_set is None or data.dev_set == PHRASES:
        return
    if data.stream:
        open_stream(data, "dev")
    elif settings.task == "translate":
        _read_all(open_pairs(data, "dev"))
    else:
        _read_all(open_texts(data, "dev"))


def named(data: DataSettings, part: Part) -> Spec:
    """What the settings say about one part; a dev set that was refused has no name."""
    spec = data.train if part == "train" else data.dev_set
    if spec is None:
        raise ConfigError("data.dev: there is no dev set to read")
    return spec


def find_files(data: DataSettings, part: Part) -> list[Path]:
    """The files of one part, none for the built-in text; each is there, or an error says why."""
    spec = named(data, part)
    if spec == PHRASES:
        return []
    if isinstance(spec, tuple):
        return [_there(data, name, part) for name in spec]
    if data.source and data.target and not _place(data, spec).is_file():
        sides = [_side(data, spec, language) for language in (data.source, data.target)]
        if all(sides):
            return [side for side in sides if side]
        if any(sides):
            has, lacks = data.source, data.target
            if sides[1]:
                has, lacks = lacks, has
            raise FileError(
                f"data.{part} = {spec!r}: found {_place(data, spec)}.{has} but not "
                f"{_place(data, spec)}.{lacks}. "
                + ("To train without a dev set: data.dev = false" if part == "dev" else "")
            )
    return [_there(data, spec, part)]


def is_read_by_language(data: DataSettings) -> bool:
    """Whether data.source and data.target decide what is read, and are not mere names."""
    is_stem = isinstance(data.train, str) and len(find_files(data, "train")) == 2
    return is_stem or data.has_phrases or data.is_json


def fingerprint(data: DataSettings) -> dict[str, str]:
    """Name and content of every data file, to notice that one changed between two sittings.

    Names are as the settings give them, without data.dir, so that a folder may move.
    """
    marks: dict[str, str] = {}
    parts: tuple[Part, ...] = ("train", "dev")
    for part in parts:
        if part == "dev" and data.dev_set is None:
            continue
        spec = named(data, part)
        if spec == PHRASES or (part == "train" and data.add_phrases):
            marks[PHRASES] = _mark_of_built_in()
        if spec == PHRASES:
            continue
        files = find_files(data, part)
        names = list(spec) if isinstance(spec, tuple) else [spec]
        if len(files) > len(names):  # one name stood for both sides
            names = [f"{spec}.{data.source}", f"{spec}.{data.target}"]
        marks |= {name: _sha256(file) for name, file in zip(names, files, strict=True)}
        if data.origins:
            marks[f"{names[0]}, origins"] = _sha256(origins_beside(files[0]))
    return marks


def _text_file(data: DataSettings, part: Part) -> Path:
    spec = named(data, part)
    if not isinstance(spec, str) or spec == PHRASES:
        raise ConfigError(f"data.{part} = {spec!r}: a language model needs one text file")
    return find_files(data, part)[0]


def _read_all(corpus: Corpus[Pair] | Corpus[Line]) -> None:
    if not sum(1 for _ in corpus):
        raise ConfigError("data.dev: has nothing to measure on. To train without: data.dev = false")


def _place(data: DataSettings, name: str) -> Path:
    return Path(data.dir or "") / name


def _side(data: DataSettings, name: str, language: str) -> Path | None:
    """data/dev and "hi" -> data/dev.hi or data/dev.hi.gz, whichever is there."""
    candidates = [_place(data, f"{name}.{language}{end}") for end in ("", ".gz")]
    return next((path for path in candidates if path.is_file()), None)


def _there(data: DataSettings, name: str, part: Part) -> Path:
    path = _place(data, name)
    if path.is_file():
        return path
    hint = f" in {data.dir}" if data.dir else "; --data.dir says where relative names begin"
    raise FileError(f"data.{part} = {name!r}: there is no such file{hint}")


@cache
def _mark_of_built_in() -> str:
    made = built_in()
    pairs = (f"{pair.english}\t{pair.hindi}\n" for pair in (*made.train, *made.dev))
    return hashlib.sha256("".join(pairs).encode("utf-8")).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
