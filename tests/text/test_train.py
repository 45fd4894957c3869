"""Training gives the promised ids, the same ones every time, and never more than asked for."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from lookleft.errors import InputError
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.train import BYTE_PIECES, Kind
from lookleft.text.vocab import OWN_NAMES, Specials

KINDS = get_args(Kind)
TEXTS = [f"कखगघङचछज {chr(0x4E00 + n)} word{n} words" for n in range(60)]


@pytest.mark.parametrize("kind", KINDS)
def test_specials_and_bytes_come_first_and_the_size_is_kept(kind: Kind) -> None:
    tokenizer = Tokenizer.train(TEXTS, kind=kind, vocab_size=360)
    assert tokenizer.specials == Specials(pad=0, bos=1, eos=2, unk=3, mask=4)
    first = [tokenizer.piece(id) for id in range(261)]
    assert first == [*OWN_NAMES.values(), *BYTE_PIECES]
    ids = range(len(tokenizer))
    assert [tokenizer.id_of(tokenizer.piece(id)) for id in ids] == list(ids)
    n_characters = len(set("".join(TEXTS)))
    expected = {"byte": 261, "char": 261 + n_characters, "bpe": 360}
    assert len(tokenizer) <= 360
    assert len(tokenizer) == expected.get(kind, len(tokenizer))


def test_rare_characters_make_way_for_merges_or_are_refused_in_words() -> None:
    tokenizer = Tokenizer.train(TEXTS, kind="bpe", vocab_size=300)
    assert len(tokenizer) == 300
    assert "word" in {tokenizer.piece(id).strip() for id in range(300)}
    assert all(tokenizer.decode(tokenizer.encode(text)) == text for text in TEXTS)
    with pytest.raises(InputError, match=r"have 84 different characters.* must be over 345"):
        Tokenizer.train(TEXTS, kind="unigram", vocab_size=300)
    assert len(Tokenizer.train(TEXTS, kind="unigram", vocab_size=346)) <= 346


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_at_all_leaves_the_bytes(kind: Kind) -> None:
    tokenizer = Tokenizer.train([], kind=kind, vocab_size=300)
    assert len(tokenizer) == 261
    assert tokenizer.decode(tokenizer.encode("any घर")) == "any घर"


def test_the_commonest_characters_get_the_places() -> None:
    tokenizer = Tokenizer.train(["aaab", "abbc", "d"], kind="char", vocab_size=263)
    assert (tokenizer.piece(261), tokenizer.piece(262), len(tokenizer)) == ("a", "b", 263)
    assert tokenizer.encode("abc") == [261, 262, 5 + ord("c")]


@pytest.mark.parametrize("sign", ["=", "घ", "🚀"])  # of one, three and four bytes
def test_what_was_learned_from_endless_repetition_can_be_loaded(sign: str, tmp_path: Path) -> None:
    text = sign * 2_000 + " a"
    tokenizer = Tokenizer.train([text], kind="bpe", vocab_size=4_000)
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    longest = max(len(again.piece(id)) for id in range(len(again)))
    assert 128 <= longest <= 256
    assert again.decode(again.encode(text)) == text


@pytest.mark.parametrize(
    ("kind", "vocab_size", "reason"),
    [
        ("bpe", 261, r"vocab_size=261 must lie between 262 \(.* and one piece\)"),
        (
            "byte",
            260,
            r"vocab_size=260 must lie between 261 \(the special tokens and the 256 bytes",
        ),
        ("char", 1_000_001, "and 1,000,000"),
        ("word", 500, "unknown kind of tokenizer 'word'"),
    ],
)
def test_impossible_wishes_are_refused(kind: Kind, vocab_size: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Tokenizer.train(TEXTS, kind=kind, vocab_size=vocab_size)


def test_what_is_no_text_is_named_by_its_number() -> None:
    with pytest.raises(InputError, match="text 1 is a int"):
        Tokenizer.train(["a", 7], kind="char")  # type: ignore[list-item]
    with pytest.raises(InputError, match="text 1 is a int"):
        Tokenizer.train(["a", 7], kind="bpe")  # type: ignore[list-item]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_looked_at_even_if_nothing_is_to_be_learned(kind: Kind) -> None:
    """A bad line of a corpus is found when a run begins, not hours later."""
    with pytest.raises(InputError, match="text 60 has a lone surrogate"):
        Tokenizer.train([*TEXTS, "\ud800"], kind=kind, vocab_size=400)
