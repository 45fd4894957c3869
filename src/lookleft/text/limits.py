"""What a tokenizer file may hold at most; checked before anything is built from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lookleft.errors import FileError, LookleftError

MAX_FILE_BYTES = 64 << 20
MAX_DEPTH = 32
MAX_PIECES = 1_000_000
MAX_PIECE_BYTES = 1_024
_MAX_PATTERN = 4_096


def check_pieces(pieces: Sequence[str], where: str) -> None:
    """Refuse too many pieces, too long ones, too much in all, and a piece that occurs twice."""
    if len(pieces) > MAX_PIECES:
        raise FileError(f"{where}: has {len(pieces):,} pieces, the limit is {MAX_PIECES:,}")
    total = 0
    for id, piece in enumerate(pieces):
        total += _checked_size(piece, id, where)
    if total > MAX_FILE_BYTES:
        raise FileError(f"{where}: its pieces have {total:,} bytes, the limit {MAX_FILE_BYTES:,}")
    if len(set(pieces)) < len(pieces):
        first: dict[str, int] = {}
        for id, piece in enumerate(pieces):
            if first.setdefault(piece, id) != id:
                raise FileError(f"{where}: pieces {first[piece]} and {id} are both {piece!r}")


def check_tokenizer_json(content: dict[str, Any], where: str) -> None:
    """Refuse a `tokenizer.json` whose vocabulary is oversized or contradicts itself."""
    model = content.get("model")
    if not isinstance(model, dict):
        raise FileError(f"{where}: has no model")
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        check_pieces(list(vocab), where)
        _check_ids(vocab.values(), where)
    elif isinstance(vocab, list) and all(_is_scored_piece(entry) for entry in vocab):
        check_pieces([piece for piece, _ in vocab], where)
    else:
        raise FileError(f"{where}: the vocabulary of its model is neither pieces nor scored pieces")
    added = content.get("added_tokens") or []
    if not isinstance(added, list) or not all(_is_added_token(entry) for entry in added):
        raise FileError(f"{where}: added_tokens is not a list of objects with id and content")
    check_pieces([entry["content"] for entry in added], where)
    _check_ids([entry["id"] for entry in added], where)
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        for pattern in _patterns(content.get(part)):
            if len(pattern) > _MAX_PATTERN:
                raise FileError(
                    f"{where}: a pattern of its {part} has {len(pattern):,} characters,"
                    f" the limit is {_MAX_PATTERN:,}"
                )


@contextlib.contextmanager
def library_errors(raises: type[LookleftError], where: str) -> Iterator[None]:
    """Turn whatever the `tokenizers` library throws, its panics included, into `raises`."""
    try:
        yield
    except LookleftError:
        raise
    except BaseException as error:
        # A panic of the library is no Exception, and its class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise raises(f"{where}: {error}") from error


def _checked_size(piece: str, id: int, where: str) -> int:
    try:
        size = len(piece.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise FileError(f"{where}: piece {id} has a lone surrogate") from error
    if size > MAX_PIECE_BYTES:
        raise FileError(f"{where}: piece {id} has {size:,} bytes, the limit is {MAX_PIECE_BYTES:,}")
    return size


def _check_ids(ids: Iterable[Any], where: str) -> None:
    seen: set[int] = set()
    for id in ids:
        if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id < MAX_PIECES:
            raise FileError(f"{where}: {id!r} is no id from 0 to {MAX_PIECES - 1:,}")
        if id in seen:
            raise FileError(f"{where}: two pieces have the id {id}")
        seen.add(id)


def _is_scored_piece(entry: Any) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and isinstance(entry[1], int | float)
    )


def _is_added_token(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("content"), str) and "id" in entry


def _patterns(part: Any) -> Iterator[str]:
    """Every regular expression inside a part of the file."""
    if isinstance(part, dict):
        if isinstance(part.get("Regex"), str):
            yield part["Regex"]
        for child in part.values():
            yield from _patterns(child)
    elif isinstance(part, list):
        for child in part:
            yield from _patterns(child)
