"""Numbered lines of a text file, gzipped or not, one at a time however large the file."""

from __future__ import annotations

import contextlib
import gzip
import io
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lookleft.errors import FileError

MAX_LINE_BYTES = 1 << 20
NO_LIMIT = 1 << 62  # for a text that is held in memory whole, line ends or not
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


def read_lines(
    path: Path, *, after: int = 0, max_bytes: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, str | None]]:
    """Line numbers, counted from 1, and texts without line end, of the lines behind line `after`.

    A line of more than `max_bytes` comes as None and is never held in memory. Only "\\n" and
    "\\r\\n" end a line, so that a U+2028 inside a sentence cannot make two files drift apart.
    """
    with _opened(path) as file:
        for number, data in _raw_lines(file, path, max_bytes):
            if number > after:
                yield number, None if data is None else _decoded(data, path, number)


def count_lines(path: Path) -> int:
    """How many lines `read_lines` gives."""
    count, last = 0, b"\n"
    with _opened(path) as file:
        while chunk := _read(file, path, count):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of the file, unpacked if its first bytes (not its name) say gzip."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe could not be read a second time
            raise FileError(f"{path}: is not a regular file")
        file = path.open("rb")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    with file:
        if file.peek(2)[:2] != _GZIP_MAGIC:
            yield file
        else:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield io.BufferedReader(unpacked, _CHUNK)


def _raw_lines(file: IO[bytes], path: Path, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    limit = max_bytes + len(_BOM) + 2  # room for the line end, and for a mark before the first
    number = 0
    while data := _read(file, path, number, line_limit=limit):
        number += 1
        is_whole = len(data) < limit or data.endswith(b"\n")  # asked of what was read, mark and all
        if number == 1:
            data = data.removeprefix(_BOM)
        data = data.removesuffix(b"\n").removesuffix(b"\r")
        yield number, data if is_whole and len(data) <= max_bytes else None
        while not is_whole:
            rest = _read(file, path, number, line_limit=_CHUNK)
            is_whole = not rest or rest.endswith(b"\n")


def _read(file: IO[bytes], path: Path, number: int, line_limit: int | None = None) -> bytes:
    try:
        return file.read(_CHUNK) if line_limit is None else file.readline(line_limit)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path}: cannot be read on behind line {number:,}: {error}") from error


def _guessed(data: bytes) -> str:
    """What a line that is not UTF-8 may be: a file of UTF-16 begins with a mark that says so."""
    return "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin1"


def _decoded(data: bytes, path: Path, number: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path}:{number}: byte {error.start + 1} of the line is"
            f" 0x{data[error.start]:02X}, which is not UTF-8 ({error.reason})."
            f" To convert the file: iconv -f {_guessed(data)} -t utf-8 FILE > NEW"
        ) from error
