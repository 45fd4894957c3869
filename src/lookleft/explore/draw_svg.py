"""A head as an SVG picture for papers: real text, drawn by whatever shapes the reader's fonts."""

from __future__ import annotations

import math
from html import escape

from lookleft.explore.lesson import Kind
from lookleft.explore.stages import KIND_TITLES, STAGE_TITLES, Stage, row_sums, stage_values
from lookleft.explore.trace import Trace

CELL, LABELS, TOP, LINE = 44, 150, 64, 20
FONT = "'Noto Sans Devanagari', 'Nirmala UI', Mangal, 'Kohinoor Devanagari', sans-serif"
_MAX_LABEL = 16  # characters of a token beside the grid

# Five stops of cividis (made for colour-vision deficiency), and blue-white-vermillion.
_CIVIDIS = ((0, 34, 78), (65, 77, 107), (125, 124, 120), (188, 175, 111), (254, 232, 56))
_AROUND_ZERO = ((0, 114, 178), (255, 255, 255), (213, 94, 0))
_BARS = (0, 114, 178)


def draw_svg(
    trace: Trace, kind: Kind, layer: int, head: int, stage: Stage = "weights", style: str = ""
) -> str:
    """The picture of one head at one stage, with a caption that says where it comes from.

    `style` is a style sheet to put inside, such as one that brings a font.
    """
    trace.check_head(kind, layer, head)
    card = trace.card
    caption = (
        f"{card.name} ({card.hash}) · {KIND_TITLES[kind]} · layer {layer} · head {head} · "
        f"{STAGE_TITLES[stage]}"
    )
    body, width, height = (
        _bars(trace) if stage == "output" else _grid(trace, kind, layer, head, stage)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + LINE}" '
        f'viewBox="0 0 {width} {height + LINE}" font-family="{escape(FONT)}" font-size="13">\n'
        f"<title>{escape(caption)}</title>\n<style>{style}</style>\n"
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path d="M0 6L6 0" stroke="#57606a" stroke-width="1"/></pattern></defs>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}'
        f'<text x="8" y="{height + 8}" fill="#57606a" font-size="11">{escape(caption)}</text>\n'
        "</svg>\n"
    )


def _grid(trace: Trace, kind: Kind, layer: int, head: int, stage: Stage) -> tuple[str, int, int]:
    """Cells with their numbers; what is hidden is hatched, not only coloured."""
    values = stage_values(trace, kind, layer, head, stage)
    allowed = trace.masks[kind][2].tolist()
    rows, columns = trace.labels(kind)
    seen = values[values.isfinite()]
    largest = max(float(seen.abs().max()) if seen.numel() else 0.0, 1e-9)
    parts = [
        _text(LABELS + CELL * s + CELL // 2, TOP - 8 - LINE * (s % 2), token.label, "middle")
        for s, token in enumerate(columns)
    ]
    for t, row in enumerate(values.tolist()):
        y = TOP + CELL * t
        parts.append(_text(LABELS - 8, y + CELL // 2 + 5, rows[t].label, "end"))
        for s, value in enumerate(row):
            parts.append(_cell(LABELS + CELL * s, y, value, allowed[t][s], stage, largest))
    width = LABELS + CELL * len(columns) + 16
    sums = row_sums(values, stage)
    if sums is not None:
        for t, total in enumerate(sums):
            parts.append(
                _text(width - 8, TOP + CELL * t + CELL // 2 + 5, f"= {total:.3f}", "start")
            )
        width += 60
    return "".join(parts), max(width, 480), TOP + CELL * len(rows) + LINE


def _cell(x: int, y: int, value: float, may: bool, stage: Stage, largest: float) -> str:
    box = f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}"'
    if not may:
        mark = "−∞" if stage in ("mask", "scores") else "0"
        hatched = f'{box} fill="url(#hatch)" stroke="#d0d7de"/>\n'
        return hatched + _number(x, y, mark, "#24292f", has_halo=True)
    if stage == "mask":
        return f'{box} fill="rgb(0,114,178)" stroke="#d0d7de"/>\n' + _number(x, y, "0", "#ffffff")
    if not math.isfinite(value):
        return f'{box} fill="none" stroke="#a63d00" stroke-width="3"/>\n' + _number(
            x, y, "?", "#a63d00"
        )
    if stage == "scores":
        colour = _between(_AROUND_ZERO, 0.5 + 0.5 * value / largest)
    else:
        colour = _between(_CIVIDIS, value)
    ink = "#ffffff" if _is_dark(colour) else "#24292f"
    fill = ",".join(map(str, colour))
    return f'{box} fill="rgb({fill})" stroke="#d0d7de"/>\n' + _number(x, y, f"{value:.2f}", ink)


def _bars(trace: Trace) -> tuple[str, int, int]:
    """Per row the probability of the right next token."""
    parts, room = [], 300
    rows = zip(trace.lesson.columns, trace.lesson.wanted, trace.log_probs.tolist(), strict=False)
    for t, (read, token, log_prob) in enumerate(rows):
        y, fill = TOP + LINE * 2 * t, ",".join(map(str, _BARS))
        parts.append(_text(LABELS - 8, y + 15, f"{read.label} → {token.label}", "end"))
        parts.append(
            f'<rect x="{LABELS}" y="{y}" width="{room * math.exp(log_prob):.1f}" height="{LINE}" '
            f'fill="rgb({fill})"/>\n'
        )
        said = f"{math.exp(log_prob):.3f}   loss {-log_prob:.2f}"
        parts.append(_text(LABELS + room + 8, y + 15, said, "start"))
    return "".join(parts), LABELS + room + 160, TOP + LINE * 2 * trace.lesson.n_rows + LINE


def _text(x: int, y: int, text: str, anchor: str) -> str:
    short = text if len(text) <= _MAX_LABEL * 2 else text[: _MAX_LABEL * 2 - 1] + "…"
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#24292f">{escape(short)}</text>\n'


def _number(x: int, y: int, text: str, colour: str, *, has_halo: bool = False) -> str:
    """A number in the middle of a cell; the halo keeps it readable on hatching."""
    at = f'x="{x + CELL // 2 - 1}" y="{y + CELL // 2 + 4}" text-anchor="middle" font-size="12"'
    halo = ' stroke="#ffffff" stroke-width="4" paint-order="stroke"' if has_halo else ""
    return f'<text {at} fill="{colour}"{halo}>{text}</text>\n'


def _between(stops: tuple[tuple[int, int, int], ...], share: float) -> tuple[int, int, int]:
    """The colour at a share of the way from the first stop to the last."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    red, green, blue = (
        round(a + (b - a) * (place - first))
        for a, b in zip(stops[first], stops[first + 1], strict=True)
    )
    return red, green, blue


def _is_dark(colour: tuple[int, int, int]) -> bool:
    red, green, blue = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140
