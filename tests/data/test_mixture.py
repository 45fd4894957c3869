"""Corpora made of corpora: chosen by origin, and one behind another."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lookleft.data.corpus import EMPTY, LeftOut, Pair, Summary, TsvPairs
from lookleft.data.mixture import Joined, OfOrigins, check_origins, origins_beside
from lookleft.errors import ConfigError, FileError


@pytest.fixture
def pairs(tmp_path: Path) -> TsvPairs:
    path = tmp_path / "train.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("".join(f"s{n}\tt{n}\n" for n in range(1, 7)))
    (tmp_path / "train.origin.txt").write_text("a\nb\na\nc\nb\na\n")
    return TsvPairs(path=path)


def test_only_pairs_of_the_wanted_origins_come(pairs: TsvPairs) -> None:
    chosen = OfOrigins(pairs, origins_beside(pairs.path), frozenset({"a", "c"}))
    assert [pair.line for pair in chosen] == [1, 3, 4, 6]
    assert [pair.source for pair in chosen.read(after=3)] == ["s4", "s6"]


def test_origins_that_end_too_early_are_noticed(pairs: TsvPairs) -> None:
    short = pairs.path.with_name("short.txt")
    short.write_text("a\na\n")
    with pytest.raises(FileError, match="no origin for line 3"):
        list(OfOrigins(pairs, short, frozenset({"a"})))


def test_a_misspelt_origin_is_refused(pairs: TsvPairs) -> None:
    beside = origins_beside(pairs.path)
    check_origins(beside, frozenset({"a", "b"}), pairs.path, 6)
    with pytest.raises(ConfigError, match=r"tatoba not found .* names a, b, c"):
        check_origins(beside, frozenset({"a", "tatoba"}), pairs.path, 6)
    with pytest.raises(FileError, match=r"dev\.origin\.txt\.gz: is not there"):
        origins_beside(pairs.path.with_name("dev.tsv"))


@pytest.mark.parametrize("n_pairs", [5, 7])
def test_origins_of_another_number_of_lines_are_refused(n_pairs: int, pairs: TsvPairs) -> None:
    beside = origins_beside(pairs.path)
    with pytest.raises(
        FileError, match=rf"origin\.txt: has 6 lines, .*train\.tsv\.gz has {n_pairs};.* anew"
    ):
        check_origins(beside, frozenset(), pairs.path, n_pairs)


def test_lines_left_out_of_both_corpora_are_counted_once_by_their_own_numbers(
    pairs: TsvPairs,
) -> None:
    holes = pairs.path.with_name("holes.tsv")
    holes.write_text("a\tb\n\tc\nd\te\n")
    one = TsvPairs(path=holes, skip_empty=True)
    both, summary = Joined(one, 3, one), Summary()
    for _ in range(3):
        assert [pair.line for pair in both.read(summary=summary)] == [1, 3, 4, 6]
    assert summary == Summary(4, {EMPTY: LeftOut(2, [2, 5])})


def test_lines_of_the_second_corpus_are_numbered_on_and_can_be_taken_up(pairs: TsvPairs) -> None:
    both = Joined(pairs, 6, pairs)
    assert [pair.line for pair in both] == list(range(1, 13))
    assert list(both)[7] == Pair("s2", "t2", 8)
    for after in (0, 3, 6, 9, 12):
        assert list(both.read(after=after)) == list(both)[after:]
