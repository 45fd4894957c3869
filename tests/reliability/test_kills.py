"""A trainer ended by SIGKILL at any moment loses nothing: what goes on is bit for bit the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

SCRIPT = Path(__file__).parent / "kills.py"


def kill_again_and_again(folder: Path, **sizes: int) -> dict[str, int]:
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    counts = kill_again_and_again(tmp_path, chains=2, kills=5, steps=24, seed=0)
    assert counts["unrecoverable"] == counts["different"] == 0, counts
    assert counts["saving"] >= 2, counts  # the kills came where they hurt
    assert counts["saving"] + counts["between"] >= 8, counts


@pytest.mark.full
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    """At least 50 of them during a save; at least 200 steps follow the last kill."""
    counts = kill_again_and_again(tmp_path, chains=10, kills=20, steps=340, seed=1)
    assert counts["unrecoverable"] == counts["different"] == 0, counts
    assert counts["saving"] >= 50, counts
    assert counts["saving"] + counts["between"] >= 200, counts
