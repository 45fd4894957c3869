"""The models that come with lookleft: found by name, small, described, and in the wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from explore.speakers import ENGLISH, HINDI, translator
from hatchling.builders.wheel import WheelBuilder

import lookleft
from lookleft import bundled
from lookleft.bundle import load
from lookleft.bundled import DEFAULT, FOLDER, find_model
from lookleft.cli.score import score
from lookleft.cli.target import load_target
from lookleft.demo.box.card import UNREAD
from lookleft.demo.box.make import MAX_BYTES
from lookleft.errors import FileError

ROOT = Path(__file__).parents[1]
KINDS = {".json", ".md", ".safetensors", ".toml"}  # nothing that could run code when it is read


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of bundled models, and no other folder in sight."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "FOLDER", tmp_path / "bundled")
    return tmp_path / "bundled"


def test_nothing_and_its_name_both_mean_the_model_that_comes_along(shelf: Path) -> None:
    translator().save(shelf / DEFAULT)
    assert find_model(None) == find_model(DEFAULT) == shelf / DEFAULT
    assert find_model("runs/mine") == Path("runs/mine")


def test_a_path_that_exists_comes_first(shelf: Path, tmp_path: Path) -> None:
    translator().save(shelf / DEFAULT)
    (tmp_path / DEFAULT).mkdir()
    assert find_model(DEFAULT) == Path(DEFAULT)


@pytest.mark.parametrize("word", [None, DEFAULT])
def test_a_copy_without_the_model_says_so_in_one_line(shelf: Path, word: str | None) -> None:
    with pytest.raises(FileError, match="came without its translator") as caught:
        load(word)
    assert "\n" not in str(caught.value)
    shelf.joinpath(DEFAULT).mkdir(parents=True)  # half a folder is no model either
    with pytest.raises(FileError, match="came without its translator"):
        load(word)


def test_commands_and_functions_know_it_by_name(
    shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator().save(shelf / DEFAULT)
    assert lookleft.load().network.n_parameters == translator().network.n_parameters
    assert load_target(DEFAULT)
    score(DEFAULT, src=ENGLISH, text=HINDI)
    assert capsys.readouterr().out


def test_files_of_a_bundled_model_are_part_of_the_wheel(tmp_path: Path) -> None:
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    folder = tmp_path / "src" / "lookleft" / "bundled" / DEFAULT
    folder.mkdir(parents=True)
    names = ["model.safetensors", "tokenizer.json", "README.md", "training.toml"]
    for name in names:
        (folder / name).touch()
    shutil.copy(ROOT / "src" / "lookleft" / "__init__.py", tmp_path / "src" / "lookleft")
    assert {f"lookleft/bundled/{DEFAULT}/{name}" for name in names} <= wheel_files(tmp_path)


def test_the_wheel_of_this_tree_has_the_whole_model() -> None:
    files = [path for path in (FOLDER / DEFAULT).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert f"lookleft/bundled/{DEFAULT}/model.safetensors" in wanted
    assert wanted <= wheel_files(ROOT)


def wheel_files(root: Path) -> set[str]:
    """What a wheel built in that folder would hold."""
    return {file.distribution_path for file in WheelBuilder(str(root)).recurse_included_files()}


def test_the_model_is_small_and_holds_nothing_but_data() -> None:
    files = [path for path in (FOLDER / DEFAULT).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    assert {path.suffix for path in files} <= KINDS


def test_the_card_is_there_and_a_person_has_read_the_sentences() -> None:
    card = (FOLDER / DEFAULT / "README.md").read_text(encoding="utf-8")
    assert "**VERIFIED** by `lookleft audit en-hi" in card
    assert "CC BY-SA" in card
    assert UNREAD not in card


def test_it_translates_everyday_sentences() -> None:
    model = lookleft.load(engine="torch")
    answers = model.translate(["How are you?", "I am fine."])
    assert answers == ["आप कैसे हैं?", "मैं ठीक हूँ।"]
