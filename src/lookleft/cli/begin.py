"""Which run a command asks for: a new one, one to go on with, or one that torchrun began again."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lookleft.cli.talk import say
from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.train.run import Run
    from lookleft.train.world import World


def open_run(
    word: str | None, out: Path | None, given: dict[str, str], world: World, *, is_resume: bool
) -> Run:
    """The run that the words ask for; under torchrun, which repeats a command, also a begun one."""
    if world.size > 1 and out is None:
        raise InputError("several processes need one folder: say which with --out FOLDER")
    if is_resume:
        run = resumed(run_folder(word, out), given, world)
        if (
            word is not None and out is not None
        ):  # the command of the start, with --resume put to it
            tell_differences(word, run, given)
        return run
    if out is not None and world.from_main(is_begun(word, out, given))[0]:
        return resumed(out, given, world)
    return started(word, out, given, world)


def run_folder(word: str | None, out: Path | None) -> Path:
    """The folder of the run to go on with: --out, else the word, else the newest."""
    folder = out or (Path(word) if word else newest_run())
    if (folder / "config.toml").is_file():
        return folder
    if out is None and word is not None and not folder.is_dir():
        raise InputError(f"say which run is to go on: lookleft train {word} --resume --out FOLDER")
    raise FileError(f"{folder}: there is no run to go on with; to begin one, leave out --resume")


def tell_differences(word: str, run: Run, given: dict[str, str]) -> None:
    """Say which settings of a run differ from the config named beside it: the run keeps its own."""
    from lookleft.train.keys import all_keys, changed_keys
    from lookleft.train.settings_file import read_settings

    asked = read_settings(config_file(word), given).as_begun(run.settings)
    differing = changed_keys(asked, run.settings, [key.path for key in all_keys()])
    if differing:
        say(
            f"{word} says otherwise about {', '.join(differing)}: the run keeps its own settings; "
            f"to change one, give it by name, as in --train.steps 9000"
        )


def is_begun(word: str | None, out: Path, given: dict[str, str]) -> bool:
    """True if torchrun started this process and the folder holds the very run that is asked for."""
    from lookleft.train.settings_file import read_settings
    from lookleft.train.world import is_under_torchrun

    if not is_under_torchrun() or not (out / "config.toml").exists():
        return False
    begun = read_settings(out / "config.toml")
    return read_settings(config_file(word), given).as_begun(begun) == begun


def config_file(word: str | None) -> Path | None:
    """The file that the first word names, or the recipe."""
    from lookleft.cli.recipes import find_config

    return None if word is None else find_config(word)


def started(word: str | None, out: Path | None, given: dict[str, str], world: World) -> Run:
    """A new run, announced."""
    import torch

    from lookleft.train.run import Run
    from lookleft.train.settings_file import read_settings

    file = config_file(word)
    settings = read_settings(file, given)
    run = Run.start(out or Path("runs") / name_of(file, settings.task), settings, world, say)
    say(
        f"run   {run.folder}   seed {settings.train.seed}   {run.model.n_parameters:,} parameters"
        f"   {run.model.device}, {torch.get_num_threads()} threads   torch {torch.__version__}"
        f"\nlog   {run.folder / 'train.log'} · metrics.jsonl      stop safely with Ctrl-C"
    )
    return run


def name_of(file: Path | None, task: str) -> str:
    """What a run is called if nobody says: after its config, or the folder `init` put that in."""
    from lookleft.cli.recipes import CONFIG

    name = task if file is None else file.stem
    if file is not None and file.name == CONFIG:
        name = file.absolute().parent.name
    return f"{name}-{time.strftime('%m%d-%H%M%S')}"


def resumed(folder: Path, given: dict[str, str], world: World) -> Run:
    """A run taken up again, announced."""
    from lookleft.train.checkpoint import find_checkpoints, step_of
    from lookleft.train.report import clock
    from lookleft.train.run import Run

    run = Run.resume(folder, given, world)
    train, progress = run.settings.train, run.progress
    asked = f" of {run.n_steps:,}" if progress.step <= run.n_steps else ""
    where = f"at step {progress.step:,}{asked} (epoch {progress.position['epoch']})"
    words = [f"resuming {folder} {where}"]
    newest = find_checkpoints(folder / "checkpoints")[:1]
    if newest and step_of(newest[0]) > progress.step:
        words.append(f"{newest[0].name} is not whole")
    if 0 < progress.step < run.n_steps:
        pace = progress.seconds / train.objective.n_passes(0, progress.step)
        left = clock(pace * train.objective.n_passes(progress.step, run.n_steps))
        words.append(f"{left} left at the pace so far")
    if train.patience:
        words.append(f"patience {progress.n_without_gain}/{train.patience}")
    if progress.best is not None:
        words.append(f"best dev {train.choose} {progress.best:.4g}")
    words += other_threads(folder)
    n_before = progress.position["n_processes"]
    if run.reordered:
        words.append(f"another order of data than before: {', '.join(run.reordered)} changed")
    elif n_before == world.size or not progress.step:
        words.append("same order of data as an uninterrupted run")
    else:
        words.append(
            f"what is left of the data is shared by {world.size}, not {n_before} processes"
        )
    say(" · ".join(words))
    return run


def other_threads(folder: Path) -> list[str]:
    """A remark, if the last sitting of a run had another number of threads."""
    import torch

    from lookleft.train.report import read_if_there

    now, before = torch.get_num_threads(), read_if_there(folder / "run.json").get("threads")
    if before in (None, now):
        return []
    return [f"{now} threads, {before} before: sums are rounded otherwise (--threads {before})"]


def way_on(run: Run, threads: int | None) -> str:
    """The command that goes on with a run, in a sitting like this one."""
    words = ["lookleft", "train", "--resume", "--out", str(run.folder)]
    words += [] if threads is None else ["--threads", str(threads)]
    command = shlex.join(words)
    return f"torchrun, as before, -m {command}" if run.world.size > 1 else command


def newest_run() -> Path:
    """The run that was worked on last."""
    runs = [file.parent for file in Path("runs").glob("*/config.toml")]
    if not runs:
        raise FileError("runs: there is no run to resume here; say which with --out FOLDER")

    def last_change(run: Path) -> float:
        files = (run / "config.toml", run / "train.log")
        return max(file.stat().st_mtime for file in files if file.exists())

    return max(runs, key=last_change)
