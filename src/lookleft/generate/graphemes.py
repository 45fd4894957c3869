"""Where a reader sees one character end: vowel signs, accents and joined emoji stay whole."""

from __future__ import annotations

import unicodedata

from tokenizers import Regex, pre_tokenizers

_CLUSTERS = pre_tokenizers.Split(Regex(r"\X"), "isolated")
_VIRAMA = 9  # the canonical class of signs that join two consonants
_JOINERS = "\u200c\u200d"


def boundaries(text: str) -> list[int]:
    """The places between whole characters, 0 and the end included."""
    places = [0]
    for _, (_, end) in _CLUSTERS.pre_tokenize_str(text):
        places.append(end)
    return [place for place in places if place in (0, len(text)) or not _is_joined(text, place)]


def _is_joined(text: str, place: int) -> bool:
    """Whether what stands before may join what follows, as क् joins ष to make क्ष."""
    while place > 0:
        place -= 1
        sign = text[place]
        if sign in _JOINERS or unicodedata.combining(sign) == _VIRAMA:
            return True
        if not unicodedata.category(sign).startswith("M"):
            return False
    return False
