"""BPE-dropout (Provilkov et al. 2020): the same word cut differently, so that models get robust.

The `tokenizers` library can do this too, but draws from a random source that cannot be seeded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tokenizers

from lookleft.errors import InputError
from lookleft.text.train import BYTE_PIECES

_LONGEST = 128  # characters of a chunk; the loop below takes time in the square of it


@dataclass(frozen=True)
class BpeDropout:
    """Encodes by merges of which each is passed over, at each step, with a fixed probability."""

    backend: Any
    ids_of: Mapping[str, int]
    ranks: Mapping[tuple[str, str], int]
    unk: int | None
    probability: float
    seed: int

    @classmethod
    def of(cls, content: str, probability: float, seed: int) -> BpeDropout:
        """Dropout for the tokenizer that `content`, the text of a `tokenizer.json`, spells."""
        if not 0.0 <= probability < 1.0:
            raise InputError(f"dropout must be at least 0 and less than 1, not {probability}")
        # As the library writes it: files of other ages leave keys out, or spell merges "a b".
        backend = tokenizers.Tokenizer.from_str(content)
        parsed = json.loads(backend.to_str())
        model = parsed["model"]
        if model["type"] != "BPE":
            raise InputError(f"dropout leaves out merges; a {model['type']} vocabulary has none")
        odd = [
            key
            for key in ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
            if model.get(key)
        ]
        odd += [token["content"] for token in parsed["added_tokens"] if not token["special"]]
        if odd:
            raise InputError(f"dropout does not know what to do with {odd[0]!r} of this vocabulary")
        return cls(
            backend=backend,
            ids_of=model["vocab"],
            ranks={(left, right): rank for rank, (left, right) in enumerate(model["merges"])},
            unk=model["vocab"].get(model["unk_token"]),
            probability=probability,
            seed=seed,
        )

    def ids(self, text: str) -> list[int]:
        """The ids of `text`; the same text and seed give the same ids."""
        digest = hashlib.blake2b(f"{self.seed}:{text}".encode(), digest_size=16).digest()
        draw = random.Random(int.from_bytes(digest, "big"))
        if self.backend.normalizer is not None:
            text = self.backend.normalizer.normalize_str(text)
        chunks = [text]
        if self.backend.pre_tokenizer is not None:
            chunks = [chunk for chunk, _ in self.backend.pre_tokenizer.pre_tokenize_str(text)]
        return [
            id
            for chunk in chunks
            for start in range(0, len(chunk), _LONGEST)
            for piece in self._pieces(chunk[start : start + _LONGEST], draw)
            for id in self._ids_of_piece(piece)
        ]

    def _pieces(self, chunk: str, draw: random.Random) -> list[str]:
        """Algorithm 1 of the paper: of the merges that survive the draw, do the first; repeat."""
        pieces = list(chunk)
        while True:
            ranked = [
                (rank, place)
                for place, pair in enumerate(itertools.pairwise(pieces))
                if (rank := self.ranks.get(pair)) is not None and draw.random() >= self.probability
            ]
            if not ranked:
                return pieces
            _, place = min(ranked)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]

    def _ids_of_piece(self, piece: str) -> list[int]:
        if piece in self.ids_of:
            return [self.ids_of[piece]]
        spelt = [self.ids_of.get(BYTE_PIECES[byte]) for byte in piece.encode("utf-8")]
        if all(id is not None for id in spelt):
            return [id for id in spelt if id is not None]
        return [] if self.unk is None else [self.unk]
