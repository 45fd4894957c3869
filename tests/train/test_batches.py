"""Items of a feed as tensors: every task its kind of batch, with the lines it came from."""

from __future__ import annotations

import torch

from lookleft.data.batch import NO_TARGET, Batch
from lookleft.data.examples import Example, joined
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.batches import BatchMaker, cover_for

PAIRS = [Example([5, 6, 2], [7, 2], 4), Example([8, 2], [9, 10, 2], 9)]
ROWS = [
    [Example([], list(range(10, 40)), 3), Example([], [5, 6], 8)],
    [Example([], list(range(50, 80)), 1)],
]


def predicted(batch: Batch) -> list[tuple[int, int]]:
    """(input, target) wherever something is predicted."""
    assert batch.targets is not None
    kept = batch.targets != NO_TARGET
    return sorted(zip(batch.inputs.ids[kept].tolist(), batch.targets[kept].tolist(), strict=True))


def test_pairs_become_a_translation_batch() -> None:
    batch = BatchMaker(start_id=1)(PAIRS, key="any")
    assert batch.lines == (4, 9)
    assert batch.source is not None
    assert batch.source.ids.tolist() == [[5, 6, 2], [8, 2, 0]]
    assert batch.inputs.ids.tolist() == [[1, 7, 0], [1, 9, 10]]


def test_joined_pairs_are_one_row_and_know_both_lines() -> None:
    batch = BatchMaker(start_id=1)([joined(*PAIRS)], key="any")
    assert batch.lines == (4, 9)
    assert batch.source is not None
    assert batch.source.ids.tolist() == [[5, 6, 8, 2]]
    assert batch.inputs.ids.tolist() == [[1, 7, 9, 10]]
    assert batch.targets is not None
    assert batch.targets.tolist() == [[7, 9, 10, 2]]


def test_packed_rows_know_the_lines_of_all_their_documents() -> None:
    batch = BatchMaker()(ROWS, key="any")
    assert batch.lines == (1, 3, 8)
    assert batch.inputs.shape == (2, 30)


def test_rows_of_one_long_text_are_known_by_epoch_and_number() -> None:
    batch = BatchMaker(is_stream=True)(ROWS, key="any", epoch=2)
    assert (batch.epoch, batch.lines) == (2, (1, 3, 8))
    assert BatchMaker()(ROWS, key="any", epoch=2).epoch is None


def test_rows_cut_short_predict_the_same_tokens_from_the_same_ones() -> None:
    make = BatchMaker()
    whole, short = make(ROWS, key="any"), make(ROWS, key="any", length=8)
    assert short.inputs.shape[1] <= 8
    assert predicted(short) == predicted(whole)
    assert short.n_targets == whole.n_targets == 59
    assert int(short.inputs.pos.max()) < 8 < int(whole.inputs.pos.max())


def test_what_is_covered_depends_on_the_key_alone() -> None:
    tokenizer = Tokenizer.train(["one two three"], kind="char", vocab_size=300)
    make = BatchMaker(cover=cover_for(tokenizer))
    texts = [Example([], tokenizer.encode("one two three", bos=True, eos=True), 1)]
    one, again, other = (make(texts, key=key) for key in ("a", "a", "b"))
    assert one.lines == (1,)
    assert one.n_targets == 2
    assert torch.equal(one.targets, again.targets)
    assert not torch.equal(one.targets, other.targets)
