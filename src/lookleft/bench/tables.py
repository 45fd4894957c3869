"""Comparisons over lengths as tables for a terminal and as plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lookleft.bench.scale import TOO_SLOW, Comparison
from lookleft.files import make_folder, write_atomically
from lookleft.pages.charts import Curve, draw_svg, short


def as_table(comparison: Comparison) -> str:
    """One row per length, one column per way, the exponents below."""
    lines = comparison.lines
    heads = [f"{line.name}, {line.unit}" for line in lines]
    width = max(map(len, heads)) + 2
    rows = [f"{comparison.job:>10}" + "".join(head.rjust(width) for head in heads)]
    for at, (length, _) in enumerate(lines[0].points):
        cells = "".join(short(line.points[at][1]).rjust(width) for line in lines)
        rows.append(f"{length:>10,}" + cells)
    rows.append(
        f"{'~ length^':>10}" + "".join(f"{line.exponent:.2f}".rjust(width) for line in lines)
    )
    rows.append(f"results differ by at most {comparison.max_difference:.1e}")
    if comparison.left_out:
        missing = ", ".join(f"{length:,}" for length in comparison.left_out)
        rows.append(f"left out, since one run took more than {TOO_SLOW:g} s: {missing}")
    return "\n".join(rows) + "\n"


def write_plots(comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    """A plot per job and unit, and all numbers as scale.json; the paths written."""
    make_folder(folder)
    written = []
    for comparison in comparisons:
        for unit in dict.fromkeys(line.unit for line in comparison.lines):
            curves = [
                Curve(f"{line.name}, grows with length^{line.exponent:.1f}", line.points)
                for line in comparison.lines
                if line.unit == unit
            ]
            path = folder / f"scale-{comparison.job}-{_word(unit)}.svg"
            title = f"{comparison.job}: {unit}"
            drawn = draw_svg(title, curves, "length", is_log=True)
            write_atomically(path, drawn.encode())
            written.append(path)
    numbers = folder / "scale.json"
    facts = {"jobs": [comparison.as_json() for comparison in comparisons]}
    write_atomically(numbers, (json.dumps(facts, indent=1) + "\n").encode())
    return [*written, numbers]


def _word(unit: str) -> str:
    return {"s": "seconds", "s per token": "seconds"}.get(unit, unit)
