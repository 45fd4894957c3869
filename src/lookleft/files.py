"""Files read with limits and written so that a crash leaves the old file or the new one, whole."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NoReturn

from lookleft.errors import FileError

# What three bytes such as "[]," become in memory is twenty times as large. A vocabulary of a
# million pieces with all its merges stays below this.
_MAX_ITEMS = 8_000_000


def look_at(path: Path) -> Literal["nothing", "file", "folder", "other"]:
    """What lies at `path`; links are followed."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def make_folder(path: Path) -> None:
    """Make the folder and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path}: cannot be made: {error.strerror}") from error


def check_writable(folder: Path) -> None:
    """Raise if nothing can be written into the folder, or into the one where it would be made."""
    here = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not here.is_dir():
        raise FileError(f"{folder}: {here} is a file, not a folder")
    if not os.access(here, os.W_OK):
        raise FileError(f"{folder}: cannot be written: {here} is read-only. Give another folder")


def ready_to_write(path: Path) -> None:
    """Make the folder that a file will lie in; raise now if it could not be written later."""
    if path.is_dir():
        raise FileError(f"{path}: is a folder; give the name of a file")
    make_folder(path.parent)
    check_writable(path.parent)


def remove(path: Path) -> None:
    """Take a file away, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{path}: cannot be removed: {error.strerror}") from error


def link_atomically(path: Path, target: Path) -> None:
    """Let `path` be a link to `target`, a neighbour or something below one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.symlink_to(target.relative_to(path.parent))
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """The whole content of a regular file of at most `max_bytes`; the size is checked first."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
            raise FileError(f"{path}: is not a regular file")
        if status.st_size > max_bytes:
            raise FileError(f"{path}: has {status.st_size:,} bytes, the limit is {max_bytes:,}")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > max_bytes:  # it grew since it was measured
        raise FileError(f"{path}: has more than {max_bytes:,} bytes")
    return data


def read_json(path: Path, *, max_bytes: int, max_depth: int) -> dict[str, Any]:
    """The object a JSON file holds: strict UTF-8, no key twice, no NaN, no deep nesting."""
    return parse_json(read_bytes(path, max_bytes=max_bytes), where=str(path), max_depth=max_depth)


def parse_json(data: bytes, *, where: str, max_depth: int) -> dict[str, Any]:
    """The object that `data` spells; `where` names its origin in errors."""
    n_items = sum(map(data.count, (b",", b"[", b"{")))  # in strings too: an upper bound is enough
    if n_items > _MAX_ITEMS:
        raise FileError(f"{where}: has up to {n_items:,} items, the limit is {_MAX_ITEMS:,}")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object_without_repeats,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise FileError(f"{where}: is not UTF-8 at byte {error.start:,}") from error
    except RecursionError as error:
        raise FileError(f"{where}: is nested deeper than {max_depth}") from error
    except ValueError as error:  # bad syntax, or a number with thousands of digits
        raise FileError(f"{where}: is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise FileError(f"{where}: holds a {type(value).__name__}, not an object")
    if _is_deeper_than(value, max_depth):
        raise FileError(f"{where}: is nested deeper than {max_depth}")
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write `value` as indented JSON with its characters as they are, atomically."""
    write_atomically(path, format_json(value))


def format_json(value: dict[str, Any]) -> bytes:
    """The bytes that `write_json` writes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    return text.encode("utf-8")


def append_line(path: Path, text: str) -> None:
    """Put a line to the end of a text file, which is made if it is missing."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file at `path` by `data`: at every moment it holds the old bytes or the new.

    The bytes go to a temporary file in the same folder, reach the disk, and are then renamed;
    the folder is synchronised last so that the rename survives a power cut too.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)  # only there when something above failed
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk: without this a power cut may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"key {counts.most_common(1)[0][0]!r} is given twice")
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _is_deeper_than(value: Any, depth: int) -> bool:
    """Whether containers lie in containers more than `depth` levels; walks without recursion."""
    level = [value]
    for _ in range(depth):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return any(isinstance(node, dict | list) for node in level)
