"""What is covered up: how much, what takes its place, and the same again from the same seed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookleft.data.batch import NO_TARGET
from lookleft.data.bucket import Feed, Share
from lookleft.data.cover import Cover, Pieces
from lookleft.data.examples import Example
from lookleft.errors import InputError

PAD, BOS, EOS, MASK, VOCAB = 0, 1, 2, 4, 300
COVER = Cover(VOCAB, MASK, frozenset({PAD, BOS, EOS, 3, MASK}))


def framed(lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Texts of random ordinary ids between a begin and an end token."""
    draw = torch.Generator().manual_seed(seed)
    return [[BOS, *torch.randint(5, VOCAB, (n,), generator=draw).tolist(), EOS] for n in lengths]


@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_a_sixth_of_every_row_is_asked_for_and_the_answer_is_the_text(
    lengths: list[int], seed: int
) -> None:
    texts = framed(lengths, seed)
    batch = COVER.batch(texts, str(seed))
    assert batch.targets is not None
    for b, text in enumerate(texts):
        asked = batch.targets[b] != NO_TARGET
        n_ordinary = len(text) - 2
        assert int(asked.sum()) == min(max(round(0.15 * n_ordinary), 1), n_ordinary)
        for t in range(len(text)):
            if asked[t]:
                assert batch.targets[b, t] == text[t]
                assert text[t] not in COVER.specials
            else:
                assert batch.inputs.ids[b, t] == text[t]
        assert not bool(asked[len(text) :].any())
        assert batch.inputs.is_token[b].sum() == len(text)


def test_of_the_chosen_80_percent_are_masked_10_swapped_10_as_they_were() -> None:
    texts = framed([400] * 60)
    batch = COVER.batch(texts, "a seed")
    assert batch.targets is not None
    asked = batch.targets != NO_TARGET
    read, said = batch.inputs.ids[asked], batch.targets[asked]
    assert (read == MASK).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (read == said).float().mean() == pytest.approx(0.1, abs=0.02)
    swapped = read[(read != MASK) & (read != said)]
    assert len(swapped) / len(read) == pytest.approx(0.1, abs=0.02)
    assert not set(swapped.tolist()) & COVER.specials
    assert len(set(swapped.tolist())) > 150  # of any ordinary token


def test_the_same_seed_covers_the_same_and_another_does_not() -> None:
    texts = framed([30, 12])
    one, again, other = (COVER.batch(texts, seed) for seed in ("7", "7", "8"))
    assert torch.equal(one.inputs.ids, again.inputs.ids)
    assert torch.equal(one.targets, again.targets)
    assert not torch.equal(one.targets, other.targets)


def test_long_texts_are_cut_and_nothing_of_them_is_lost() -> None:
    texts = framed([25, 3, 0, 8])

    def read(epoch: int, after: int) -> list[Example]:
        return [Example([], text, n + 1) for n, text in enumerate(texts) if n + 1 > after]

    feed = Feed(lambda *at: iter(read(*at)), Pieces(tokens=20, length=10), seed=1, n_epochs=1)
    batches = list(feed)
    assert all(len(e.target) <= 10 for batch in batches for e in batch)
    assert all(len(batch) * max(len(e.target) for e in batch) <= 20 for batch in batches)
    for line in (1, 2, 4):
        pieces = [e.target for batch in batches for e in batch if e.line == line]
        assert sorted(id for piece in pieces for id in piece) == sorted(texts[line - 1])
    [left_out] = feed.summary.left_out.values()
    assert left_out.first_lines == [3]  # begin and end alone


@pytest.mark.parametrize("n", [2, 3, 4])
def test_processes_share_pieces_that_are_each_a_batch(n: int) -> None:
    texts = framed([8, 8, 18, 8, 8])  # the third is cut into two, so there are six of ten ids

    def read(epoch: int, after: int) -> Iterator[Example]:
        return iter([Example([], text, m + 1) for m, text in enumerate(texts)])

    shares = [
        list(Feed(read, Pieces(tokens=10, length=10), seed=1, n_epochs=1, share=Share(rank, n)))
        for rank in range(n)
    ]
    assert len({len(share) for share in shares}) == 1
    batches = [batch for share in shares for batch in share]
    assert sorted(len(batch) for batch in batches) == [1] * (6 - 2 * (6 % n)) + [2] * (6 % n)
    seen = sorted(id for batch in batches for example in batch for id in example.target)
    assert seen == sorted(id for text in texts for id in text)


def test_impossible_covers_are_refused() -> None:
    with pytest.raises(InputError, match=r"share=0\.0"):
        Cover(VOCAB, MASK, frozenset(), share=0.0)
    with pytest.raises(InputError, match=r"masked=-0\.1 "):
        Cover(VOCAB, MASK, frozenset(), masked=-0.1)
    with pytest.raises(InputError, match=r"swapped=-0\.2 "):
        Cover(VOCAB, MASK, frozenset(), swapped=-0.2)
    with pytest.raises(InputError, match="exceed the chosen"):
        Cover(VOCAB, MASK, frozenset(), masked=0.8, swapped=0.3)
    with pytest.raises(InputError, match="all 3 tokens are special"):
        Cover(3, 2, frozenset({0, 1}))
