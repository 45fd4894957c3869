"""A report as text for a terminal and as JSON; how every form of it writes numbers and maps."""

from __future__ import annotations

import json
import math
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lookleft.audit.verdict import Culprit, DependencyMap, Finding, Report, Verdict
from lookleft.files import write_atomically

SCHEMA = 1  # of the JSON form; raised when a key changes its meaning
MEANINGS = {
    Verdict.DISPROVED: "a counterexample is in hand: the rule is broken, here and now.",
    Verdict.VERIFIED: "no violation in the probes listed here, for these weights, lengths and "
    "seeds, and the probes were able to find one. It is evidence, not a proof for all inputs. "
    "A leak weaker than the detection limit can have been missed; where no limit is shown, none "
    "was measured.",
    Verdict.INCONCLUSIVE: "the probe had no power, or noise drowned it. It is not a pass.",
    Verdict.SKIPPED: "does not apply to this model, or could not be asked. It was not examined.",
}
_MAX_CELLS = 72  # columns of a map on an 80-column terminal
_WIDTH = 96  # where sentences wrap
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Cell(StrEnum):
    """What one output does with one input, as the letter of the terminal map."""

    LEAK = "#"  # forbidden and used
    USED = "o"  # allowed and used
    UNUSED = "."  # allowed, not used
    HIDDEN = " "  # forbidden, not used


_LOUDEST_FIRST = (Cell.LEAK, Cell.USED, Cell.UNUSED, Cell.HIDDEN)


def clean(text: str) -> str:
    """The text without characters that a terminal would obey or that XML forbids."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def number(value: float | None) -> str:
    """A change in few letters: `-` for none, `0` only for exactly zero."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.3g}"


def pair(finding: Finding) -> str:
    """The worst pair as `output<-input`."""
    return f"{finding.pair[0]}<-{finding.pair[1]}" if finding.pair else "-"


def cells(dependencies: DependencyMap, limit: int) -> tuple[list[list[Cell]], int]:
    """The map in at most `limit` rows and columns, and how many positions one cell covers.

    A cell over several positions shows the loudest of them, so a single leaking pair stays visible.
    """
    rows = [
        [_cell(use, may) for use, may in zip(used, allowed, strict=True)]
        for used, allowed in zip(dependencies.used, dependencies.allowed, strict=True)
    ]
    longest = max(len(rows), max(map(len, rows), default=0))
    step = max(1, math.ceil(longest / limit))
    blocks = (rows[top : top + step] for top in range(0, len(rows), step))
    return [_loudest(block, step) for block in blocks], step


def _cell(use: float, may: bool) -> Cell:
    if use != 0:  # NaN counts as used
        return Cell.USED if may else Cell.LEAK
    return Cell.UNUSED if may else Cell.HIDDEN


def _loudest(block: Sequence[Sequence[Cell]], step: int) -> list[Cell]:
    width = max(map(len, block))
    seen = ({c for row in block for c in row[left : left + step]} for left in range(0, width, step))
    return [next(cell for cell in _LOUDEST_FIRST if cell in found) for found in seen]


def groups(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that tell the same story (same check, same place, same cause), side by side."""
    stories: dict[tuple[str, str | None, str | None], list[Finding]] = {}
    for finding in findings:
        stories.setdefault((finding.check, finding.module, finding.cause), []).append(finding)
    return list(stories.values())


def headline(report: Report) -> str:
    """How many checks ended how, as one line."""
    counts = [
        f"{sum(f.verdict is verdict for f in report.findings)} {verdict.lower()}"
        for verdict in Verdict
        if any(f.verdict is verdict for f in report.findings)
    ]
    spent = f"{report.seconds:.1f} s" + (f", {report.forwards:,} forwards" * bool(report.forwards))
    return f"{', '.join(counts) or 'nothing was examined'}   ({spent})"


def to_text(report: Report) -> str:
    """The report for a terminal: table, then every violation with its evidence, then the words."""
    shown: set[str] = set()
    parts = [
        f"{report.verdict}  {report.target}\n{headline(report)}",
        _table(report.findings),
        *("\n".join(_story(group, shown)) for group in groups(report.violations)),
        _reasons(report.findings),
        "\n".join(_wrap("note: ", note) for note in report.notes),
        _words(report),
    ]
    return clean("\n\n".join(part for part in parts if part)) + "\n"


def _table(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    head = ("check", "configuration", "verdict", "worst |d|", "i<-j", "module", "limit")
    rows = [
        (
            f"{f.check} {f.title}",
            f.configuration,
            f.verdict.value,
            number(f.worst),
            pair(f),
            _tail(f.module or "-", 28),
            number(f.detection_limit),
        )
        for f in findings
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))
    return "\n".join(f"  {line}" for line in lines)


def _tail(name: str, width: int) -> str:
    """The end of a long dotted name: it tells more than the beginning."""
    return name if len(name) <= width else ".." + name[2 - width :]


def _story(group: Sequence[Finding], shown: set[str]) -> Iterator[str]:
    """One violation; a map or snippet that stands further up (`shown`) is not repeated."""
    first = group[0]
    yield f"FAILED  {first.check} {first.title}   ({first.configuration})"
    for name, value in facts(group):
        yield _wrap(f"  {name:<14}", value)
    dependencies = next((f.dependencies for f in group if f.dependencies), None)
    picture = "\n".join(_matrix(dependencies)) if dependencies and dependencies.used else None
    if picture and picture not in shown:
        shown.add(picture)
        yield f"\n{picture}"
    snippet = next((f.snippet for f in group if f.snippet), None)
    if snippet and snippet not in shown:
        shown.add(snippet)
        yield "\n  to see it for yourself, run:\n"
        yield textwrap.indent(snippet.strip("\n"), "    ")


def facts(group: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """What is known about one violation, as (label, text)."""
    first = group[0]
    yield "what", first.reason
    if first.culprit:
        yield from _culprit_facts(first.culprit)
    if first.cause:
        yield "looks like", first.cause
    if len(group) > 1:
        yield "also in", "; ".join(finding.configuration for finding in group[1:])


def _culprit_facts(culprit: Culprit) -> Iterator[tuple[str, str]]:
    yield "first module", f"{culprit.module} ({culprit.kind})"
    if culprit.op or culprit.place:
        yield "first call", " at ".join(part for part in (culprit.op, culprit.place) if part)
    others = [name for name in culprit.others if name != culprit.module]
    if others:
        yield "also leaking", ", ".join(others)


def _matrix(dependencies: DependencyMap) -> Iterator[str]:
    grid, step = cells(dependencies, _MAX_CELLS)
    gap = " " if len(grid[0]) * 2 < _MAX_CELLS + 4 else ""
    scale = f", one cell = {step} positions" if step > 1 else ""
    yield f"  output i (down) reads input j (across){scale}"
    yield "  # forbidden, used   o allowed, used   . allowed, unused"
    marks = range(0, len(grid[0]), 5)
    yield "       " + "".join(f"{mark * step:<{5 + 5 * len(gap)}}" for mark in marks).rstrip()
    for index, row in enumerate(grid):
        yield f"  {index * step:>4} {gap.join(row)}".rstrip()


def _reasons(findings: Sequence[Finding]) -> str:
    """What was asked where nothing was found, and why something was not; one line per reason."""
    times: dict[str, int] = {}
    for f in findings:
        if f.verdict is not Verdict.DISPROVED:
            line = f"{f.verdict}  {f.check} {f.title}: {f.reason}"
            times[line] = times.get(line, 0) + 1
    return "\n".join(
        _wrap("", line + (f" (in {n} configurations)" if n > 1 else ""))
        for line, n in times.items()
    )


def _words(report: Report) -> str:
    seen = {finding.verdict for finding in report.findings}
    return "\n".join(_wrap(f"{v}: ", text) for v, text in MEANINGS.items() if v in seen)


def _wrap(label: str, text: str) -> str:
    """The label and the text, wrapped; later lines start under the text or two columns in."""
    hang = " " * (len(label) if label.startswith(" ") else 2)
    return textwrap.fill(
        text, _WIDTH, initial_indent=label, subsequent_indent=hang, break_on_hyphens=False
    )


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain values that are strictly valid JSON: what is not finite becomes null."""
    return {
        "schema": SCHEMA,
        "target": report.target,
        "verdict": report.verdict.value,
        "checks": [_finding_json(finding) for finding in report.findings],
        "seconds": _finite(report.seconds),
        "forwards": report.forwards,
        "notes": list(report.notes),
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "title": finding.title,
        "configuration": finding.configuration,
        "verdict": finding.verdict.value,
        "worst": _finite(finding.worst),
        "worst_text": number(finding.worst),  # keeps nan and inf apart, which JSON cannot
        "pair": list(finding.pair) if finding.pair else None,
        "module": finding.module,
        "detection_limit": _finite(finding.detection_limit),
        "reason": finding.reason,
        "cause": finding.cause,
        "culprit": _culprit_json(finding.culprit) if finding.culprit else None,
        "snippet": finding.snippet,
    }


def _culprit_json(culprit: Culprit) -> dict[str, Any]:
    return {
        "module": culprit.module,
        "kind": culprit.kind,
        "op": culprit.op,
        "place": culprit.place,
        "others": list(culprit.others),
        "depth": [[name, _finite(change)] for name, change in culprit.depth],
    }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def json_text(report: Report) -> str:
    """`to_json` as text, ending in a newline."""
    return json.dumps(to_json(report), indent=2, allow_nan=False) + "\n"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Put the whole text into a file, or leave what was there: no reader ever sees half of it."""
    write_atomically(Path(path), text.encode("utf-8"))
