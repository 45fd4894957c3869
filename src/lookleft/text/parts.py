"""A tokenizer from the lists in the metadata of a GGUF file: pieces, scores, types, merges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from lookleft.errors import FileError
from lookleft.text.limits import check_pieces
from lookleft.text.split import gguf_patterns, tries_whole_chunk_first
from lookleft.text.train import BYTE_PIECES
from lookleft.text.vocab import Specials

_SPACE = "\u2581"  # what SentencePiece writes for a space

# Real vocabularies have about two merges a piece, and pieces of some eight characters. A small
# file of "a", "aa", "aaa" and so on would have half a million merges, which take ten seconds.
_FREE_MERGES, _MERGES_PER_PIECE = 10_000, 8
_MAX_WORK = 500_000_000


class PieceType(IntEnum):
    """What a piece is, as `tokenizer.ggml.token_type` numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def backend_from_sentencepiece(
    pieces: Sequence[str],
    scores: Sequence[float],
    types: Sequence[int] | None,
    specials: Specials,
    *,
    add_space_prefix: bool,
    where: str,
) -> Any:
    """A `tokenizers.Tokenizer` for `tokenizer.ggml.model = "llama"`: pairs join by best score."""
    kinds = _checked_types(pieces, types, specials, where)
    if len(scores) != len(pieces):
        raise FileError(f"{where}: {len(pieces):,} pieces but {len(scores):,} scores")
    if not all(math.isfinite(score) for score in scores):
        raise FileError(f"{where}: a score is not finite")
    ids = {piece: id for id, piece in enumerate(pieces)}
    unk = None if specials.unk is None else pieces[specials.unk]
    if unk is None and not all(byte in ids for byte in BYTE_PIECES):
        raise FileError(f"{where}: has neither an unknown token nor all 256 byte pieces")
    backend = tokenizers.Tokenizer(
        models.BPE(
            vocab=ids,
            merges=_merges_by_score(pieces, scores, kinds, where),
            byte_fallback=True,
            fuse_unk=True,
            unk_token=unk,
        )
    )
    normalising: list[Any] = [normalizers.Replace(" ", _SPACE)]
    decoding: list[Any] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if add_space_prefix:
        normalising.insert(0, normalizers.Prepend(_SPACE))
        decoding.append(decoders.Strip(" ", 1, 0))
    backend.normalizer = normalizers.Sequence(normalising)
    backend.decoder = decoders.Sequence(decoding)
    _add_tokens(backend, pieces, kinds)
    return backend


def backend_from_merges(
    pieces: Sequence[str],
    merges: Sequence[str],
    types: Sequence[int] | None,
    specials: Specials,
    *,
    pre: str,
    where: str,
) -> Any:
    """A `tokenizers.Tokenizer` for `tokenizer.ggml.model = "gpt2"`: byte-level BPE by merges."""
    patterns = gguf_patterns(pre, where)
    kinds = _checked_types(pieces, types, specials, where)
    ids = {piece: id for id, piece in enumerate(pieces)}
    pairs = []
    for number, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            raise FileError(f"{where}: merge {number} is {merge!r}, not two pieces that make one")
        pairs.append((left, right))
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=ids, merges=pairs, ignore_merges=tries_whole_chunk_first(pre))
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(tokenizers.Regex(p), "isolated") for p in patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    _add_tokens(backend, pieces, kinds)
    return backend


def _checked_types(
    pieces: Sequence[str], types: Sequence[int] | None, specials: Specials, where: str
) -> list[PieceType]:
    """The type of each piece, guessed from its name and role where the file gives no types."""
    check_pieces(pieces, where)
    for role, id in specials.as_dict().items():
        if not 0 <= id < len(pieces):
            raise FileError(f"{where}: the {role} token is {id}, of {len(pieces):,} pieces")
    if types is None:
        kinds = [PieceType.NORMAL] * len(pieces)
        for id, piece in enumerate(pieces):
            if piece in BYTE_PIECES:
                kinds[id] = PieceType.BYTE
        for role, id in specials.as_dict().items():
            kinds[id] = PieceType.UNKNOWN if role == "unk" else PieceType.CONTROL
        return kinds
    if len(types) != len(pieces):
        raise FileError(f"{where}: {len(pieces):,} pieces but {len(types):,} types")
    try:
        return [PieceType(number) for number in types]
    except ValueError as error:
        raise FileError(f"{where}: {error}") from error


def _merges_by_score(
    pieces: Sequence[str], scores: Sequence[float], kinds: Sequence[PieceType], where: str
) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, the piece with the best score first."""
    whole = {PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.UNUSED}
    ids = {piece: id for id, piece in enumerate(pieces) if kinds[id] in whole}
    work = sum(len(piece) ** 2 for piece in ids)  # characters looked at below
    if work > _MAX_WORK:
        raise FileError(
            f"{where}: its pieces are too long to be cut in two everywhere: the squares of their "
            f"lengths add up to {work:,}, the limit is {_MAX_WORK:,}"
        )
    most = _FREE_MERGES + _MERGES_PER_PIECE * len(pieces)
    found = []
    for piece, id in ids.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                found.append((-scores[id], ids[left], ids[right]))
        if len(found) > most:
            raise FileError(
                f"{where}: its {len(pieces):,} pieces can be made of each other in more than "
                f"{most:,} ways, the limit"
            )
    return [(pieces[left], pieces[right]) for _, left, right in sorted(found)]


def _add_tokens(backend: Any, pieces: Sequence[str], kinds: Sequence[PieceType]) -> None:
    """Make control pieces special, and user-defined ones whole wherever they stand in a text."""
    special = {PieceType.CONTROL, PieceType.UNKNOWN}
    added = [
        tokenizers.AddedToken(piece, special=kind in special, normalized=False)
        for piece, kind in zip(pieces, kinds, strict=True)
        if (kind in special or kind is PieceType.USER_DEFINED) and piece
    ]
    backend.add_tokens(added)
