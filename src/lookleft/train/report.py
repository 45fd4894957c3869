"""report.html: what a run did, as one file that works offline, made from the run folder alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from lookleft import __version__
from lookleft.files import read_json, write_atomically
from lookleft.pages.charts import Curve, draw_chart
from lookleft.pages.fill import fill_page
from lookleft.train.judge import Sample
from lookleft.train.samples import read_samples
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings
from lookleft.train.track import read_metrics

NAME = "report.html"
PEEKS = "model.mask = 'none': this model peeks at the future. Its loss means nothing."
_SHOWN_HASH = 16
_FIGURES = {  # name of a figure -> what people call it, digits behind the point
    "loss": ("loss", 3),
    "dev_loss": ("dev loss", 3),
    "chrf": ("chrF++", 2),
    "bleu": ("BLEU", 2),
    "bits_per_byte": ("bits per byte", 3),
}
Row = Mapping[str, Any]


def write_report(folder: Path) -> Path:
    """Write the report of a run folder, whole or not at all; get its path."""
    path = folder / NAME
    write_atomically(path, to_html(folder).encode("utf-8"))
    return path


def to_html(folder: Path) -> str:
    """The report as text, from the files of the run folder."""
    settings = read_settings(folder / "config.toml")
    rows = read_metrics(folder)
    scores, facts = read_if_there(folder / "scores.json"), read_if_there(folder / "run.json")
    last = rows[-1] if rows else {"step": 0}
    evaluations = [row for row in rows if "dev_loss" in row]
    is_peeking = settings.model.mask == "none"
    parts = {
        "title": escape(f"{folder.resolve().name}: step {last['step']:,}"),
        "name": escape(folder.resolve().name),
        "headline": escape(_headline(settings, facts)),
        "warning": f'<p class="warning">{escape(PEEKS)}</p>' if is_peeking else "",
        "numbers": _numbers(last, total_steps(settings, facts), scores),
        "signature": _signature(scores),
        "charts": "".join(_charts(rows)),
        "samples": _samples(read_samples(folder), settings.data.languages),
        "evaluations": _evaluations(evaluations),
        "timing": _timing(rows, facts),
        "data": _data(folder),
        "audit": _audit(read_if_there(folder / "audit.json")),
        "config": escape((folder / "config.toml").read_text(encoding="utf-8")),
        "version": escape(__version__),
        "step": f"{last['step']:,}",
    }
    return fill_page(Path(__file__).with_name(NAME), parts)


def sittings(rows: Sequence[Row]) -> list[Row]:
    """The last row of each sitting; its clock counts from where it began."""
    return list({row.get("since", 0): row for row in rows}.values())


def total_steps(settings: RunSettings, facts: Row) -> int:
    """How many steps the run has: train.minutes may have left fewer than were asked for."""
    asked = settings.train.steps
    return asked if settings.train.minutes is None else min(asked, int(facts.get("steps", asked)))


def read_if_there(path: Path) -> dict[str, Any]:
    """The object in a JSON file of the run folder; nothing if there is no such file yet."""
    return read_json(path, max_bytes=10_000_000, max_depth=50) if path.exists() else {}


def _headline(settings: RunSettings, facts: Row) -> str:
    source, target = settings.data.languages
    what = {
        "translate": f"translation {source or 'source'} to {target or 'target'}",
        "lm": "language model",
    }.get(settings.task, "masked-token model")
    size = f" · {facts['parameters']:,} parameters" if "parameters" in facts else ""
    return f"{what}{size} · seed {settings.train.seed}"


def _numbers(last: Row, n_steps: int, scores: Row) -> str:
    shown = [(f"of {n_steps:,} steps", f"{last['step']:,}")]
    shown += [
        (name, f"{scores[key]:.{digits}f}")
        for key, (name, digits) in _FIGURES.items()
        if key in scores and key != "loss"
    ]
    return "".join(f"<li><b>{value}</b><span>{escape(name)}</span></li>" for name, value in shown)


def _signature(scores: Row) -> str:
    if not scores.get("signature"):
        return ""
    n_averaged, at = scores.get("n_averaged"), f"at step {scores['step']:,}"
    which = f"the mean of the last {n_averaged} checkpoints" if n_averaged else "the best so far"
    return (
        f"<p>Scores of {which}, {at}: the dev set, greedy, counted "
        f"by sacreBLEU: <code>{escape(scores['signature'])}</code></p>"
    )


def _charts(rows: Sequence[Row]) -> list[str]:
    def curve(name: str, key: str) -> Curve:
        return Curve(name, [(row["step"], row[key]) for row in rows if key in row])

    speeds = [
        (two["step"], (two["tokens"] - one["tokens"]) / (two["seconds"] - one["seconds"]))
        for one, two in pairwise(rows)
        if two["seconds"] > one["seconds"] and two.get("since") == one.get("since")
    ]
    return [
        draw_chart("Loss", [curve("training", "loss"), curve("dev", "dev_loss")]),
        draw_chart("Quality on dev", [curve("chrF++", "chrf"), curve("BLEU", "bleu")]),
        draw_chart("Bits per byte on dev", [curve("bits per byte", "bits_per_byte")]),
        draw_chart("Learning rate", [curve("rate", "lr")]),
        draw_chart("Speed, evaluations included", [Curve("targets per second", speeds)]),
    ]


def _samples(
    by_step: Mapping[int, Sequence[Sample]], languages: tuple[str | None, str | None]
) -> str:
    if not by_step:
        return ""
    source, target = languages
    newest = max(by_step)
    shown = [
        '<div class="sample"><dl>'
        + _told("source", sample.source, source)
        + (_told("reference", sample.reference, target) if sample.reference else "")
        + "".join(
            _told(f"step {step:,}", earlier.output, target)
            for step, samples in sorted(by_step.items())[-4:]
            for earlier in samples[number : number + 1]
        )
        + "</dl></div>"
        for number, sample in enumerate(by_step[newest])
    ]
    return f"<h2>Samples</h2>{''.join(shown)}"


def _told(name: str, text: str, language: str | None) -> str:
    lang = f' lang="{escape(language, quote=True)}"' if language else ""
    return f'<dt>{name}</dt><dd{lang} dir="auto">{escape(text)}</dd>'


def _evaluations(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    columns = [key for key in _FIGURES if any(key in row for row in rows)]
    heads = "".join(f'<th scope="col">{_FIGURES[key][0]}</th>' for key in columns)
    lines = []
    for row in rows:
        cells = "".join(
            f"<td>{f'{row[key]:.{_FIGURES[key][1]}f}' if key in row else '–'}</td>"
            for key in columns
        )
        best = ' class="best"' if row.get("is_best") else ""
        mean = f", mean of {row['n_averaged']}" if "n_averaged" in row else ""
        lines.append(f'<tr{best}><th scope="row">{row["step"]:,}{mean}</th>{cells}</tr>')
    return (
        '<h2>Evaluations</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="evaluations"><table><thead><tr><th scope="col">step</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
        "<p>In green: better than all before.</p>"
    )


def _timing(rows: Sequence[Row], facts: Row) -> str:
    ends = sittings(rows)
    seconds, tokens = sum(row["seconds"] for row in ends), sum(row["tokens"] for row in ends)
    shown = {
        "time": f"{clock(seconds)} in {len(ends)} sitting{'s' if len(ends) != 1 else ''}",
        "targets": f"{tokens:,}, {tokens / max(seconds, 1e-9):,.0f} a second",
        "machine": ", ".join(
            f"{name} {facts[name]}" for name in ("device", "threads", "torch") if name in facts
        ),
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in shown.items())


def clock(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _data(folder: Path) -> str:
    marks = read_if_there(folder / "data.json")
    return "".join(
        f"<dt>{escape(name)}</dt><dd><code>{_mark(str(mark))}</code></dd>"
        for name, mark in marks.items()
    )


def _mark(mark: str) -> str:
    return f"sha256 {escape(mark[:_SHOWN_HASH])}…" if len(mark) == 64 else escape(mark)


def _audit(report: Row) -> str:
    if not report:
        return ""
    n_checks = len(report.get("checks", ()))
    return (
        f"<h2>Audit of the trained weights</h2><p><b>{escape(str(report.get('verdict')))}</b>, "
        f"{n_checks} checks; all of them in <code>audit.json</code></p>"
    )
