"""Masks and matrices as text: for the terminal, the demo and the docs.

Words may be Hindi, and terminals disagree about how wide Hindi is. So columns carry numbers, and
words stand at the end of a line, where their width does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

SEEN, HIDDEN = "█", "·"


def draw_mask(allowed: Tensor, words: Sequence[str]) -> str:
    """One character per pair: rows look, columns are looked at. (T, S) -> text."""
    lines = ["".join(f"{_digit(s)} " for s in range(allowed.size(1))).rstrip()]
    for t, row in enumerate(allowed.tolist()):
        cells = " ".join(SEEN if may else HIDDEN for may in row)
        lines.append(f"{cells}   {t + 1} {words[t]}")
    return "\n".join([*lines, f"{SEEN} may look   {HIDDEN} hidden"])


def draw_matrix(values: Tensor, words: Sequence[str], digits: int = 2) -> str:
    """Numbers in aligned columns, -inf spelled as such. (T, S) -> text."""
    cells = [[format_number(value, digits) for value in row] for row in values.tolist()]
    heads = [str(s + 1) for s in range(values.size(1))]
    width = max(map(len, [*heads, *(cell for row in cells for cell in row)]), default=1)
    lines = [" ".join(head.rjust(width) for head in heads)]
    for t, row in enumerate(cells):
        lines.append(" ".join(cell.rjust(width) for cell in row) + f"   {t + 1} {words[t]}")
    return "\n".join(lines)


def draw_table(allowed: Tensor, words: Sequence[str]) -> str:
    """In words: who can see whom, and whom not. (T, S) -> text."""
    lines = []
    for t, row in enumerate(allowed.tolist()):
        seen = [words[s] for s, may in enumerate(row) if may]
        hidden = [words[s] for s, may in enumerate(row) if not may]
        lines.append(f"{t + 1} {words[t]}")
        lines.append(f"    can see      {', '.join(seen) or 'nothing'}")
        lines.append(f"    cannot see   {', '.join(hidden) or 'nothing'}")
    return "\n".join(lines)


def format_number(value: float, digits: int) -> str:
    """A number for a matrix; exact zeros and infinities must be told from small and large ones."""
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    return "0" if value == 0 else f"{value:.{digits}f}"


def _digit(column: int) -> str:
    """Column numbers of one character: 1 to 9, then 0, as on a ruler."""
    return str((column + 1) % 10)
