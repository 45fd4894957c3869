"""What is said when a loss is no number, beside what whole runs do in test_run_ways.py."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from lookleft.data.batch import next_token_batch
from lookleft.train.diverged import way_back, what_happened


def test_rows_of_one_long_text_are_named_with_their_epoch() -> None:
    made = next_token_batch([[1, 2]])
    group = [replace(made, lines=(8, 9), epoch=0), replace(made, lines=(1,), epoch=1)]
    said = what_happened(7, group, [math.nan, math.nan], 1.0)
    assert "on rows 8, 9 of epoch 0 and rows 1 of epoch 1 of data.train; the step was" in said
    assert "Lower train.lr or" in said
    one_is_sound = what_happened(7, group, [0.5, math.nan], 1.0)
    assert "on rows 1 of epoch 1 of data.train" in one_is_sound
    many = [replace(made, lines=tuple(range(1, 30)), epoch=3)]
    assert "9, 10 of epoch 3 and 19 more of" in what_happened(7, many, [math.nan], 1.0)


def test_a_batch_that_knows_no_lines_names_none() -> None:
    said = what_happened(7, [next_token_batch([[1, 2]])], [math.nan], 1.0)
    assert "norm of its gradient 1.0; the step was not taken" in said


def test_the_advice_lowers_every_rate_there_is(tmp_path: Path) -> None:
    assert way_back(tmp_path, 3, 0.01).endswith("with, say, --train.lr 0.005")
    both = way_back(tmp_path, 3, 0.01, 0.02)
    assert both.endswith("with, say, --train.lr 0.005 --train.matrix-lr 0.01")
