"""Feeds give every example once an epoch, within budget, and go on where they stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookleft.data.batch import NO_TARGET, pack_documents
from lookleft.data.bucket import (
    ByLength,
    Feed,
    Packed,
    Position,
    Share,
    cut_documents,
    examples_in,
    fill_rows,
    split_to_multiple,
)
from lookleft.data.corpus import LeftOut, Summary, TextDocuments, TsvPairs
from lookleft.data.examples import Example, Examples, kept, pair_examples, text_examples
from lookleft.errors import InputError
from lookleft.text.tokenizer import Tokenizer

Lengths = list[tuple[int, int]]
lengths_of_pairs = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=8)
cutters = st.sampled_from(  # of each kind one that makes batches of a single item
    [
        *(Packed(length=7, n_rows=2), Packed(length=7, n_rows=1)),
        *(ByLength(48), ByLength(25), ByLength(48, joined=0.9), ByLength(25, joined=0.5)),
    ]
)


def made_of(lengths: Lengths) -> Examples:
    """One example per entry, on every second line, with ids that tell it from all others."""

    def read(epoch: int, after: int) -> Iterator[Example]:
        for number, (source, target) in enumerate(lengths):
            line = 2 * number + 1
            if line > after:
                yield Example([number] * source, [number] * target, line)

    return read


def lines_of(batches: list[list[Example]]) -> list[list[int]]:
    return [[example.line for example in batch] for batch in batches]


@settings(max_examples=60, deadline=None)
@given(
    lengths=lengths_of_pairs,
    tokens=st.sampled_from([24, 30, 60]),  # with 24, of the longest one alone is a batch
    window=st.integers(4, 30),
    n=st.integers(1, 4),
    seed=st.none() | st.integers(0, 5),
    joined=st.sampled_from([0.0, 0.5, 0.99]),
)
def test_processes_share_all_examples_once_in_equal_numbers_of_batches(
    lengths: Lengths, tokens: int, window: int, n: int, seed: int | None, joined: float
) -> None:
    cutter = ByLength(tokens=tokens, joined=joined)
    shares = [
        list(
            Feed(
                made_of(lengths),
                cutter,
                seed=seed,
                window=window,
                n_epochs=1,
                share=Share(rank, n),
            )
        )
        for rank in range(n)
    ]
    assert len({len(share) for share in shares}) == 1
    batches = [batch for share in shares for batch in share]
    seen = sorted(example.line for batch in batches for example in examples_in(batch))
    assert seen == [2 * number + 1 for number in range(len(lengths))]
    for batch in batches:
        width = max(len(e.source) for e in batch) + max(len(e.target) for e in batch)
        assert len(batch) * width <= tokens or (n > 1 and len(batch) == 2)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=12),
    n=st.integers(1, 6),
    is_least=st.booleans(),
)
def test_groups_are_halved_and_only_then_joined(sizes: list[int], n: int, is_least: bool) -> None:
    multiple, at_least = (1, n) if is_least else (n, 0)
    groups = [[(number, place) for place in range(size)] for number, size in enumerate(sizes)]
    if sum(sizes) < n:
        with pytest.raises(InputError, match=r"single items cannot be shared by \d processes"):
            split_to_multiple(groups, multiple, at_least=at_least)
        return
    split = split_to_multiple(groups, multiple, at_least=at_least)
    assert len(split) % multiple == 0
    assert len(split) >= n
    assert [item for group in split for item in group] == [i for group in groups for i in group]
    joined = [group for group in split if len({number for number, _ in group}) > 1]
    if joined:
        assert len(joined) <= sum(sizes) % multiple
        assert all(len(group) <= 2 for group in split)
        assert sum(sizes) // multiple * multiple == len(split)  # nothing was left to halve


def test_single_items_that_cannot_be_shared_are_joined_from_the_front() -> None:
    singles = [[n] for n in range(11)]
    assert split_to_multiple(singles[:3], 2) == [[0, 1], [2]]
    assert split_to_multiple(singles, 4) == [[0, 1], [2, 3], [4, 5], *singles[6:]]
    with pytest.raises(InputError, match="3 single items cannot be shared by 4 processes"):
        split_to_multiple(singles[:3], 4)


@settings(max_examples=40, deadline=None)
@given(
    lengths=lengths_of_pairs,
    window=st.integers(2, 20),
    stop=st.integers(0, 40),
    share=st.sampled_from([Share(), Share(1, 2)]),
    cutter=cutters,
)
def test_a_feed_taken_up_again_goes_on_as_if_never_stopped(
    lengths: Lengths, window: int, stop: int, share: Share, cutter: Packed | ByLength
) -> None:

    def feed(start: Position | None = None) -> Feed[object]:
        return Feed(
            made_of([(s, t + 1) for s, t in lengths]),
            cutter,  # type: ignore[arg-type]
            seed=3,
            window=window,
            n_epochs=3,
            share=share,
            start=start,
        )

    whole = list(feed())
    first = feed()
    begun = list(islice(first, stop))
    state = json.loads(json.dumps(asdict(first.position)))
    assert begun + list(feed(Position(**state))) == whole


@settings(max_examples=40, deadline=None)
@given(
    lengths=lengths_of_pairs,
    window=st.integers(4, 20),
    sittings=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=4),
    cutter=cutters,
)
def test_other_numbers_of_processes_share_what_is_left(
    lengths: Lengths, window: int, sittings: list[tuple[int, int]], cutter: Packed | ByLength
) -> None:
    """However often the number changes within an epoch, nothing comes twice; little is put off."""
    seen: list[tuple[int, tuple[int, ...]]] = []
    state = asdict(Position())
    for n, n_batches in [*sittings, (1, 10_000)]:
        feeds: list[Feed[Any]] = [
            Feed(
                made_of([(s, t + 1) for s, t in lengths]),
                cutter,  # type: ignore[arg-type]
                seed=3,
                window=window,
                n_epochs=1,
                share=Share(rank, n),
                start=Position(**state),
            )
            for rank in range(n)
        ]
        for feed in feeds:
            for batch in islice(feed, n_batches):
                seen += [(e.line, tuple(e.target)) for e in examples_in(batch)]
        state = json.loads(json.dumps(asdict(feeds[0].position)))
        assert all(asdict(feed.position) == state for feed in feeds)
    wanted = [
        Example([], [number] * (t + 1), 2 * number + 1) for number, (_, t) in enumerate(lengths)
    ]
    parts = cut_documents(wanted, 7) if isinstance(cutter, Packed) else wanted
    all_parts = sorted((e.line, tuple(e.target)) for e in parts)
    missing = list(all_parts)
    for part in seen:
        missing.remove(part)  # fails if it came twice
    assert len(missing) <= 3 * len(sittings)  # fewer than there were processes, per change


def test_a_share_of_the_pairs_comes_two_by_two_with_new_partners_in_every_epoch() -> None:
    lengths = [(3, 4)] * 40
    cutter = ByLength(1_000, joined=0.5)
    epochs = list(Feed(made_of(lengths), cutter, seed=0, n_epochs=2))
    partners = []
    for batch in epochs:
        pairs = [example for example in batch if example.parts]
        assert (len(batch), len(pairs)) == (30, 10)
        for example in pairs:
            first, second = example.parts
            assert example.source == [*first.source[:-1], *second.source]
            assert example.target == [*first.target[:-1], *second.target]
        partners.append({frozenset(part.line for part in example.parts) for example in pairs})
    assert len(partners) == 2
    assert not partners[0] & partners[1]
    in_order = Feed(made_of(lengths), cutter, seed=None, n_epochs=1)
    assert not any(example.parts for batch in in_order for example in batch)


def test_pairs_that_together_are_too_long_stay_apart() -> None:
    cutter = ByLength(1_000, max_len=6, joined=0.99)
    short, long = 3, 5  # of the ids: only two short ones fit, without the end of the first
    feed = Feed(made_of([(short, 1), (long, 1)] * 30), cutter, seed=0, n_epochs=1)
    batch = next(feed)
    assert len(examples_in(batch)) == 60
    pairs = [example for example in batch if example.parts]
    assert pairs
    assert {len(part.source) for example in pairs for part in example.parts} == {short}
    assert max(len(example.source) for example in batch) == 5
    assert str(feed.summary) == ""


def test_the_seed_and_the_epoch_change_the_order_and_nothing_else() -> None:
    lengths = [(n % 7 + 1, n % 5 + 1) for n in range(60)]

    def order(seed: int, n_epochs: int = 1) -> list[list[int]]:
        feed = Feed(made_of(lengths), ByLength(40), seed=seed, n_epochs=n_epochs)
        return lines_of(list(feed))

    assert order(1) == order(1)
    assert order(1) != order(2)
    twice = order(1, n_epochs=2)
    half = len(twice) // 2
    assert twice[:half] == order(1)
    assert twice[half:] != twice[:half]


def test_resuming_reads_no_line_before_the_window() -> None:
    read_from: list[tuple[int, int]] = []
    examples = made_of([(3, 3)] * 100)

    def spying(epoch: int, after: int) -> Iterator[Example]:
        read_from.append((epoch, after))
        return examples(epoch, after)

    feed = Feed(spying, ByLength(12), seed=0, window=10)
    list(islice(feed, 5 * 7 + 2))  # batches of two, five to a window: inside the eighth
    assert feed.position == Position(epoch=0, line=139, window=7, batch=2)
    next(Feed(spying, ByLength(12), seed=0, window=10, start=feed.position))
    assert read_from == [(0, 0), (0, 139)]


@pytest.mark.parametrize("stop", range(0, 30, 3))
def test_windows_of_long_examples_are_short_and_resume_too(
    stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus larger than memory may have few examples: what is held is bounded by ids as well."""
    monkeypatch.setattr("lookleft.data.bucket._TAIL", 3)
    n_read = 0

    def counted(epoch: int, after: int) -> Iterator[Example]:
        nonlocal n_read
        for example in made_of([(1, 9)] * 50)(epoch, after):
            n_read += 1
            yield example

    def feed(start: Position | None = None) -> Feed[Example]:
        return Feed(counted, ByLength(20), seed=3, window_ids=40, n_epochs=1, start=start)

    whole = list(feed())
    assert sorted(line for lines in lines_of(whole) for line in lines) == list(range(1, 101, 2))
    n_read, first = 0, feed()
    begun = list(islice(first, stop))
    # The window that the last batch is of, four examples, and the three looked at ahead.
    assert n_read <= sum(map(len, begun)) + 4 + 3
    assert begun + list(feed(first.position)) == whole


def test_a_window_can_always_be_shared_however_long_its_examples() -> None:
    feed = Feed(made_of([(1, 9)] * 3_000), ByLength(20), seed=3, window_ids=1, n_epochs=1)
    next(feed)
    assert feed.position.line == 0
    lines = {line for lines in lines_of(list(islice(feed, 511))) for line in lines}
    assert feed.position == Position(line=2 * 1_024 - 1, window=1)
    assert max(lines) <= 2 * 1_024 - 1


@pytest.mark.parametrize("n", [1, 2])
def test_few_long_documents_are_held_at_a_time(n: int) -> None:
    """Of books a handful is a window: processes share their parts."""
    n_read = 0

    def books(epoch: int, after: int) -> Iterator[Example]:
        nonlocal n_read
        for example in made_of([(0, 5_001)] * 40)(epoch, after):
            n_read += 1
            yield example

    rows = Packed(length=10, n_rows=8)
    feeds = [
        Feed(books, rows, seed=3, window_ids=10_000, n_epochs=1, share=Share(rank, n))
        for rank in range(n)
    ]
    next(feeds[0])
    assert n_read <= 3 + 3  # a window of 1,500 parts, and as many looked at ahead
    batches = [batch for feed in feeds for batch in feed]
    n_predicted = sum(len(e.target) - 1 for batch in batches for e in examples_in(batch))
    assert 40 * 5_000 - 8 * 10 <= n_predicted <= 40 * 5_000  # but for the batch taken above


def test_a_pair_that_only_dropout_makes_too_long_is_not_left_out(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{word} {word}\t{word}\n" for word in ("onward", "upward")), "utf-8")
    text = file.read_text("utf-8").split()
    tokenizer = Tokenizer.train(text * 9, kind="bpe", vocab_size=290)
    cut = ByLength(tokens=64, max_len=max(len(tokenizer.encode(w, eos=True)) for w in text) + 3)
    examples = pair_examples(
        TsvPairs(file), tokenizer, tokenizer, dropout=0.9, fits=cut.fits, seed=0
    )
    loose = pair_examples(TsvPairs(file), tokenizer, tokenizer, dropout=0.9, seed=0)
    epochs = range(8)
    assert any(not cut.fits(example) for epoch in epochs for example in loose(epoch, 0))
    assert all(cut.fits(example) for epoch in epochs for example in examples(epoch, 0))
    # What fits is cut by chance as before.
    assert [e for epoch in epochs for e in loose(epoch, 0) if cut.fits(e)] == [
        e
        for epoch in epochs
        for e, as_drawn in zip(examples(epoch, 0), loose(epoch, 0), strict=True)
        if cut.fits(as_drawn)
    ]


def test_what_does_not_fit_is_counted_by_line() -> None:
    lengths = [(2, 2), (50, 2), (2, 50), (9, 2), (2, 2)]
    feed = Feed(made_of(lengths), ByLength(tokens=20, max_len=8), seed=0, n_epochs=1)
    assert sorted(e.line for batch in feed for e in batch) == [1, 9]
    assert feed.summary.left_out == {"too many tokens": LeftOut(3, [3, 5, 7])}


def test_a_line_that_does_not_fit_is_counted_in_one_epoch_only(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(f"a\tb\n{'long ' * 9}\tc\nd\te\n", "utf-8")
    tokenizer, summary = Tokenizer.train([], kind="byte", vocab_size=261), Summary()
    examples = pair_examples(TsvPairs(file), tokenizer, tokenizer, summary=summary)
    feed = Feed(examples, ByLength(20), seed=0, n_epochs=4, summary=summary)
    assert [sorted(line) for line in lines_of(list(feed))] == [[1, 3]] * 4
    assert str(summary) == "too many tokens 1 (line 2)"
    assert summary.n_given == 3


def test_similar_lengths_go_together_and_waste_little() -> None:
    lengths = [(n % 40 + 1, n % 40 + 3) for n in range(2_000)]
    cells = tokens = 0
    for batch in Feed(made_of(lengths), ByLength(1_000), seed=0, n_epochs=1):
        widths = [
            max(map(len, side)) for side in zip(*((e.source, e.target) for e in batch), strict=True)
        ]
        cells += len(batch) * sum(widths)
        tokens += sum(len(e.source) + len(e.target) for e in batch)
    assert tokens / cells > 0.97


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=8),
    length=st.integers(1, 15),
    n_rows=st.integers(1, 3),
    n=st.integers(1, 3),
    seed=st.none() | st.integers(0, 3),
)
def test_packing_predicts_every_token_but_the_first_once(
    sizes: list[int], length: int, n_rows: int, n: int, seed: int | None
) -> None:
    starts = [sum(sizes[:number]) for number in range(len(sizes))]

    def read(epoch: int, after: int) -> Iterator[Example]:
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if number + 1 > after:
                yield Example([], list(range(start, start + size)), number + 1)

    long_enough = [size for size in sizes if size > 1]
    feeds = [
        Feed(read, Packed(length, n_rows), seed=seed, window=9, n_epochs=1, share=Share(rank, n))
        for rank in range(n)
    ]
    if len(long_enough) < n:
        with pytest.raises(InputError, match="too few"):
            list(feeds[0])
        return
    batches = [list(feed) for feed in feeds]
    assert len({len(of_rank) for of_rank in batches}) == 1
    predicted: list[int] = []
    for batch in (batch for of_rank in batches for batch in of_rank):
        assert 1 <= len(batch) <= (n_rows if n == 1 else max(n_rows, 2))
        assert all(0 < sum(len(doc.target) - 1 for doc in row) <= length for row in batch)
        assert all(starts[doc.line - 1] <= doc.target[0] for row in batch for doc in row)
        targets = pack_documents([[doc.target for doc in row] for row in batch]).targets
        assert targets is not None
        predicted += targets[targets != NO_TARGET].tolist()
    assert sorted(predicted) == [
        start + place for start, size in zip(starts, sizes, strict=True) for place in range(1, size)
    ]
    left_out = feeds[0].summary.left_out.get("a single token", LeftOut())
    assert left_out.count == len(sizes) - len(long_enough)


def test_rows_are_filled_well() -> None:
    documents = [Example([], [0] * (n % 50 + 2), n) for n in range(500)]
    rows = fill_rows(documents, 64)
    filled = sum(len(document.target) - 1 for document in documents)
    assert filled / (64 * len(rows)) > 0.98


def test_impossible_settings_and_data_are_refused() -> None:
    with pytest.raises(InputError, match="rank=2 is not in a world of 2"):
        Share(2, 2)
    with pytest.raises(InputError, match="tokens=0"):
        ByLength(0)
    with pytest.raises(InputError, match="n_rows=0"):
        Packed(8, 0)
    with pytest.raises(InputError, match="window=1 is too small for 2"):
        Feed(made_of([]), ByLength(9), seed=0, window=1, share=Share(0, 2))
    with pytest.raises(InputError, match="0 examples behind line 0, too few"):
        next(Feed(made_of([]), ByLength(9), seed=0))
    with pytest.raises(InputError, match=r"too many tokens 1 \(line 1\)"):
        next(Feed(made_of([(9, 9)]), ByLength(9), seed=0))
    with pytest.raises(InputError, match="beyond the data"):
        next(Feed(made_of([(1, 1)]), ByLength(9), seed=0, start=Position(batch=7)))

    def falling(epoch: int, after: int) -> Iterator[Example]:
        return iter([Example([1], [1], 5), Example([1], [1], 5)])

    with pytest.raises(InputError, match="line 5 came after line 5"):
        next(Feed(falling, ByLength(9), seed=0))


def test_files_become_batches_with_new_cuts_every_epoch(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"I see {n} homes\tमैं {n} घर देखता हूँ\n" for n in range(50)), "utf-8")
    texts = [text for pair in TsvPairs(file) for text in (pair.source, pair.target)]
    tokenizer = Tokenizer.train(texts, kind="bpe", vocab_size=330)
    examples = pair_examples(TsvPairs(file), tokenizer, tokenizer)
    plain = list(examples(0, 0))
    assert [example.line for example in plain] == list(range(1, 51))
    assert list(examples(1, 20)) == plain[20:]
    assert all(e.source[-1] == e.target[-1] == tokenizer.specials.eos for e in plain)
    assert tokenizer.decode(plain[3].target) == "मैं 3 घर देखता हूँ"

    dropping = pair_examples(TsvPairs(file), tokenizer, tokenizer, dropout=0.3, seed=1)
    assert list(dropping(0, 20)) == list(dropping(0, 0))[20:]
    assert list(dropping(0, 0)) != list(dropping(1, 0))


@pytest.mark.parametrize(("most", "most_ids", "n_readings"), [(10, 20, 3), (9, 20, 5), (10, 19, 5)])
def test_a_small_epoch_is_read_until_it_was_read_whole(
    most: int, most_ids: int, n_readings: int
) -> None:
    asked: list[int] = []

    def ten(epoch: int, after: int) -> Iterator[Example]:
        asked.append(after)
        return iter([Example([n], [n], n) for n in range(after + 1, 11)])

    examples = kept(ten, most, most_ids)
    everything = list(ten(0, 0))
    next(examples(0, 0))  # begun only
    for epoch, after in ((0, 4), (1, 0), (2, 0), (3, 7)):
        assert list(examples(epoch, after)) == everything[after:]
    assert asked == [0, 0, 4, 0, 0, 7][: 1 + n_readings]


def test_documents_become_packed_rows(tmp_path: Path) -> None:
    file = tmp_path / "stories.txt"
    file.write_text("One day.\n<|endoftext|>\nTwo days.\nThree.\n<|endoftext|>\n", "utf-8")
    tokenizer = Tokenizer.train([], kind="byte", vocab_size=261)
    examples = text_examples(TextDocuments(file), tokenizer, bos=True)
    batches = list(Feed(examples, Packed(length=100, n_rows=4), seed=0, n_epochs=1))
    assert len(batches) == 1
    (row,) = batches[0]
    assert sorted(tokenizer.decode(document.target) for document in row) == [
        "One day.",
        "Two days.\nThree.",
    ]
