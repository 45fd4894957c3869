"""`lookleft train`: text in, a trained model out, shown while it happens."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.train.run import Event, Run


def train(
    *config: Annotated[str, Parameter(allow_leading_hyphen=True)],
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Train a translator or a language model.

    Without CONFIG the settings are the defaults: the built-in English-Hindi grammar. Every
    setting can be given on the command line: --train.lr 3e-4, --data.train pairs.tsv. Ctrl-C
    finishes the step, saves, and says how to go on.

    Examples:
      lookleft train --out runs/en-hi
      lookleft train my.toml --out runs/mine --data.train pairs.tsv.gz --train.steps 2000
      lookleft train --resume --out runs/mine

    Parameters
    ----------
    config
        A TOML file, then settings as --section.name value; what is left out has its default.
    out
        The folder of the run. Default: runs/ and the time; with --resume the newest run.
    resume
        Go on from the newest sound checkpoint, exactly as if the run had not stopped.
    json_
        Print one JSON object per event instead of a table.
    """
    from lookleft.train.run import Run
    from lookleft.train.settings import read_settings

    file, given = parse_words(config)
    if resume:
        run = Run.resume(out or newest_run(), given)
        print(f"resuming {run.folder} at step {run.progress.step:,}", file=sys.stderr)
    else:
        settings = read_settings(file, given)
        run = Run.start(out or Path("runs") / time.strftime("%Y-%m-%d-%H%M%S"), settings)
        print(f"run      {run.folder}   {run.model.n_parameters:,} parameters", file=sys.stderr)
    if run.settings.model.mask == "none":
        print(
            "WARNING  model.mask = 'none': this model PEEKS at the future. Its loss will look "
            "wonderful and mean nothing",
            file=sys.stderr,
        )
    if run.is_finished:
        print(f"nothing to do: this run ended at step {run.progress.step:,}", file=sys.stderr)
        return
    show = print_json if json_ else print_row
    with finish_step_on_interrupt() as asked:
        for event in run.train(lambda: bool(asked)):
            show(run, event)
    if not run.is_finished:
        print(
            f"stopped at step {run.progress.step:,} and saved. Go on with:\n"
            f"  lookleft train --resume --out {run.folder}",
            file=sys.stderr,
        )
        sys.exit(130)
    print(f"model    {run.folder / 'model'}", file=sys.stderr)


@contextmanager
def finish_step_on_interrupt() -> Iterator[list[int]]:
    """Inside, the first Ctrl-C only adds to the list it gives; a second one stops at once."""
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        asked.append(number)
        print("\nfinishing this step ...", file=sys.stderr)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def parse_words(words: tuple[str, ...]) -> tuple[Path | None, dict[str, str]]:
    """["my.toml", "--train.lr", "3e-4", "--data.dev=x.tsv"] -> my.toml and two settings."""
    rest = list(words)
    file = Path(rest.pop(0)) if rest and not rest[0].startswith("--") else None
    found: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise InputError(f"{word!r} is no setting; settings look like --train.lr 3e-4")
        if not equals:
            if not rest:
                raise InputError(f"--{name} needs a value")
            value = rest.pop(0)
        found[name] = value
    return file, found


def newest_run() -> Path:
    """The run that was changed last."""
    runs = sorted(Path("runs").glob("*/config.toml"), key=lambda f: f.stat().st_mtime)
    if not runs:
        raise FileError("runs: there is no run to resume here; say which with --out FOLDER")
    return runs[-1].parent


def print_row(run: Run, event: Event) -> None:
    """One plain line, the same on a terminal and in a log file."""
    train = run.settings.train
    done = max(event.step - run.first_step, 1)  # in this sitting: its seconds are no other's
    left = event.seconds / done * (train.steps - event.step)
    line = (
        f"step {event.step:>6,}/{train.steps:,}   loss {event.loss:6.3f}   lr {event.lr:.1e}   "
        f"{event.tokens / max(event.seconds, 1e-9):7,.0f} tok/s   {left / 60:5.1f} min left"
    )
    if event.dev_loss is not None:
        line += f"   dev loss {event.dev_loss:.3f}"
        line += "  best" if event.is_best else f"  must beat {event.best_loss:.3f}"
        if train.patience and not event.is_best:
            line += f", no gain {event.n_without_gain}/{train.patience}"
    print(line, flush=True)


def print_json(run: Run, event: Event) -> None:
    """The event as one line of JSON."""
    print(json.dumps(vars(event)), flush=True)
