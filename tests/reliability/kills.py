"""A tiny trainer ended by SIGKILL again and again, and what was left each time.

A script, because it forks: it must be alone in its process. It prints one JSON object per chain,
with the counts so far.

    python tests/reliability/kills.py FOLDER --chains 2 --kills 5 --steps 40 --seed 0

A chain is one run, killed `kills` times, then left alone to its end and compared, bit for bit,
with the same run undisturbed. Every second kill comes while a checkpoint is being written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from pathlib import Path

import torch

from lookleft.errors import LookleftError
from lookleft.tensors import read_tensors
from lookleft.train.run import Run
from lookleft.train.settings import RunSettings, read_settings

WORDS = ["one", "two", "three", "four", "five", "six"]
SMALL = {
    "text.kind": "char",
    "model.d_model": "16",
    "model.d_ff": "16",
    "model.n_layers": "1",
    "model.dropout": "0.2",
    "train.tokens": "64",
    "train.warmup": "5",
    "train.log_every": "1",
    "train.eval_every": "100",
    "train.save_every": "2",
    "train.ema": "0.9",
}
BEGUN, SAVING, SAVED = b"b", b"(", b")"


class Told(Run):
    """A run that tells through a pipe when it begins and ends to save."""

    pipe = -1

    def save(self) -> Path:
        os.write(self.pipe, SAVING)
        path = super().save()
        os.write(self.pipe, SAVED)
        return path


def train(folder: Path, settings: RunSettings, pipe: int) -> None:
    """What a child does: begin or go on, to the end."""
    Told.pipe = pipe
    is_begun = (folder / "config.toml").exists()
    run = Told.resume(folder) if is_begun else Told.start(folder, settings)
    os.write(pipe, BEGUN)
    for _ in run.train():
        pass


def start(folder: Path, settings: RunSettings) -> tuple[int, int]:
    """A child that trains: its process number, and the pipe that it talks through."""
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        status = 1
        try:
            train(folder, settings, its)
            status = 0
        except LookleftError as error:
            print(f"error: {error}", flush=True)
        finally:
            os._exit(status)
    os.close(its)
    return child, ours


def kill_once(folder: Path, settings: RunSettings, draw: random.Random, in_save: bool) -> str:
    """Start a trainer and kill it: "saving", "between", or "ended" if it was too late."""
    child, pipe = start(folder, settings)
    said = b""
    n_saves = draw.randrange(1, 4)  # the one to be killed in
    while True:
        now = os.read(pipe, 1)
        said += now
        if not now or (in_save and said.count(SAVING) == n_saves):
            break
        if not in_save and said.endswith(BEGUN):
            time.sleep(draw.random() * 0.4)
            break
    if in_save:
        time.sleep(draw.random() * 0.008)  # a save takes about so long
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    while more := os.read(pipe, 1000):
        said += more
    os.close(pipe)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "the trainer failed by itself"
        return "ended"
    return "saving" if said.count(SAVING) > said.count(SAVED) else "between"


def finish(folder: Path, settings: RunSettings) -> int:
    """Train undisturbed to the end; get how the process ended."""
    child, pipe = start(folder, settings)
    while os.read(pipe, 1000):
        pass
    os.close(pipe)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def results(folder: Path) -> dict[str, torch.Tensor]:
    """All numbers that a run ends with: the model, and what training would go on with."""
    last = max((folder / "checkpoints").iterdir())
    files = [folder / "model" / "model.safetensors", *sorted(last.glob("*.safetensors"))]
    return {f"{file.name} {key}": t for file in files for key, t in read_tensors(file).items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name in ("chains", "kills", "steps", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(asked.seed)
    pairs = asked.folder / "pairs.tsv"
    pairs.write_text("\n".join(f"{a} {b}\t{b} {a}" for a in WORDS for b in WORDS) + "\n")
    counts = {"saving": 0, "between": 0, "ended": 0, "unrecoverable": 0, "different": 0}
    for chain in range(asked.chains):
        accumulate = [1, 4][chain % 2]
        change = {"train.steps": str(asked.steps), "train.accumulate": str(accumulate)}
        data = {"data.train": str(pairs), "data.dev": str(pairs)}
        settings = read_settings(None, SMALL | data | change)
        whole, cut = asked.folder / f"whole-{accumulate}", asked.folder / f"cut-{chain}"
        if not whole.exists():
            assert finish(whole, settings) == 0
        for number in range(asked.kills):
            counts[kill_once(cut, settings, draw, in_save=number % 2 == 0)] += 1
        if finish(cut, settings) == 0:
            one, other = results(whole), results(cut)
            is_same = one.keys() == other.keys() and all(one[key].equal(other[key]) for key in one)
            counts["different"] += not is_same
        else:
            counts["unrecoverable"] += 1
        print(json.dumps({"chains": chain + 1, **counts}), flush=True)


if __name__ == "__main__":
    main()
