"""A trainer ended by SIGKILL at any moment loses nothing: what goes on is bit for bit the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

SCRIPT = Path(__file__).parent / "kills.py"


def kill_again_and_again(folder: Path, *, at_most: float, **sizes: int) -> dict[str, int]:
    """What became of the runs; `at_most` so many seconds, on machines that do much else."""
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *words],
        # Threads of tokenizers would not survive a fork.
        env=environment(TOKENIZERS_PARALLELISM="false"),
        capture_output=True,
        text=True,
        check=False,
        timeout=at_most,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    n_kills = sum(counts[kind] for kind in ("starting", "resuming", "saving", "between"))
    assert n_kills == sizes["chains"] * sizes["kills"], counts
    assert counts["unrecoverable"] == counts["different"] == 0, counts
    return counts


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    counts = kill_again_and_again(tmp_path, at_most=600, chains=2, kills=12, steps=80, seed=0)
    # The kills came where they hurt.
    assert counts["saving"] >= 4, counts  # of 12 that were meant to
    assert counts["starting"] + counts["resuming"] >= 2, counts  # of 6
    assert counts["fewest_left"] >= 10, counts


@pytest.mark.full
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    """At least 50 of them during a save; at least 200 steps follow the last kill."""
    counts = kill_again_and_again(tmp_path, at_most=3600, chains=10, kills=20, steps=340, seed=1)
    assert counts["saving"] >= 50, counts  # of 100 that were meant to
    assert counts["starting"] >= 3, counts  # of 10
    assert counts["resuming"] >= 10, counts  # of 40
    assert counts["fewest_left"] >= 200, counts
