"""`lookleft translate`: a model that learned a few pairs by heart says them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lookleft.cli.translate import translate
from lookleft.errors import InputError
from lookleft.train.run import Run
from lookleft.train.settings import read_settings

PAIRS = {"I am fine": "मैं ठीक हूँ", "How are you?": "आप कैसे हैं?", "home": "घर"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{en}\t{hi}\n" for en, hi in PAIRS.items()), encoding="utf-8")
    settings = {
        "data.train": str(file),
        "data.dev": str(file),
        "text.kind": "char",
        "text.vocab_size": "320",
        "model.d_model": "32",
        "model.d_ff": "64",
        "model.n_layers": "1",
        "model.dropout": "0.0",
        "train.steps": "120",
        "train.warmup": "10",
        "train.lr": "0.01",
    }
    list(Run.start(folder / "run", read_settings(None, settings)).train())
    return folder / "run"


def test_what_was_learned_is_said(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for english, hindi in PAIRS.items():
        translate(str(trained), english, json_=True)
        assert json.loads(capsys.readouterr().out) == {"source": english, "target": hindi}


def test_lines_keep_their_order_and_empty_ones_stay(trained: Path) -> None:
    given = "home\n\nHow are you?\nI am fine\n"
    done = subprocess.run(
        [sys.executable, "-m", "lookleft", "translate", str(trained)],
        input=given.encode(),
        capture_output=True,
    )
    assert done.stdout.decode() == "घर\n\nआप कैसे हैं?\nमैं ठीक हूँ\n"


def test_a_line_that_is_not_utf8_is_named(trained: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lookleft", "translate", str(trained)],
        input=b"home\n\xff\xfe\n",
        capture_output=True,
    )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: standard input, line 2: is not UTF-8")


def test_an_answer_needs_room(trained: Path) -> None:
    with pytest.raises(InputError, match="max_new=0"):
        translate(str(trained), "home", max_new=0)
