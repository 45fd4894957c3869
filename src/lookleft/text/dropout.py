"""BPE-dropout (Provilkov et al. 2020): the same word cut differently, so that models get robust.

The `tokenizers` library can do this too, but draws from a random source that cannot be seeded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import tokenizers

from lookleft.errors import InputError
from lookleft.text.nfc import take_over
from lookleft.text.train import BYTE_PIECES

_LONGEST = 128  # characters of a chunk; the loop below takes time in the square of it

# Ways to cut a word. Each is drawn once, and every time that the word is met one of them is taken:
# to make them anew in each epoch takes longer, and most of them are alike anyway.
N_CUTS = 32
_DIGEST = 64  # random bytes at a time
_MOST_KEPT = 1 << 19  # cuts in memory, some 200 bytes each; what is not kept is made again


@dataclass(frozen=True)
class BpeDropout:
    """Encodes by merges of which each is passed over, at each step, with a fixed probability."""

    backend: Any
    ids_of: Mapping[str, int]
    ranks: Mapping[tuple[str, str], int]
    unk: int | None
    probability: float
    seed: int
    cuts: dict[tuple[str, int], list[int]] = field(default_factory=dict, repr=False)

    def reseeded(self, seed: int) -> BpeDropout:
        """The same with another seed; the cuts that were made so far serve both."""
        return replace(self, seed=seed)

    @classmethod
    def of(cls, content: str, probability: float, seed: int) -> BpeDropout:
        """Dropout for the tokenizer that `content`, the text of a `tokenizer.json`, spells."""
        if not 0.0 <= probability < 1.0:
            raise InputError(f"dropout must be at least 0 and less than 1, not {probability}")
        # As the library writes it: files of other ages leave keys out, or spell merges "a b".
        backend = tokenizers.Tokenizer.from_str(content)
        parsed = json.loads(backend.to_str())
        take_over(backend)
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
        """The ids of `text`, which is in NFC already if the vocabulary asks for that alone.

        The same text and seed give the same ids.
        """
        key = f"{self.seed}:{text}"
        if self.backend.normalizer is not None:
            text = self.backend.normalizer.normalize_str(text)
        chunks = [text]
        if self.backend.pre_tokenizer is not None:
            chunks = [chunk for chunk, _ in self.backend.pre_tokenizer.pre_tokenize_str(text)]
        ids: list[int] = []
        for chunk, number in zip(chunks, _numbers(key, len(chunks)), strict=True):
            ids += self.cuts.get((chunk, number)) or self._cut(chunk, number)
        return ids

    def _cut(self, chunk: str, number: int) -> list[int]:
        """One of the ways to cut a chunk; its number and the vocabulary alone decide which."""
        draw = random.Random(int.from_bytes(_digest(f"{number}:{chunk}"), "big"))
        found = [
            id
            for start in range(0, len(chunk), _LONGEST)
            for piece in self._pieces(chunk[start : start + _LONGEST], draw)
            for id in self._ids_of_piece(piece)
        ]
        if len(self.cuts) < _MOST_KEPT and len(chunk) <= _LONGEST:
            self.cuts[chunk, number] = found
        return found

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


def _numbers(key: str, n: int) -> list[int]:
    """So many numbers of cuts, drawn by the key alone; a `random.Random` would take longer."""
    drawn = b"".join(_digest(f"{block}:{key}") for block in range(-(-n // _DIGEST)))
    return [byte % N_CUTS for byte in drawn[:n]]


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=_DIGEST).digest()
