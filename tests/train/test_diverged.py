"""What is said when a loss is no number, beside what whole runs do in test_run_ways.py."""

from __future__ import annotations

from pathlib import Path

from lookleft.train.diverged import way_back


def test_the_advice_lowers_every_rate_there_is(tmp_path: Path) -> None:
    assert way_back(tmp_path, 3, 0.01).endswith("with, say, --train.lr 0.005")
    both = way_back(tmp_path, 3, 0.01, 0.02)
    assert both.endswith("with, say, --train.lr 0.005 --train.matrix-lr 0.01")
