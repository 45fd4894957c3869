"""The built-in English-Hindi corpus: pairs made by the grammar, and a split by combination."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from lookleft.data.phrases import (
    actions,
    comparisons,
    compounds,
    experiences,
    facts,
    greetings,
    questions,
    states,
)
from lookleft.data.phrases.clauses import Sentence
from lookleft.data.phrases.words import count_words, split_words
from lookleft.errors import InputError

N_PAIRS = 40_000  # asked for; small patterns run dry, so a little fewer come
N_HELD_OUT = 1_000  # in dev and in test, each
MIN_SEEN = 5  # times a held-out word must still occur in train
BARE_CHANCE = 0.2  # people often type no full stop: then none is wanted back
MAX_WORDS = 12  # English words of a sentence
THAT_THAT = re.compile(r"\b(वह वह|वे वे) ")  # "he ... that": right, but nobody writes it
TRIES_PER_PAIR = 8
HINDI_MARKS = {".": "।", "?": "?", '."': '।"'}


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """One sentence in English and in Hindi, and the name of the pattern that made it."""

    english: str
    hindi: str
    pattern: str


class Split(NamedTuple):
    """Training, development and test pairs; no sentence is in two of them."""

    train: list[PhrasePair]
    dev: list[PhrasePair]
    test: list[PhrasePair]


def _finished(sentence: Sentence, pattern: str, *, is_bare: bool) -> PhrasePair:
    english = compounds.capitalised(sentence.english)
    if is_bare:
        return PhrasePair(english, sentence.hindi, pattern)
    mark = sentence.mark
    return PhrasePair(english + mark, sentence.hindi + HINDI_MARKS[mark], pattern)


def _is_clumsy(sentence: Sentence) -> bool:
    has_two_thats = THAT_THAT.search(sentence.hindi) is not None
    return has_two_thats or sentence.english.count(" ") >= MAX_WORDS


def all_patterns() -> list[tuple[str, int, actions.Draw]]:
    """(name, share of the corpus, how to draw one) for every pattern of the grammar."""
    files = (
        greetings,
        states,
        comparisons,
        experiences,
        facts,
        actions,
        questions,
        compounds,
    )
    return [pattern for file in files for pattern in file.patterns()]


def pairs(seed: int = 0) -> list[PhrasePair]:
    """About 40,000 pairs, no English sentence twice; the same seed gives the same list."""
    if not isinstance(seed, int):
        raise InputError(f"seed must be a whole number, not {seed!r}")
    found: dict[str, PhrasePair] = {}  # by English without its mark: "I am fine" is one sentence
    bare_fixed = []
    for sentence in greetings.fixed_sentences():
        found[sentence.english.lower()] = _finished(sentence, greetings.FIXED, is_bare=False)
        bare_fixed.append(_finished(sentence, greetings.FIXED, is_bare=True))
    patterns = all_patterns()
    total = sum(share for _, share, _ in patterns)
    for name, share, draw in patterns:
        rng = Random(f"{seed}/{name}")
        wanted = N_PAIRS * share // total
        tries_left = wanted * TRIES_PER_PAIR
        while wanted and tries_left:
            tries_left -= 1
            drawn = draw(rng)
            if drawn is None or _is_clumsy(drawn) or drawn.english.lower() in found:
                continue
            is_bare = drawn.mark != '."' and rng.random() < BARE_CHANCE
            found[drawn.english.lower()] = _finished(drawn, name, is_bare=is_bare)
            wanted -= 1
    everything = [*found.values(), *bare_fixed]
    Random(f"{seed}/order").shuffle(everything)
    return everything


def split(seed: int = 0) -> Split:
    """The pairs, parted so that held-out sentences are new but every word and pattern is known.

    A held-out sentence shares neither its English nor its Hindi with a training sentence, even
    if the final mark is left off. The fixed phrases are always in train: they combine nothing.
    """
    everything = pairs(seed)
    seen = count_words(pair.english for pair in everything)
    seen += count_words(pair.hindi for pair in everything)
    n_hindi: dict[str, int] = {}
    n_pattern: dict[str, int] = {}
    for pair in everything:
        meaning = pair.hindi.rstrip("।?")
        n_hindi[meaning] = n_hindi.get(meaning, 0) + 1
        n_pattern[pair.pattern] = n_pattern.get(pair.pattern, 0) + 1
    train: list[PhrasePair] = []
    held_out: list[PhrasePair] = []
    for pair in everything:
        is_new = n_hindi[pair.hindi.rstrip("।?")] == 1 and pair.pattern != greetings.FIXED
        if is_new and len(held_out) < 2 * N_HELD_OUT and n_pattern[pair.pattern] > MIN_SEEN:
            counts = count_words((pair.english, pair.hindi))
            if all(seen[word] - n >= MIN_SEEN for word, n in counts.items()):
                seen.subtract(counts)
                n_pattern[pair.pattern] -= 1
                held_out.append(pair)
                continue
        train.append(pair)
    return Split(train, held_out[:N_HELD_OUT], held_out[N_HELD_OUT:])


def vocabulary(pairs: list[PhrasePair]) -> tuple[list[str], list[str]]:
    """The English and the Hindi words and marks in use, sorted."""
    english = {word for pair in pairs for word in split_words(pair.english)}
    hindi = {word for pair in pairs for word in split_words(pair.hindi)}
    return sorted(english), sorted(hindi)
