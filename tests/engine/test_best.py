"""The best tokens that the engine finds are those that a search through all logits finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine.test_runner import some_batch, twins
from invariants.families import decoder_only, make, random_ids

from lookleft.data.batch import Batch, as_rows
from lookleft.engine.runner import Runner
from lookleft.errors import InputError
from lookleft.generate.best import Best, Chooser, best_of
from lookleft.generate.paths import Candidates, Paths
from lookleft.generate.request import GREEDY, Answer, Beam, Method, Power, Request, Wu
from lookleft.generate.scheduler import answer_all
from lookleft.models import DecoderOnly

NOTHING = np.zeros((3, 0), np.int64)


def step_best(runner: Runner, ids: Any, state: Any, n: int, forbidden: Any) -> Best:
    """The n best tokens after one more."""
    sums, ends = np.zeros((len(ids), 1)), np.full((len(ids), 1), -1)
    went_on, last = runner.write_beams(ids, state, 1, sums, n, ends, forbidden)
    assert not went_on
    return Best(*last)


def both(runner: Runner, n: int, forbidden: Any = NOTHING) -> tuple[Best, Best]:
    """What the engine finds after one token, and what is found among all its logits."""
    batch, ids = some_batch(runner.config), random_ids(3, seed=5)
    _, state = runner.prefill(batch, room=3)
    found = step_best(runner, ids, state, n, forbidden)
    state.roll_back(state.lengths - 1)
    logits = runner.step(ids, state)
    norms = logits.logsumexp(-1)
    for row, each in enumerate(forbidden.tolist()):
        logits[row, [id for id in each if id >= 0]] = -torch.inf
    return found, best_of(logits, norms, n)


def same(found: Best, expected: Best) -> None:
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.logits, expected.logits)
    np.testing.assert_allclose(found.norms, expected.norms, rtol=1e-6, atol=1e-6)


def writer(**changes: Any) -> DecoderOnly:
    network = make(decoder_only(vocab_size=150, **changes), torch.float32)
    assert isinstance(network, DecoderOnly)
    return network


@pytest.mark.parametrize("n", [1, 2, 10, 149, 150, 999])
def test_the_best_tokens_are_those_of_a_search_through_all_logits(n: int) -> None:
    runner = Runner(writer())
    forbidden = np.array([[-1, -1], [7, -1], [149, 0]])
    found, expected = both(runner, n, forbidden)
    same(found, expected)
    assert found.ids.shape == (3, min(n, 150))
    free, _ = both(runner, n)
    best = free.ids[1, 0]
    found, expected = both(runner, n, np.array([[-1], [best], [-1]]))
    same(found, expected)
    assert found.ids[1, 0] != best  # forbidding does forbid


@pytest.mark.parametrize("n", [1, 4, 40])
def test_of_equal_tokens_the_lower_id_comes_first(n: int) -> None:
    network = writer()
    with torch.no_grad():
        tokens = network.embedding.tokens.weight
        tokens[:] = tokens[torch.arange(150) % 4]  # each logit comes 37 times or more
    found, expected = both(Runner(network), n)
    same(found, expected)
    assert (np.diff(found.logits) <= 0).all()
    is_equal = np.diff(found.logits) == 0
    assert (np.diff(found.ids)[is_equal] > 0).all()
    assert is_equal.any() == (n > 1)


@pytest.mark.parametrize("n_rows", [5, 20])  # threads share all rows, or have rows of their own
def test_several_threads_find_what_one_finds(n_rows: int) -> None:
    network, ids = writer(), random_ids(n_rows, seed=5)
    found = []
    for n_threads in (1, 2):
        runner = Runner(network, n_threads=n_threads)
        _, state = runner.prefill(Batch(as_rows(random_ids(n_rows, 4))), room=3)
        found.append(step_best(runner, ids, state, 6, np.arange(n_rows)[:, None]))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    assert len(np.unique(found[0].norms)) == n_rows  # each row has its own
    assert (found[0].ids != np.arange(n_rows)[:, None]).all()


def one_by_one(runner: Runner, ids: Any, state: Any, n_steps: int, forbidden: Any) -> list[Best]:
    """The slow twin of `write_best`, which never stops early."""
    found = []
    for _ in range(n_steps):
        found.append(step_best(runner, ids, state, 1, forbidden))
        ids = torch.from_numpy(found[-1].ids[:, 0])
    return found


LANES = {"alone": (1, 2), "together": (5, 2), "rows of their own": (20, 2), "one thread": (5, 1)}


@pytest.mark.parametrize(("n_rows", "n_threads"), LANES.values(), ids=LANES)
@pytest.mark.parametrize("name", ["plain", "window"])
def test_many_steps_at_once_are_those_made_one_by_one(
    name: str, n_rows: int, n_threads: int
) -> None:
    runner = Runner(writer(window=4 if name == "window" else None), n_threads=n_threads)
    ids, prompt = random_ids(n_rows, seed=5), Batch(as_rows(random_ids(n_rows, 4)))
    forbidden, nothing = np.arange(n_rows)[:, None], np.full((n_rows, 1), -1)
    _, state = runner.prefill(prompt, room=3)
    expected = one_by_one(runner, ids, state, 12, forbidden)
    _, other = runner.prefill(prompt, room=3)
    before = ids.clone()
    found = runner.write_best(ids, other, 12, nothing, forbidden)
    assert torch.equal(ids, before)  # what was given is not written to
    assert len(found) == 12
    for ours, theirs in zip(found, expected, strict=True):
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, two)
    # Both states go on alike.
    assert torch.equal(state.lengths, other.lengths)
    assert torch.equal(runner.step(ids, state), runner.step(ids, other))


@pytest.mark.parametrize("n_rows", [3, 20])  # threads share all rows, or have rows of their own
def test_the_first_row_that_ends_ends_the_run(n_rows: int) -> None:
    runner = Runner(writer(), n_threads=2)
    ids, prompt = random_ids(n_rows, seed=5), Batch(as_rows(random_ids(n_rows, 4)))
    nothing = np.zeros((n_rows, 0), np.int64)
    _, state = runner.prefill(prompt, room=12)
    columns = np.stack([best.ids[:, 0] for best in one_by_one(runner, ids, state, 10, nothing)])
    for step in (0, 4, 9):
        ends = np.full((n_rows, 2), -1)
        ends[-1, 1] = columns[step, -1]
        first = int((columns[:, -1] == columns[step, -1]).argmax())
        _, state = runner.prefill(prompt, room=12)
        found = runner.write_best(ids, state, 10, ends, nothing)
        assert [best[1][:, 0].tolist() for best in found] == columns[: first + 1].tolist()
        assert state.lengths.tolist() == [4 + first + 1] * n_rows
        # What was not used of the room is no part of the text.
        logits = runner.step(torch.from_numpy(columns[first].copy()), state)
        if first < 9:
            assert logits.argmax(-1).tolist() == columns[first + 1].tolist()


def test_many_steps_end_with_the_context() -> None:
    runner = Runner(writer(max_len=9))
    _, state = runner.prefill(Batch(as_rows(random_ids(2, 4))), room=5)
    nothing = np.zeros((2, 0), np.int64)
    assert len(runner.write_best(random_ids(2, seed=5), state, 50, nothing, nothing)) == 5
    with pytest.raises(InputError, match="reads at most 9"):
        runner.write_best(random_ids(2, seed=5), state, 50, nothing, nothing)


def test_a_model_without_the_mask_makes_one_step_at_a_time() -> None:
    runner = Runner(writer(mask="none"))
    _, state = runner.prefill(some_batch(runner.config), room=5)
    assert len(runner.write_best(random_ids(3), state, 5, NOTHING, NOTHING)) == 1
    assert state.lengths.tolist() == (some_batch(runner.config).inputs.is_token.sum(1) + 1).tolist()


def test_a_prefix_that_is_not_read_to_its_end_is_read_step_by_step() -> None:
    runner = Runner(writer())
    batch = Batch(as_rows(random_ids(3, 4)), prefix=torch.tensor([6, 0, 0]))
    _, state = runner.prefill(batch, room=9)
    counts = [len(runner.write_best(random_ids(3), state, 5, NOTHING, NOTHING)) for _ in range(3)]
    assert counts == [1, 1, 5]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_row_with_a_logit_that_is_no_number_offers_nothing(wrong: float) -> None:
    network = writer()
    with torch.no_grad():
        # Of the two products with the same number one is +inf, if they are infinite.
        network.embedding.tokens.weight[120:122, 0] = torch.tensor([wrong, -wrong])
    found, _ = both(Runner(network), 3)
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(found.logits - found.norms[:, None]).all(axis=1).any()
    [done] = answer_all(Runner(network), [Request((5, 6), max_new=3)])
    assert done.answers[0].finish == "stuck"
    runner = Runner(network)
    _, state = runner.prefill(some_batch(runner.config), room=5)
    assert len(runner.write_best(random_ids(3), state, 5, NOTHING, NOTHING)) == 1


def beams_one_by_one(
    runner: Runner, ids: Any, state: Any, n_steps: int, sums: Any, n: int, forbidden: Any
) -> list[Candidates]:
    """The slow twin of `write_beams`, which never stops early: all between two steps is numpy."""
    n_requests, width = sums.shape
    nothing = np.zeros((n_requests, width, 0))
    paths = Paths(sums, nothing.astype(np.int64), nothing, np.zeros(n_requests, np.int64))
    found = []
    for _ in range(n_steps):
        best = paths.continued(step_best(runner, ids, state, n, forbidden), n).first(width)
        paths = paths.extended(best)
        rows = best.parents + np.arange(n_requests)[:, None] * width
        state.reorder(torch.from_numpy(rows.reshape(-1)))
        ids = torch.from_numpy(best.ids.reshape(-1))
        found.append(best)
    return found


BEAMS = {"alone": (1, 2), "together": (3, 2), "rows of their own": (8, 2), "one thread": (3, 1)}


@pytest.mark.parametrize(("n_requests", "n_threads"), BEAMS.values(), ids=BEAMS)
@pytest.mark.parametrize("name", ["plain", "window"])
def test_many_steps_of_beams_are_those_made_one_by_one(
    name: str, n_requests: int, n_threads: int
) -> None:
    runner = Runner(writer(window=4 if name == "window" else None), n_threads=n_threads)
    width, n, n_rows = 3, 6, 3 * n_requests
    ids, prompt = random_ids(n_rows, seed=5), Batch(as_rows(random_ids(n_rows, 4)))
    forbidden, nothing = np.arange(n_rows)[:, None], np.full((n_rows, 1), -1)
    sums = -np.random.default_rng(0).random((n_requests, width))
    before = sums.copy()
    _, state = runner.prefill(prompt, room=3)
    expected = beams_one_by_one(runner, ids, state, 9, sums, n, forbidden)
    _, other = runner.prefill(prompt, room=3)
    found, last = runner.write_beams(ids, other, 10, sums, n, nothing, forbidden)
    assert len(found) == 9
    for ours, theirs in zip(found, expected, strict=True):
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, two)
    changes = np.stack([theirs.parents for theirs in expected]) != np.arange(width)
    assert changes.any()  # hypotheses did change places
    np.testing.assert_array_equal(sums, before)
    # Both states go on alike.
    ids = torch.from_numpy(expected[-1].ids.reshape(-1))
    for one, two in zip(step_best(runner, ids, state, n, forbidden), last, strict=True):
        np.testing.assert_array_equal(one, two)
    assert torch.equal(state.lengths, other.lengths)
    assert torch.equal(runner.step(ids, state), runner.step(ids, other))


def test_beams_stop_where_a_hypothesis_may_end() -> None:
    runner = Runner(writer(), n_threads=2)
    ids, prompt = random_ids(6, seed=5), Batch(as_rows(random_ids(6, 4)))
    nothing, sums = np.zeros((6, 0), np.int64), np.zeros((2, 3))
    _, state = runner.prefill(prompt, room=12)
    free, _ = runner.write_beams(ids, state, 9, sums, 6, nothing, nothing)
    for step in (0, 3, 7):
        ends = np.full((6, 1), -1)
        ends[3:] = free[step][2][1, 2]  # what the last hypothesis of the second request read
        is_met = [bool((columns[2][1] == ends[3, 0]).any()) for columns in free]
        _, state = runner.prefill(prompt, room=12)
        found, _ = runner.write_beams(ids, state, 9, sums, 6, ends, nothing)
        assert len(found) <= is_met.index(True)  # an end may be among the six and not the three
        assert state.lengths.tolist() == [4 + len(found) + 1] * 6
        for ours, theirs in zip(found, free, strict=False):
            np.testing.assert_array_equal(ours[2], theirs[2])


def test_beams_with_no_possible_token_stop() -> None:
    network = writer()
    with torch.no_grad():
        network.embedding.tokens.weight[120:122, 0] = torch.tensor([np.nan, np.nan])
    runner = Runner(network)
    _, state = runner.prefill(some_batch(runner.config), room=5)
    found, _ = runner.write_beams(random_ids(3), state, 5, np.zeros((1, 3)), 6, NOTHING, NOTHING)
    assert not found


class Plain:
    """An engine that shows all its logits and leaves the search to others."""

    def __init__(self, runner: Runner) -> None:
        self.config, self.device = runner.config, runner.device
        self.prefill, self.step, self.extend = runner.prefill, runner.step, runner.extend


METHODS: dict[str, Method] = {
    "greedy": GREEDY,
    "beam": Beam(3),
    "n-best": Beam(4, Wu(0.6), n_best=4),
    "long": Beam(3, Power(-1.0), n_best=2),
    "estimate": Beam(3, Power(2.0), stop="estimate"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("name", ["decoder-only rotary-grouped", "encoder-decoder relative-rms"])
def test_answers_are_those_of_a_search_through_all_logits(name: str, method: Method) -> None:
    _, runner = twins(name)
    plain: Any = Plain(runner)
    assert isinstance(runner, Chooser)
    assert not isinstance(plain, Chooser)
    key = "source" if name.startswith("encoder-decoder") else "prompt"
    requests = []
    for i in range(6):
        given: Any = {key: tuple(random_ids(3 + i % 3, seed=i).tolist())}
        ends, forbidden = (7, 11)[: 1 + i % 2], (0, 1)[: i % 3]
        requests.append(
            Request(**given, max_new=4 + i, ends=ends, method=method, forbidden=forbidden)
        )
    found, expected = (in_order(answer_all(each, requests, max_rows=9)) for each in (runner, plain))
    assert [a.ids for a in found] == [a.ids for a in expected]
    assert [a.finish for a in found] == [a.finish for a in expected]
    if method != GREEDY:
        scores = [a.score for a in expected]
        assert [a.score for a in found] == pytest.approx(scores, rel=1e-6, abs=1e-5)
    assert len({len(a.ids) for a in expected}) > 1  # they did end at different times


def in_order(done: Any) -> list[Answer]:
    return [a for each in sorted(done, key=lambda each: each.ticket) for a in each.answers]


def test_a_list_of_forbidden_ids_that_does_not_fit_is_refused() -> None:
    runner = Runner(writer())
    _, state = runner.prefill(some_batch(runner.config), room=3)
    for wrong in (np.zeros((2, 1), np.int64), np.full((3, 1), 150)):
        with pytest.raises(InputError, match="give 3 rows of ids below 150"):
            runner.write_best(random_ids(3), state, 1, NOTHING, wrong)
