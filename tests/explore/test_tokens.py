"""Tokens carry the text they stand for, its words, and the bytes of what is not known."""

from __future__ import annotations

import pytest
from explore.speakers import HINDI, tokenizer, translator, writer
from hypothesis import given
from hypothesis import strategies as st

from lookleft.bundle import Bundle
from lookleft.explore.states import MAX_CHARACTERS, ExploreError
from lookleft.explore.tokens import BLANK, read_text, single, written_text
from lookleft.models import DecoderOnly, presets


def test_spans_are_slices_of_the_text_in_characters_and_in_bytes() -> None:
    read = read_text(translator(), HINDI, is_ended=True)
    data = HINDI.encode()
    for token in read.tokens[:-1]:
        shown = token.text.replace(BLANK, " ")
        assert HINDI[token.start : token.end] == shown
        assert data[token.byte_start : token.byte_end].decode() == shown
    assert read.tokens[-1].role == "end"
    assert read.tokens[-1].text == ""


def test_pieces_of_one_word_share_a_number_and_marks_stand_alone() -> None:
    read = read_text(writer(), "going unknownword।", is_ended=False)
    words = {}
    for token in read.tokens:
        words.setdefault(token.word, []).append(token.text)
    assert len(read.tokens) > 4
    assert ["".join(words[number]) for number in sorted(words.keys() - {None})] == [
        "going",
        "unknownword",
        "।",
    ]


def test_a_letter_never_seen_is_spelled_in_bytes_that_share_its_span() -> None:
    read = read_text(writer(), "cat Ω", is_ended=False)
    spelled = [token for token in read.tokens if token.byte is not None]
    assert [token.byte for token in spelled] == ["CE", "A9"]
    assert {token.text for token in spelled} == {"Ω"}
    assert read.to_json()["strange"] == [
        {"text": "Ω", "start": 4, "end": 5, "n_bytes": 2, "is_lost": False}
    ]


def test_a_piece_that_begins_with_a_dependent_sign_says_so() -> None:
    signs = [t for t in read_text(writer(), "का की कू", is_ended=False).tokens if t.starts_with_sign]
    assert signs
    assert all(token.text[0] in "ािीुू" for token in signs)


@given(st.text(alphabet="catΩ मैंघ😀.", min_size=1, max_size=12).filter(str.strip))
def test_what_a_model_wrote_gets_the_spans_that_reading_it_would_give(text: str) -> None:
    speaker = writer()
    read = read_text(speaker, text, is_ended=False)
    written = written_text(speaker, read.ids)
    assert written.text == tokenizer().decode(read.ids)
    assert [token.text for token in written.tokens] == [token.text for token in read.tokens]


def test_a_continuation_stands_behind_its_prompt() -> None:
    speaker = writer()
    prompt = read_text(speaker, "the cat", is_ended=False)
    more = read_text(speaker, " sat", is_ended=False)
    whole = written_text(speaker, more.ids, after=prompt)
    assert whole.text == "the cat sat"
    assert [token.text for token in whole.tokens] == ["the", "cat", "sat"]


def test_a_start_token_is_shown_by_its_name() -> None:
    start = single(translator(), 1, "start")
    assert (start.label, start.role) == ("<s>", "start")


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_is_its_own_state(text: str) -> None:
    with pytest.raises(ExploreError, match="type a sentence") as caught:
        read_text(writer(), text, is_ended=False)
    assert caught.value.code == "empty"


def test_too_many_characters_are_refused_before_they_are_encoded() -> None:
    with pytest.raises(ExploreError, match="4,001 characters"):
        read_text(writer(), "a" * (MAX_CHARACTERS + 1), is_ended=False)


def test_without_a_tokenizer_ids_are_typed() -> None:
    network = DecoderOnly(presets.gpt(50, d_model=8, n_layers=1, n_heads=2)).eval()
    assert read_text(Bundle(network), "5 6, 7", is_ended=False).ids == [5, 6, 7]
    for wrong in ("five", "50", "-1", "9" * 30):
        with pytest.raises(ExploreError, match="0 to 49"):
            read_text(Bundle(network), wrong, is_ended=False)
