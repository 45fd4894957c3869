"""`lookleft train` as typed: overrides, resuming, and the loud word about a model that peeks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lookleft.cli.main import app
from lookleft.cli.train import parse_words, print_row
from lookleft.errors import ConfigError, InputError
from lookleft.train.run import Event, Run

SETTINGS = {
    "text.kind": "char",
    "text.vocab-size": "300",
    "model.d-model": "16",
    "model.d-ff": "16",
    "model.n-layers": "1",
    "train.steps": "3",
    "train.tokens": "64",
    "train.log-every": "1",
    "data.max-tokens": "40",
}
SMALL = [word for name, value in SETTINGS.items() for word in (f"--{name}", value)]


def run(*arguments: str) -> None:
    app(["train", *arguments], result_action="return_value")


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{n}\t{n}\n" for n in range(50)))
    return str(path)


def test_settings_come_from_file_and_command_line(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "my.toml"
    config.write_text(f'[data]\ntrain = "{pairs}"\ndev = "{pairs}"\n[train]\nlr = 1.0\n')
    out = str(tmp_path / "run")
    run(str(config), "--out", out, "--json", *SMALL, "--train.lr=1e-3", "--train.warmup", "0")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["step"] for event in events] == [1, 2, 3]
    assert events[0]["lr"] == pytest.approx(1e-3)
    run("--resume", "--out", out)
    assert "nothing to do: this run ended at step 3" in capsys.readouterr().err


def test_a_model_that_peeks_is_announced(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--data.train", pairs, "--data.dev", pairs]
    run("--out", str(tmp_path / "run"), *files, *SMALL, "--model.mask", "none")
    assert "PEEKS at the future" in capsys.readouterr().err


def test_the_time_left_counts_this_sitting_only(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--data.train", pairs, "--data.dev", pairs]
    run("--out", str(tmp_path / "run"), *files, *SMALL)
    stopped = Run.resume(tmp_path / "run", {"train.steps": "100"})
    stopped.first_step = 90
    print_row(stopped, Event(step=95, loss=1.0, lr=1e-3, tokens=10, seconds=60.0))
    assert "1.0 min left" in capsys.readouterr().out


def test_a_misspelt_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean train\.warmup"):
        run("--out", str(tmp_path / "run"), "--train.warm-up", "3")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("my.toml", "lr", "3"), "'lr' is no setting"),
        (("--lr", "3"), "'--lr' is no setting"),
        (("--train.lr",), "--train.lr needs a value"),
    ],
)
def test_words_that_are_no_settings_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_words(words)
