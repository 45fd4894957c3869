"""One job done in turn by lookleft and by others: a line of the decode table."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lookleft import __version__
from lookleft.bench.alternate import Ratio, Times, alternate
from lookleft.bench.peers import version_of

Say = Callable[[str], None]
Way = Callable[[], object]
OURS = "lookleft"
REST = 0.3  # seconds; threads of OpenMP go on spinning for 0.2 s after their work is done


@dataclass(frozen=True)
class Cell:
    """What each reached at one job, by name; of several settings the fastest counts."""

    job: str
    rates: Mapping[str, float]  # tokens per second
    ratio: Mapping[str, Ratio]  # how many times faster than each of the others lookleft is
    settings: Mapping[str, str]  # which was the fastest
    all_rates: Mapping[str, float]  # of every setting, by name and setting
    missing: tuple[str, ...] = ()  # peers that are not installed
    checks: Mapping[str, Any] = field(default_factory=dict)  # what was compared besides the time

    def as_json(self) -> dict[str, Any]:
        peers = {name: rate for name, rate in self.rates.items() if name != OURS}
        return {
            "job": self.job,
            "lookleft": self.rates[OURS],
            "peers": peers,
            "ratio": {name: vars(ratio) for name, ratio in self.ratio.items()},
            "versions": versions(*peers),
            "missing": list(self.missing),
            "settings": dict(self.settings),
            "all": dict(self.all_rates),
            **self.checks,
        }

    def __str__(self) -> str:
        lines = [f"{self.job}\n  {self._line(OURS)}"]
        for name, ratio in self.ratio.items():
            lines.append(f"  {self._line(name)}   lookleft is {ratio} as fast")
        lines += [f"  {name:<18} missing: pip install {name}" for name in self.missing]
        lines += [f"  {name}: {_in_words(value)}" for name, value in self.checks.items()]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        return f"{name:<18} {self.rates[name]:9,.1f} tokens/s  {self.settings[name]:<22}"


def contest(
    job: str,
    n_tokens: int,
    ways: Mapping[str, Mapping[str, Way]],
    *,
    rounds: int,
    say: Say,
    missing: tuple[str, ...] = (),
    checks: Mapping[str, Any] | None = None,
) -> Cell:
    """Every way in turn, and the fastest setting of each name beside ours.

    ways: by name, one of them "lookleft", and by setting. n_tokens: what one run of a way makes.
    """

    def rest_and_say(line: str) -> None:
        time.sleep(REST)  # between two ways, outside of both clocks
        say(f"{job}, {line}")

    flat = {
        f"{name}, {setting}": way for name, each in ways.items() for setting, way in each.items()
    }
    times = alternate(flat, rounds, rest_and_say)
    rates = {name: times.rate(name, n_tokens) for name in flat}
    best = {name: max(each, key=lambda s: rates[f"{name}, {s}"]) for name, each in ways.items()}
    return Cell(
        job,
        {name: rates[f"{name}, {setting}"] for name, setting in best.items()},
        _ratios(times, best),
        best,
        rates,
        missing,
        checks or {},
    )


def _ratios(times: Times, best: Mapping[str, str]) -> dict[str, Ratio]:
    ours = f"{OURS}, {best[OURS]}"
    return {
        name: times.ratio(ours, f"{name}, {setting}")
        for name, setting in best.items()
        if name != OURS
    }


def versions(*packages: str) -> dict[str, str]:
    """Of this package, of what it computes with, and of those of these that are installed."""
    found = {name: version_of(name) for name in ("torch", "numba", *packages)}
    ours = {OURS: __version__, "commit": _commit()}
    return {name: text for name, text in (ours | found).items() if text is not None}


@cache
def _commit() -> str | None:
    """Which source this is, if it runs from a clone; "+" behind it: with changes."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "   ".join(f"{name} {_in_words(part)}" for name, part in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
