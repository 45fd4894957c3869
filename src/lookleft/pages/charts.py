"""Curves as inline SVG: no script, no font, nothing fetched; colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 400, 230  # of the drawing; letters stay readable when it is 360 pixels wide
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 34  # margins around the plot
N_TICKS = 4
MOST_POINTS = 400  # beyond this points fall on the same pixel
LEGEND_LINE = 18
# Of a picture that stands alone; a page brings its own. Colours by Okabe and Ito.
STYLE = (
    "svg{background:#fff}text{font:12px sans-serif;fill:#57606a}.title{font-weight:bold}"
    ".rule{stroke:#d0d7de}.curve{fill:none;stroke-width:2;stroke:#0072b2}"
    ".curve-1{stroke:#d55e00;stroke-dasharray:6 3}.curve-2{stroke:#009e73}"
    ".curve-3{stroke:#57606a;stroke-dasharray:2 3}"
    "@media(prefers-color-scheme:dark){svg{background:#0f1419}text{fill:#c9d1d9}"
    ".rule{stroke:#30363d}.curve{stroke:#56b4e9}.curve-1{stroke:#d55e00}}"
)


@dataclass(frozen=True)
class Curve:
    """One line of a chart: a name and points (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]


def draw_chart(
    title: str, curves: Sequence[Curve], x_name: str = "step", *, is_log: bool = False
) -> str:
    """A figure with axes and a legend, as HTML; empty if no curve has a point.

    With `is_log` both axes count in powers, so that a cost that grows with a power of the length
    is a straight line; what is not above 0 has no place there.
    """
    drawn = _drawable(curves, is_log)
    if not drawn:
        return ""
    legend = "".join(
        f'<li><span class="key curve-{n}" aria-hidden="true"></span>{escape(curve.name)} '
        f"<b>{short(curve.points[-1][1])}</b></li>"
        for n, curve in enumerate(drawn)
    )
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<ul class="legend">{legend}</ul>'
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{_in_words(title, drawn, x_name)}">{_plot(drawn, x_name, is_log)}'
        "</svg></figure>"
    )


def draw_svg(
    title: str, curves: Sequence[Curve], x_name: str = "step", *, is_log: bool = False
) -> str:
    """The same as a file of its own, with its legend and colours inside."""
    drawn = _drawable(curves, is_log)
    height = HEIGHT + LEGEND_LINE * (len(drawn) + 1)
    lines = [f'<text class="title" x="{LEFT}" y="{HEIGHT + 2}">{escape(title)}</text>']
    for n, curve in enumerate(drawn):
        y = HEIGHT + LEGEND_LINE * (n + 1)
        lines.append(f'<path class="curve curve-{n}" d="M{LEFT} {y - 4}h24"/>')
        lines.append(f'<text x="{LEFT + 32}" y="{y}">{escape(curve.name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{_in_words(title, drawn, x_name)}"><style>{STYLE}</style>'
        f"{_plot(drawn, x_name, is_log)}{''.join(lines)}</svg>\n"
    )


def _drawable(curves: Sequence[Curve], is_log: bool) -> list[Curve]:
    finite = [Curve(curve.name, _finite(curve.points, is_log)) for curve in curves]
    return [curve for curve in finite if curve.points]


def _in_words(title: str, drawn: Sequence[Curve], x_name: str) -> str:
    """What a reader who cannot see the picture is told."""
    ends = "; ".join(
        f"{curve.name} from {short(curve.points[0][1])} to {short(curve.points[-1][1])}"
        for curve in drawn
    )
    last = max((x for curve in drawn for x, _ in curve.points), default=0.0)
    return escape(f"{title}: {ends}, over {short(last)} {x_name}s", quote=True)


def _plot(drawn: Sequence[Curve], x_name: str, is_log: bool) -> str:
    """Rules, marks and lines."""
    xs = [x for curve in drawn for x, _ in curve.points]
    ys = [y for curve in drawn for _, y in curve.points]
    if is_log:
        x_ticks, y_ticks = powers(min(xs), max(xs), 4), powers(min(ys), max(ys), 10)
    else:
        x_ticks, y_ticks = ticks(min(0.0, *xs), max(xs)), ticks(min(ys), max(ys))
    across = _Scale(x_ticks[0], max(x_ticks[-1], max(xs)), LEFT, WIDTH - RIGHT, is_log)
    up = _Scale(min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys)), HEIGHT - BOTTOM, TOP, is_log)
    parts = [_rule(up.at(y), short(y)) for y in y_ticks]
    parts += [_mark(across.at(x), short(x)) for x in x_ticks]
    parts += [_line(n, curve, across, up) for n, curve in enumerate(drawn)]
    name = f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_name)}</text>'
    return "".join(parts) + name


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that span low to high: steps of 1, 2 or 5 times a power of ten."""
    if high <= low:
        high = low + max(abs(low), 1.0)
    rough = (high - low) / N_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [n * step for n in range(first, last + 1)]


def powers(low: float, high: float, base: int) -> list[float]:
    """The powers of a base that span low to high."""
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    return [float(base) ** n for n in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """A number in few letters: 12k, 0.0012, 3.4e-05."""
    if value == 0:
        return "0"
    size = abs(value)
    for least, unit, digits in ((1e9, "G", ".3g"), (1e6, "M", ".3g"), (1e4, "k", ".0f")):
        if size >= least:
            return f"{value / (1e3 if unit == 'k' else least):{digits}}{unit}"
    if size < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.4g}" if size < 1_000 else f"{value:,.0f}"


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)


def _rule(y: float, label: str) -> str:
    return (
        f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )


def _mark(x: float, label: str) -> str:
    return f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{label}</text>'


def _line(number: int, curve: Curve, across: _Scale, up: _Scale) -> str:
    every = math.ceil(len(curve.points) / MOST_POINTS)
    kept = [*curve.points[:-1:every], curve.points[-1]]
    if len(kept) == 1:
        x, y = kept[0]
        return f'<circle class="dot-{number}" cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3"/>'
    path = "L".join(f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in kept)
    return f'<path class="curve curve-{number}" d="M{path}"/>'


def _finite(points: Sequence[tuple[float, float]], is_log: bool) -> list[tuple[float, float]]:
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    return [(x, y) for x, y in finite if x > 0 and y > 0] if is_log else finite
