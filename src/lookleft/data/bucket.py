"""Examples to batches: a window at a time, shuffled by seed, cut to a token budget, resumable.

The examples of an epoch are read in windows. Each window is shuffled, cut into batches of similar
length (or packed into rows), and its batches are shuffled again. All chance comes from (seed,
epoch, window), so a run that is stopped and taken up at its `Position` goes on exactly as it would
have, after reading one window and no more.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from lookleft.data.corpus import TOO_MANY, Summary
from lookleft.data.examples import Example, Examples, joined
from lookleft.errors import InputError

Item = TypeVar("Item")
Row = list[Example]
"""Documents, or parts of them, that share a row; `pack_documents` takes their ids."""

# How much is in memory together, to be shuffled: so many examples, or fewer if they have so many
# ids, which take some 36 bytes each.
WINDOW = 65_536
WINDOW_IDS = 4_194_304
_TAIL = 1_024  # parts of examples that are no window of their own; also the most processes


@dataclass(frozen=True)
class Position:
    """Where a run stands: at batch `batch` of the window that starts behind `line`."""

    epoch: int = 0
    line: int = 0
    window: int = 0
    batch: int = 0  # of the batches of one process
    n_processes: int = 1
    before: str = (
        ""  # what other numbers of processes took of this window: "2:5 3:1", 5 by each of 2
    )

    def for_processes(self, n: int) -> Position:
        """The same place for another number of processes: they share what is left of the window."""
        if n == self.n_processes:
            return self
        taken = f"{self.before} {self.n_processes}:{self.batch}".strip()
        before = taken if self.batch else self.before
        return replace(self, batch=0, n_processes=n, before=before)


@dataclass(frozen=True)
class Share:
    """Which process this is, of how many."""

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise InputError(f"rank={self.rank} is not in a world of {self.world_size}")


class Cutter(Protocol[Item]):
    """How a window becomes batches."""

    @property
    def misfit(self) -> str:
        """What is wrong with an example that does not fit, in words."""

    def fits(self, example: Example) -> bool:
        """Whether the example can be in a batch at all."""

    def n_parts(self, example: Example) -> int:
        """Into how many parts it is cut, which can be in batches of different processes."""

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Item]]:
        """Batches that hold the window, a multiple of `n` in number; neighbours cost the same.

        They keep to a budget, but for one case: single items whose number is no multiple of `n`.
        Fewer than `n` of the batches hold two then.
        """


@dataclass(frozen=True)
class ByLength:
    """Batches of examples of similar length, each of at most `tokens` ids, padding counted.

    Only where all of a window are single examples whose number the processes cannot share, a few
    batches hold two, whatever these cost.
    """

    tokens: int
    max_len: int | None = None  # of either side; longer examples are dropped
    joined: float = 0.0  # share of them that are read two by two, with another partner each time

    def __post_init__(self) -> None:
        _check_positive(tokens=self.tokens, max_len=self.max_len)

    @property
    def misfit(self) -> str:
        return TOO_MANY

    def fits(self, example: Example) -> bool:
        """Whether it has at most `max_len` ids a side and alone keeps to the budget."""
        lengths = len(example.source), len(example.target)
        return sum(lengths) <= self.tokens and (
            self.max_len is None or max(lengths) <= self.max_len
        )

    def n_parts(self, example: Example) -> int:
        return 1

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Example]]:
        """Batches in the order of their length; `draw` decides between equal ones, and who is
        joined with whom."""
        if draw is not None:
            draw.shuffle(window)
            window = self._partly_joined(window, n)
        window.sort(key=lambda example: (len(example.target), len(example.source)))
        batches: list[list[Example]] = [[]]
        source = target = 0
        for example in window:
            source, target = max(source, len(example.source)), max(target, len(example.target))
            if (len(batches[-1]) + 1) * (source + target) > self.tokens:
                batches.append([])
                source, target = len(example.source), len(example.target)
            batches[-1].append(example)
        return split_to_multiple(batches, n)

    def _partly_joined(self, window: list[Example], n: int) -> list[Example]:
        """The first ones, as many as the share says, two by two where both together fit.

        At least `n` examples are left, so that every process gets one.
        """
        n_pairs = min(int(self.joined * len(window)) // 2, len(window) - n)
        pairs = zip(window[: 2 * n_pairs : 2], window[1 : 2 * n_pairs : 2], strict=True)
        found: list[Example] = []
        for first, second in pairs:
            both = joined(first, second)
            found += [both] if self.fits(both) else [first, second]
        return found + window[2 * n_pairs :]


@dataclass(frozen=True)
class Packed:
    """Batches of `n_rows` rows, each filled with documents that predict at most `length` tokens.

    Where `n_rows` is 1 and the processes cannot share the rows of a window, a few batches have two.
    A document longer than a row goes on in another, its last token repeated there as context, so
    that each of its tokens but the first is predicted once.
    """

    length: int
    n_rows: int

    def __post_init__(self) -> None:
        _check_positive(length=self.length, n_rows=self.n_rows)

    @property
    def misfit(self) -> str:
        return "a single token"

    def fits(self, example: Example) -> bool:
        """Whether it has a second token, and so anything to predict."""
        return len(example.target) > 1

    def n_parts(self, example: Example) -> int:
        return len(_starts(example, self.length))

    def cut(self, window: list[Example], draw: random.Random | None, n: int) -> list[list[Row]]:
        """Batches of rows, in an order that `draw` decides."""
        parts = cut_documents(window, self.length)
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
    fit is counted in `summary`.
    """

    def __init__(
        self,
        examples: Examples,
        cutter: Cutter[Item],
        *,
        seed: int | None,
        window: int = WINDOW,
        window_ids: int = WINDOW_IDS,
        n_epochs: int | None = None,
        share: Share | None = None,
        start: Position | None = None,
        summary: Summary | None = None,
    ) -> None:
        """`seed` None leaves everything in order, for validation; `n_epochs` None never ends.

        A window has `window` examples, or, if these have more than `window_ids` ids, as many as
        have so many, but parts enough for all processes.
        """
        self._examples, self._cutter, self._seed = examples, cutter, seed
        self._window, self._window_ids = window, window_ids
        self._n_epochs, self._share = n_epochs, share or Share()
        if min(window, _TAIL) < self._share.world_size:
            raise InputError(f"window={window} is too small for {self._share.world_size} processes")
        self.position = (start or Position()).for_processes(self._share.world_size)
        self.summary = Summary() if summary is None else summary
        self._batches = self._all_batches(self.position)

    def __next__(self) -> list[Item]:
        batch, self.position = next(self._batches)
        return batch

    def _all_batches(self, at: Position) -> Iterator[tuple[list[Item], Position]]:
        """Every batch from `at` on, with the position after it."""
        start = Position(n_processes=self._share.world_size)
        while self._n_epochs is None or at.epoch < self._n_epochs:
            for number, (window, is_last) in enumerate(self._windows(at), start=at.window):
                after = replace(start, epoch=at.epoch, line=window[-1].line, window=number + 1)
                if is_last:
                    after = replace(start, epoch=at.epoch + 1)
                mine = self._share_of(window, at)
                if at.batch >= len(mine) and not at.before:
                    raise InputError(f"{at} is beyond the data: it has changed, or the settings")
                for batch in range(at.batch, len(mine)):
                    is_end = batch + 1 == len(mine)
                    yield mine[batch], after if is_end else replace(at, batch=batch + 1)
                at = after

    def _windows(self, at: Position) -> Iterator[tuple[list[Example], bool]]:
        """The windows of the epoch from `at` on, and whether each is the last."""
        stream = self._fitting(at)
        n, tail = self._share.world_size, min(self._window, _TAIL)
        ahead: deque[Example] = deque()
        is_last = False
        while not is_last:
            window: list[Example] = []
            n_ids = n_parts = 0
            while len(window) < self._window and (n_ids < self._window_ids or n_parts < tail):
                example = ahead.popleft() if ahead else next(stream, None)
                if example is None:
                    break
                window.append(example)
                n_ids += example.n_ids
                n_parts += self._cutter.n_parts(example)
            n_ahead = sum(map(self._cutter.n_parts, ahead))
            # A last window too small to share would leave some processes without a batch. Where
            # windows end must not depend on their number: it may change within one.
            while n_ahead < tail and (example := next(stream, None)) is not None:
                ahead.append(example)
                n_ahead += self._cutter.n_parts(example)
            is_last = n_ahead < tail
            if is_last:
                window += ahead
                n_parts += n_ahead
            if n_parts < n:
                raise InputError(
                    f"{len(window)} examples behind line {at.line}, too few for {n} process(es);"
                    f" left out so far: {str(self.summary) or 'none'}"
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
                self.summary.leave_out(line, self._cutter.misfit)

    def _share_of(self, window: list[Example], at: Position) -> list[list[Item]]:
        """This process's batches of a window."""
        key = f"{self._seed}:{at.epoch}:{at.window}"
        for taken in at.before.split():
            n, n_rounds = map(int, taken.split(":"))
            left = self._rounds(window, key, n)[n_rounds:]
            window = [example for each in left for batch in each for example in examples_in(batch)]
            key += f":{taken}"
        if at.before and len(window) < self._share.world_size:
            return []  # too few for all: they come again in the next epoch
        rounds = self._rounds(window, key, self._share.world_size)
        return [batches_of_round[self._share.rank] for batches_of_round in rounds]

    def _rounds(self, window: list[Example], key: str, n: int) -> list[list[list[Item]]]:
        """The batches of a window, n at a time, in an order that the key decides."""
        draw = None if self._seed is None else random.Random(key)
        batches = self._cutter.cut(window, draw, n)
        # Neighbours are dealt out together: no process waits long for another in any step.
        rounds = [batches[i : i + n] for i in range(0, len(batches), n)]
        if draw is not None:
            draw.shuffle(rounds)
        return rounds


def examples_in(batch: Sequence[Any]) -> list[Example]:
    """The examples of a batch, whether it holds them, joins of them or rows of them."""
    items = ([item] if isinstance(item, Example) else item for item in batch)
    return [example for item in items for each in item for example in each.apart]


def cut_documents(documents: Sequence[Example], length: int) -> list[Example]:
    """Parts that predict at most `length` tokens; each begins with the last of the one before."""
    return [
        replace(document, target=document.target[start : start + length + 1])
        for document in documents
        for start in _starts(document, length)
    ]


def _starts(document: Example, length: int) -> range:
    """Where the parts of a document begin."""
    return range(0, len(document.target) - 1, length)


def fill_rows(documents: Sequence[Example], length: int) -> list[Row]:
    """Rows of documents that together predict at most `length` tokens: longest first, best fit."""
    rows: list[Row] = []
    gaps: list[tuple[int, int]] = []  # (room left, row), smallest first
    for document in sorted(documents, key=lambda document: len(document.target), reverse=True):
        need = len(document.target) - 1
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
    """The same items in order, the largest groups halved until their number is a multiple.

    Where nothing is left to halve, the first groups are joined in pairs instead.
    """
    groups = list(groups)
    while len(groups) % multiple or len(groups) < at_least:
        largest = max(range(len(groups)), key=lambda i: len(groups[i]))
        group = groups[largest]
        if len(group) < 2:
            return _join_to_multiple(groups, multiple, at_least)
        half = len(group) // 2
        groups[largest : largest + 1] = [group[:half], group[half:]]
    return groups


def _join_to_multiple(singles: list[list[Item]], multiple: int, at_least: int) -> list[list[Item]]:
    """Groups of one item, as many of them joined in pairs as are too many for a multiple.

    To leave items out, or give one to two processes, would change what is trained on; a pair
    merely costs more than the budget. The first are joined: where order is by length, the shortest.
    """
    surplus = len(singles) % multiple
    if len(singles) - surplus < max(multiple, at_least):
        n = max(multiple, at_least)
        raise InputError(f"{len(singles)} single items cannot be shared by {n} processes")
    # There are pairs enough: of at least `multiple` + `surplus` groups, 2 * `surplus` are fewer.
    pairs = [singles[i] + singles[i + 1] for i in range(0, 2 * surplus, 2)]
    return pairs + singles[2 * surplus :]


def _check_positive(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise InputError(f"{name}={value} must be at least 1")
