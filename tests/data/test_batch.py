"""Padding, positions and the shift by one, each against the rule in words."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookleft.data.batch import (
    NO_TARGET,
    Batch,
    as_rows,
    next_token_batch,
    pack_documents,
    pad_rows,
    repeat_rows,
    shift_right,
    translation_batch,
    unpack_documents,
)
from lookleft.errors import InputError

START, END = 1, 2
texts = st.lists(st.lists(st.integers(3, 40), max_size=6), min_size=1, max_size=4)


def pairs_of(batch: Batch, row: int) -> list[tuple[int, int]]:
    """(input, target) at every position of a row that predicts something."""
    assert batch.targets is not None
    kept = batch.targets[row] != NO_TARGET
    assert bool((batch.inputs.is_token[row] | ~kept).all())  # padding predicts nothing
    ids, targets = batch.inputs.ids[row, kept], batch.targets[row, kept]
    return list(zip(ids.tolist(), targets.tolist(), strict=True))


@given(rows=texts, side=st.sampled_from(["left", "right"]))
def test_padded_rows_hold_their_texts_and_count_them_from_zero(
    rows: list[list[int]], side: str
) -> None:
    padded = pad_rows(rows, pad_id=0, side=side)
    assert padded.shape == (len(rows), max(map(len, rows)))
    for b, row in enumerate(rows):
        kept = padded.is_token[b]
        assert padded.ids[b, kept].tolist() == row
        assert padded.pos[b, kept].tolist() == list(range(len(row)))
        assert bool((padded.ids[b, ~kept] == 0).all())
        assert bool((padded.pos[b] >= 0).all())
        places = kept.nonzero()[:, 0].tolist()
        start = padded.shape[1] - len(row) if side == "left" else 0
        assert places == list(range(start, start + len(row)))


@given(bits=st.lists(st.booleans(), min_size=1, max_size=8))
def test_positions_count_real_tokens_wherever_the_padding_lies(bits: list[bool]) -> None:
    rows = as_rows(torch.zeros(1, len(bits), dtype=torch.long), torch.tensor([bits]))
    assert rows.pos[0, rows.is_token[0]].tolist() == list(range(sum(bits)))


@given(rows=texts)
def test_a_language_model_predicts_every_token_but_the_first_from_the_one_before(
    rows: list[list[int]],
) -> None:
    batch = next_token_batch(rows)
    for b, row in enumerate(rows):
        assert pairs_of(batch, b) == list(pairwise(row))
    assert batch.n_targets == sum(max(len(row) - 1, 0) for row in rows)


@given(targets=texts)
def test_a_translator_reads_the_target_one_later_behind_the_start(
    targets: list[list[int]],
) -> None:
    sources = [[5] * (i + 1) for i in range(len(targets))]
    ended = [[*target, END] for target in targets]
    batch = translation_batch(sources, ended, START)
    for b, target in enumerate(ended):
        assert pairs_of(batch, b) == list(zip([START, *target[:-1]], target, strict=True))
    assert batch.source is not None
    assert batch.source.is_token.sum(1).tolist() == [len(source) for source in sources]
    assert batch.n_targets == sum(map(len, ended))


def test_no_input_ever_holds_its_own_answer() -> None:
    """With all ids different, an input equal to its target could only be a missing shift."""
    row = list(range(3, 12))
    for batch in (next_token_batch([row]), translation_batch([[3]], [row], START)):
        assert pairs_of(batch, 0)
        assert all(read != said for read, said in pairs_of(batch, 0))
    assert shift_right([7, 8, END], START) == [START, 7, 8]
    assert shift_right([], START) == []


@given(rows=st.lists(st.lists(st.lists(st.integers(3, 9), max_size=4), max_size=3), min_size=1))
def test_packed_documents_keep_their_own_positions_and_targets(
    rows: list[list[list[int]]],
) -> None:
    batch = pack_documents(rows)
    docs = batch.inputs.docs
    assert docs is not None
    for b, row in enumerate(rows):
        kept = batch.inputs.is_token[b]
        expected = [
            (number, place, read, said)
            for number, doc in enumerate(row)
            for place, (read, said) in enumerate(pairwise(doc))
        ]
        columns = (docs, batch.inputs.pos, batch.inputs.ids, batch.targets)
        got = torch.stack([column[b, kept] for column in columns], 1)
        assert [tuple(line) for line in got.tolist()] == expected


def test_a_row_without_documents_may_stand_beside_others() -> None:
    batch = pack_documents([[], [[3, 4, 5], [6, 7]]])
    assert batch.inputs.is_token.tolist() == [[False] * 3, [True] * 3]
    assert pairs_of(batch, 0) == []
    assert pairs_of(batch, 1) == [(3, 4), (4, 5), (6, 7)]


def test_rows_move_with_all_their_parts() -> None:
    rows = pack_documents([[[3, 4, 5]]]).inputs.to("meta")
    assert rows.ids.device.type == rows.pos.device.type == "meta"
    assert rows.docs is not None
    assert rows.docs.device.type == "meta"
    assert rows.types is None


def test_a_batch_moves_with_all_its_parts() -> None:
    batch = replace(translation_batch([[3], [4, 5]], [[6, END], [7, END]], START), lines=(8, 9))
    moved = batch.to("meta")
    parts = (moved.inputs.ids, moved.inputs.pos, moved.source.is_token, moved.targets)
    assert all(part.device.type == "meta" for part in parts)
    assert moved.lines == (8, 9)
    assert moved.prefix is None


@given(rows=st.lists(st.lists(st.lists(st.integers(3, 9), max_size=4), max_size=3), min_size=1))
def test_documents_unpacked_are_those_that_were_packed(rows: list[list[list[int]]]) -> None:
    documents = [document for row in rows for document in row if len(document) > 1]
    if not documents:
        return
    batch = unpack_documents(pack_documents(rows))
    assert batch.inputs.docs is None
    assert [pairs_of(batch, b) for b in range(len(documents))] == [
        list(pairwise(document)) for document in documents
    ]
    assert batch.inputs.pos.max() == max(map(len, documents)) - 2


def test_repeated_rows_are_the_same_rows_again_in_every_part() -> None:
    packed = pack_documents([[[3, 4, 5], [6, 7]], [[8, 9, 3]]])
    translation = translation_batch([[3], [4, 5]], [[6, END], [7, END]], START)
    for batch in (packed, translation):
        twice = repeat_rows(batch, 2)
        assert twice.n_targets == 2 * batch.n_targets
        for half in (slice(0, 2), slice(2, 4)):
            assert torch.equal(twice.targets[half], batch.targets)
            assert torch.equal(twice.inputs.ids[half], batch.inputs.ids)
            assert torch.equal(twice.inputs.pos[half], batch.inputs.pos)
    assert torch.equal(repeat_rows(packed, 2).inputs.docs[2:], packed.inputs.docs)
    assert torch.equal(repeat_rows(translation, 2).source.ids[2:], translation.source.ids)


def test_shapes_and_kinds_that_do_not_fit_are_refused_with_what_came() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(InputError, match=r"got torch.float32 \(2, 3\)"):
        as_rows(ids.float())
    with pytest.raises(InputError, match=r"got torch.int64 \(3,\)"):
        as_rows(ids[0])
    with pytest.raises(InputError, match=r"shape \(2, 3\), got torch.bool \(2, 2\)"):
        as_rows(ids, torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(InputError, match=r"got torch.int64 \(2, 3\)"):
        as_rows(ids, torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(InputError, match="at least one row"):
        pad_rows([])
    with pytest.raises(InputError, match="2 sources but 1 targets"):
        translation_batch([[3], [4]], [[5]], START)


@pytest.mark.parametrize("wrong", [2**63, -(2**70), "five", None, 1.5, 3.0, [4]])
def test_what_is_no_id_is_named(wrong: object) -> None:
    for rows in ([[1, 2], [3, wrong]], [[wrong]]):
        with pytest.raises(InputError, match="is no token id") as caught:
            pad_rows(rows)  # type: ignore[arg-type]
        assert repr(wrong) in str(caught.value)
