"""Streaming: the pieces joined are the text, no piece ends inside a character or a stop string."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookleft.errors import InputError
from lookleft.generate.graphemes import boundaries
from lookleft.generate.stream import TextStream
from lookleft.text.tokenizer import Tokenizer

SAMPLES = [
    "मैं घर जा रहा हूँ । क्षत्रिय ज्ञान स्त्री",
    "👨‍👩‍👧‍👦 and 👍🏽, 🇮🇳🇩🇪 e\u0301te\u0301 a\r\nb",
    "plain words, then நொ and 한국어 ก็",
    "",
    "\u0301 begins with an accent",
]
TOKENIZERS = {
    "byte": Tokenizer.train([], kind="byte", vocab_size=261),
    "char": Tokenizer.train(SAMPLES[:2], kind="char", vocab_size=275),
    "bpe": Tokenizer.train(SAMPLES * 3, kind="bpe", vocab_size=330),
}
ALPHABET = st.sampled_from(
    [*"ab .\n", *"कषतरमैिा्ँ।", "é", "e", "\u0301", "👍", "🏽", "👨", "\u200d", "🇮", "🇳"]
)
TEXTS = st.one_of(st.sampled_from(SAMPLES), st.text(ALPHABET, max_size=14))


def streamed(
    tokenizer: Tokenizer, ids: list[int], stops: list[str]
) -> tuple[list[str], TextStream]:
    """The pieces that are shown, the last one at the end."""
    stream = TextStream(tokenizer, stops)
    pieces = []
    for id in ids:
        pieces.append(stream.push(id))
        if stream.is_stopped:
            break
    return [*pieces, stream.finish()], stream


def cut_at(text: str, stops: list[str]) -> str:
    """The text before the stop string that is complete first, character by character."""
    for end in range(1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)]
    return text


@given(
    text=TEXTS,
    name=st.sampled_from(sorted(TOKENIZERS)),
    stops=st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=2),
)
def test_pieces_joined_are_the_unstreamed_text(text: str, name: str, stops: list[str]) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text)
    whole = cut_at(tokenizer.decode(ids), stops)
    pieces, stream = streamed(tokenizer, ids, stops)
    assert "".join(pieces) == stream.text == whole
    for shown in accumulate(pieces[:-1]):
        assert not any(stop in shown for stop in stops)
        assert "\ufffd" not in shown
        if not stream.is_stopped:
            assert len(shown) in boundaries(whole)


@given(st.lists(st.integers(5, 260), max_size=12))
def test_bytes_that_make_no_character_come_out_as_the_tokenizer_has_them(ids: list[int]) -> None:
    pieces, _ = streamed(TOKENIZERS["byte"], ids, [])
    assert "".join(pieces) == TOKENIZERS["byte"].decode(ids)


def test_ten_thousand_random_splits_never_show_a_stop_string_or_half_a_character() -> None:
    """Any ids, not only those that the tokenizer would choose: words cut where chance wants."""
    draw = random.Random(0)
    tokenizer = TOKENIZERS["bpe"]
    pieces = [tokenizer.piece(id) for id in range(len(tokenizer))]
    stops = ["र", "an", "🇩🇪", "t\u0301", "w"]
    n_stopped = 0
    for _ in range(10_000 // 20):
        ids = []
        for _ in range(20):
            is_byte = draw.random() < 0.2
            ids.append(draw.randrange(5, 261) if is_byte else draw.randrange(261, len(pieces)))
        shown, stream = streamed(tokenizer, ids, stops)
        n_stopped += stream.is_stopped
        text = "".join(shown)
        assert not any(stop in text for stop in stops)
        assert text == cut_at(tokenizer.decode(ids), stops)
        text.encode("utf-8")
    assert n_stopped > 10  # stop strings did come up


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("नमस्ते", ["न", "म", "स्ते"]),
        ("क्षत्रिय", ["क्ष", "त्रि", "य"]),
        ("👨‍👩‍👧‍👦x", ["👨‍👩‍👧‍👦", "x"]),
        ("🇮🇳🇩🇪", ["🇮🇳", "🇩🇪"]),
        ("e\u0301a\r\n", ["e\u0301", "a", "\r\n"]),
        ("க்\u200cஷ", ["க்\u200cஷ"]),
        ("", []),
    ],
)
def test_readers_see_whole_characters(text: str, expected: list[str]) -> None:
    places = boundaries(text)
    assert [text[i:j] for i, j in pairwise(places)] == expected


def test_a_vowel_sign_waits_with_its_letter() -> None:
    tokenizer = TOKENIZERS["char"]
    stream = TextStream(tokenizer)
    ids = [tokenizer.encode(character) for character in "हिa"]
    shown = ["".join(stream.push(id) for id in each) for each in ids]
    assert shown == ["", "", "हि"]
    assert stream.finish() == "a"


def test_what_may_become_a_stop_string_is_held_back_and_given_free() -> None:
    tokenizer = TOKENIZERS["byte"]
    stream = TextStream(tokenizer, ["END"])
    pieces = [stream.push(id) for id in tokenizer.encode("xENx")]
    # Bytes wait for the end of their run; a byte tokenizer has nothing else.
    assert pieces == ["", "", "", ""]
    assert stream.finish() == "xENx"
    tokenizer = TOKENIZERS["char"]
    stream = TextStream(tokenizer, ["and,"])
    pieces = [stream.push(id) for id in tokenizer.encode("e and a, b")]
    assert "".join(pieces[:4]) == "e "
    assert "".join([*pieces, stream.finish()]) == "e and a, b"


def test_a_text_goes_on_where_its_prompt_ends() -> None:
    """A tokenizer that writes a space before words drops the first; in the middle it stays."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models

    backend = Backend(models.WordLevel({"▁one": 0, "▁two": 1, "▁three": 2}, unk_token="▁one"))
    backend.decoder = decoders.Metaspace()
    from lookleft.text.vocab import Specials

    tokenizer = Tokenizer(backend.to_str(), Specials())
    stream = TextStream(tokenizer, before=[0, 1])
    pieces = [stream.push(2), stream.push(0), stream.finish()]
    assert "".join(pieces) == " three one"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(InputError, match="a stop string is empty"):
        TextStream(TOKENIZERS["byte"], ["x", ""])


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
def test_a_long_text_is_the_same_though_only_its_end_is_decoded(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(" ".join(SAMPLES * 8))
    assert len(ids) > 5 * 64
    pieces, stream = streamed(tokenizer, ids, ["never said"])
    assert "".join(pieces) == stream.text == tokenizer.decode(ids)
    # A stop string that lies over the place where a part begins is met as well.
    for stop in ("क्षत्रिय", "then நொ", "🇩🇪 e"):
        assert streamed(tokenizer, ids, [stop])[1].text == cut_at(tokenizer.decode(ids), [stop])
