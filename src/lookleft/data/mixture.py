"""Corpora made of corpora: the pairs of some origins only, and one corpus behind another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lookleft.data.corpus import Corpus, Pair, Summary
from lookleft.data.lines import read_lines
from lookleft.errors import ConfigError, FileError


@dataclass(frozen=True)
class OfOrigins(Corpus[Pair]):
    """The pairs whose origin is wanted; line n of `origins_file` names the origin of line n."""

    pairs: Corpus[Pair]
    origins_file: Path
    wanted: frozenset[str]

    def _records(self, after: int, summary: Summary) -> Iterator[Pair]:
        origins = read_lines(self.origins_file, after=after)
        for pair in self.pairs._records(after, summary):
            # The pairs may leave lines out; the origins have them all.
            found = next((text for number, text in origins if number == pair.line), None)
            if found is None:
                raise FileError(
                    f"{self.origins_file}: has no origin for line {pair.line:,}; it must have as "
                    f"many lines as the pairs beside it"
                )
            if found.strip() in self.wanted:
                yield pair


@dataclass(frozen=True)
class Joined(Corpus[Pair]):
    """The pairs of `first`, which has `n_lines` lines, then those of `second`, numbered on."""

    first: Corpus[Pair]
    n_lines: int
    second: Corpus[Pair]

    def _records(self, after: int, summary: Summary) -> Iterator[Pair]:
        if after < self.n_lines:
            yield from self.first._records(after, summary)
        for pair in self.second._records(max(after - self.n_lines, 0), summary):
            yield Pair(pair.source, pair.target, pair.line + self.n_lines)


def origins_beside(path: Path) -> Path:
    """train.tsv.gz -> train.origin.txt.gz or train.origin.txt, whichever is there."""
    stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    candidates = [path.with_name(f"{stem}.origin.txt{end}") for end in (".gz", "")]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise FileError(f"{candidates[0]}: is not there, and data.origins needs it to choose pairs")


def check_origins(origins_file: Path, wanted: frozenset[str]) -> None:
    """Raise if a wanted origin never occurs: it is misspelt, and would silently be missing."""
    there = {(text or "").strip() for _, text in read_lines(origins_file)}
    missing = sorted(wanted - there)
    if missing:
        raise ConfigError(
            f"data.origins: {', '.join(missing)} not found in {origins_file}; it names "
            f"{', '.join(sorted(there))}"
        )
