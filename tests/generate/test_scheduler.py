"""Continuous batching: who runs when, who leaves when, and what is refused at the door."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from generate.tiny import PROMPTS, WAYS, answers, make, request
from torch import Tensor

from lookleft.config import EncoderOnlyConfig
from lookleft.errors import InputError
from lookleft.generate.decode import generate_ids
from lookleft.generate.pick import make_sampler
from lookleft.generate.recompute import Recompute
from lookleft.generate.request import Beam, Done, Request, Sample, Token, admit
from lookleft.generate.scheduler import Scheduler, answer_all


class Counting(Recompute):
    """Notes how many rows each step and each prompt reading has."""

    def __init__(self, network: Any) -> None:
        super().__init__(network)
        self.rows: list[int] = []
        self.read: list[int] = []

    def step(self, ids: Tensor, state: Any) -> Tensor:
        self.rows.append(ids.numel())
        return super().step(ids, state)

    def prefill(self, batch: Any, *, room: int) -> Any:
        self.read.append(batch.inputs.shape[0])
        return super().prefill(batch, room=room)


def test_finished_rows_leave_at_once_and_waiting_ones_join_at_the_next_step() -> None:
    runner = Counting(make("decoder"))
    scheduler = Scheduler(runner, max_rows=2)
    for n in (2, 5, 3):
        scheduler.submit(Request((5, 6), max_new=n))
    steps = []
    while not scheduler.is_idle:
        steps.append([event.ticket for event in scheduler.step() if isinstance(event, Token)])
    # The third joins in the step after the first has written its last token.
    assert steps == [[0, 1], [0, 1], [1, 2], [1, 2], [1, 2]]
    assert runner.read == [2, 1]
    assert runner.rows == [2, 1, 2, 2]  # in the third step the newcomer reads its prompt instead


def test_joining_can_wait_until_enough_rows_are_free() -> None:
    runner = Counting(make("decoder"))
    requests = [Request((5, 6), max_new=n) for n in (1, 4, 2, 2)]
    list(answer_all(runner, requests, max_rows=2, join_at_least=2))
    assert runner.read == [2, 2]


def test_a_beam_takes_its_width_of_rows() -> None:
    runner = Counting(make("decoder"))
    requests = [Request((5, 6), max_new=3, method=Beam(3)) for _ in range(3)]
    list(answer_all(runner, requests, max_rows=7))
    assert max(runner.rows) == 6
    with pytest.raises(InputError, match="a beam of 3 does not fit into 2 rows"):
        Scheduler(runner, max_rows=2).submit(requests[0])


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_a_cancelled_request_frees_its_rows_and_others_do_not_notice(name: str) -> None:
    model, way = make("decoder"), WAYS[name]
    requests = [request("decoder", ids, way) for ids in PROMPTS]
    expected = answers(model, requests, way)
    scheduler = Scheduler(model, max_rows=12)
    tickets = [scheduler.submit(one) for one in requests]
    events = scheduler.step()
    n_before = scheduler.n_rows
    scheduler.cancel(tickets[0])  # runs
    assert scheduler.n_rows < n_before
    scheduler.cancel(tickets[3])  # waits, or runs
    events += scheduler.run()
    done = {event.ticket: event.answers for event in events if isinstance(event, Done)}
    assert {t: [a.ids for a in found] for t, found in done.items()} == {
        t: [a.ids for a in expected[t]] for t in (tickets[1], tickets[2])
    }


def test_the_last_one_cancelled_leaves_an_idle_scheduler() -> None:
    scheduler = Scheduler(make("decoder"))
    ticket = scheduler.submit(Request((5, 6)))
    scheduler.step()
    scheduler.cancel(ticket)
    assert scheduler.is_idle
    assert scheduler.step() == []


def test_after_a_step_that_failed_everything_can_be_abandoned_and_begun_anew() -> None:
    runner = Counting(make("decoder"))
    scheduler = Scheduler(runner, max_rows=2)
    tickets = [scheduler.submit(Request((5, 6), max_new=n)) for n in (1, 5, 5, 5)]
    scheduler.step()  # answers the first
    scheduler.cancel(tickets[3])

    def fail(ids: Tensor, state: Any) -> Tensor:
        raise MemoryError("no room")

    runner.step = fail  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        scheduler.step()
    assert scheduler.abandon() == tickets[1:3]
    assert scheduler.is_idle
    del runner.step  # type: ignore[method-assign]
    again = scheduler.submit(Request((5, 6), max_new=2))
    [done] = [event for event in scheduler.run() if isinstance(event, Done)]
    assert (done.ticket, len(done.answers[0].ids)) == (again, 2)


def test_ways_of_all_kinds_run_side_by_side() -> None:
    model = make("decoder")
    plain = {name: way for name, way in WAYS.items() if not way.is_lookup}
    requests = [request("decoder", PROMPTS[2], way) for way in plain.values()]
    expected = [
        answers(model, [one], way)[0] for one, way in zip(requests, plain.values(), strict=True)
    ]
    found = {event.ticket: event.answers for event in answer_all(model, requests, max_rows=12)}
    for ticket, (name, each) in enumerate(zip(plain, expected, strict=True)):
        assert [a.ids for a in found[ticket]] == [a.ids for a in each], name


@pytest.mark.parametrize("family", ["decoder", "translator"])
def test_the_scheduler_writes_what_the_plain_loop_writes(family: str) -> None:
    model, way = make(family), WAYS["greedy"]
    found = answers(model, [request(family, ids, way) for ids in PROMPTS], way)
    for ids, each in zip(PROMPTS, found, strict=True):
        [plain] = generate_ids(model, [ids], max_new=7, eos=None)
        ends = [plain.index(end) for end in (2, 29, 7) if end in plain]
        assert each[0].ids == (plain[: min(ends)] if ends else plain)


def test_a_sampled_row_draws_what_the_plain_loop_draws() -> None:
    model = make("decoder")
    method = Sample(temperature=1.2, top_k=7, seed=11)
    [done] = answer_all(model, [Request(PROMPTS[0], max_new=9, method=method)])
    draws = torch.Generator().manual_seed(11)
    pick = make_sampler(generator=draws, temperature=1.2, top_k=7)
    assert [done.answers[0].ids] == generate_ids(
        model, [PROMPTS[0]], max_new=9, eos=None, pick=pick
    )


def test_tokens_are_told_with_their_log_probabilities() -> None:
    model = make("decoder")
    scheduler = Scheduler(model)
    scheduler.submit(Request((5, 6), max_new=4, wants_log_probs=True))
    *tokens, done = scheduler.run()
    assert isinstance(done, Done)
    assert [event.id for event in tokens if isinstance(event, Token)] == done.answers[0].ids
    told = [event.log_prob for event in tokens if isinstance(event, Token)]
    assert told == done.answers[0].log_probs
    assert all(log_prob is not None and log_prob < 0 for log_prob in told)


@pytest.mark.parametrize(
    ("family", "asked", "message"),
    [
        ("decoder", Request(()), "the prompt is empty"),
        ("decoder", Request((5,), max_new=0), "max_new=0"),
        ("decoder", Request((5,) * 65), "65 tokens, but this model reads at most 64"),
        ("decoder", Request((5, 40)), "id 40, outside the vocabulary 0..39"),
        ("decoder", Request((5,), ends=(99,)), "end tokens has id 99"),
        ("decoder", Request((5,), source=(6,)), "takes no source"),
        ("translator", Request(), "the source is empty"),
        ("translator", Request(source=(5,) * 65), "the source has 65 tokens"),
        ("translator", Request(source=(-1,)), "id -1, outside"),
        ("translator", Request((5,) * 64, source=(5,)), "the prompt has 65 tokens"),
    ],
)
def test_what_cannot_be_answered_is_refused_at_the_door(
    family: str, asked: Request, message: str
) -> None:
    scheduler = Scheduler(make(family))
    with pytest.raises(InputError, match=message):
        scheduler.submit(asked)
    assert scheduler.is_idle


def test_an_encoder_is_not_asked_to_write() -> None:
    with pytest.raises(InputError, match="encoder-only model writes nothing"):
        admit(Request((5,)), 0, EncoderOnlyConfig(vocab_size=9))


def test_an_answer_ends_where_the_context_ends() -> None:
    model = make("decoder")
    asked = Request((5,) * 60, max_new=100)
    for runner in (model, Recompute(model)):
        [done] = answer_all(runner, [asked])
        assert len(done.answers[0].ids) == 5  # four of them are read, the last is only written
        assert done.answers[0].finish == "length"


def test_at_least_one_row_must_run() -> None:
    with pytest.raises(InputError, match="max_rows=0"):
        Scheduler(make("decoder"), max_rows=0)
    with pytest.raises(InputError, match="ahead=0"):
        Scheduler(make("decoder"), ahead=0)
