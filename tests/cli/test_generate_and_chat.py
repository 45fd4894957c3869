"""`lookleft generate` and `lookleft chat`: what they print, and what they refuse."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from generate.speakers import TEMPLATE, speaker
from weights import SMOLLM2, packaged

import lookleft
from lookleft.cli import chat as chat_file
from lookleft.cli import generate as generate_file
from lookleft.cli.drawing import Computing, Drawing
from lookleft.errors import InputError

# The engine has tests of its own; here it would have to be compiled first.
chat = partial(chat_file.chat, computing=Computing(engine="torch"))
generate = partial(generate_file.generate, computing=Computing(engine="torch"))
load = partial(lookleft.load, engine="torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("writer")
    speaker("writer", chat_template=TEMPLATE).save(folder)
    return str(folder)


def typed(monkeypatch: pytest.MonkeyPatch, given: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))


def test_the_prompt_is_printed_with_what_follows(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "I am" + load(folder).generate("I am", max_new=8) + "\n"
    recomputed = {"computing": Computing(engine="torch", cache=False)}
    for options in ({}, {"stream": True}, recomputed, {"lookup": True}, {"draft": folder}):
        generate(folder, "I am", max_new=8, **options)  # type: ignore[arg-type]
        assert capsys.readouterr().out == expected
    typed(monkeypatch, b"I am\n")
    generate(folder, max_new=8)
    assert capsys.readouterr().out == expected


def test_a_seed_repeats_and_another_does_not(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for seed in (1, 1, 2):
        generate(folder, "I am", max_new=8, drawing=Drawing(temperature=1.5, top_p=0.95, seed=seed))
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_json_tells_all(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    generate(folder, "I am", max_new=5, beam=3, n_best=2, json_=True)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {
        "prompt",
        "text",
        "finish",
        "score",
        "ids",
        "log_probs",
        "tokens",
        "alternatives",
    }
    assert told["tokens"] == {"prompt": len(load(folder).encode("I am")), "new": len(told["ids"])}
    assert len(told["alternatives"]) == 1
    generate(folder, "I am", max_new=8, stream=True, json_=True)
    *pieces, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert "".join(piece["piece"] for piece in pieces) == last["text"]


def test_a_text_ends_before_a_stop_string(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = load(folder).generate("I am", max_new=12)
    generate(folder, "I am", max_new=12, stop=["never there", whole[4:6]], json_=True)
    told = json.loads(capsys.readouterr().out)
    assert told["text"] == whole[: whole.index(whole[4:6])]
    assert told["finish"] == "stop"


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("", {}, "the prompt is empty"),
        ("home " * 200, {}, "but this model reads at most 64"),
        ("I am", {"max_new": 0}, "max_new=0"),
        ("I am", {"drawing": Drawing(temperature=float("nan"))}, "temperature=nan"),
        ("I am", {"drawing": Drawing(top_p=0.0)}, "top_p=0.0"),
        ("I am", {"stop": [""]}, "a stop string is empty"),
        ("I am", {"beam": 2, "drawing": Drawing(temperature=1.0)}, "exclude each other"),
    ],
)
def test_impossible_wishes_are_refused(
    folder: str, prompt: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        generate(folder, prompt, **options)


def test_standard_input_that_is_not_utf8_is_refused(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"I am \xff")
    with pytest.raises(InputError, match="standard input: is not UTF-8 at byte 5"):
        generate(folder)
    typed(monkeypatch, b"I am \xff\n")
    with pytest.raises(InputError, match="standard input: is not UTF-8"):
        chat(folder)


def test_an_error_is_one_sentence_and_an_exit_code(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lookleft", "generate", folder, "I am", "--top-p", "0"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: top_p=0.0 must be above 0 and at most 1\n"


def test_a_conversation_from_a_pipe(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, b"I am\n\nhome</s>\n:new\nI am\n:q\nlost\n")
    chat(folder, max_new=4)
    shown = capsys.readouterr()
    first, second, end = shown.out.split("\n")
    assert first == second  # forgotten in between
    assert end == ""
    assert "control token" in shown.err
    assert "cut at 4 tokens" in shown.err


def test_a_conversation_for_programs_is_one_object_a_reply(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, b"I am\nhome</s>\n")
    chat(folder, max_new=4, json_=True)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["finish"] == "length"
    assert first["tokens"] == 4
    assert isinstance(first["text"], str)
    assert "control token" in second["error"]


def test_a_model_without_a_template_does_not_chat(tmp_path: Path) -> None:
    speaker("writer").save(tmp_path)
    with pytest.raises(InputError, match="no chat template"):
        chat(str(tmp_path))


@pytest.mark.slow
def test_smollm_chats(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = packaged(*SMOLLM2)
    typed(monkeypatch, b"What is the capital of France? Answer in one word.\n")
    chat(str(path), max_new=12)
    assert "Paris" in capsys.readouterr().out
