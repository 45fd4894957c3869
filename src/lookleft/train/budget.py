"""A budget of minutes: how many of the steps that were asked for fit into it.

A run begins with all its steps. Once a share of the time that there is has gone into steps, and one
evaluation was made, it is known what both cost. Then, once, steps are left out at the end, so that
the learning rate falls to its end within the budget instead of being cut off.

This comes early because a rate set for too many steps is wrong until then: after a tenth of a run
cosine has lost 2.4 % of its peak at most, and wsd stands at it unless it falls nearly all the time.
No schedule is higher for fewer steps than for more, so the rate never rises where this is decided.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from lookleft.train.checkpoint import Progress
from lookleft.train.objective import Objective
from lookleft.train.settings import TrainSettings
from lookleft.train.world import World

MEASURED = 0.1  # of the time that there is: so much goes into steps before they are counted out
IN_HAND = 0.03  # of the budget: for the last save, the audit, and steps that take longer later
Clock = Callable[[], float]


@dataclass(frozen=True)
class Fit:
    """What was decided, and about what: it holds for no other steps and no other minutes."""

    steps: int  # that were asked for
    minutes: float  # that they may take
    n_fit: int  # of the steps
    pace: float  # seconds a step on the average, its share of the evaluations counted

    def in_words(self, done: int = 0) -> str:
        """What was decided when so many steps were done."""
        budget, pace = f"{self.minutes:g} minutes", f"at {self.pace:.3g} s a step"
        if self.n_fit <= done:
            done_of = f"{done:,} of {self.steps:,} steps"
            return f"{budget} are used up after {done_of}, {pace}: the run ends here"
        count = "all" if self.n_fit == self.steps else f"{self.n_fit:,} of"
        return f"{count} {self.steps:,} steps fit into {budget} {pace}"


class Stopwatch:
    """Takes the time of one sitting: in all, in steps and in evaluations."""

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock, self._begun = clock, clock()
        self._first, self._evaluations = 0.0, 0.0
        self._is_begun = False
        self.n_timed = 0  # passes; the first step pays for starting up and compiling: left out
        self.last_evaluation = 0.0

    @property
    def seconds(self) -> float:
        """Since the sitting began."""
        return self._clock() - self._begun

    @property
    def seconds_in_steps(self) -> float:
        """What the timed steps took, with all that is logged and saved between them."""
        return self.seconds - self._first - self._evaluations if self.n_timed > 0 else 0.0

    def count_step(self, n_passes: int = 1) -> None:
        """A step of so many passes has been done."""
        if self._is_begun:
            self.n_timed += n_passes
        else:
            self._is_begun, self._first = True, self.seconds

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Inside, time goes into an evaluation, not into steps."""
        begun = self.seconds
        yield
        self.last_evaluation = self.seconds - begun
        self._evaluations += self.last_evaluation


def held_fit(train: TrainSettings, progress: Progress) -> Fit | None:
    """What was decided for these very settings, if anything was."""
    found = None if progress.fit is None else Fit(**progress.fit)
    is_held = found is not None and (found.steps, found.minutes) == (train.steps, train.minutes)
    return found if is_held else None


def used_up(train: TrainSettings, progress: Progress) -> Progress:
    """The progress of a run at the beginning of a sitting: without minutes left it ends there.

    More steps may have been asked for, but steps at the rate of a run that is not near its end
    would only undo what its end had reached.
    """
    if train.minutes is None or held_fit(train, progress) is not None or not progress.step:
        return progress
    if progress.seconds < 60 * train.minutes * (1 - IN_HAND):
        return progress
    pace = progress.seconds / progress.step
    return replace(progress, fit=asdict(Fit(train.steps, train.minutes, progress.step, pace)))


def is_due(train: TrainSettings, progress: Progress, watch: Stopwatch, world: World) -> bool:
    """Whether enough is known to decide, by the clock of process 0.

    Of the steps only those of this sitting are asked: an earlier one may have had another machine.
    What all sittings took is gone from the budget, though, and makes the decision due the sooner.
    """
    is_decided = held_fit(train, progress) is not None
    if train.minutes is None or is_decided or progress.step >= train.steps:
        return False
    left, measured = 60 * train.minutes - progress.seconds, watch.seconds_in_steps
    is_enough = watch.n_timed > 0 and measured >= MEASURED * (measured + left)
    return bool(world.from_main(is_enough)[0])


def decide(train: TrainSettings, progress: Progress, watch: Stopwatch, world: World) -> Fit:
    """How many steps fit into train.minutes, by the clock of process 0."""
    assert train.minutes is not None, "that is what makes it due"
    fit = fit_steps(
        train.steps,
        train.minutes,
        done=progress.step,
        seconds=progress.seconds,
        one_pass=watch.seconds_in_steps / watch.n_timed,
        objective=train.objective,
        evaluation=progress.evaluation_seconds or 0.0,
        eval_every=train.eval_every,
        n_last=2 if train.average else 1,
    )
    n_fit, pace = world.from_main(fit.n_fit, fit.pace)
    return replace(fit, n_fit=int(n_fit), pace=pace)


def fit_steps(
    steps: int,
    minutes: float,
    *,
    done: int = 0,
    seconds: float = 0.0,
    one_pass: float,
    objective: Objective | None = None,
    evaluation: float = 0.0,
    eval_every: int = 1,
    n_last: int = 1,
) -> Fit:
    """How many steps fit, never more than asked for and never fewer than are done.

    So many `seconds` are gone; a pass and an evaluation take `one_pass` and `evaluation` of them,
    and `objective` says how many passes the steps have. `n_last` evaluations follow the last step:
    a mean of checkpoints has one of its own. An evaluation early in a run is rather too
    dear: what has learned little translates at length.
    """
    objective = objective or Objective()
    left = 60 * minutes * (1 - IN_HAND) - seconds - n_last * evaluation

    def cost(n_steps: int) -> float:
        """Of all steps that are still to be done if there are so many."""
        n_passes = objective.n_passes(done, n_steps)
        return n_passes * one_pass + (n_steps - done) * evaluation / eval_every

    n_fit = done + bisect_right(range(done + 1, steps + 1), left, key=cost)
    n_new = max(n_fit - done, 1)
    return Fit(steps, minutes, n_fit, cost(done + n_new) / n_new)
