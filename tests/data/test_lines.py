"""Lines keep their numbers and their text, however long they are and whatever stands before."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from lookleft.data.lines import NO_LIMIT, count_lines, read_lines

MARK = b"\xef\xbb\xbf"  # the byte order mark that Windows programs put before a text


def written(folder: Path, content: bytes) -> Path:
    (folder / "x").write_bytes(content)
    return folder / "x"


@pytest.mark.parametrize("mark", [b"", MARK], ids=["no mark", "mark"])
def test_a_first_line_too_long_is_left_out_whole_and_shifts_no_other(
    mark: bytes, tmp_path: Path
) -> None:
    for n in range(15, 60):
        file = written(tmp_path, mark + b"a" * n + b"\tb\nc\td\n")
        first = "a" * n + "\tb" if n + 2 <= 20 else None
        assert list(read_lines(file, max_bytes=20)) == [(1, first), (2, "c\td")]
        assert count_lines(file) == 2


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_byte_order_mark_takes_no_room_from_the_first_line(end: bytes, tmp_path: Path) -> None:
    at_the_limit, longer = MARK + b"a" * 20 + end, MARK + b"a" * 21 + end
    assert list(read_lines(written(tmp_path, at_the_limit), max_bytes=20)) == [(1, "a" * 20)]
    assert list(read_lines(written(tmp_path, longer), max_bytes=20)) == [(1, None)]


def test_a_mark_before_a_later_line_is_text(tmp_path: Path) -> None:
    file = written(tmp_path, MARK + b"a\n" + MARK + b"b\n")
    assert list(read_lines(file)) == [(1, "a"), (2, "\ufeffb")]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_without_a_limit_a_line_of_megabytes_comes_whole(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    file = written(tmp_path, pack(b"a" * 3_000_000 + b"\nb"))
    (_, first), second = read_lines(file, max_bytes=NO_LIMIT)
    assert first == "a" * 3_000_000
    assert second == (2, "b")
