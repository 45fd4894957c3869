"""The engine's state under reordering, joining and rolling back: as the network's, and by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine.test_runner import pair, same, some_batch, twins
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants.families import CAUSAL, decoder_only, random_ids

from lookleft.config import Rotary
from lookleft.data.batch import Batch, as_rows
from lookleft.engine.state import EngineState
from lookleft.errors import InputError

WINDOWED = "decoder-only window-rotary"
ROW = st.integers(0, 10_000)


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_beams_that_change_places_keep_their_past(name: str) -> None:
    network, runner = twins(name)
    batch = some_batch(network.config)
    _, theirs = network.prefill(batch, room=20)
    _, ours = runner.prefill(batch, room=1)
    orders = [[0, 0, 1, 1, 2], [3, 3, 0, 1, 1], [4, 2, 2, 0], [1, 0], [1, 1, 1, 0, 0, 1]]
    for i, order in enumerate(orders):
        rows = torch.tensor(order)
        theirs.reorder(rows)
        ours.reorder(rows)
        ids = random_ids(len(order), seed=i)
        same(runner.step(ids, ours), network.step(ids, theirs))


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(["order", "back", "join", "step"]), ROW), max_size=12))
@torch.no_grad()
def test_any_sequence_of_calls_gives_what_the_network_gives(calls: list[tuple[str, int]]) -> None:
    network, runner = twins("encoder-decoder rotary-grouped")
    expected, theirs = network.prefill(some_batch(network.config), room=40)
    found, ours = runner.prefill(some_batch(network.config), room=1)
    for call, number in calls:
        draw = np.random.default_rng(number)
        if call == "order":
            rows = torch.from_numpy(draw.integers(0, ours.batch, draw.integers(1, 6)))
            theirs.reorder(rows)
            ours.reorder(rows)
        elif call == "back":
            lengths = torch.from_numpy(draw.integers(1, ours.lengths.numpy() + 1))
            theirs.roll_back(lengths)
            ours.roll_back(lengths)
        elif call == "join" and ours.batch < 12:
            more = some_batch(network.config, seed=number)
            theirs.join(network.prefill(more, room=40)[1])
            ours.join(runner.prefill(more, room=1)[1])
        ids = random_ids(ours.batch, seed=number)
        expected, found = network.step(ids, theirs), runner.step(ids, ours)
        same(found, expected)
        assert ours.lengths.tolist() == theirs.lengths.tolist()


def test_reordering_moves_no_keys() -> None:
    state = EngineState(batch=2, room=4, shape=(1, 1, 2))
    state.place(np.array([0, 1]), np.array([0, 0]))
    keys = state.pool.keys
    keys[:] = 7
    first, second = state.table[:, 0].tolist()
    state.reorder(torch.tensor([1, 1, 0]))
    assert state.pool.keys is keys
    assert state.table[:, 0].tolist() == [second, second, first]
    assert first != second


def test_the_tokens_of_a_row_lie_together() -> None:
    state = EngineState(batch=3, room=6, shape=(1, 1, 1))
    state.place(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1]))  # prompts
    for position in range(2, 6):
        state.place(np.arange(3), np.full(3, position))
    assert (np.diff(state.table) == 1).all()


def test_slots_that_no_row_names_are_used_again() -> None:
    state = EngineState(batch=4, room=10, shape=(1, 1, 1))
    for position in range(10):
        state.place(np.arange(4), np.full(4, position))
        state.reorder(torch.zeros(4, dtype=torch.long))  # three of four pasts are forgotten
    assert state.pool.size == 40
    slots = {slot for row in state.table[:, :10].tolist() for slot in row}
    assert len(slots) == 10  # one past, shared by all
    for position in range(10, 16):
        state.place(np.arange(4), np.full(4, position))
    assert state.pool.size == 40  # the forgotten made room
    assert [len(set(row)) for row in state.table[:, :16].tolist()] == [16] * 4


@torch.no_grad()
def test_a_window_keeps_the_pool_small_however_long_the_text() -> None:
    network, runner = twins(WINDOWED)
    batch = some_batch(network.config)
    _, state = runner.prefill(batch, room=400)
    _, theirs = network.prefill(batch, room=400)
    for i in range(60):
        ids = random_ids(3, seed=i)
        found, expected = runner.step(ids, state), network.step(ids, theirs)
    same(found, expected)
    window = network.config.window
    assert state.pool.size <= 3 * 2 * 2 * window + 17


@torch.no_grad()
def test_rows_beyond_the_first_room_make_the_pool_grow() -> None:
    network, runner = pair(decoder_only(positions=Rotary()))
    _, state = runner.prefill(some_batch(network.config), room=0)
    before = state.pool.size
    _, theirs = network.prefill(some_batch(network.config), room=30)
    for i in range(30):
        ids = random_ids(3, seed=i)
        found, expected = runner.step(ids, state), network.step(ids, theirs)
    same(found, expected)
    assert state.pool.size > before


def state_of(**options: Any) -> EngineState:
    state = EngineState(batch=2, room=4, shape=(1, 1, 1), **options)
    state.place(np.array([0, 0, 1]), np.array([0, 1, 0]))
    return state


def test_what_cannot_be_done_to_a_state_is_refused() -> None:
    with pytest.raises(InputError, match=r"rows \[2\] must name rows 0..1"):
        state_of().reorder(torch.tensor([2]))
    with pytest.raises(InputError, match=r"roll back to \[3, 1\]: the rows hold \[2, 1\]"):
        state_of().roll_back(torch.tensor([3, 1]))


@torch.no_grad()
def test_a_window_goes_back_as_long_as_what_it_sees_then_is_there() -> None:
    network, runner = twins(WINDOWED)
    window = network.config.window
    texts = random_ids(2, 6)
    _, state = runner.prefill(Batch(as_rows(texts)), room=1)
    refusals = []
    for i in range(120):
        if i % 16 > 12:  # three times in a row
            back = min(1 + i % (2 * window), texts.size(1) - 1)
            try:
                state.roll_back(state.lengths - back)
                texts = texts[:, :-back]
            except InputError as error:
                refusals.append(str(error))
        ids = random_ids(2, seed=i)
        texts = torch.cat((texts, ids[:, None]), 1)
        same(runner.step(ids, state), network.score(Batch(as_rows(texts)))[:, -1])
    assert 0 < len(refusals) < 25
    assert all(f"window of {window}" in refusal for refusal in refusals)
