"""train.minutes: how many steps fit, that it is decided once, and that stopping changes nothing.

Time is counted, never taken: a step is a second of a clock that looks at the run.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from small_runs import STOPPABLE, differences, small_settings, write_pairs

import lookleft
from lookleft.bundle import Bundle
from lookleft.errors import ConfigError
from lookleft.train.budget import Fit, Stopwatch, decide, fit_steps
from lookleft.train.checkpoint import Progress
from lookleft.train.judge import Opinion
from lookleft.train.objective import Objective
from lookleft.train.report import to_html
from lookleft.train.run import Run
from lookleft.train.settings import TrainSettings
from lookleft.train.settings_file import read_settings
from lookleft.train.world import World

LONG = STOPPABLE | {
    "train.steps": "100",
    "train.minutes": "1",
    "train.eval_every": "20",
    "train.save_every": "1000",
    "train.warmup": "2",
    "train.schedule": "cosine",
}
settings_for = partial(small_settings, base=LONG)
DECIDED = 7  # the first step at which a tenth of what is left of the minute has been measured
N_FIT = 49  # 58.2 s, of which 11 are for these steps and two evaluations, at 1.1 s a step


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv")


class Seconds:
    """A clock on which every step and every evaluation of a run takes as long as it is told to."""

    def __init__(self, run: Run, step: float = 1.0, evaluation: float = 2.0, start: float = 0.0):
        self.run, self.step, self.evaluation, self.start = run, step, evaluation, start
        self.first, self.n_evaluations = run.progress.step, 0
        run.clock, run.results.judge = self, self.judge

    def __call__(self) -> float:
        done = self.run.progress.step - self.first
        passes = self.run.settings.train.objective.n_passes(self.first, self.first + done)
        return self.step * passes + self.evaluation * self.n_evaluations + self.start * (done > 0)

    def judge(self, bundle: Bundle) -> Opinion:
        self.n_evaluations += 1
        return Opinion()


def test_a_run_is_fitted_into_its_minutes_and_its_rate_falls_to_the_end(
    pairs: Path, tmp_path: Path
) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    clock = Seconds(run)
    events = list(run.train())
    assert run.is_finished
    assert run.progress.step == run.n_steps == N_FIT
    assert 0.9 * 60 < clock() <= 60
    assert events[-1].dev_loss is not None
    assert events[-1].lr == pytest.approx(0.0, abs=1e-9)
    decided = [event for event in events if event.steps_that_fit is not None]
    assert [(event.step, event.steps_that_fit) for event in decided] == [(DECIDED, N_FIT)]
    assert [e.step for e in events if e.dev_loss is not None] == [DECIDED, 20, 40, N_FIT]
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    row = next(row for row in rows if "steps_that_fit" in row)
    assert (row["steps_that_fit"], row["seconds_per_step"]) == (N_FIT, pytest.approx(1.1))
    assert f"of {N_FIT} steps" in to_html(run.folder)
    assert read_settings(run.folder / "config.toml") == run.settings  # still what was asked for


def test_minutes_that_are_enough_change_nothing_but_that_it_is_said(
    pairs: Path, tmp_path: Path
) -> None:
    few = {"train__steps": "12", "train__ema": "0.5"}
    ends = []
    for minutes in ("0.25", "1000"):  # 15 seconds, of which a tenth is soon over, and no end
        run = Run.start(tmp_path / minutes, settings_for(pairs, train__minutes=minutes, **few))
        Seconds(run, evaluation=0.0)
        events = list(run.train())
        assert events[-1].step == 12
        ends.append((run.model.state_dict(), [e.steps_that_fit for e in events]))
    assert all(torch.equal(ends[0][0][name], ends[1][0][name]) for name in ends[0][0])
    assert 12 in ends[0][1]
    assert set(ends[1][1]) == {None}


@pytest.mark.parametrize("stop", [DECIDED - 2, DECIDED, DECIDED + 2])
def test_a_run_stopped_after_the_decision_ends_bit_for_bit_the_same(
    stop: int, pairs: Path, tmp_path: Path
) -> None:
    settings = settings_for(pairs)
    whole = Run.start(tmp_path / "whole", settings)
    Seconds(whole)
    list(whole.train())
    cut = Run.start(tmp_path / "cut", settings)
    Seconds(cut)
    list(cut.train(is_stop_asked=lambda: cut.progress.step >= stop))
    again = Run.resume(tmp_path / "cut")
    assert again.progress == cut.progress
    assert (again.fit is None) == (stop < DECIDED)
    Seconds(again, step=3.0)  # a slower machine
    list(again.train())
    assert (again.n_steps == N_FIT) == (stop >= DECIDED)
    assert (differences(whole.folder, again.folder) == []) == (stop >= DECIDED)


def test_what_was_spent_before_a_pause_counts(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    Seconds(run, step=8.0, evaluation=0.0)
    list(run.train(is_stop_asked=lambda: True))
    again = Run.resume(tmp_path / "run")
    assert again.progress.seconds == 8.0
    Seconds(again)
    list(again.train())
    assert 0.9 * 60 < again.progress.seconds <= 60
    assert again.n_steps < N_FIT


def test_a_decision_that_was_not_saved_is_made_anew(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs, train__save_every="3"))
    Seconds(run)
    for event in run.train():
        if event.steps_that_fit is not None:
            break  # killed before the checkpoint that comes with it
    again = Run.resume(tmp_path / "run")
    assert (again.progress.step, again.fit) == (6, None)
    Seconds(again)
    list(again.train())
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "steps_that_fit" in row] == [again.first_step + 7]
    assert again.progress.seconds <= 60


def test_the_decision_is_saved_at_once(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    Seconds(run)
    for event in run.train():
        if event.step > DECIDED:
            break
    again = Run.resume(tmp_path / "run")
    assert again.progress.step == DECIDED
    assert again.n_steps == N_FIT


def test_other_minutes_or_steps_are_decided_about_anew(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    Seconds(run)
    list(run.train())
    assert Run.resume(tmp_path / "run", {"train.minutes": "1.0"}).is_finished
    assert Run.resume(tmp_path / "run", {"train.lr": "0.001"}).is_finished
    more = Run.resume(tmp_path / "run", {"train.minutes": "1.5"})
    assert (more.fit, more.n_steps) == (None, 100)
    again = Run.resume(tmp_path / "run")  # cut short before its first checkpoint, it asks the same
    assert (again.fit, again.n_steps) == (None, 100)
    Seconds(again)
    list(again.train())
    assert N_FIT < again.n_steps < 100
    assert 60 < again.progress.seconds <= 90
    assert Run.resume(tmp_path / "run", {"train.steps": "60"}).is_finished


@pytest.mark.parametrize(
    ("changes", "evaluated"),
    [({}, [2]), ({"data__dev": "false"}, []), ({"train__eval_every": "1"}, [1, 2])],
)
def test_a_run_that_has_used_up_its_minutes_ends_in_order(
    changes: dict[str, str], evaluated: list[int], pairs: Path, tmp_path: Path
) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs, **changes))
    Seconds(run, step=50.0)
    events = list(run.train())
    assert [event.step for event in events if event.dev_loss is not None] == evaluated
    assert [event.step for event in events if event.steps_that_fit == 2] == [2]
    assert run.n_steps == run.progress.step == 2
    assert Run.resume(tmp_path / "run").is_finished
    assert lookleft.load(tmp_path / "run" / "model").tokenizer is not None
    assert run.fit is not None
    assert "1 minutes are used up after 2 of 100 steps" in run.fit.in_words(2)


def test_the_step_at_which_no_more_fit_is_evaluated_too(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs, train__eval_every="3"))
    Seconds(run, evaluation=100.0)
    events = list(run.train())
    assert [event.step for event in events if event.dev_loss is not None] == [3, 4]
    assert [event.step for event in events if event.steps_that_fit == 4] == [4]


def test_starting_up_is_paid_for_but_is_no_pace(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    clock = Seconds(run, start=20.0)
    list(run.train())
    assert run.fit is not None
    assert run.fit.pace == pytest.approx(1.1)
    assert 0.9 * 60 < clock() <= 60


def test_an_evaluation_that_is_brought_forward_tries_no_patience(
    pairs: Path, tmp_path: Path
) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs, train__patience="1", train__lr="1e-12"))
    Seconds(run)
    events = list(run.train())
    assert [e.step for e in events if e.dev_loss is not None][:2] == [DECIDED, 20]
    assert events[-1].step >= 20
    stopped = Run.start(tmp_path / "stopped", settings_for(pairs, train__eval_every="3"))
    Seconds(stopped, evaluation=0.0)
    steps = [event.step for event in stopped.train() if event.dev_loss is not None]
    assert DECIDED not in steps  # an evaluation had come by itself


def test_steps_that_fit_are_counted_from_what_is_left() -> None:
    assert fit_steps(6_000, 57, one_pass=0.81).n_fit == int(57 * 60 * 0.97 / 0.81) == 4_095
    assert fit_steps(4_000, 57, one_pass=0.81).n_fit == 4_000  # never raised
    half = fit_steps(6_000, 57, done=500, seconds=28.5 * 60, one_pass=0.81, evaluation=0.0)
    assert half.n_fit == 500 + int((57 * 60 * 0.97 - 28.5 * 60) / 0.81)
    dear = fit_steps(6_000, 57, one_pass=0.81, evaluation=50.0, eval_every=500)
    assert dear.pace == pytest.approx(0.91)
    assert dear.n_fit < 4_095 * 0.81 / 0.91
    assert fit_steps(6_000, 1, done=70, seconds=70.0, one_pass=1.0).n_fit == 70


def test_steps_of_two_passes_are_counted_twice() -> None:
    late = Objective(rdrop=3.0, rdrop_after=2_000)
    few = fit_steps(6_000, 57, one_pass=0.81, objective=late)
    assert few.n_fit == 2_000 + int((57 * 60 * 0.97 - 2_000 * 0.81) / 1.62)
    assert few.pace == pytest.approx((2_000 * 0.81 + (few.n_fit - 2_000) * 1.62) / few.n_fit)
    assert fit_steps(6_000, 57, one_pass=2.0, objective=late).n_fit == int(57 * 60 * 0.97 / 2)
    always = fit_steps(6_000, 57, done=2_500, one_pass=0.81, objective=late)
    assert always.n_fit == 2_500 + int(57 * 60 * 0.97 / 1.62)


def test_a_run_whose_steps_get_dearer_still_fits_into_its_minutes(
    pairs: Path, tmp_path: Path
) -> None:
    settings = settings_for(pairs, train__rdrop="1", train__rdrop_after="20")
    run = Run.start(tmp_path / "run", settings)
    clock = Seconds(run)
    list(run.train())
    assert 20 < run.progress.step == run.n_steps < N_FIT
    assert 0.9 * 60 < clock() <= 60


def test_a_decision_is_told_in_words() -> None:
    fit = Fit(6_000, 57, 4_100, 0.81)
    assert fit.in_words() == "4,100 of 6,000 steps fit into 57 minutes at 0.81 s a step"
    everything = Fit(6_000, 90.5, 6_000, 0.81)
    assert everything.in_words(3) == "all 6,000 steps fit into 90.5 minutes at 0.81 s a step"


def test_all_processes_take_the_decision_of_the_first() -> None:
    class Second(World):
        def from_main(self, *values: float) -> list[float]:
            return [41.0, 0.5]

    watch = Stopwatch(iter(range(100)).__next__)
    for _ in range(3):
        watch.count_step()
    train, progress = TrainSettings(steps=100, minutes=1), Progress(3, {}, seconds=9.0)
    assert decide(train, progress, watch, Second(1, 2)) == Fit(100, 1, 41, 0.5)
    assert decide(train, progress, watch, World()).n_fit != 41


@pytest.mark.parametrize("minutes", ["0", "-1", "inf", "nan"])
def test_minutes_are_some_and_not_without_end(minutes: str) -> None:
    with pytest.raises(ConfigError, match=r"train\.minutes"):
        read_settings(None, {"train.minutes": minutes})
