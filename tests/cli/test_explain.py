"""`lookleft explain`: one answer on the command line, or a page on this machine."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from explore.speakers import ENGLISH, HINDI, translator, writer

from lookleft.cli.explain import explain
from lookleft.errors import FileError, InputError
from lookleft.explore.page import Page


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    translator().save(folder / "translator")
    writer().save(folder / "writer")
    return folder


def printed(capsys: pytest.CaptureFixture[str], model: Path, **options: Any) -> str:
    explain(str(model), **options)
    return capsys.readouterr().out


def test_text_goes_to_standard_output(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, saved / "translator", src=ENGLISH, tgt=HINDI, text=True, layer=1)
    assert said.startswith("decoder self-attention · layer 1 · head 0 · weights")
    assert "max difference" in said


def test_json_is_one_object_with_the_chosen_heads(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = printed(capsys, saved / "writer", src="the cat sat", json_=True, scope="head", head=1)
    data = json.loads(said)
    assert data["views"][0]["heads"][0]["head"] == 1
    assert data["views"][0]["trace"]["target"]["text"] == "the cat sat"


def test_a_picture_is_written(saved: Path, tmp_path: Path) -> None:
    explain(str(saved / "writer"), tgt="the", write=True, max_new=3, svg=tmp_path / "fig.svg")
    assert (tmp_path / "fig.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"src": ""}, "type a sentence"),
        ({"src": ENGLISH, "layer": 9}, "layers 0 to 1"),
        ({"src": ENGLISH, "layer": -1}, "greater than or equal to 0"),
        ({"src": ENGLISH, "cover": "x"}, "--cover"),
        ({"src": ENGLISH, "max_new": 0}, "max_new"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    saved: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        explain(str(saved / "translator"), text=True, **options)


def test_a_sentence_for_the_live_page_is_typed_there(saved: Path) -> None:
    with pytest.raises(InputError, match="--text"):
        explain(str(saved / "translator"), src=ENGLISH)


def test_a_folder_that_is_not_there_is_named_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no folder"):
        explain(str(tmp_path / "no-model-either"), svg=tmp_path / "none" / "fig.svg")


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        explain(str(tmp_path / "nothing"), text=True)


@pytest.fixture
def can_interrupt() -> Iterator[None]:
    """Ctrl-C reaches programs that are started here: a shell may have had it ignored for all."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_page_that_is_not_built_is_asked_for_at_once(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Page, "is_built", False)
    with pytest.raises(FileError, match="make web"):
        explain(str(saved / "translator"))


@pytest.mark.skipif(not Page().is_built, reason="the page is not built: `make web`")
@pytest.mark.usefixtures("can_interrupt")
def test_the_page_is_served_until_it_is_interrupted(saved: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "lookleft",
        "explain",
        str(saved / "translator"),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[0]
        with urllib.request.urlopen(f"{address}/api/health", timeout=30) as answer:
            assert json.loads(answer.read()) == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()  # one that does not hear must not be waited for
