"""Words of a sentence in either language, vowel signs kept with their letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Python's \w leaves Devanagari vowel signs out; the block is named here, dandas excepted.
_WORD = r"[A-Za-z0-9\u0900-\u0963\u0966-\u097f]"
_TOKEN = re.compile(rf"{_WORD}+(?:['-]{_WORD}+)*|[^\w\s]")


def split_words(text: str) -> list[str]:
    """Words and punctuation marks in order: मैं, ठीक, हूँ, ।"""
    return _TOKEN.findall(text)


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word and mark occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_TOKEN.findall(text))
    return counts
