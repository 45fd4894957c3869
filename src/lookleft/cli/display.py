"""How a run is shown: a table with one live line on a terminal, plain lines or JSON elsewhere."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from lookleft.train.report import clock

if TYPE_CHECKING:
    from lookleft.train.event import Event
    from lookleft.train.judge import Sample
    from lookleft.train.run import Run

BAR_WIDTH = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"
Column = tuple[str, int, str, str]  # head, width, figure, format
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "translate": (("chrF++", 7, "chrf", ".1f"), ("BLEU", 5, "bleu", ".1f")),
    "lm": (("bits/byte", 9, "bits_per_byte", ".3f"),),
}


class Display(Protocol):
    """Shows a run while it goes on; a context, so that a live line is taken away at the end."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, event: Event, samples: Sequence[Sample]) -> None:
        """Show a logged step or an evaluation; samples are those of an evaluation."""


def make_display(run: Run, *, as_json: bool, is_plain: bool) -> Display:
    """The display that fits where the output goes."""
    if as_json:
        return JsonDisplay()
    if is_plain or not sys.stdout.isatty():
        return PlainDisplay(run)
    return TableDisplay(run)


class JsonDisplay:
    """One JSON object per event."""

    def __enter__(self) -> JsonDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held back."""

    def show(self, event: Event, samples: Sequence[Sample]) -> None:
        print(json.dumps({"step": event.step, **event.figures}), flush=True)


class PlainDisplay:
    """One line per event, the same in a log file and in a pipe."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held back."""

    def show(self, event: Event, samples: Sequence[Sample]) -> None:
        print(plain_line(self._run, event), flush=True)


class TableDisplay:
    """One row per evaluation with a sample below it, and one live line for what goes on."""

    def __init__(self, run: Run) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._run = run
        self._columns = _COLUMNS.get(run.settings.task, ())
        self._last: Event | None = None
        self._begun = time.perf_counter()
        self._console = Console(highlight=False)
        # Drawn by a thread of its own, twice a second: the loop never waits for the screen.
        self._live = Live(
            console=self._console,
            get_renderable=lambda: Text(self._line(), no_wrap=True, overflow="ellipsis"),
            refresh_per_second=2,
            transient=True,
        )

    def __enter__(self) -> TableDisplay:
        for line in table_head(self._columns):
            self._console.print(line, markup=False)
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, event: Event, samples: Sequence[Sample]) -> None:
        self._last = event
        if event.dev_loss is None:
            return
        self._console.print(table_row(event, self._columns), markup=False)
        for sample in samples[:1]:
            for line in sample_lines(sample, self._run.settings.data.languages):
                self._console.print(line, markup=False)

    def _line(self) -> str:
        seconds = time.perf_counter() - self._begun
        return live_line(self._run, self._last, seconds=seconds)


def plain_line(run: Run, event: Event) -> str:
    """An event as a time and key=value words."""
    train = run.settings.train
    words: dict[str, str] = {"step": str(event.step), "loss": f"{event.loss:.4f}"}
    words["lr"] = f"{event.lr:.2e}"
    if event.n_averaged is not None:
        words["mean_of"] = str(event.n_averaged)
    if event.dev_loss is not None:
        words |= {"dev_loss": f"{event.dev_loss:.4f}", "ppl": f"{perplexity(event.dev_loss):.2f}"}
        for key, digits in (("chrf", 2), ("bleu", 2), ("bits_per_byte", 4)):
            value = getattr(event, key)
            if value is not None:
                words[key] = f"{value:.{digits}f}"
    words["tok_s"] = f"{speed(event):.0f}"
    words["left"] = clock(seconds_left(run, event.step, event.seconds))
    if event.n_without_gain is not None:
        words["best"] = str(int(bool(event.is_best)))
        if train.patience:
            words["patience"] = f"{event.n_without_gain}/{train.patience}"
        if not event.is_best and event.best is not None:
            words["must_beat"] = f"{event.best:.4f}"
    said = " ".join(f"{key}={value}" for key, value in words.items())
    return f"{time.strftime('%H:%M:%S')} train {said}"


def table_head(columns: Sequence[Column]) -> list[str]:
    """The two lines above the rows."""
    heads = [("step", 7), ("epoch", 6), ("loss", 6), ("dev loss", 9), ("dev ppl", 8)]
    heads += [(name, width) for name, width, _, _ in columns]
    heads += [("tok/s", 7), ("elapsed", 8)]
    return [
        "  ".join(name.rjust(width) for name, width in heads),
        "  ".join("─" * width for _, width in heads),
    ]


def table_row(event: Event, columns: Sequence[Column]) -> str:
    """One evaluation under `table_head`."""
    assert event.dev_loss is not None, "rows are for evaluations"
    cells = [f"{event.step:>7,}", f"{event.epoch:>6}", f"{event.loss:>6.3f}"]
    cells += [f"{event.dev_loss:>9.3f}", f"{perplexity(event.dev_loss):>8.1f}"]
    for _, width, key, form in columns:
        value = getattr(event, key)
        cells.append(("–" if value is None else format(value, form)).rjust(width))
    cells += [f"{speed(event):>7,.0f}", f"{clock(event.seconds):>8}"]
    if event.n_averaged is not None:
        return "  ".join(cells) + f"  mean of {event.n_averaged} checkpoints ✓ saved"
    return "  ".join(cells) + ("  best ✓ saved" if event.is_best else "")


def sample_lines(sample: Sample, languages: tuple[str | None, str | None]) -> list[str]:
    """A sample below a row; the text comes last, since terminals disagree how wide Hindi is."""
    told = [(languages[0] or "src", sample.source), ("ref", sample.reference)]
    told.append(("out", sample.output))
    return [f"         {name:<4} {text}" for name, text in told if text]


def live_line(run: Run, last: Event | None, *, seconds: float) -> str:
    """Where the run is now: step, loss, rate, time left, patience and the value to beat.

    So many seconds have passed in this sitting.
    """
    train, step = run.settings.train, run.progress.step
    words = [f"{step:,}/{run.n_steps:,}"]
    if last is not None:
        words += [f"loss {last.loss:.2f}", f"lr {last.lr:.1e}", f"{speed(last) / 1000:.1f}k tok/s"]
        words.append(f"{clock(seconds_left(run, step, seconds))} left")
    if run.progress.best is not None:
        beat = f"must beat {run.progress.best:.2f}"
        waited = f"no gain {run.progress.n_without_gain}/{train.patience}, "
        words.append(waited + beat if train.patience else beat)
    return f" ▕{bar(step / run.n_steps)}▏ {' · '.join(words)}"


def bar(share: float) -> str:
    """A bar of `BAR_WIDTH` cells, filled to an eighth of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * BAR_WIDTH * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH)


def seconds_left(run: Run, step: int, seconds: float) -> float:
    """Until the last step, if this sitting took so many seconds to this one.

    At its own pace: the seconds of other sittings are not its own. Until it is decided how many
    steps fit into train.minutes these are the most that it can take.
    """
    train = run.settings.train
    n_done = max(train.objective.n_passes(run.first_step, step), 1)
    at_pace = seconds / n_done * train.objective.n_passes(step, run.n_steps)
    if train.minutes is None or run.fit is not None:
        return at_pace
    return min(at_pace, max(60 * train.minutes - run.progress.seconds, 0.0))


def speed(event: Event) -> float:
    """Targets per second in this sitting, evaluations included."""
    return event.tokens / max(event.seconds, 1e-9)


def perplexity(loss: float) -> float:
    """e to the loss; a loss beyond what floats can hold gives infinity."""
    return math.exp(loss) if loss < 700 else math.inf
