"""`lookleft train`: text in, a trained model out, shown while it happens."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lookleft.cli.begin import open_run, way_on
from lookleft.cli.talk import drop_output, say, use_threads
from lookleft.cli.words import given_settings
from lookleft.errors import FileError, InputError
from lookleft.files import append_line

if TYPE_CHECKING:
    from lookleft.train.run import Run

PEEKS = (
    "WARNING  model.mask = 'none': this model PEEKS at the future. Its loss will look wonderful "
    "and mean nothing"
)


def train(
    *config: Annotated[str, Parameter(allow_leading_hyphen=True)],
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    threads: int | None = None,
    seed: int | None = None,
    plain: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Train a translator, a language model or a masked-token model.

    Without CONFIG the settings are the defaults: the built-in English-Hindi grammar. Every
    setting can be given on the command line: --train.lr 3e-4, --data.train pairs.tsv. Ctrl-C
    finishes the step, saves, and says how to go on.

    All settings with their meaning: lookleft config keys

    Examples:
      lookleft train --out runs/en-hi
      lookleft train multi30k-en-de --data.dir ../multi30k
      lookleft train my.toml --out runs/mine --data.train pairs.tsv.gz --train.steps 2000
      lookleft train --resume --out runs/mine

    Parameters
    ----------
    config
        A TOML file or a recipe, then settings as --section.name value; what is left out has its
        default.
    out
        The folder of the run. Default: runs/, the config's name and the time; with --resume the
        newest run below runs/.
    resume
        Go on from the newest sound checkpoint, exactly as if the run had not stopped.
    device
        Where to compute: auto, cpu, cuda or mps.
    threads
        How many CPU threads to use.
    seed
        Of all chance in the run.
    plain
        Plain lines on a terminal too.
    quiet
        Print nothing but errors; train.log has what happens.
    json_
        Print one JSON object per event instead of a table.
    """
    if quiet and json_:
        raise InputError("--quiet prints nothing, --json prints everything: give one of them")
    use_threads(threads)
    word, given = given_settings(config, train, device=device, seed=seed)
    from lookleft.nn.fused import are_kernels_compiled
    from lookleft.train.device import remark_on
    from lookleft.train.world import join_world

    with join_world() as world, silence(quiet or not world.is_main):
        run = open_run(word, out, given, world, is_resume=resume)
        if run.settings.model.mask == "none":
            say(PEEKS)
        remark = remark_on(run.settings.train.precision, run.model.device)
        if remark:
            say(remark)
        if run.is_finished:
            if not run.has_result:
                equip(run)
                run.end_here()
            if world.is_main and not is_concluded(run.folder):
                conclude(run)  # it was cut short after its last step
            say(nothing_left(run))
            if json_:
                print(json.dumps(result(run)))
            return
        if run.model.device.type == "cpu" and not are_kernels_compiled():
            say("compiling the kernels of training, once for this machine: some 10 seconds")
        further = f"continue with:  {way_on(run, threads)}"
        with finish_step_on_interrupt() as asked:
            if world.is_main:
                carry_out(run, asked, further, as_json=json_, is_plain=plain)
            else:
                for _ in run.train(lambda: bool(asked)):
                    pass  # what there is to tell, process 0 tells
        if json_:
            print(json.dumps(result(run)))
        if not run.is_finished:
            say(f"{stopped(run)}\n{further}")
            sys.exit(130)


def result(run: Run) -> dict[str, object]:
    """The last object of --json: how far the run is, and where its files are."""
    found: dict[str, object] = {"step": run.progress.step, "is_finished": run.is_finished}
    found["run"] = str(run.folder)
    if run.is_finished:
        found["model"] = str(run.folder / "model")
    return found


def carry_out(run: Run, asked: list[int], further: str, *, as_json: bool, is_plain: bool) -> None:
    """Train, and write down what was typed, what happened and what came out.

    `further` says how to go on, should the run be cut short.
    """
    from lookleft.train.diverged import DivergedError

    note_command(run.folder)
    try:
        follow(run, asked, as_json=as_json, is_plain=is_plain)
    except DivergedError:  # knows a better way on
        note_traceback(run.folder)
        raise
    except (Exception, KeyboardInterrupt):
        note_traceback(run.folder)
        say(f"{cut_short(run)}; {further}")
        raise
    if run.is_finished:
        conclude(run)


def conclude(run: Run) -> None:
    """Audit what came out, write card and report, and say where they are."""
    from lookleft.cli.finish import finish

    for line in finish(run):
        tell(run.folder, line)


def is_concluded(folder: Path) -> bool:
    """Whether the card is there, and about this model: a run may go on after its end."""
    card, weights = folder / "model" / "README.md", folder / "model" / "model.safetensors"
    return card.exists() and card.stat().st_mtime_ns >= weights.stat().st_mtime_ns


def follow(run: Run, asked: list[int], *, as_json: bool, is_plain: bool) -> None:
    """Train, show and log what happens."""
    from lookleft.cli.display import make_display, plain_line
    from lookleft.train.samples import samples_of

    equip(run, lambda: bool(asked))
    told: dict[str, str] = {}
    epoch = -1
    with make_display(run, as_json=as_json, is_plain=is_plain) as display:
        for event in run.train(lambda: bool(asked)):
            if event.epoch > epoch:  # not each time: much may be left out of a large corpus
                epoch = event.epoch
                tell_left_out(run, told)
            if event.steps_that_fit is not None and run.fit is not None:
                tell(run.folder, run.fit.in_words(event.step))
            try:
                display.show(event, samples_of(run.folder, event.step))
            except BrokenPipeError:  # whoever read has gone; the run goes on, train.log has it all
                drop_output()
            log(run.folder, plain_line(run, event), has_time=True)
    tell_left_out(run, told)


def equip(run: Run, is_stop_asked: Callable[[], bool] = lambda: False) -> None:
    """Give a run what looks at its models: training itself cannot decode."""
    from lookleft.evaluate.judge import make_judge
    from lookleft.evaluate.tune import make_tuner

    run.results.judge = make_judge(run.settings)

    def say(line: str) -> None:
        tell(run.folder, line)

    run.results.tuner = make_tuner(run.settings, say, is_stop_asked)


def tell_left_out(run: Run, told: dict[str, str]) -> None:
    """Say which lines were left out of the data, and note it in `told`; what is no news is not."""
    from lookleft.data.corpus import TOO_MANY

    for what, read in (("training text", run.read), ("dev set", run.results.read)):
        if read.left_out and told.get(what) != str(read):
            told[what] = str(read)
            hint = "    (--data.max-tokens, --train.tokens)" if TOO_MANY in read.left_out else ""
            tell(run.folder, f"left out of the {what} up to line {read.last_line:,}: {read}{hint}")


def stopped(run: Run) -> str:
    """What to say when the run was interrupted."""
    return (
        f"saved {run.folder / 'checkpoints'} at step {run.progress.step:,} (weights, optimiser, "
        f"data position, random state)"
    )


def cut_short(run: Run) -> str:
    """What is left of a run that ended in the middle of a step."""
    from lookleft.train.checkpoint import newest_sound, step_of

    found = newest_sound(run.folder / "checkpoints")
    saved = "nothing was saved yet" if found is None else f"saved up to step {step_of(found):,}"
    return f"stopped at step {run.progress.step:,}, {saved}"


def nothing_left(run: Run) -> str:
    """What to say when a run that has ended is taken up again."""
    train, step = run.settings.train, run.progress.step
    is_early, fit = step < run.n_steps, run.fit
    more = f"--train.steps {2 * max(train.steps, step)}"
    if fit is not None and fit.n_fit < train.steps:
        more = f"--train.minutes {2 * fit.minutes:g}"
    more += " --train.patience 0" if is_early else ""
    return (
        f"nothing to do: this run finished at step {step:,}{' (early stop)' if is_early else ''}. "
        f"To go on anyway: {more}"
    )


def tell(folder: Path, line: str) -> None:
    """Say a line, and put it into train.log."""
    say(line)
    log(folder, line)


def log(folder: Path, text: str, *, has_time: bool = False) -> None:
    """Put a line into train.log."""
    stamp = "" if has_time else f"{time.strftime('%H:%M:%S')} "
    append_line(folder / "train.log", f"{stamp}{text.rstrip()}")


def note_traceback(folder: Path) -> None:
    """Put the error that is being handled into train.log."""
    with suppress(FileError):  # of a full disk, which may be what went wrong
        log(folder, traceback.format_exc())


def note_command(folder: Path) -> None:
    """Keep what was typed, in command.txt and in the log."""
    typed = shlex.join(["lookleft", *sys.argv[1:]])
    append_line(folder / "command.txt", typed)
    log(folder, f"{time.strftime('%Y-%m-%d')} $ {typed}")


@contextmanager
def finish_step_on_interrupt() -> Iterator[list[int]]:
    """Inside, the first Ctrl-C only adds to the list it gives; a second one stops at once.

    So does SIGTERM, which is what schedulers and torchrun send.
    """
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        asked.append(number)
        print("\nfinishing this step, then saving ... (again: stop at once)", file=sys.stderr)
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def silence(is_wanted: bool) -> Iterator[None]:
    """Inside, nothing is printed if that is wanted; errors are told by whoever catches them."""
    if not is_wanted:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
