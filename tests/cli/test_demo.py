"""`lookleft demo` proves what it says."""

from __future__ import annotations

import json

import pytest

from lookleft.cli.demo import demo
from lookleft.errors import InputError


def test_the_past_stays_and_the_future_moves(capsys: pytest.CaptureFixture[str]) -> None:
    demo("the cat sat down", json_=True)
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["past_moved"] == 0.0
    assert numbers["future_moved"] > 0.01
    assert numbers["lanes_differ"] < 1e-5


def test_all_five_parts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    demo()
    shown = capsys.readouterr().out
    assert [f"{n}. " in shown for n in range(1, 6)] == [True] * 5
    assert "moved by 0.0 (exactly)" in shown


def test_a_seed_beyond_torch_is_named() -> None:
    with pytest.raises(InputError, match="--seed -1"):
        demo(seed=-1)


def test_one_word_has_no_future() -> None:
    with pytest.raises(InputError, match="at least two"):
        demo("alone")
