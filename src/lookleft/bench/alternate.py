"""Two or more ways to do one job, measured in turn: on a shared machine only ratios mean anything.

Every round runs every way once, so a slow minute slows them all. What is reported is the ratio of
each round, never a quotient of two medians taken at different times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 5  # at least so many alternations make a figure


@dataclass(frozen=True)
class Ratio:
    """How many times faster than another, over the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} x ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Times:
    """Seconds of each way in each round."""

    seconds: Mapping[str, list[float]]

    def rate(self, name: str, amount: float) -> float:
        """Amount per second, in the median round."""
        return amount / statistics.median(self.seconds[name])

    def ratio(self, ours: str, theirs: str) -> Ratio:
        """How many times faster ours is than theirs."""
        rounds = [
            slow / fast for fast, slow in zip(self.seconds[ours], self.seconds[theirs], strict=True)
        ]
        return Ratio(statistics.median(rounds), min(rounds), max(rounds))


def alternate(
    ways: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    say: Callable[[str], None] = lambda line: None,
) -> Times:
    """The times of all ways, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            say(f"round {number} of {rounds}: {name}")
            began = time.perf_counter()
            way()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return Times(seconds)
