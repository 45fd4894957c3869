"""Examples to batches: a window at a time, shuffled by seed, cut to a token budget, resumable.

The examples of an epoch are read in windows. Each window is shuffled, cut into batches of similar
length (or packed into rows), and its batches are shuffled again. All chance comes from (seed,
epoch, window), so a run that is stopped and taken up at its `Position` goes on exactly as it would
have, after reading one window and no more.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

from lookleft.data.examples import Example, Examples
from lookleft.errors import InputError

Item = TypeVar("Item")
Ids = list[int]
Row = list[Ids]
"""Documents that share a row, as `pack_documents` takes them."""

_SHOWN = 10


@dataclass(frozen=True)
class Position:
    """Where a run stands: at batch `batch` of the window that starts behind `line`."""

    epoch: int = 0
    line: int = 0
    window: int = 0
    batch: int = 0  # of the batches of one process


@dataclass(frozen=True)
class Share:
    """Which process this is, of how many."""

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise InputError(f"rank={self.rank} is not in a world of {self.world_size}")


@dataclass
class Dropped:
    """How many examples did not fit since the feed was made, and the lines of the first few."""

    count: int = 0
    first_lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.first_lines) < _SHOWN:
            self.first_lines.append(line)


class Cutter(Protocol[Item]):
    """How a window becomes batches."""

    def fits(self, example: Example) -> bool:
        """Whether the example can be in a batch at all."""

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Item]]:
        """Batches that hold the window, a multiple of `n` in number; neighbours cost the same."""


@dataclass(frozen=True)
class ByLength:
    """Batches of examples of similar length, each of at most `tokens` ids, padding counted."""

    tokens: int
    max_rows: int | None = None
    max_len: int | None = None  # of either side; longer examples are dropped

    def __post_init__(self) -> None:
        _check_positive(tokens=self.tokens, max_rows=self.max_rows, max_len=self.max_len)

    def fits(self, example: Example) -> bool:
        """Whether it has at most `max_len` ids a side and alone keeps to the budget."""
        lengths = len(example.source), len(example.target)
        return sum(lengths) <= self.tokens and (
            self.max_len is None or max(lengths) <= self.max_len
        )

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Example]]:
        """Batches in the order of their length; `draw` decides between equal ones."""
        if draw is not None:
            draw.shuffle(window)
        window.sort(key=lambda example: (len(example.target), len(example.source)))
        batches: list[list[Example]] = [[]]
        source = target = 0
        for example in window:
            source, target = max(source, len(example.source)), max(target, len(example.target))
            n_rows = len(batches[-1]) + 1
            if n_rows * (source + target) > self.tokens or len(batches[-1]) == self.max_rows:
                batches.append([])
                source, target = len(example.source), len(example.target)
            batches[-1].append(example)
        return split_to_multiple(batches, n)


@dataclass(frozen=True)
class Packed:
    """Batches of `n_rows` rows, each filled with documents that predict at most `length` tokens.

    A document longer than a row goes on in another, its last token repeated there as context, so
    that each of its tokens but the first is predicted once.
    """

    length: int
    n_rows: int

    def __post_init__(self) -> None:
        _check_positive(length=self.length, n_rows=self.n_rows)

    def fits(self, example: Example) -> bool:
        """Whether it has a second token, and so anything to predict."""
        return len(example.target) > 1

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Row]]:
        """Batches of rows, in an order that `draw` decides."""
        parts = [
            example.target[start : start + self.length + 1]
            for example in window
            for start in range(0, len(example.target) - 1, self.length)
        ]
        if draw is not None:
            draw.shuffle(parts)
        rows = split_to_multiple(fill_rows(parts, self.length), 1, at_least=n)
        if draw is not None:
            draw.shuffle(rows)
        batches = [rows[i : i + self.n_rows] for i in range(0, len(rows), self.n_rows)]
        return split_to_multiple(batches, n)


class Feed(Iterator[list[Item]]):
    """Batches for one process, epoch after epoch; `position` is where to go on after the last.

    Every process gets equally many batches, and no example comes twice in an epoch. What did not
    fit is counted in `dropped`.
    """

    def __init__(
        self,
        examples: Examples,
        cutter: Cutter[Item],
        *,
        seed: int | None,
        window: int = 65_536,
        n_epochs: int | None = None,
        share: Share | None = None,
        start: Position | None = None,
    ) -> None:
        """`seed` None leaves everything in order, for validation; `n_epochs` None never ends."""
        self._examples, self._cutter, self._seed = examples, cutter, seed
        self._window, self._n_epochs, self._share = window, n_epochs, share or Share()
        if window < self._share.world_size:
            raise InputError(f"window={window} is too small for {self._share.world_size} processes")
        self.position = start or Position()
        self.dropped = Dropped()
        self._batches = self._all_batches(self.position)

    def __next__(self) -> list[Item]:
        batch, self.position = next(self._batches)
        return batch

    def _all_batches(self, at: Position) -> Iterator[tuple[list[Item], Position]]:
        """Every batch from `at` on, with the position after it."""
        while self._n_epochs is None or at.epoch < self._n_epochs:
            for number, (window, is_last) in enumerate(self._windows(at), start=at.window):
                line = window[-1].line
                after = Position(at.epoch + 1) if is_last else Position(at.epoch, line, number + 1)
                mine = self._share_of(window, at.epoch, number)
                if at.batch >= len(mine):
                    raise InputError(f"{at} is beyond the data: it has changed, or the settings")
                for batch in range(at.batch, len(mine)):
                    is_end = batch + 1 == len(mine)
                    here = Position(at.epoch, at.line, number, batch + 1)
                    yield mine[batch], after if is_end else here
                at = after

    def _windows(self, at: Position) -> Iterator[tuple[list[Example], bool]]:
        """The windows of the epoch from `at` on, and whether each is the last."""
        stream = self._fitting(at)
        n = self._share.world_size
        ahead: list[Example] = []
        is_last = False
        while not is_last:
            window = ahead + list(islice(stream, self._window - len(ahead)))
            # A last window too small to share would leave some processes without a batch.
            ahead = list(islice(stream, n))
            is_last = len(ahead) < n
            if is_last:
                window += ahead
            if len(window) < n:
                raise InputError(
                    f"{len(window)} examples behind line {at.line}, too few for {n} process(es);"
                    f" {self.dropped.count:,} did not fit"
                )
            yield window, is_last

    def _fitting(self, at: Position) -> Iterator[Example]:
        line = at.line
        for example in self._examples(at.epoch, at.line):
            if example.line <= line:  # a run could not be taken up at such a line
                raise InputError(f"an example of line {example.line} came after line {line}")
            line = example.line
            if self._cutter.fits(example):
                yield example
            else:
                self.dropped.add(line)

    def _share_of(self, window: list[Example], epoch: int, number: int) -> list[list[Item]]:
        """This process's batches of a window."""
        n = self._share.world_size
        draw = None if self._seed is None else random.Random(f"{self._seed}:{epoch}:{number}")
        batches = self._cutter.cut(window, draw, n)
        # Neighbours are dealt out together: no process waits long for another in any step.
        rounds = [batches[i : i + n] for i in range(0, len(batches), n)]
        if draw is not None:
            draw.shuffle(rounds)
        return [batches_of_round[self._share.rank] for batches_of_round in rounds]


def fill_rows(documents: Sequence[Ids], length: int) -> list[Row]:
    """Rows of documents that together predict at most `length` tokens: longest first, best fit."""
    rows: list[Row] = []
    gaps: list[tuple[int, int]] = []  # (room left, row), smallest first
    for document in sorted(documents, key=len, reverse=True):
        need = len(document) - 1
        place = bisect_left(gaps, (need, -1))
        if place == len(gaps):
            rows.append([document])
            insort(gaps, (length - need, len(rows) - 1))
        else:
            room, row = gaps.pop(place)
            rows[row].append(document)
            insort(gaps, (room - need, row))
    return rows


def split_to_multiple(
    groups: list[list[Item]], multiple: int, *, at_least: int = 0
) -> list[list[Item]]:
    """The same groups in order, the largest halved until their number is a multiple."""
    groups = list(groups)
    while len(groups) % multiple or len(groups) < at_least:
        largest = max(range(len(groups)), key=lambda i: len(groups[i]))
        group = groups[largest]
        if len(group) < 2:
            raise InputError(f"{len(groups)} single items cannot be shared by {multiple} processes")
        half = len(group) // 2
        groups[largest : largest + 1] = [group[:half], group[half:]]
    return groups


def _check_positive(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise InputError(f"{name}={value} must be at least 1")
