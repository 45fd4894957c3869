"""The built-in English-Hindi corpus: a function, repeatable, and honestly split."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from random import Random

import pytest

from lookleft.data.phrases import PhrasePair, Split, pairs, split, split_words, vocabulary
from lookleft.data.phrases.corpus import all_patterns
from lookleft.data.phrases.greetings import FIXED, fixed_sentences
from lookleft.errors import InputError


@pytest.fixture(scope="module")
def corpus() -> list[PhrasePair]:
    return pairs()


@pytest.fixture(scope="module")
def parted() -> Split:
    return split()


def unmarked(text: str) -> str:
    return text.rstrip('.?।"')


@pytest.mark.parametrize(
    ("english", "hindi"),
    [
        ("I am fine", "मैं ठीक हूँ"),
        ("I am fine.", "मैं ठीक हूँ।"),
        ("How are you?", "आप कैसे हैं?"),
        ("How are you", "आप कैसे हैं"),
        ("I am going home", "मैं घर जा रहा हूँ"),
        ("I am going home.", "मैं घर जा रहा हूँ।"),
        ("The tiger drank water.", "बाघ ने पानी पिया।"),
        ("The cat sat down.", "बिल्ली बैठ गई।"),
        ("I love you.", "मैं आपसे प्यार करता हूँ।"),
        ("I love my mother.", "मैं अपनी माँ से प्यार करता हूँ।"),
        ("I love tea.", "मुझे चाय बहुत पसंद है।"),
    ],
)
def test_the_sentences_everybody_tries_first_are_in_train(
    parted: Split, english: str, hindi: str
) -> None:
    assert PhrasePair(english, hindi, FIXED) in parted.train


def test_there_are_tens_of_thousands_of_pairs_and_none_twice(corpus: list[PhrasePair]) -> None:
    assert 35_000 < len(corpus) < 60_000
    assert len({pair.english for pair in corpus}) == len(corpus)


def test_an_english_sentence_has_one_hindi_sentence_whichever_pattern_says_it() -> None:
    hindi_of = {sentence.english.lower(): sentence.hindi for sentence in fixed_sentences()}
    for name, _, draw in all_patterns():
        rng = Random(f"function {name}")
        for _ in range(1_000):
            sentence = draw(rng)
            if sentence is not None:
                key = sentence.english.lower()
                assert hindi_of.setdefault(key, sentence.hindi) == sentence.hindi, (name, key)


def test_the_same_seed_gives_the_same_list_in_another_process_and_without_torch(
    corpus: list[PhrasePair],
) -> None:
    code = (
        "import hashlib, sys; from lookleft.data.phrases import pairs;"
        "print(hashlib.sha256(repr(pairs(0)).encode()).hexdigest(), 'torch' in sys.modules)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert other.stdout.split() == [hashlib.sha256(repr(corpus).encode()).hexdigest(), "False"]


def test_another_seed_gives_other_sentences(corpus: list[PhrasePair]) -> None:
    others = {pair.english for pair in pairs(seed=7)}
    new = others - {pair.english for pair in corpus}
    assert len(new) > len(others) / 2


def test_a_seed_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="'abc'"):
        pairs("abc")  # type: ignore[arg-type]


def test_held_out_sentences_are_new_in_both_languages(parted: Split) -> None:
    train_english = {unmarked(pair.english).lower() for pair in parted.train}
    train_hindi = {unmarked(pair.hindi) for pair in parted.train}
    assert len(parted.dev) == len(parted.test) == 1_000
    for pair in (*parted.dev, *parted.test):
        assert unmarked(pair.english).lower() not in train_english, pair
        assert unmarked(pair.hindi) not in train_hindi, pair
    assert not {p.hindi for p in parted.dev} & {p.hindi for p in parted.test}


def test_held_out_sentences_use_only_known_words_and_patterns(parted: Split) -> None:
    known = Counter(w for p in parted.train for w in split_words(p.english) + split_words(p.hindi))
    patterns = {pair.pattern for pair in parted.train}
    for pair in (*parted.dev, *parted.test):
        for word in split_words(pair.english) + split_words(pair.hindi):
            assert known[word] >= 5, (word, pair)
        assert pair.pattern in patterns


def test_the_split_loses_nothing_and_covers_most_patterns(
    corpus: list[PhrasePair], parted: Split
) -> None:
    together = [*parted.train, *parted.dev, *parted.test]
    assert sorted(together, key=repr) == sorted(corpus, key=repr)
    patterns = {pair.pattern for pair in corpus}
    assert len({pair.pattern for pair in parted.test}) > 0.8 * len(patterns)


def test_text_is_composed_and_hindi_is_devanagari(corpus: list[PhrasePair]) -> None:
    for pair in corpus:
        assert unicodedata.is_normalized("NFC", pair.english)
        assert unicodedata.is_normalized("NFC", pair.hindi)
        assert re.fullmatch(r"[\u0900-\u097f ,?\"-]+", pair.hindi), pair
        assert re.fullmatch(r"[A-Za-z ,.?'\"-]+", pair.english), pair
        assert "  " not in pair.english + pair.hindi, pair
        assert pair.english == pair.english.strip(), pair
        assert pair.hindi == pair.hindi.strip(), pair


def test_hindi_ends_as_english_does(corpus: list[PhrasePair]) -> None:
    marks = {".": "।", "?": "?", '"': '"'}
    seen: Counter[str] = Counter()
    for pair in corpus:
        last = pair.english[-1]
        seen[last if last in marks else "none"] += 1
        if last in marks:
            assert pair.hindi[-1] == marks[last], pair
        else:
            assert pair.hindi[-1] not in "।?", pair
    assert all(seen[mark] > 500 for mark in (".", "?", '"', "none"))


def test_sentences_are_short_and_mixed_in_length(corpus: list[PhrasePair]) -> None:
    lengths = Counter(len(pair.english.split()) for pair in corpus)
    assert max(lengths) <= 12
    assert all(lengths[n] > 500 for n in range(3, 12))


def test_the_vocabulary_is_a_few_hundred_words_in_many_forms(corpus: list[PhrasePair]) -> None:
    english, hindi = vocabulary(corpus)
    assert 700 < len(english) < 1_500
    assert 1_200 < len(hindi) < 2_500


def test_words_keep_their_vowel_signs_and_marks_stand_alone() -> None:
    assert split_words("मैं कभी-कभी हिंदी पढ़ता हूँ।") == ["मैं", "कभी-कभी", "हिंदी", "पढ़ता", "हूँ", "।"]
    assert split_words('Ravi\'s clock: "five o\'clock."') == [
        "Ravi's", "clock", ":", '"', "five", "o'clock", ".", '"',
    ]  # fmt: skip
