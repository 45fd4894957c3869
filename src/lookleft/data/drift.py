"""Where two files that should run side by side seem to have come apart."""

from __future__ import annotations

import math
from itertools import accumulate, islice
from pathlib import Path

from lookleft.data.lines import read_lines

_MOST_LINES = 500_000  # enough to find a place; more would cost memory for an error message
_TOO_FEW = 10  # lines behind a place that could be said by chance to match there no more


def describe_drift(source: Path, target: Path, n_source: int, n_target: int) -> str:
    """The message for two sides of different lengths: both counts, and the first place to look."""
    found = find_drift(source, target, n_source - n_target)
    if found is None:
        where = f" There is no sign\n  of a drift in the first {_MOST_LINES:,} lines."
    else:
        place, sign = found
        where = f" First place they seem to drift: line {place:,}\n  ({sign})."
    return (
        "the two sides have different lengths\n"
        f"  {source} has {n_source:,} lines, {target} has {n_target:,}.{where}"
        " Fix the file, or use one .tsv so lines cannot drift."
    )


def find_drift(source: Path, target: Path, surplus: int) -> tuple[int, str] | None:
    """The line where the sides seem to part, and the sign of it; None if it lies too far behind.

    `surplus` is how many more lines the source has. A line that is empty on one side only is the
    clearest sign. Without one, lengths tell: up to the right place, line i fits line i; behind it,
    line i of the shorter side fits line i + surplus of the longer.
    """
    longer_file, shorter_file = (source, target) if surplus > 0 else (target, source)
    longer_side, shorter_side = read_lines(longer_file), read_lines(shorter_file)
    longer, shorter = [], []
    # The shorter one first: when it ends, zip has taken nothing of the other.
    both = zip(shorter_side, longer_side, strict=False)
    for (number, other), (_, one) in islice(both, _MOST_LINES):
        if is_blank(one) != is_blank(other):
            return number, f"an empty line in {longer_file if is_blank(one) else shorter_file}"
        longer.append(_log_length(one))
        shorter.append(_log_length(other))
    # What the last lines of the shorter side would fit, if lines are missing before them.
    longer += [_log_length(text) for _, text in islice(longer_side, abs(surplus))]
    cut = _best_cut(longer, shorter, abs(surplus))
    is_cut_short = next(shorter_side, None) is not None
    if is_cut_short and len(shorter) - cut < _TOO_FEW:
        return None
    if cut == len(shorter):
        return cut + 1, f"{shorter_file} ends before it"
    return cut + 1, "lengths stop matching there"


def is_blank(text: str | None) -> bool:
    """Whether a line has nothing to read; one too long to hold (None) surely has."""
    return text is not None and not text.strip()


def _log_length(text: str | None) -> float:
    return math.log(5 + len(text or ""))  # the 5 calms very short lines


def _best_cut(longer: list[float], shorter: list[float], surplus: int) -> int:
    n = max(0, min(len(shorter), len(longer) - surplus))
    if n == 0:
        return 0
    usual = sum(longer) / len(longer) - sum(shorter) / len(shorter)
    straight = [abs(longer[i] - shorter[i] - usual) for i in range(n)]
    shifted = [abs(longer[i + surplus] - shorter[i] - usual) for i in range(n)]
    before = list(accumulate(straight, initial=0.0))
    behind = list(accumulate(reversed(shifted), initial=0.0))[::-1]
    return min(range(n + 1), key=lambda cut: before[cut] + behind[cut])
