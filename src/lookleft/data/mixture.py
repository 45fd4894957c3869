"""Corpora made of corpora: the pairs of some origins only, and one corpus behind another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lookleft.data.corpus import Corpus, Pair, Summary
from lookleft.data.lines import count_lines, read_lines
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


class _NumberedOn(Summary):
    """Counts lines in another summary as if so many stood before them."""

    def __init__(self, into: Summary, n_before: int) -> None:
        super().__init__()
        self._into, self._n_before = into, n_before

    def leave_out(self, line: int, reason: str) -> None:
        self._into.leave_out(line + self._n_before, reason)


@dataclass(frozen=True)
class Joined(Corpus[Pair]):
    """The pairs of `first`, which has `n_lines` lines, then those of `second`, numbered on."""

    first: Corpus[Pair]
    n_lines: int
    second: Corpus[Pair]

    def _records(self, after: int, summary: Summary) -> Iterator[Pair]:
        if after < self.n_lines:
            yield from self.first._records(after, summary)
        numbered_on = _NumberedOn(summary, self.n_lines)
        for pair in self.second._records(max(after - self.n_lines, 0), numbered_on):
            yield Pair(pair.source, pair.target, pair.line + self.n_lines)


def origins_beside(path: Path) -> Path:
    """train.tsv.gz -> train.origin.txt.gz or train.origin.txt, whichever is there."""
    stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    candidates = [path.with_name(f"{stem}.origin.txt{end}") for end in (".gz", "")]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise FileError(f"{candidates[0]}: is not there, and data.origins needs it to choose pairs")


def check_origins(
    origins_file: Path, wanted: frozenset[str], pairs_file: Path, n_pairs: int
) -> None:
    """Raise if the origins are not one for each of the `n_pairs` lines of the pairs.

    Too many are as wrong as too few: some line in between has the origin of another. Raise, too,
    if a wanted origin never occurs: it is misspelt, and would silently be missing.
    """
    n_origins = count_lines(origins_file)
    if n_origins != n_pairs:
        raise FileError(
            f"{origins_file}: has {n_origins:,} lines, {pairs_file} has {n_pairs:,}; line n of the "
            "one must name the origin of line n of the other. Make the origins anew for that file, "
            "or leave data.origins out and take every pair"
        )
    there = {(text or "").strip() for _, text in read_lines(origins_file)}
    missing = sorted(wanted - there)
    if missing:
        raise ConfigError(
            f"data.origins: {', '.join(missing)} not found in {origins_file}; it names "
            f"{', '.join(sorted(there))}"
        )
