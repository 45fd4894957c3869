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

from lookleft.tensors import read_tensors
from lookleft.train.checkpoint import find_checkpoints, is_sound

STEPS = 60
CONFIG = """
[data]
train = "{pairs}"
dev = "{pairs}"
[text]
kind = "char"
[model]
d_model = 16
d_ff = 16
n_layers = 1
dropout = 0.2
[train]
steps = 60
tokens = 64
accumulate = 2
warmup = 5
log_every = 1
eval_every = 60
save_every = 3
eval_sentences = 2
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun")
    words = ["one", "two", "three", "four", "five", "six"]
    lines = [f"{a} {b}\t{b} {a}" for a in words for b in words]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "config.toml"
    path.write_text(CONFIG.format(pairs=folder / "pairs.tsv"), encoding="utf-8")
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
    assert said.count("step=60") <= 1, said  # and one speaks

    with started("train", str(config), "--out", str(cut)) as process:
        wait_for_step(cut, 5, process)
        process.send_signal(signal.SIGTERM)  # as a scheduler does; torchrun passes it on
        said = all_said(process)
    stopped_at = find_checkpoints(cut / "checkpoints")[0]
    assert is_sound(stopped_at), said
    assert not (cut / "model").exists(), "it ended before it could be stopped"
    assert "continue with" in said, said

    with started("train", "--resume", "--out", str(cut)) as process:
        wait_for_step(cut, int(stopped_at.name[-8:]) + 8, process)
        os.kill(children(process.pid)[-1], signal.SIGKILL)  # of the workers, not the agent
        said = all_said(process)
        assert process.returncode == 0, said
    assert said.count("resuming") == 2, said  # once because asked, once because begun again
    logged = [json.loads(line) for line in (cut / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged] == list(range(1, STEPS + 1))
    for name in ("model/model.safetensors", f"checkpoints/step-{STEPS:08d}/training.safetensors"):
        one, other = read_tensors(whole / name), read_tensors(cut / name)
        assert one.keys() == other.keys()
        assert all(one[key].equal(other[key]) for key in one), name
