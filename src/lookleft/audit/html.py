"""A report as one HTML file that works offline: nothing in it is fetched from anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from lookleft.audit.report import (
    MEANINGS,
    Cell,
    cells,
    clean,
    facts,
    groups,
    headline,
    number,
    pair,
)
from lookleft.audit.verdict import Culprit, DependencyMap, Finding, Report, Verdict

_SIGNS = {
    Verdict.DISPROVED: "✗",
    Verdict.VERIFIED: "✓",
    Verdict.INCONCLUSIVE: "?",
    Verdict.SKIPPED: "–",
}
_MAX_CELLS = 160  # beyond this a cell is thinner than two pixels on a narrow screen
_MAX_LINED = 80  # beyond this the lines between cells would hide the cells
_WORST_PAIRS = 20
_SIDE = 10  # a map is drawn in cells of 10 x 10 units
_WIDEST_CELL = 15  # pixels, so that a map of eight positions does not fill the screen
_LEGEND = (
    (Cell.LEAK, "leak", "forbidden, used"),
    (Cell.USED, "used", "allowed, used"),
    (Cell.UNUSED, "unused", "allowed, unused"),
)


def to_html(report: Report) -> str:
    """The whole page as text."""
    page = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    parts = {
        "title": f"{report.verdict}: {_text(report.target)}",
        "target": _text(report.target),
        "verdict": _badge(report.verdict),
        "headline": _text(headline(report)),
        "notes": "".join(f'<p class="note">note: {_text(note)}</p>' for note in report.notes),
        "table": _table(report.findings),
        "stories": "\n".join(map(_story, groups(report.violations))),
        "maps": _quiet_maps(f for f in report.findings if f.verdict is not Verdict.DISPROVED),
        "words": _words(report.findings),
    }
    for name, part in parts.items():  # parts hold no such mark of their own: they are escaped
        page = page.replace(f"<!--{name}-->", part)
    return page


def _text(text: str) -> str:
    return escape(clean(text))


def _dotted(name: str) -> str:
    """A module name that may break after a dot."""
    return _text(name).replace(".", ".<wbr>")


def _badge(verdict: Verdict) -> str:
    sign = f'<span aria-hidden="true">{_SIGNS[verdict]}</span>'
    return f'<span class="badge {verdict.lower()}">{sign} {verdict}</span>'


def _table(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>No check was run.</p>"
    rows = "\n".join(map(_row, findings))
    heads = ("check", "configuration", "verdict", "worst |d|", "pair i←j", "module", "limit")
    numeric = ("worst |d|", "pair i←j", "limit")
    columns = "".join(
        f'<th scope="col"{" class=number" if head in numeric else ""}>{head}</th>' for head in heads
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="all checks">'
        '<table class="findings"><caption>Every check in every configuration. '
        "Worst |d| is the largest forbidden change, limit the smallest planted leak that the check "
        f"noticed.</caption><thead><tr>{columns}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )


def _row(finding: Finding) -> str:
    return (
        f'<tr><th scope="row">{_text(f"{finding.check} {finding.title}")}</th>'
        f"<td>{_text(finding.configuration)}</td>"
        f'<td>{_badge(finding.verdict)}<span class="why">{_text(finding.reason)}</span></td>'
        + _number_cell("worst |d|", number(finding.worst))
        + _number_cell("pair i←j", pair(finding).replace("<-", "←"))
        + f'<td data-head="module" class="{"mono" if finding.module else "empty"}">'
        f"{_dotted(finding.module or '–')}</td>"
        + _number_cell("limit", number(finding.detection_limit))
        + "</tr>"
    )


def _number_cell(head: str, text: str) -> str:
    empty = " empty" if text == "-" else ""
    return f'<td data-head="{head}" class="number{empty}">{"–" if empty else text}</td>'


def _story(group: Sequence[Finding]) -> str:
    first = group[0]
    known = "".join(f"<dt>{name}</dt><dd>{_text(text)}</dd>" for name, text in facts(group))
    parts = [
        '<section class="story">',
        f"<h2>{_text(f'{first.check} {first.title}')} · {_text(first.configuration)}</h2>",
        f"<dl>{known}</dl>",
        *_maps(group),
    ]
    if first.culprit and first.culprit.depth:
        parts.append(_layer_bar(first.culprit))
    snippet = next((f.snippet for f in group if f.snippet), None)
    if snippet:
        parts.append(_snippet(snippet))
    return "\n".join([*parts, "</section>"])


def _maps(group: Sequence[Finding]) -> Iterator[str]:
    """The first map in the open, those that look different folded up."""
    for index, (dependencies, same) in enumerate(_by_map(group)):
        figure = _figure(dependencies, same[0])
        if index == 0:
            yield f"<h3>Who reads whom</h3>{figure}"
        else:
            yield f"<details><summary>{_configurations(same)}</summary>{figure}</details>"


def _quiet_maps(findings: Iterable[Finding]) -> str:
    maps = [
        f"<details><summary>{_configurations(same)}</summary>{_figure(dependencies, same[0])}"
        "</details>"
        for dependencies, same in _by_map(findings)
    ]
    return f"<section><h2>Maps of the other checks</h2>{''.join(maps)}</section>" if maps else ""


def _by_map(findings: Iterable[Finding]) -> list[tuple[DependencyMap, list[Finding]]]:
    """Findings whose maps look the same, with the first of these maps."""
    found: dict[str, tuple[DependencyMap, list[Finding]]] = {}
    for finding in findings:
        if finding.dependencies and finding.dependencies.used:
            grid, _ = cells(finding.dependencies, _MAX_CELLS)
            look = "\n".join(map("".join, grid))
            found.setdefault(look, (finding.dependencies, []))[1].append(finding)
    return list(found.values())


def _configurations(findings: Sequence[Finding]) -> str:
    return _text("; ".join(f"{f.check} {f.title}, {f.configuration}" for f in findings))


def _figure(dependencies: DependencyMap, finding: Finding) -> str:
    swatches = "".join(
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect width="10" height="10" fill="url(#pattern-{name})"/></svg>{meaning}</li>'
        for _, name, meaning in _LEGEND
    )
    leaks = _leaks(dependencies)
    return (
        f'<figure><ul class="legend">{swatches}</ul>'
        f"{_svg(dependencies, finding, len(leaks))}</figure>{_leak_table(leaks)}"
    )


def _svg(dependencies: DependencyMap, finding: Finding, n_leaks: int) -> str:
    grid, step = cells(dependencies, _MAX_CELLS)
    n_rows, n_columns = len(grid), max(map(len, grid))
    width, height = n_columns * _SIDE, n_rows * _SIDE
    layers = "".join(
        f'<path fill="url(#pattern-{name})" d="{_runs(grid, kind)}"/>' for kind, name, _ in _LEGEND
    )
    lines = ""
    if max(n_rows, n_columns) <= _MAX_LINED:
        lines += "".join(f"M{x * _SIDE} 0v{height}" for x in range(1, n_columns))
        lines += "".join(f"M0 {y * _SIDE}h{width}" for y in range(1, n_rows))
    mark = ""
    if finding.pair and 0 <= finding.pair[0] < n_rows * step and finding.pair[1] >= 0:
        y, x = (index // step * _SIDE for index in finding.pair)
        mark = f'<rect class="worst" x="{x}" y="{y}" width="{_SIDE}" height="{_SIDE}"/>'
    scale = f"One cell covers {step} positions. " if step > 1 else ""
    label = f"{n_leaks:,} forbidden pairs are used. {scale}Worst pair: {pair(finding)}."
    em = 9 * max(1, n_columns / 40)  # letters keep their size on the screen when cells shrink
    left, top = 5.2 * em, 3 * em
    return (
        f'<svg class="map" role="img" aria-label="{_text(label)}" '
        f'style="max-width:{(n_columns + 6) * _WIDEST_CELL}px" font-size="{em:g}" '
        f'viewBox="{-left:g} {-top:g} {width + left + 2:g} {height + top + 2:g}">'
        f"{_axes(n_rows, n_columns, step, em)}{layers}"
        f'<path class="grid" d="{lines}"/>'
        f'<rect class="frame" width="{width}" height="{height}"/>{mark}</svg>'
    )


def _axes(n_rows: int, n_columns: int, step: int, em: float) -> str:
    every = 5 * math.ceil(max(n_rows, n_columns) / 60)
    titles = (
        f'<text x="{-5.2 * em:g}" y="{-1.9 * em:g}">output i ↓</text>'
        f'<text x="{0.8 * em:g}" y="{-1.9 * em:g}">input j →</text>'
    )
    across = "".join(
        f'<text x="{(c + 0.5) * _SIDE}" y="{-0.5 * em:g}" text-anchor="middle">{c * step}</text>'
        for c in range(0, n_columns, every)
    )
    down = "".join(
        f'<text x="{-0.5 * em:g}" y="{(r + 0.5) * _SIDE + em / 3:g}" text-anchor="end">'
        f"{r * step}</text>"
        for r in range(0, n_rows, every)
    )
    return titles + across + down


def _runs(grid: Sequence[Sequence[Cell]], kind: Cell) -> str:
    """All cells of one kind as one path; neighbours in a row are one rectangle."""
    boxes = []
    for top, row in enumerate(grid):
        for is_kind, run in groupby(enumerate(row), key=lambda column: column[1] is kind):
            columns = [index for index, _ in run]
            if is_kind:
                length = len(columns) * _SIDE
                boxes.append(f"M{columns[0] * _SIDE} {top * _SIDE}h{length}v{_SIDE}h-{length}z")
    return "".join(boxes)


def _leaks(dependencies: DependencyMap) -> list[tuple[float, int, int]]:
    """(strength, output, input) of every forbidden pair that is used, strongest first."""
    found = [
        (math.inf if math.isnan(use) else abs(use), i, j)
        for i, (used, allowed) in enumerate(
            zip(dependencies.used, dependencies.allowed, strict=True)
        )
        for j, (use, may) in enumerate(zip(used, allowed, strict=True))
        if use != 0 and not may
    ]
    return sorted(found, key=lambda leak: (-leak[0], leak[1], leak[2]))


def _leak_table(leaks: Sequence[tuple[float, int, int]]) -> str:
    if not leaks:
        return ""
    rows = "".join(
        f'<tr><td class="number">{i}</td><td class="number">{j}</td>'
        f'<td class="number">{number(strength)}</td></tr>'
        for strength, i, j in leaks[:_WORST_PAIRS]
    )
    shown = f"the strongest {_WORST_PAIRS} of " if len(leaks) > _WORST_PAIRS else ""
    heads = "".join(
        f'<th scope="col" class="number">{head}</th>'
        for head in ("output i", "input j", "strength")
    )
    return (
        f"<details><summary>Forbidden pairs as a table: {shown}{len(leaks):,}</summary>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _layer_bar(culprit: Culprit) -> str:
    """Every module in call order; the first that breaks the rule stands out by height and hatch."""
    names = [name for name, _ in culprit.depth]
    first = names.index(culprit.module) if culprit.module in names else None
    states = [
        "first" if index == first else "dirty" if change != 0 else "clean"
        for index, (_, change) in enumerate(culprit.depth)
    ]
    spans = "".join(
        f'<span class="{state}" title="{_text(name)}: {number(change)}"></span>'
        for state, (name, change) in zip(states, culprit.depth, strict=True)
    )
    words = {"clean": "clean", "dirty": "changed", "first": "changed first"}
    rows = "".join(
        f'<tr><th scope="row" class="mono">{_text(name)}</th><td>{words[state]}</td>'
        f'<td class="number">{number(change)}</td></tr>'
        for state, (name, change) in zip(states, culprit.depth, strict=True)
    )
    return (
        f'<h3>Where it starts</h3><div class="bar" aria-hidden="true">{spans}</div>'
        f'<p class="under">{len(names)} modules in call order; the rule is first broken in '
        f"<code>{_dotted(culprit.module)}</code>{'' if first is None else ' (tall, hatched)'}.</p>"
        "<details><summary>Modules as a table</summary><table><thead><tr>"
        '<th scope="col">module</th><th scope="col">state</th>'
        '<th scope="col" class="number">largest change</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></details>"
    )


def _snippet(snippet: str) -> str:
    return (
        '<div class="snippet"><h3>See it for yourself</h3>'
        '<button type="button" hidden>Copy</button>'
        f'<pre tabindex="0"><code>{_text(snippet.strip(chr(10)))}</code></pre></div>'
    )


def _words(findings: Sequence[Finding]) -> str:
    seen = {finding.verdict for finding in findings}
    return "".join(
        f"<p>{_badge(verdict)} {meaning}</p>"
        for verdict, meaning in MEANINGS.items()
        if verdict in seen
    )
