"""`lookleft mask` shows what masks.py decides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lookleft.cli.mask import mask
from lookleft.errors import InputError


def allowed(capsys: pytest.CaptureFixture[str], sentence: str, **options: Any) -> list[list[bool]]:
    mask(sentence, json_=True, **options)
    return json.loads(capsys.readouterr().out)["allowed"]


def test_a_word_sees_itself_and_its_left(capsys: pytest.CaptureFixture[str]) -> None:
    shown = allowed(capsys, "I am fine")
    assert shown == [[True, False, False], [True, True, False], [True, True, True]]


def test_nobody_sees_padding(capsys: pytest.CaptureFixture[str]) -> None:
    for encoder in (False, True):
        shown = allowed(capsys, "I am", pad=2, encoder=encoder)
        assert all(row[2:] == [False, False] for row in shown)


def test_window_prefix_and_documents_reach_the_mask(capsys: pytest.CaptureFixture[str]) -> None:
    assert allowed(capsys, "a b c", window=1)[2] == [False, False, True]
    assert allowed(capsys, "a b c", window=10**30)[2] == [True, True, True]
    assert allowed(capsys, "a b c", prefix=2)[0] == [True, True, False]
    assert allowed(capsys, "a b c", docs="2,1")[2] == [False, False, True]


def test_the_matrix_holds_zero_and_minus_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    mask("a b", as_="matrix")
    assert capsys.readouterr().out.splitlines() == [
        "   1    2",
        "   0 -inf   1 a",
        "   0    0   2 b",
    ]


def test_the_table_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    mask("मैं ठीक", as_="table")
    shown = capsys.readouterr().out
    assert "cannot see   ठीक" in shown
    assert "can see      मैं, ठीक" in shown


@pytest.mark.parametrize(
    ("sentence", "options", "message"),
    [
        ("  ", {}, "the sentence is empty"),
        ("a b", {"pad": -1}, "--pad -1"),
        ("a b", {"window": 0}, "window=0"),
        ("a b", {"prefix": 3}, "--prefix 3: the sentence has 2 words"),
        ("a b", {"docs": "1,x"}, "--docs '1,x'"),
        ("a b", {"pad": 10**30}, "at most 2,048 are shown"),
        ("a b", {"encoder": True, "window": 1}, "leave out --encoder"),
        ("a b", {"encoder": True, "prefix": 1}, "leave out --encoder"),
        ("a b", {"docs": "3"}, "add up to the 2 words"),
    ],
)
def test_bad_input_is_named(sentence: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mask(sentence, **options)
