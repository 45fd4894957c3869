"""BPE-dropout: nothing dropped equals plain BPE; what is dropped depends on the seed alone."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from statistics import mean

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from lookleft.errors import InputError
from lookleft.text import dropout
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials

TEXTS = ("I am going home.", "मैं घर जा रहा हूँ।", "a  b\n日本 <s>")
TOKENIZER = Tokenizer.train(TEXTS * 20, kind="bpe", vocab_size=360)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from((*TEXTS, "\u0898\u0316", "a\u1df6\u0323"))
        | st.text(st.characters(exclude_categories=("Cs",)))
        | st.text(st.characters(categories=("Mn", "Mc", "Me")))
    )
)
def test_without_chance_it_is_plain_bpe(texts: list[str]) -> None:
    text = "".join(texts)
    ids = TOKENIZER.with_dropout(0.0, seed=1).encode(text)
    assert ids == TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == unicodedata.normalize("NFC", text)


def test_the_seed_and_the_text_decide_and_nothing_else_does() -> None:
    first, second = (TOKENIZER.with_dropout(0.5, seed=7) for _ in range(2))
    once = [first.encode(text, bos=True) for text in TEXTS]
    assert [second.encode(text, bos=True) for text in reversed(TEXTS)] == once[::-1]
    assert second.encode_batch(TEXTS, bos=True) == once
    other = TOKENIZER.with_dropout(0.5, seed=8)
    assert [other.encode(text, bos=True) for text in TEXTS] != once


def test_dropped_merges_lengthen_the_ids_and_keep_the_text() -> None:
    for probability, seed in [(0.1, 0), (0.5, 1), (0.99, 2)]:
        dropping = TOKENIZER.with_dropout(probability, seed=seed)
        for text in TEXTS:
            assert dropping.decode(dropping.encode(text)) == text
            assert len(dropping.encode(text)) >= len(TOKENIZER.encode(text))
    nearly_all = TOKENIZER.with_dropout(0.99, seed=0).encode(TEXTS[0])
    assert len(nearly_all) > 2 * len(TOKENIZER.encode(TEXTS[0]))


def test_epochs_share_their_cuts_and_still_differ() -> None:
    first = TOKENIZER.with_dropout(0.5, seed=1)
    once = first.encode_batch(TEXTS)
    second = first.with_dropout(0.5, seed=2)
    afresh = TOKENIZER.with_dropout(0.5, seed=2)
    assert second.encode_batch(TEXTS) == afresh.encode_batch(TEXTS) != once
    assert first.encode_batch(TEXTS) == once
    other = first.with_dropout(0.9, seed=1)
    assert other.encode_batch(TEXTS) == TOKENIZER.with_dropout(0.9, seed=1).encode_batch(TEXTS)


def test_what_is_not_kept_is_made_again_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = TOKENIZER.with_dropout(0.5, seed=1).encode_batch(TEXTS)
    monkeypatch.setattr(dropout, "_MOST_KEPT", 0)
    assert TOKENIZER.with_dropout(0.5, seed=1).encode_batch(TEXTS) == kept


def test_long_chunks_are_cut_in_parts_and_many_chunks_drawn_for() -> None:
    text = "अ" * 1_000 + " b" * 300
    dropping = TOKENIZER.with_dropout(0.3, seed=1)
    assert dropping.decode(dropping.encode(text)) == text


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_as_much_is_dropped_as_by_the_library(probability: float, tmp_path: Path) -> None:
    parts = " ".join(TEXTS[:2]).split()
    words = [first + second for first in parts for second in parts]
    TOKENIZER.save(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    library.model.dropout = probability
    theirs = mean(len(library.encode(word).ids) for word in words for _ in range(300))
    ours, n_ours = TOKENIZER.with_dropout(probability, seed=0), []
    for seed in range(100):
        ours = ours.with_dropout(probability, seed)
        n_ours += [len(ids) for ids in ours.encode_batch(words)]
    plain = mean(len(ids) for ids in TOKENIZER.encode_batch(words))
    assert theirs > 1.02 * plain
    # A word has no more than so many cuts: what is dropped on the mean is a draw itself.
    assert mean(n_ours) - plain == pytest.approx(theirs - plain, rel=0.15)


def test_files_of_the_old_format_can_be_dropped_from_too() -> None:
    """Merges as one string each, and neither added tokens nor an unknown token named."""
    vocab = {piece: id for id, piece in enumerate(["a", "b", "c", "ab", "abc", "bc"])}
    model = {"type": "BPE", "vocab": vocab, "merges": ["a b", "ab c", "b c"]}
    tokenizer = Tokenizer(json.dumps({"model": model}), Specials())
    assert tokenizer.encode("abcbc?") == [4, 5]
    assert tokenizer.with_dropout(0.0, seed=0).encode("abcbc?") == [4, 5]
    spelt = {tuple(tokenizer.with_dropout(0.5, seed=seed).encode("abcbc")) for seed in range(20)}
    assert len(spelt) > 3
    assert {tokenizer.decode(ids).replace(" ", "") for ids in spelt} == {"abcbc"}


def test_what_dropout_cannot_do_is_refused() -> None:
    with pytest.raises(InputError, match=r"not 1\.0"):
        TOKENIZER.with_dropout(1.0, seed=0)
    with pytest.raises(InputError, match="Unigram"):
        Tokenizer.train(TEXTS, kind="unigram", vocab_size=300).with_dropout(0.1, seed=0)
    dropping = TOKENIZER.with_dropout(0.1, seed=0)
    with pytest.raises(InputError, match="no offsets"):
        dropping.encode_with_offsets("a")
    with pytest.raises(InputError, match="no template"):
        dropping.encode("a", template=True)
