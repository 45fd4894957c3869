"""Lines and pairs from files: streamed, numbered, read again as often as wanted.

A corpus is a description; `read` opens the files. Nothing is dropped unseen: what is left out is
counted in the reader's summary, and what is wrong is an error with file and line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from lookleft.data.drift import describe_drift, is_blank
from lookleft.data.lines import MAX_LINE_BYTES, count_lines, read_lines
from lookleft.errors import FileError
from lookleft.files import parse_json

_MAX_DEPTH = 32
_SHOWN = 10
EMPTY = "empty"
TOO_LONG = "longer than a line may be"
TOO_MANY = "too many tokens"


@dataclass(frozen=True)
class Line:
    """One text and the number, counted from 1, of its line (a document: of its last line)."""

    text: str
    line: int


@dataclass(frozen=True)
class Pair:
    """A sentence, its translation, and the number of their line, counted from 1."""

    source: str
    target: str
    line: int


@dataclass
class LeftOut:
    """Lines that were not used: how many, and the numbers of the first few."""

    count: int = 0
    first_lines: list[int] = field(default_factory=list)
    last_line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.first_lines) else ""
        return f"{self.count:,} (line {', '.join(map(str, self.first_lines))}{more})"


@dataclass
class Summary:
    """What became of the lines read so far, each counted once, however many epochs read it.

    Every epoch reads them in order, so a line behind all that were counted is new. That needs no
    memory of each, but has a price: a run taken up inside an epoch counts from there on.
    """

    n_given: int = 0
    left_out: dict[str, LeftOut] = field(default_factory=dict)  # by reason
    last_given: int = field(default=0, compare=False)

    @property
    def last_line(self) -> int:
        """How far was read. A record may have many lines, or not be asked for: no count tells."""
        return max([self.last_given, *(found.last_line for found in self.left_out.values())])

    def give(self, line: int) -> None:
        """Count a line that is used, unless it turns out to have too many tokens."""
        if line > self.last_given:
            self.n_given += 1
            self.last_given = line

    def leave_out(self, line: int, reason: str) -> None:
        """Count a line that is not used."""
        found = self.left_out.setdefault(reason, LeftOut())
        if line <= found.last_line:
            return
        found.last_line = line
        found.count += 1
        if len(found.first_lines) < _SHOWN:
            found.first_lines.append(line)

    def __str__(self) -> str:
        return ", ".join(f"{reason} {found}" for reason, found in self.left_out.items())


Record = TypeVar("Record", bound=Line | Pair)


class Reader(Iterator[Record]):
    """One pass over a corpus; `summary` grows with it."""

    def __init__(self, records: Iterator[Record], summary: Summary) -> None:
        self._records = records
        self.summary = summary

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        record = next(self._records)
        self.summary.give(record.line)
        return record


class Corpus(ABC, Generic[Record]):
    """Records in files. Iterate as often as you like; `read(after=n)` starts behind line n."""

    def read(self, *, after: int = 0, summary: Summary | None = None) -> Reader[Record]:
        """The records behind line `after`; lines up to it are skipped without being looked at.

        summary: where to count them, if that is not a new one.
        """
        summary = Summary() if summary is None else summary
        return Reader(self._records(after, summary), summary)

    def __iter__(self) -> Iterator[Record]:
        return self.read()

    @abstractmethod
    def _records(self, after: int, summary: Summary) -> Iterator[Record]: ...


@dataclass(frozen=True)
class TextLines(Corpus[Line]):
    """Every line that is not empty, for language models; empty ones are counted."""

    path: Path
    max_bytes: int = MAX_LINE_BYTES

    def _records(self, after: int, summary: Summary) -> Iterator[Line]:
        for number, text in read_lines(self.path, after=after, max_bytes=self.max_bytes):
            if text is None:
                summary.leave_out(number, TOO_LONG)
            elif is_blank(text):
                summary.leave_out(number, EMPTY)
            else:
                yield Line(text, number)


@dataclass(frozen=True)
class TextDocuments(Corpus[Line]):
    """Documents of many lines, each ended by a line that says `end`, or by the end of the file.

    A document of more than `max_chars` comes in several parts, cut between lines: nothing is lost.
    Spaces around `end` do not count, in the file or here.
    """

    path: Path
    end: str = "<|endoftext|>"
    max_chars: int = 100_000
    max_bytes: int = MAX_LINE_BYTES

    def has_end(self) -> bool:
        """Whether any line ends a document; reads no further than the first."""
        lines = read_lines(self.path, max_bytes=self.max_bytes)
        return any(text is not None and self._is_end(text) for _, text in lines)

    def _records(self, after: int, summary: Summary) -> Iterator[Line]:
        # Of a document that was begun, an empty rest is no empty document. Whoever reads on behind
        # a line may be inside of one.
        is_begun = after > 0
        for number, text, is_last in self._parts(after, summary):
            if not is_blank(text):
                yield Line(text, number)
                is_begun = True
            elif is_last and not is_begun:
                summary.leave_out(number, EMPTY)
            if is_last:
                is_begun = False

    def _parts(self, after: int, summary: Summary) -> Iterator[tuple[int, str, bool]]:
        """Last line and text of each part, and whether its document ends with it."""
        held: list[str] = []
        size = number = 0
        for number, text in read_lines(self.path, after=after, max_bytes=self.max_bytes):
            if text is None:
                summary.leave_out(number, TOO_LONG)
                continue
            is_end = self._is_end(text)
            if not is_end:
                held.append(text)
                size += len(text) + 1
            if is_end or size > self.max_chars:
                yield number, "\n".join(held), is_end
                held, size = [], 0
        if held:
            yield number, "\n".join(held), True

    def _is_end(self, text: str) -> bool:
        return text.strip() == self.end.strip()


@dataclass(frozen=True)
class JsonLines(Corpus[Line]):
    """The string under `text` of the JSON object on every line, or else under `other_key`."""

    path: Path
    other_key: str | None = None
    remedy: str = ""  # what to do where a record has neither
    max_bytes: int = MAX_LINE_BYTES

    def _records(self, after: int, summary: Summary) -> Iterator[Line]:
        for number, text in read_lines(self.path, after=after, max_bytes=self.max_bytes):
            if text is None:
                summary.leave_out(number, TOO_LONG)
                continue
            if is_blank(text):
                summary.leave_out(number, EMPTY)
                continue
            found = _json_object(text, self.path, number)
            (key,) = _keys_there(found, ("text",), (self.other_key,))
            value = _json_string(found, key, self.path, number, self.remedy)
            if is_blank(value):
                summary.leave_out(number, EMPTY)
            else:
                yield Line(value, number)


@dataclass(frozen=True)
class _Pairs(Corpus[Pair]):
    """What all pairs have in common: an empty side is an error, unless it may be skipped."""

    skip_empty: bool = field(default=False, kw_only=True)
    max_bytes: int = field(default=MAX_LINE_BYTES, kw_only=True)
    remedy: str = field(default="Fix the line", kw_only=True)  # what to do about an empty side

    def _records(self, after: int, summary: Summary) -> Iterator[Pair]:
        for number, sides in self._sides(after):
            if sides is None:
                summary.leave_out(number, TOO_LONG)
                continue
            empty = [
                name
                for name, text in zip(("source", "target"), sides, strict=True)
                if is_blank(text)
            ]
            if not empty:
                yield Pair(*sides, number)
            elif self.skip_empty:
                summary.leave_out(number, EMPTY)
            else:
                raise FileError(
                    f"{self._file_of(empty[0])}:{number}: the {' and '.join(empty)} side is empty."
                    f" {self.remedy}"
                )

    @abstractmethod
    def _sides(self, after: int) -> Iterator[tuple[int, tuple[str, str] | None]]:
        """Line numbers and both sides; None where a line is too long."""

    @abstractmethod
    def _file_of(self, side: str) -> Path: ...


@dataclass(frozen=True)
class TsvPairs(_Pairs):
    """The first two columns of a file with tabs between them; others are not looked at."""

    path: Path

    def _sides(self, after: int) -> Iterator[tuple[int, tuple[str, str] | None]]:
        for number, text in read_lines(self.path, after=after, max_bytes=self.max_bytes):
            if text is None or is_blank(text):
                yield number, None if text is None else ("", "")
                continue
            columns = text.split("\t")
            if len(columns) < 2:
                raise FileError(
                    f"{self.path}:{number}: has 1 of the 2 columns needed,"
                    " which a tab must separate. If the other side is a file of its own, name both:"
                    f' ["{self.path.name}", "OTHER"]'
                )
            yield number, (columns[0], columns[1])

    def _file_of(self, side: str) -> Path:
        return self.path


@dataclass(frozen=True)
class JsonPairs(_Pairs):
    """The strings under `source` and `target` of the JSON object on every line.

    Where one of these is missing, those under `other_keys`, such as "en" and "hi".
    """

    path: Path
    other_keys: tuple[str | None, str | None] = (None, None)
    key_remedy: str = ""  # what to do where a record has neither

    def _sides(self, after: int) -> Iterator[tuple[int, tuple[str, str] | None]]:
        for number, text in read_lines(self.path, after=after, max_bytes=self.max_bytes):
            if text is None or is_blank(text):
                yield number, None if text is None else ("", "")
                continue
            found = _json_object(text, self.path, number)
            one, other = _keys_there(found, ("source", "target"), self.other_keys)
            source = _json_string(found, one, self.path, number, self.key_remedy)
            target = _json_string(found, other, self.path, number, self.key_remedy)
            yield number, (source, target)

    def _file_of(self, side: str) -> Path:
        return self.path


@dataclass(frozen=True)
class ParallelPairs(_Pairs):
    """Line n of one file and line n of another. Files of different lengths give no pair at all."""

    source: Path
    target: Path

    def _sides(self, after: int) -> Iterator[tuple[int, tuple[str, str] | None]]:
        # Counted first: a drift found at the end would come after an epoch of wrong pairs.
        n_source, n_target = count_lines(self.source), count_lines(self.target)
        if n_source != n_target:
            raise FileError(describe_drift(self.source, self.target, n_source, n_target))
        sources = read_lines(self.source, after=after, max_bytes=self.max_bytes)
        targets = read_lines(self.target, after=after, max_bytes=self.max_bytes)
        for (number, source), (_, target) in zip(sources, targets, strict=True):
            yield number, None if source is None or target is None else (source, target)

    def _file_of(self, side: str) -> Path:
        return self.source if side == "source" else self.target


def _json_object(text: str, path: Path, number: int) -> dict[str, Any]:
    return parse_json(text.encode("utf-8"), where=f"{path}:{number}", max_depth=_MAX_DEPTH)


def _keys_there(
    found: dict[str, Any], usual: tuple[str, ...], others: tuple[str | None, ...]
) -> list[str]:
    """The usual keys if a record has them all, else the others as far as it has those."""
    if all(key in found for key in usual):
        return list(usual)
    both = zip(usual, others, strict=True)
    return [other if other is not None and other in found else key for key, other in both]


def _json_string(found: dict[str, Any], key: str, path: Path, number: int, remedy: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        has = f"its keys are {', '.join(map(repr, list(found)[:_SHOWN]))}"
        reason = (
            f"{key!r} is {type(value).__name__}, not a string"
            if key in found
            else f"no {key!r}; {has}{remedy and f'. {remedy}'}"
        )
        raise FileError(f"{path}:{number}: {reason}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileError(f"{path}:{number}: {key!r} has half a surrogate pair") from error
    return value
