"""The same command under torchrun: stopped, killed and begun again, it ends as if undisturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import environment, torchrun
from small_runs import STOPPABLE, differences, small_settings, write_pairs

from lookleft.train.checkpoint import find_checkpoints, is_sound
from lookleft.train.settings_file import write_settings

STEPS = 400  # many more than are trained while a signal is on its way
LONG = STOPPABLE | {
    "train.steps": str(STEPS),
    "train.accumulate": "2",
    "train.warmup": "5",
    "train.eval_every": str(STEPS),
    "train.save_every": "3",
    "train.eval_sentences": "2",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun")
    path = folder / "config.toml"
    write_settings(small_settings(write_pairs(folder / "pairs.tsv"), base=LONG), path)
    return path


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """torchrun with two processes of lookleft; ended with all its children if the test fails."""
    command = torchrun("--max-restarts", "2", "--monitor-interval", "0.1", "-m", "lookleft", *words)
    process = subprocess.Popen(
        command,
        env=environment(PYTHONFAULTHANDLER="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()


def children(pid: int) -> list[int]:
    """The processes that a process started and that still run, oldest first."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


def all_said(process: subprocess.Popen[str]) -> str:
    """What was said until the end; of processes that hang also where each of them stands."""
    try:
        return process.communicate(timeout=300)[0]
    except subprocess.TimeoutExpired:
        workers = children(process.pid)
        process.kill()  # first: it would begin the workers again
        for worker in workers:
            os.kill(worker, signal.SIGABRT)  # they print the stacks of their threads
        raise AssertionError(f"hangs:\n{process.communicate()[0]}") from None


def wait_for_step(run: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Until a step was logged; fails if the processes end before."""
    metrics = run / "metrics.jsonl"
    for _ in range(3000):
        if metrics.exists() and metrics.read_text().count("\n") >= step:
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    raise AssertionError(f"step {step} was not reached")


@pytest.mark.slow
def test_a_run_stopped_and_then_killed_ends_as_if_undisturbed(config: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with started("train", str(config), "--out", str(whole)) as process:
        said = all_said(process)
        assert process.returncode == 0, said
    logged = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged] == list(range(1, STEPS + 1))  # one process writes
    assert said.count(f"step={STEPS}") == 1, said  # and one speaks

    with started("train", str(config), "--out", str(cut)) as process:
        wait_for_step(cut, 5, process)
        process.send_signal(signal.SIGTERM)  # as a scheduler does; torchrun passes it on
        said = all_said(process)
    assert process.returncode == 1, said  # torchrun ends by its own exception,
    assert "got signal: 15" in said, said  # which is the signal
    assert "ChildFailedError" not in said, said  # and not a worker that failed
    stopped_at = find_checkpoints(cut / "checkpoints")[0]
    assert is_sound(stopped_at), said
    assert not (cut / "model").exists(), "it ended before it could be stopped"
    assert "continue with" in said, said

    killed_at = int(stopped_at.name[-8:]) + 8
    assert killed_at < STEPS / 2, "the machine is so fast that it needs more steps"
    with started("train", "--resume", "--out", str(cut)) as process:
        wait_for_step(cut, killed_at, process)
        workers = children(process.pid)
        assert len(workers) == 2, workers
        os.kill(workers[-1], signal.SIGKILL)
        said = all_said(process)
        assert process.returncode == 0, said
    assert said.count("resuming") == 2, said  # once because asked, once because begun again
    logged = [json.loads(line) for line in (cut / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged] == list(range(1, STEPS + 1))
    assert differences(whole, cut) == []
