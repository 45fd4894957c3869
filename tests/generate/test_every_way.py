"""Every way to decode: cached = recomputed = batched = alone, and in whatever order they come."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence

import pytest
import torch
from generate.tiny import CONFIGS, OPTIONS, PROMPTS, WAYS, answers, make, request, texts
from torch import Tensor

from lookleft.engine import pick_runner
from lookleft.generate.methods import choose
from lookleft.generate.recompute import Recompute
from lookleft.generate.request import Answer, Done
from lookleft.generate.scheduler import Scheduler


def check_same(found: Sequence[list[Answer]], expected: Sequence[list[Answer]]) -> None:
    """The same tokens, the same reason to end, the same numbers."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [(a.ids, a.finish) for a in ours] == [(a.ids, a.finish) for a in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert a.log_probs == pytest.approx(b.log_probs, abs=1e-9)
            assert a.score == pytest.approx(b.score, abs=1e-9)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("family", CONFIGS)
def test_cached_recomputed_batched_and_alone_are_the_same(family: str, name: str) -> None:
    model, way = make(family), WAYS[name]
    requests = [request(family, ids, way) for ids in PROMPTS]
    together = answers(model, requests, way)
    check_same([answers(model, [one], way)[0] for one in requests], together)
    check_same(answers(Recompute(model), requests, way), together)
    assert len({str(each) for each in texts(together)}) > 1  # the prompts do matter


@pytest.mark.parametrize(
    ("family", "name"),
    [
        *(("translator", name) for name, way in WAYS.items() if not way.is_lookup),
        ("window", "sample"),
        ("window", "beam"),  # rings of unequal size join
    ],
)
def test_answers_do_not_depend_on_who_comes_when(family: str, name: str) -> None:
    model, way = make(family), WAYS[name]
    requests = [request(family, ids, way) for ids in PROMPTS]
    expected = answers(model, requests, way)
    for seed in range(2):
        order = random.Random(seed)
        scheduler = Scheduler(model, max_rows=order.choice([4, 8, 20]))
        numbers = order.sample(range(len(requests)), len(requests))
        found: dict[int, list[Answer]] = {}
        by_ticket: dict[int, int] = {}
        while numbers or not scheduler.is_idle:
            for _ in range(min(order.randrange(3), len(numbers))):
                number = numbers.pop()
                by_ticket[scheduler.submit(requests[number])] = number
            for event in scheduler.step():
                if isinstance(event, Done):
                    found[by_ticket[event.ticket]] = event.answers
        check_same([found[number] for number in range(len(requests))], expected)


@pytest.mark.slow  # the engine may have to be compiled first
@pytest.mark.parametrize("family", CONFIGS)
def test_the_engine_answers_as_the_network_does(family: str) -> None:
    model = make(family).float()
    engine = pick_runner(model, "numba", n_threads=1)
    assert engine is not model
    for name, way in WAYS.items():
        requests = [request(family, ids, way) for ids in PROMPTS]
        expected = answers(model, requests, way)
        for runner in (engine, Recompute(engine)):
            found = answers(runner, requests, way)
            assert texts(found) == texts(expected), name
            for ours, theirs in zip(found, expected, strict=True):
                assert ours[0].log_probs == pytest.approx(theirs[0].log_probs, abs=1e-3)


def test_every_option_is_tried_in_some_way() -> None:
    tried = {option for options in OPTIONS.values() for option in options}
    assert tried == set(inspect.signature(choose).parameters)


def test_ways_differ() -> None:
    """A way that answers like greedy decoding everywhere would test nothing."""
    model = make("decoder")
    greedy = answers(
        model, [request("decoder", ids, WAYS["greedy"]) for ids in PROMPTS], WAYS["greedy"]
    )
    same_by_design = {"greedy", "beam-of-one", "greedy-lookup"}
    for name, way in WAYS.items():
        found = answers(model, [request("decoder", ids, way) for ids in PROMPTS], way)
        assert (texts(found) == texts(greedy)) == (name in same_by_design), name


class Forgetful(Recompute):
    """Broken on purpose: rows that change places keep their old texts."""

    def step(self, ids: Tensor, state: object) -> Tensor:
        state.reorder = lambda rows: None  # type: ignore[attr-defined]
        return super().step(ids, state)  # type: ignore[arg-type]


def test_a_runner_that_forgets_to_reorder_is_caught() -> None:
    model, way = make("decoder"), WAYS["beam"]
    requests = [request("decoder", ids, way) for ids in PROMPTS[:1]]
    with pytest.raises(AssertionError):
        check_same(answers(Forgetful(model), requests, way), answers(model, requests, way))


def test_neighbours_of_a_broken_row_are_answered() -> None:
    """A row whose logits are not finite ends; the others do not notice."""
    model, way = make("decoder"), WAYS["greedy"]
    requests = [request("decoder", ids, way) for ids in PROMPTS[:3]]
    expected = answers(model, requests, way)

    class Broken(Recompute):
        def step(self, ids: Tensor, state: object) -> Tensor:
            logits = super().step(ids, state)  # type: ignore[arg-type]
            logits[1] = torch.nan
            return logits

    broken = Broken(model)
    scheduler = Scheduler(broken)
    for one in requests:
        scheduler.submit(one)
    events = scheduler.step() + scheduler.step()
    [done] = [event for event in events if isinstance(event, Done)]
    assert (done.ticket, done.answers[0].finish) == (1, "stuck")
    assert expected[0][0].ids[:2] == [
        e.id for e in events if e.ticket == 0 and not isinstance(e, Done)
    ]
