"""Where two sides part is said only if something was seen there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lookleft.data import drift
from lookleft.data.drift import describe_drift

DRAW = random.Random(2)
TEXTS = ["word " * DRAW.randint(1, 30) for _ in range(200)]


def described(folder: Path, target: list[str]) -> str:
    """The message for the texts and a target side that has lost some of its lines."""
    source_file, target_file = folder / "en", folder / "hi"
    source_file.write_text("\n".join(TEXTS), "utf-8")
    target_file.write_text("\n".join(target), "utf-8")
    return describe_drift(source_file, target_file, len(TEXTS), len(target))


def test_a_drift_behind_the_lines_looked_at_is_not_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "_MOST_LINES", 100)
    message = described(tmp_path, TEXTS[:150] + TEXTS[153:])
    assert "en has 200 lines" in message
    assert "hi has 197" in message
    assert "no sign\n  of a drift in the first 100 lines. Fix the file" in message
    assert "ends before it" not in message


def test_of_the_last_lines_looked_at_none_is_named_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "_MOST_LINES", 100)
    target = TEXTS[:150] + TEXTS[153:]
    target[99] = TEXTS[102]  # fits the line three behind it better than its own
    assert "no sign" in described(tmp_path, target)


def test_a_drift_among_the_lines_looked_at_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "_MOST_LINES", 100)
    assert "drift: line 61\n  (lengths stop" in described(tmp_path, TEXTS[:60] + TEXTS[63:])


@pytest.mark.parametrize("n_left", [99, 100])
def test_a_side_that_ends_where_looking_ends_is_said_to_end(
    n_left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "_MOST_LINES", 100)
    message = described(tmp_path, TEXTS[:n_left])
    assert f"drift: line {n_left + 1}\n" in message
    assert "hi ends before it" in message
