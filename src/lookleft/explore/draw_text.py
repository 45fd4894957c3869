"""A trace for the terminal: one head as numbers, then what the two lanes say about it.

Terminals disagree about how wide Hindi is, so tokens stand below the matrix, by number.
"""

from __future__ import annotations

import math

from lookleft.explore.lesson import Kind
from lookleft.explore.sameness import compare_lanes
from lookleft.explore.stages import KIND_TITLES, STAGE_TITLES, Stage, row_sums, stage_values
from lookleft.explore.tokens import Token
from lookleft.explore.trace import Trace
from lookleft.picture import format_number

HIDDEN = "·"


def draw_text(trace: Trace, kind: Kind, layer: int, head: int, stage: Stage = "weights") -> str:
    """One head at one stage, the tokens, and a summary of both lanes."""
    trace.check_head(kind, layer, head)
    title = f"{KIND_TITLES[kind]} · layer {layer} · head {head} · {STAGE_TITLES[stage]}"
    rows, columns = trace.labels(kind)
    parts = [
        f"{title} (rows look, columns are looked at)",
        _outputs(trace) if stage == "output" else _matrix(trace, kind, layer, head, stage),
        _strip(rows, "rows   " if kind == "cross" else "tokens "),
    ]
    if kind == "cross":
        parts.append(_strip(columns, "columns"))
    return "\n\n".join([*parts, _lanes(trace)]) + "\n"


def _matrix(trace: Trace, kind: Kind, layer: int, head: int, stage: Stage) -> str:
    values, allowed = stage_values(trace, kind, layer, head, stage), trace.masks[kind][2].tolist()
    digits = 0 if stage == "mask" else 2
    cells = [
        [format_number(x, digits) if may else HIDDEN for x, may in zip(row, mays, strict=True)]
        for row, mays in zip(values.tolist(), allowed, strict=True)
    ]
    heads = [str(s + 1) for s in range(values.size(1))]
    width = max(map(len, [*heads, *(cell for row in cells for cell in row)]))
    sums = row_sums(values, stage)
    lines = ["row   " + " ".join(head.rjust(width) for head in heads)]
    for t, row in enumerate(cells):
        edge = "" if sums is None else f"   sum {sums[t]:.2f}"
        lines.append(f"{t + 1:>3}   " + " ".join(cell.rjust(width) for cell in row) + edge)
    if any(HIDDEN in row for row in cells):
        lines.append(f"{HIDDEN} = hidden by the mask: weight exactly 0")
    return "\n".join(lines)


def _outputs(trace: Trace) -> str:
    """Per row how likely the right token was."""
    lines = ["row   probability    loss   should say"]
    for t, (token, log_prob) in enumerate(
        zip(trace.lesson.wanted, trace.log_probs.tolist(), strict=True)
    ):
        lines.append(f"{t + 1:>3}   {math.exp(log_prob):>11.3f}  {-log_prob:>6.2f}   {token.label}")
    return "\n".join(lines)


def _strip(tokens: list[Token], name: str) -> str:
    return f"{name}  " + "   ".join(
        f"[{n}] {token.label}" for n, token in enumerate(tokens, start=1)
    )


def _lanes(trace: Trace) -> str:
    """What each lane did, and whether they did the same."""
    lane, found = trace.inference, compare_lanes(trace)
    if lane is None or found is None:
        covered = trace.log_probs[list(trace.request.cover)]
        said = f"loss {-covered.mean():.2f}, of what is covered" if covered.numel() else "no loss"
        said = f"one pass, {trace.lesson.n_rows} rows   {said}"
        return f"{said}\n{trace.card.why_not['inference']}"
    how = "with K,V cache" if trace.request.is_cached else "without a cache"
    same = "yes" if found.is_same else "NO"
    lines = [
        f"training   1 pass, {trace.lesson.n_rows} rows   loss {-trace.log_probs.mean():.2f}",
        f"inference  {len(lane.reads)} steps {how}   rows equal to training rows: {same}, "
        f"max difference {found.largest:.1e}",
    ]
    if found.first_difference is not None:
        lines.append(
            f"           from row {found.first_difference + 1} on it reads words of its own that "
            f"differ from the target (exposure bias): not compared"
        )
    return "\n".join(lines)
