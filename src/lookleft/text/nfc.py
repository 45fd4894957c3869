"""NFC by Python's Unicode tables, and the way back from it to the text as it was given.

The `tokenizers` library has tables of its own, of Unicode 9: marks that are younger it leaves in
the order they came in. So a vocabulary that asks it for NFC alone gets NFC here, before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import normalizers

Span = tuple[int, int]
_FIRST_MARK = "\u0300"  # characters below it begin anew: NFC never touches what stands before


def nfc(text: str) -> str:
    """The NFC form of a text; the text itself, soon found, where it is that already."""
    return unicodedata.normalize("NFC", text)


def take_over(backend: Any) -> bool:
    """Whether a `tokenizers.Tokenizer` normalises to NFC and does no more; it no longer will."""
    if not isinstance(backend.normalizer, normalizers.NFC):
        return False
    backend.normalizer = None
    return True


@dataclass(frozen=True)
class Nfc:
    """The NFC form of a text, but for the `kept` tokens in it, which stand apart as they are."""

    kept: re.Pattern[str] | None = None

    @classmethod
    def apart_from(cls, tokens: Sequence[str]) -> Nfc:
        """NFC for a vocabulary that finds these tokens in a text before all else."""
        longest_first = sorted(filter(None, tokens), key=len, reverse=True)
        return cls(re.compile("|".join(map(re.escape, longest_first))) if longest_first else None)

    def of(self, text: str) -> str:
        """The text in its NFC form."""
        return "".join(nfc(part) if is_text else part for part, is_text in self._parts(text))

    def spans_before(self, spans: Sequence[Span], text: str) -> list[Span]:
        """The spans of `of(text)` as spans of `text` itself.

        Characters that NFC joined, took apart or moved share the span of all that it did so with.
        """
        starts: list[int] = []
        ends: list[int] = []
        for part, is_text in self._parts(text):
            for cluster in clusters(part) if is_text else [part]:
                start = ends[-1] if ends else 0
                after = nfc(cluster) if is_text else cluster
                if after == cluster:
                    starts += range(start, start + len(after))
                    ends += range(start + 1, start + len(after) + 1)
                else:
                    starts += [start] * len(after)
                    ends += [start + len(cluster)] * len(after)
        starts.append(len(text))
        return [(starts[s], ends[e - 1] if s < e else starts[s]) for s, e in spans]

    def _parts(self, text: str) -> Iterator[tuple[str, bool]]:
        """The text cut around the kept tokens: each part, and whether it is none of them."""
        begin = 0
        for found in self.kept.finditer(text) if self.kept is not None else ():
            yield text[begin : found.start()], True
            yield found.group(), False
            begin = found.end()
        yield text[begin:], True


def clusters(text: str) -> Iterator[str]:
    """The text cut wherever NFC does not reach across: the forms of the parts make its form."""
    begin = 0
    for place, character in enumerate(text):
        if place > begin and (
            character < _FIRST_MARK or not _is_joined(text, begin, place, character)
        ):
            yield text[begin:place]
            begin = place
    if text:
        yield text[begin:]


def _is_joined(text: str, begin: int, place: int, character: str) -> bool:
    """Whether NFC may move a character, or join it with what stands before it in its cluster."""
    if unicodedata.combining(unicodedata.normalize("NFD", character)[0]):
        return True
    before = text[begin:place]
    return nfc(before + character) != nfc(before) + nfc(character)
