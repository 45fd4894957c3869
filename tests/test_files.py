"""Files are read within limits, and replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookleft.errors import FileError, LookleftError
from lookleft.files import parse_json, read_bytes, read_json, write_atomically, write_json


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "holds a list, not an object"),
        (b'{"a": 1, "b": 2, "a": 3}', "key 'a' is given twice"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not valid JSON"),
        (b'{"a": [[[1]]]}', "nested deeper than 3"),
        (b'{"a":' * 100_000, "nested deeper than 3"),
        (b'{"a": [' + b"[]," * 4_000_000, "up to 8,000,002 items, the limit is 8,000,000"),
    ],
)
def test_json_that_is_not_strict_is_refused(text: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text)
    with pytest.raises(FileError, match=reason) as caught:
        read_json(file, max_bytes=1 << 24, max_depth=3)
    assert str(file) in str(caught.value)


def test_the_allowed_depth_is_allowed() -> None:
    assert parse_json(b'{"a": [[1]]}', where="x", max_depth=3) == {"a": [[1]]}


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:1e-\\u ').map(str.encode))
def test_any_bytes_parse_or_raise_a_lookleft_error(data: bytes) -> None:
    with contextlib.suppress(LookleftError):
        assert isinstance(parse_json(data, where="x", max_depth=5), dict)


def test_missing_oversized_and_special_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        read_bytes(tmp_path / "gone", max_bytes=10)
    (tmp_path / "long").write_bytes(b"12345")
    assert read_bytes(tmp_path / "long", max_bytes=5) == b"12345"
    with pytest.raises(FileError, match="has 5 bytes, the limit is 4"):
        read_bytes(tmp_path / "long", max_bytes=4)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        read_bytes(tmp_path / "pipe", max_bytes=10)


def test_what_is_written_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_json(file, {"a": "old"})
    write_json(file, {"ह": [1, None, 0.5]})
    assert read_json(file, max_bytes=100, max_depth=2) == {"ह": [1, None, 0.5]}
    assert os.listdir(tmp_path) == ["x.json"]


def test_a_written_file_has_the_rights_the_user_gives_new_files(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", b"1")
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_other(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.bin"
    write_atomically(file, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(FileError, match=r"x\.bin: cannot be written: No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.bin"]


def test_bytes_reach_the_disk_before_the_name_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("sync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("rename"), replace(a, b)))
    write_atomically(tmp_path / "x", b"1")
    assert calls == ["sync", "rename", "sync"]
