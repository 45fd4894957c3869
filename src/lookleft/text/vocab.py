"""The special tokens of a vocabulary: which ids they have, and how they are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lookleft.errors import FileError, InputError
from lookleft.files import read_json

OWN_NAMES = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
"""Names and order (so the ids 0 to 4) of the special tokens of every tokenizer trained here."""

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")  # a piece for one byte of what has no other piece

# Names that mean the same wherever they are seen, for files that do not say.
_USUAL_NAMES = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "bos": ("<s>", "<bos>", "<|begin_of_text|>"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
}
_MAX_CONFIG_BYTES = 1 << 20
_MAX_DEPTH = 32


@dataclass(frozen=True)
class Specials:
    """The ids of the special tokens; `None` where a vocabulary has no such token."""

    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    mask: int | None = None
    unk: int | None = None

    def require(self, role: str) -> int:
        """The id of that role, or an error that says the vocabulary has none."""
        found: int | None = getattr(self, role, None)  # asked for every text: no dict is made
        if found is None:
            raise InputError(f"this vocabulary has no {role} token; it has {self.as_dict()}")
        return found

    def as_dict(self) -> dict[str, int]:
        """Role -> id, of those that are there."""
        return {role: id for role, id in asdict(self).items() if id is not None}


def read_specials(folder: Path, id_of: Callable[[str], int | None]) -> Specials:
    """The specials a model folder names.

    For each role the first file that says wins: `tokenizer_config.json`, `special_tokens_map.json`
    (both by name), `generation_config.json`, `config.json` (both by id), and last the usual names.
    `id_of` gives the id of a piece, or None.
    """
    found: dict[str, int | None] = {}
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        for role, piece in _named_pieces(_read_if_there(folder / name), folder / name).items():
            if role not in found:
                found[role] = id_of(piece)
                if found[role] is None:
                    raise FileError(
                        f"{folder / name}: {role}_token is {piece!r}, not in the vocabulary"
                    )
    for name in ("generation_config.json", "config.json"):
        for role, id in _numbered_roles(_read_if_there(folder / name), folder / name).items():
            found.setdefault(role, id)
    for role, pieces in _USUAL_NAMES.items():
        if role not in found:
            found[role] = next((i for p in pieces if (i := id_of(p)) is not None), None)
    return Specials(**found)


def _read_if_there(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    return read_json(path, max_bytes=_MAX_CONFIG_BYTES, max_depth=_MAX_DEPTH)


def _named_pieces(config: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Role -> piece, from keys such as `"eos_token": "</s>"` or `{"content": "</s>"}`."""
    found = {}
    for role in OWN_NAMES:
        piece = config.get(f"{role}_token")
        if isinstance(piece, dict):
            piece = piece.get("content")
        if piece is None:
            continue
        if not isinstance(piece, str):
            raise FileError(f"{path}: {role}_token is {piece!r}, not a string")
        found[role] = piece
    return found


def _numbered_roles(config: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Role -> id, from keys such as `"eos_token_id": 2`; of a list of ids, the first."""
    found = {}
    for role in OWN_NAMES:
        id = config.get(f"{role}_token_id")
        if isinstance(id, list) and id:
            id = id[0]
        if id is None:
            continue
        if not isinstance(id, int) or isinstance(id, bool) or id < 0:
            raise FileError(f"{path}: {role}_token_id is {id!r}, not an id")
        found[role] = id
    return found
