"""A tiny trainer ended by SIGKILL again and again, and what was left each time.

A script, because it forks: it must be alone in its process. It prints one JSON object per chain,
with the counts so far.

    python tests/reliability/kills.py FOLDER --chains 2 --kills 8 --steps 80 --seed 0

A chain is one run, killed `kills` times, then left alone to its end and compared, bit for bit,
with the same run undisturbed. A child tells of every step and every save. It is killed before it
told anything, or a drawn moment after a drawn step, or a drawn moment after a save began. How fast
the machine is does not matter: moments are shares of what a beginning, a step or a save took here,
and a child whose time has come waits for the end a step later.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import statistics
import time
import traceback
from pathlib import Path

import torch
from small_runs import STOPPABLE, differences, small_settings, write_pairs

from lookleft.train.run import Run
from lookleft.train.settings import RunSettings

SMALL = STOPPABLE | {
    "train.warmup": "5",
    "train.eval_every": "3",  # also kept while it runs: the best model, and its scores
    "train.save_every": "2",
}
WAYS = (  # chains take turns
    {"train__accumulate": "1", "train__ema": "0.9"},
    {"train__accumulate": "4", "train__average": "3"},
)
AIMS = ("beginning", "saving", "between", "saving")  # what the kills of a chain aim at, in turn
SILENCE = 120.0  # seconds after which a trainer that says nothing hangs


class Told(Run):
    """A run that tells through a pipe when it begins and ends to save."""

    pipe = -1

    def save(self) -> Path:
        tell(self.pipe, "saving")
        path = super().save()
        tell(self.pipe, "saved")
        return path


def tell(pipe: int, word: str) -> None:
    os.write(pipe, f"{word}\n".encode())  # so short that it arrives whole or not at all


def train(folder: Path, settings: RunSettings, pipe: int, most: int | None) -> None:
    """What a child does: begin or go on, to the end or for at most so many steps."""
    Told.pipe = pipe
    run = Told.resume(folder) if is_begun(folder) else Told.start(folder, settings)
    tell(pipe, "begun")
    first = run.progress.step
    if most == 0:
        wait_for_the_end()
    for event in run.train():
        tell(pipe, f"step {event.step}")
        if event.step - first == most:
            wait_for_the_end()


def is_begun(folder: Path) -> bool:
    return (folder / "config.toml").exists()


def wait_for_the_end() -> None:
    time.sleep(SILENCE)
    raise TimeoutError("was not killed")


class Child:
    """A process that trains, and what it told: words, each with the moment it was heard."""

    def __init__(self, folder: Path, settings: RunSettings, most: int | None = None) -> None:
        self.said = [(time.monotonic(), "forked")]
        self.pipe, its = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            status = 1
            try:
                train(folder, settings, its, most)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(its)

    @property
    def words(self) -> list[str]:
        return [word for _, word in self.said[1:]]

    @property
    def last_step(self) -> int:
        return max((int(word[5:]) for word in self.words if word.startswith("step")), default=0)

    def hear(self) -> bool:
        """Wait for more words; False: there are none to come."""
        if not select.select([self.pipe], [], [], SILENCE)[0]:
            os.kill(self.pid, signal.SIGKILL)
            raise TimeoutError(f"a trainer hangs; the last it said: {self.said[-1][1]}")
        more = os.read(self.pipe, 4096)
        self.said += [(time.monotonic(), word) for word in more.decode().splitlines()]
        return bool(more)

    def hear_until(self, kind: str, count: int) -> None:
        """Until so many words of a kind have come."""
        while sum(word.startswith(kind) for word in self.words) < count:
            if not self.hear():
                raise AssertionError(f"a trainer ended by itself after {self.said[-1][1]}")

    def end(self) -> int:
        """Hear the rest; get how the process ended, as `subprocess` counts."""
        while self.hear():
            pass
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def took(self, before: str, after: str) -> float:
        """Seconds between two kinds of words that followed each other, typically."""
        neighbours = zip(self.said, self.said[1:], strict=False)
        return statistics.median(
            later - sooner
            for (sooner, one), (later, other) in neighbours
            if one.startswith(before) and other.startswith(after)
        )


def kill_once(
    folder: Path,
    settings: RunSettings,
    draw: random.Random,
    aim: str,
    took: dict[str, float],
) -> tuple[str, int]:
    """Start a trainer and kill it: get in the midst of what that was, and the last step told."""
    had_begun, count = is_begun(folder), draw.randrange(1, 3 if aim == "saving" else 5)
    # Every second step is saved, and it can go on for a step after what it is killed in.
    most = {"beginning": 0, "between": count + 2, "saving": 2 * count + 1}[aim]
    child = Child(folder, settings, most)
    if aim != "beginning":
        child.hear_until("saving" if aim == "saving" else "step", count)
    time.sleep(draw.random() * took[aim])
    os.kill(child.pid, signal.SIGKILL)
    status = child.end()
    assert status == -signal.SIGKILL, f"the trainer ended by itself: {status} {child.words[-3:]}"
    if not child.words:
        return "resuming" if had_begun else "starting", 0
    is_saving = child.words.count("saving") > child.words.count("saved")
    return "saving" if is_saving else "between", child.last_step


def warm_up(folder: Path, settings: RunSettings) -> None:
    """Import and compile what training needs: children inherit it, and begin with their work."""
    run = Run.start(folder, settings)
    list(run.train(is_stop_asked=lambda: run.progress.step == 4))
    Run.resume(folder)
    n_threads = len(os.listdir("/proc/self/task"))
    assert n_threads == 1, f"{n_threads} threads: a fork copies one, and the others' locks"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name in ("chains", "kills", "steps", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(asked.seed)
    pairs, steps = write_pairs(asked.folder / "pairs.tsv"), str(asked.steps)
    warm_up(asked.folder / "warm", small_settings(pairs, base=SMALL))
    kinds = ("starting", "resuming", "saving", "between", "unrecoverable", "different")
    counts = dict.fromkeys(kinds, 0)
    fewest_left, took = asked.steps, dict[int, dict[str, float]]()
    for chain in range(asked.chains):
        way = chain % len(WAYS)
        settings = small_settings(pairs, base=SMALL, train__steps=steps, **WAYS[way])
        whole, cut = asked.folder / f"whole-{way}", asked.folder / f"cut-{chain}"
        if not whole.exists():
            child = Child(whole, settings)
            assert child.end() == 0
            took[way] = {
                "beginning": child.took("forked", "begun"),
                "saving": child.took("saving", "saved"),
                "between": child.took("step", "step"),
            }
        last = 0
        for number in range(asked.kills):
            aim = AIMS[number % len(AIMS)]
            kind, step = kill_once(cut, settings, draw, aim, took[way])
            counts[kind] += 1
            last = max(last, step)
        fewest_left = min(fewest_left, asked.steps - last)
        if Child(cut, settings).end() == 0:
            counts["different"] += differences(whole, cut) != []
        else:
            counts["unrecoverable"] += 1
        print(json.dumps({"chains": chain + 1, **counts, "fewest_left": fewest_left}), flush=True)


if __name__ == "__main__":
    main()
