"""NFC by Python's tables: the same in parts as in one, and every span found again."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers

from lookleft.text.nfc import Nfc, clusters, nfc, take_over
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials

# What NFC has to do with: marks, what is written in several ways, what joins without being a mark.
TOUCHED = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.combining(character) or unicodedata.decomposition(character)
]
JOINING = (
    "\u1100\u1161\u11a8\uac00\u0dd9\u0dcf\u0dca\u0cc6\u0cc2\u0cd5\u0f71\u0f73\u09c7\u09be=<>\u0338"
)
texts = st.text(st.sampled_from(TOUCHED) | st.sampled_from(JOINING) | st.characters(codec="utf-8"))


@settings(max_examples=300)
@given(text=texts)
@example("=\u0f73\u0338")  # a vowel sign that is no mark by its class, but two when taken apart
@example("\u1100\u1161\u11a8\u11a8")
@example("\u0dd9\u0dcf\u0dca\u0dca")
def test_the_forms_of_the_parts_make_the_form_of_the_whole(text: str) -> None:
    parts = list(clusters(text))
    assert "".join(parts) == text
    assert "".join(map(nfc, parts)) == nfc(text) == Nfc().of(text)


@settings(max_examples=300)
@given(text=texts)
def test_every_character_has_the_span_of_what_it_was_made_of(text: str) -> None:
    normal = nfc(text)
    spans = Nfc().spans_before([(n, n + 1) for n in range(len(normal))], text)
    assert spans == sorted(spans)
    for character, (start, end) in zip(normal, spans, strict=True):
        assert character in nfc(text[start:end])
    assert Nfc().spans_before([(0, len(normal))], text) == [(0, len(text))]
    assert Nfc().spans_before([(len(normal), len(normal))], text) == [(len(text), len(text))]


def test_plain_letters_keep_their_own_spans_beside_what_was_changed() -> None:
    spans = Nfc().spans_before([(0, 1), (1, 2), (2, 3), (1, 3), (2, 2)], "ae\u0301b")
    assert spans == [(0, 1), (1, 3), (3, 4), (1, 4), (3, 3)]


def test_a_thousand_marks_on_a_letter_are_one_part() -> None:
    text = "a" + "\u0323\u0316" * 5_000
    assert list(clusters(f"{text}b")) == [text, "b"]


def test_tokens_that_stand_apart_are_left_as_they_are() -> None:
    apart = Nfc.apart_from(["<s>", "<s>>", "a\u0301"])
    text = "<s>>\u0338<s>\u0338a\u0301e\u0301"
    assert apart.of(text) == "<s>>\u0338<s>\u0338a\u0301\u00e9"
    assert apart.spans_before([(0, 4), (4, 5), (5, 8), (9, 11), (11, 12)], text) == [
        (0, 4),
        (4, 5),
        (5, 8),
        (9, 11),
        (11, 13),
    ]


@pytest.mark.parametrize(
    ("normalizer", "is_taken"),
    [
        (normalizers.NFC(), True),
        (normalizers.NFKC(), False),
        (normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]), False),
        (None, False),
    ],
)
def test_only_what_is_nfc_and_no_more_is_done_here(
    normalizer: normalizers.Normalizer | None, is_taken: bool
) -> None:
    backend = tokenizers.Tokenizer(models.BPE())
    if normalizer is not None:
        backend.normalizer = normalizer
    before = json.loads(backend.to_str())["normalizer"]
    assert take_over(backend) is is_taken
    after = json.loads(backend.to_str())["normalizer"]
    assert after == (None if is_taken else before)


def test_a_vocabulary_that_asks_for_no_nfc_gets_its_text_as_it_is() -> None:
    vocab = {"e": 0, "\u0301": 1, "\u00e9": 2}
    content = {"model": {"type": "BPE", "vocab": vocab, "merges": []}}
    assert Tokenizer(json.dumps(content), Specials()).encode("e\u0301") == [0, 1]
    content["normalizer"] = {"type": "NFC"}
    assert Tokenizer(json.dumps(content), Specials()).encode("e\u0301") == [2]
