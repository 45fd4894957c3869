"""Models that can be opened beside the one shown: found without being read, read when chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from explore.speakers import guesser, translator, writer

from lookleft import bundled
from lookleft.errors import FileError
from lookleft.explore import service
from lookleft.explore.known import known_models
from lookleft.explore.lesson import TraceRequest
from lookleft.explore.service import Explorer
from lookleft.explore.states import ExploreError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs/, models beside each other, and a bundled model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "FOLDER", tmp_path / "bundled")
    translator().save(tmp_path / "bundled" / "en-hi")
    translator().save(tmp_path / "runs" / "first" / "model")
    (tmp_path / "runs" / "unfinished").mkdir()
    writer().save(tmp_path / "models" / "writer")
    guesser().save(tmp_path / "models" / "guesser")
    (tmp_path / "models" / "some.gguf").touch()
    return tmp_path


def test_neighbours_runs_and_the_bundled_model_are_known_but_not_the_one_shown(here: Path) -> None:
    found = known_models(Path("models/writer"))
    assert list(found) == ["en-hi", "models/guesser", "models/some.gguf", "runs/first"]
    assert "runs/first" not in known_models(here / "runs" / "first")
    assert "en-hi" not in known_models(here / "bundled" / "en-hi")
    assert list(known_models(Path("none/at/all"))) == ["en-hi", "runs/first"]


def test_a_known_model_is_read_when_it_is_opened(here: Path) -> None:
    explorer = Explorer()
    explorer.load(Path("models/writer"))
    explorer.known = known_models(Path("models/writer"))
    assert "runs/first" in explorer.describe()["known"]
    told = explorer.open("runs/first")
    assert "runs/first" not in told["known"]
    assert [card["key"] for card in told["models"]] == ["main", "runs/first"]
    assert told["first"]["runs/first"]["source"] == "I am going home."
    request = TraceRequest(model="runs/first", source="how are you?")
    assert explorer.trace(request).card.family == "encoder-decoder"
    assert explorer.open("main")["models"] == told["models"]  # open already: nothing changes


def test_what_cannot_be_opened_is_named_and_changes_nothing(here: Path) -> None:
    explorer = Explorer()
    explorer.load(Path("models/writer"))
    explorer.known = known_models(Path("models/writer"))
    with pytest.raises(ExploreError, match="no model 'elsewhere' to open"):
        explorer.open("elsewhere")
    with pytest.raises(FileError, match=r"some\.gguf"):
        explorer.open("models/some.gguf")
    assert list(explorer.models) == ["main"]


def test_only_a_few_opened_models_are_held_in_memory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_OPENED", 1)
    explorer = Explorer()
    explorer.load(Path("models/writer"))
    explorer.known = known_models(Path("models/writer"))
    explorer.open("runs/first")
    explorer.open("models/guesser")
    assert list(explorer.models) == ["main", "models/guesser"]
    assert "runs/first" in explorer.describe()["known"]


def test_neighbours_that_cannot_be_read_are_no_models(here: Path) -> None:
    loop = here / "models" / "loop"
    loop.symlink_to(loop)
    assert "models/loop" not in known_models(Path("models/writer"))


def test_a_model_called_main_does_not_push_out_the_one_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_OPENED", 1)
    writer().save(here / "main")
    explorer = Explorer()
    explorer.load(Path("models/writer"))
    explorer.known = {"main": here / "main", "runs/first": here / "runs" / "first"}
    explorer.open("runs/first")
    assert list(explorer.models) == ["main", "runs/first"]
