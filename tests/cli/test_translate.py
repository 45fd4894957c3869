"""`lookleft translate`: a model that learned a few pairs by heart says them."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lookleft import bundled
from lookleft.cli import translate as translate_file
from lookleft.cli.translate import is_file_name, is_sentence
from lookleft.errors import FileError, InputError
from lookleft.train.run import Run
from lookleft.train.settings_file import read_settings

# The engine has tests of its own; here it would have to be compiled first.
translate = partial(translate_file.translate, engine="torch")
CaptureText = pytest.CaptureFixture[str]
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


def typed(monkeypatch: pytest.MonkeyPatch, given: bytes, is_terminal: bool = False) -> None:
    """Standard input holds this."""
    stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    monkeypatch.setattr(stdin, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)


@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"cache": False}])
def test_what_was_learned_is_said(
    trained: Path, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for english, hindi in PAIRS.items():
        translate(str(trained), english, json_=True, **options)
        told = json.loads(capsys.readouterr().out)
        assert (told["source"], told["target"], told["finish"]) == (english, hindi, "end")
        assert -1 < told["score"] < 0
        assert told["tokens"] == len(hindi)


def test_lines_keep_their_order_and_empty_ones_stay(trained: Path) -> None:
    given = "home\n\nHow are you?\nI am fine\n"
    done = subprocess.run(
        [sys.executable, "-m", "lookleft", "translate", str(trained), "--engine", "torch"],
        input=given.encode(),
        capture_output=True,
    )
    assert done.stdout.decode() == "घर\n\nआप कैसे हैं?\nमैं ठीक हूँ\n"
    assert done.stderr.decode().startswith("4 sentences · ")
    assert done.stderr.decode().endswith("tok/s · greedy\n")


def test_a_file_is_read_like_standard_input(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.en"
    file.write_text("home\nI am fine\n", encoding="utf-8")
    translate(str(trained), str(file), quiet=True)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("घर\nमैं ठीक हूँ\n", "")
    file.write_text("\ufeffhome\n", encoding="utf-8")
    translate(str(trained), str(file), quiet=True)
    assert capsys.readouterr().out == "घर\n"


def test_what_is_no_file_is_said_before_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"gone.en: there is no such file"):
        translate("en-hi", str(tmp_path / "gone.en"))
    with pytest.raises(FileError, match=r'echo "and/or" \| lookleft translate en-hi'):
        translate("en-hi", "and/or")
    (tmp_path / "in.en").write_text("home")
    with pytest.raises(FileError, match=r"lookleft translate en-hi .*in\.en"):
        translate(str(tmp_path / "in.en"))


def test_a_line_that_cannot_be_read_is_named_and_the_others_are_translated(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, b"home\n\xff\xfe\nI am fine\n")
    with pytest.raises(FileError, match="standard input: 1 of 3 lines were not translated"):
        translate(str(trained), quiet=True)
    shown = capsys.readouterr()
    assert shown.out == "घर\n\nमैं ठीक हूँ\n"
    assert shown.err == "standard input, line 2: is not UTF-8: invalid start byte\n"


def test_several_translations_stand_below_each_other(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, b"home\n\nI am fine\n")
    translate(str(trained), beam=3, n_best=2, quiet=True)
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 3 * 2 + 1
    assert (lines[0], lines[2:4], lines[4]) == ("घर", ["", ""], "मैं ठीक हूँ")
    translate(str(trained), "home", beam=3, n_best=2, json_=True)
    told = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in told["alternatives"]] == [lines[1]]


def test_a_terminal_is_asked_for_sentences(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["home", "", ":n 2", "home", ":n x", ":why", ":q", "I am fine"])
    prompts = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return next(lines)

    typed(monkeypatch, b"", is_terminal=True)
    monkeypatch.setattr("builtins.input", answer)
    translate(str(trained))
    shown = capsys.readouterr()
    assert shown.out.split("\n")[:2] == ["    घर", "    घर"]
    assert len(shown.out.split("\n")) == 4  # one translation, then two, and the last line's end
    assert "score -0." in shown.err
    assert "tokens" in shown.err
    assert ":n takes a number from 1 to 16" in shown.err
    assert f'lookleft explain {trained} --src "home" --text' in shown.err
    assert prompts == ["src> "] * 7


def test_a_terminal_can_be_answered_in_json(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["home", ":n 2", "home", ":q"])
    typed(monkeypatch, b"", is_terminal=True)
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    translate(str(trained), json_=True)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["source"], first["target"]) == ("home", "घर")
    assert len(second["alternatives"]) == 1


def test_words_are_told_from_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    assert is_file_name(str(tmp_path / "a file"))
    assert is_file_name("in.en")
    assert is_file_name("some/where")
    assert not is_file_name("I am fine.")
    assert not is_file_name("Hello.")
    assert not is_file_name("home")
    assert not is_file_name("घर " * 400)  # longer than any name may be


def test_a_sentence_is_told_from_a_misspelt_model(tmp_path: Path) -> None:
    (tmp_path / "my model").mkdir()
    for sentence in ("How are you?", "Hello!", "I am fine", "Is it his/hers?", "घर " * 400, "a\nb"):
        assert is_sentence(sentence)
    for model in ("runs/en-ih", "en-ih", "my/other model", "my model.gguf", "home"):
        assert not is_sentence(model)
    assert not is_sentence(str(tmp_path / "my model"))


def test_without_a_model_the_bundled_one_translates(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CaptureText
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "FOLDER", tmp_path / "bundled")
    with pytest.raises(FileError, match="came without its translator"):
        translate("How are you?")
    shutil.copytree(trained / "model", tmp_path / "bundled" / "en-hi")
    translate("How are you?")
    translate("en-hi", "home")
    typed(monkeypatch, b"I am fine\n")
    translate(quiet=True)
    assert capsys.readouterr().out == "आप कैसे हैं?\nघर\nमैं ठीक हूँ\n"
    typed(monkeypatch, b"", is_terminal=True)
    answers = iter(["home", ":why", ":q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    translate()
    shown = capsys.readouterr()
    assert shown.out == "    घर\n"
    assert 'lookleft explain en-hi --src "home" --text' in shown.err


def test_one_sentence_does_not_wait_for_the_engine_to_be_compiled(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: CaptureText
) -> None:
    monkeypatch.setattr("lookleft.engine.compiling.is_compiled", lambda: False)
    translate_file.translate(str(trained), "home")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("घर\n", "")  # else it would say that it compiles


def test_a_misspelt_model_is_not_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=r'en-ih: does not exist.*echo "en-ih"'):
        translate("en-ih")
    with pytest.raises(FileError, match="runs/none: does not exist"):
        translate("runs/none", "I am fine.")


def test_a_folder_that_exists_comes_before_a_bundled_name(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CaptureText
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "FOLDER", tmp_path / "bundled")  # there is none
    shutil.copytree(trained / "model", tmp_path / "en-hi")
    translate("en-hi", "home")
    assert capsys.readouterr().out == "घर\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new": 0}, "max_new=0"),
        ({"beam": 0}, "width 0"),
        ({"beam": 2, "n_best": 3}, "n_best=3 of a beam of 2"),
        ({"length_penalty": "long"}, "give power:A"),
        ({"to": "xx"}, "cannot translate"),
        ({"threads": 0}, "--threads 0"),
        ({"activations": 8, "engine": "numba"}, "no weights of 8 bits"),
    ],
)
def test_impossible_wishes_are_refused(
    trained: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        translate(str(trained), "home", **options)
