"""What is typed behind `train` and `check`: one config anywhere, and settings by their names."""

from __future__ import annotations

import pytest

from lookleft.cli.check import check
from lookleft.cli.main import app
from lookleft.cli.train import train
from lookleft.cli.words import options_of, parse_words
from lookleft.errors import InputError


@pytest.mark.parametrize(
    "words",
    [
        ("my.toml", "--train.steps", "10", "--task=lm"),
        ("--train.steps", "10", "my.toml", "--task=lm"),
        ("--train.steps", "10", "--task=lm", "my.toml"),
    ],
)
def test_the_config_stands_anywhere(words: tuple[str, ...]) -> None:
    assert parse_words(words) == ("my.toml", {"train.steps": "10", "task": "lm"})


def test_a_value_may_begin_with_hyphens_if_it_looks_like_no_option() -> None:
    words = ("--data.document-end", "---", "--train.lr", "-1", "--data.dir=--x")
    found = {"data.document-end": "---", "train.lr": "-1", "data.dir": "--x"}
    assert parse_words(words) == (None, found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("my.toml", "lr", "3"), "give one config, not 'my.toml' and 'lr' and '3'; settings look"),
        (("a.toml", "--train.lr", "3", "b.toml"), "give one config, not 'a.toml' and 'b.toml'"),
        (("--data.skip-empty", "--train.steps", "5"), "--data.skip-empty needs a value: true or"),
        (("--data.skip-empty",), "--data.skip-empty needs a value: true or false"),
        (("--train.lr",), "--train.lr needs a value, as in --train.lr 0.002"),
        (("--train.steps", "--train.lr", "1"), "needs a value, as in --train.steps 2000"),
        (("--data.dir", "--train.lr", "1"), "needs a value, as in --data.dir VALUE"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_words(words)
    assert str(caught.value).startswith(message) or message in str(caught.value)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--resum", "--resume"),
        ("--ouput", "--out"),
        ("-resume", "--resume"),
        ("--lr", "--train.lr"),
        ("--steps=5", "--train.steps"),
        ("--max-tokens", "--data.max-tokens"),
        ("--max_tokens", "--data.max-tokens"),
        ("--batch-size", "--train.tokens"),  # what others call it
        ("--learning_rate", "--train.lr"),
        ("--dropot", "--model.dropout"),
        ("--tusk", "--task"),
    ],
)
def test_what_was_probably_meant_is_named(word: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_words(("my.toml", word, "5"), options_of(train))
    assert str(caught.value) == f"{word.split('=')[0]!r} is no option; did you mean {meant} ?"


def test_a_word_that_is_like_nothing_is_told_where_all_settings_are() -> None:
    with pytest.raises(InputError, match=r"'--xyzzy' is no option; .*lookleft config keys"):
        parse_words(("--xyzzy", "5"), options_of(train))


def test_options_are_those_that_a_command_takes() -> None:
    assert options_of(check) == ["--out", "--device", "--threads", "--seed", "--json"]
    assert {"--resume", "--plain", "--quiet", "--json"} < set(options_of(train))


@pytest.mark.parametrize("command", ["train", "check"])
def test_a_misspelt_option_of_a_command_is_named_and_its_help_tells_of_all_settings(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="did you mean --seed"):
        app([command, "--sed", "5"], result_action="return_value")
    app([command, "--help"], result_action="return_value")
    assert "lookleft config keys" in capsys.readouterr().out
