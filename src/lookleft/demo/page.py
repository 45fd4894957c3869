"""report.html of the demo: every chapter with its picture, as one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from lookleft import __version__
from lookleft.bench.scale import Comparison
from lookleft.demo.story import Example, Lanes, Proof, Quality
from lookleft.files import write_atomically
from lookleft.pages.charts import Curve, draw_chart
from lookleft.pages.fill import fill_page

NAME = "report.html"
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Story:
    """All that the demo found out."""

    quality: Quality
    given: tuple[Example, ...]
    lanes: Lanes
    honest: Proof
    cheat: Proof
    cheat_examples: tuple[Example, ...]
    honest_losses: Points
    cheat_losses: Points
    honest_dev_loss: float
    cheat_dev_loss: float
    costs: tuple[Comparison, ...]
    seconds: float


def write_page(story: Story, folder: Path) -> Path:
    """Write the report, whole or not at all; get its path."""
    parts = {
        "exact": f"{story.quality.exact_match:.1%}",
        "chrf": f"{story.quality.chrf:.1f}",
        "bleu": f"{story.quality.bleu:.1f}",
        "n": f"{story.quality.n:,}",
        "signature": escape(story.quality.signature),
        "honest": _verdict(story.honest),
        "cheat": _verdict(story.cheat),
        "honest-loss": f"{story.honest_dev_loss:.3f}",
        "cheat-loss": f"{story.cheat_dev_loss:.3f}",
        "given": _examples(story.given),
        "examples": _examples(story.quality.examples),
        "mistakes": _examples(story.quality.mistakes) or "<p>None among them.</p>",
        "mask": _mask([row.predicted for row in story.lanes.rows[:-1]]),
        "lanes": _lanes(story.lanes),
        "difference": f"{story.lanes.max_difference:.1e}",
        "losses": draw_chart(
            "Training loss",
            [Curve("honest", story.honest_losses), Curve("cheat", story.cheat_losses)],
        ),
        "cheat-examples": _examples(story.cheat_examples),
        "costs": "".join(_cost(comparison) for comparison in story.costs),
        "seconds": f"{story.seconds:.0f}",
        "version": escape(__version__),
    }
    page = fill_page(Path(__file__).with_name(NAME), parts)
    path = folder / NAME
    write_atomically(path, page.encode("utf-8"))
    return path


def _verdict(proof: Proof) -> str:
    kind = {"VERIFIED": "good", "DISPROVED": "bad"}.get(proof.verdict, "open")
    sign = {"good": "✓", "bad": "✗", "open": "?"}[kind]
    where = f" in <code>{escape(proof.module)}</code>" if proof.module else ""
    return (
        f'<p class="verdict {kind}"><b>{sign} {escape(proof.verdict)}</b>{where}, '
        f"{proof.n_checks} checks. {escape(proof.reason)}</p>"
    )


def _examples(examples: Sequence[Example]) -> str:
    if not examples:
        return ""
    rows = []
    for example in examples:
        reference = ""
        if example.reference and not example.is_right:
            reference = f'<dt>should be</dt><dd lang="hi">{escape(example.reference)}</dd>'
        rows.append(
            f'<dl class="pair"><dt>English</dt><dd lang="en">{escape(example.source)}</dd>'
            f'<dt>Hindi</dt><dd lang="hi">{escape(example.output) or "(nothing)"}</dd>'
            f"{reference}</dl>"
        )
    return "".join(rows)


def _mask(words: Sequence[str]) -> str:
    """Who may look at whom, as a table that a screen reader can walk through."""
    heads = "".join(f'<th scope="col" lang="hi">{escape(word)}</th>' for word in words)
    rows = []
    for t, word in enumerate(words):
        cells = "".join(
            '<td class="seen">sees</td>' if s <= t else '<td class="hidden">−∞</td>'
            for s in range(len(words))
        )
        rows.append(f'<tr><th scope="row" lang="hi">{escape(word)}</th>{cells}</tr>')
    return f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _lanes(lanes: Lanes) -> str:
    rows = "".join(
        f'<tr><th scope="row" lang="hi">{escape(row.read)}</th><td lang="hi">'
        f"{escape(row.predicted)}</td><td>{row.training:.6f}</td><td>{row.inference:.6f}</td></tr>"
        for row in lanes.rows
    )
    return (
        '<table><thead><tr><th scope="col">has read</th><th scope="col">must say</th>'
        '<th scope="col">training: one pass</th><th scope="col">inference: step by step</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _cost(comparison: Comparison) -> str:
    unit = comparison.lines[0].unit
    curves = [
        Curve(f"{line.name} (length^{line.exponent:.1f})", line.points)
        for line in comparison.lines
        if line.unit == unit
    ]
    title = {"training": "Training one text: seconds", "generation": "One more token: seconds"}
    return draw_chart(title[comparison.job], curves, "length", is_log=True)
