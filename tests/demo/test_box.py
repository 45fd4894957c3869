"""The translator that comes along, as it is made: measured, described, put there whole or not."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from small_runs import SMALL

from lookleft.bundle import load
from lookleft.cli.evaluate import evaluate
from lookleft.demo.box import make
from lookleft.demo.box.__main__ import main
from lookleft.demo.box.card import UNREAD
from lookleft.demo.box.measure import SENTENCES
from lookleft.demo.box.origins import FREE
from lookleft.errors import FileError
from lookleft.train.run import Run
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings

PAIRS = {
    "I am fine.": "मैं ठीक हूँ।",
    "How are you?": "आप कैसे हैं?",
    "home": "घर",
    "Save the file": "फ़ाइल सहेजें",
}
ORIGINS = ("tatoeba", "tatoeba", "tatoeba", "gettext")


def write_data(folder: Path) -> None:
    """A training set and both validation sets, all of the same few pairs."""
    folder.mkdir()
    for name in ("train", "valid", "valid-tatoeba"):
        with gzip.open(folder / f"{name}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{english}\t{hindi}\n" for english, hindi in PAIRS.items())
        with gzip.open(folder / f"{name}.origin.txt.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{origin}\n" for origin in ORIGINS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/, a run of it, and the box made of that."""
    folder = tmp_path_factory.mktemp("box")
    write_data(folder / "data")
    list(Run.start(folder / "run", settings(folder)).train())
    words = [str(folder / "run"), "--data.dir", str(folder / "data"), "--quick"]
    assert main([*words, "--out", str(folder / "box")]) == 0
    return folder


def settings(folder: Path, origins: str = '["tatoeba"]') -> RunSettings:
    data = {
        "data.train": "train.tsv.gz",
        "data.dev": "valid.tsv.gz",
        "data.source": "en",
        "data.target": "hi",
        "data.origins": origins,
        "data.dir": str(folder / "data"),
    }
    return read_settings(None, SMALL | data)


def test_the_folder_is_a_model_of_8_bits_that_every_command_reads(place: Path) -> None:
    loaded = load(place / "box")
    assert loaded.quantised()
    assert loaded.languages == ("en", "hi")
    assert {path.name for path in place.iterdir()} == {"data", "run", "box"}  # nothing is left over


def test_the_card_names_data_authors_figures_verdict_and_limits(place: Path) -> None:
    card = (place / "box" / "README.md").read_text(encoding="utf-8")
    assert FREE["tatoeba"].authors in card
    assert "CC BY 2.0 FR" in card
    assert "gettext" not in card
    assert "| `valid.tsv.gz` | all | 4 | beam 5 |" in card
    assert "| `valid.tsv.gz` | those it was trained on | 3 | beam 5 |" in card
    assert "| `valid-tatoeba.tsv.gz` | all | 4 | greedy |" in card
    assert "tok:intl" in card
    assert "## What it cannot do" in card
    assert card.count(UNREAD) == len(SENTENCES) == 20
    assert "by `lookleft audit en-hi --length 16 --quick` on these weights" in card
    assert str(place) not in card


def test_the_figures_are_those_of_the_command_beside_them(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, texts in (("en", PAIRS), ("hi", PAIRS.values())):
        (place / "data" / f"valid.{side}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    evaluate(str(place / "box"), src=place / "data" / "valid.en", ref=place / "data" / "valid.hi")
    chrf = capsys.readouterr().out.split("\n")[0].split()[1]
    card = (place / "box" / "README.md").read_text(encoding="utf-8")
    assert f"| beam 5 | {chrf} |" in card


def test_the_settings_beside_the_weights_train_it_again_elsewhere(place: Path) -> None:
    file = place / "box" / "training.toml"
    assert str(place) not in file.read_text(encoding="utf-8")
    again = read_settings(file, {"data.dir": str(place / "data")})
    assert again == settings(place)


def test_text_that_may_not_be_passed_on_is_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, origins, says in (
        ("some", '["tatoeba", "gettext"]', "the licence of gettext"),
        ("all", "[]", "trained on all of"),
    ):
        Run.start(tmp_path / name, settings(place, origins))
        words = [str(tmp_path / name), "--data.dir", str(place / "data")]
        assert main([*words, "--out", str(tmp_path / "box")]) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "box").exists()


def test_what_was_there_stays_when_something_goes_wrong(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / folder.name).touch()
    monkeypatch.setattr(make, "MAX_BYTES", 1_000)
    with pytest.raises(FileError, match="the limit is 1,000; train a smaller model"):
        make.make_box(place / "run", place / "data", old)
    rename = os.rename

    def fail_for_new(source: Path, target: Path) -> None:
        if source == new:
            raise PermissionError(1, "not allowed")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_for_new)
    with pytest.raises(FileError, match="cannot be replaced"):
        make.replace_folder(new, old)
    monkeypatch.undo()
    assert [path.name for path in old.iterdir()] == ["old"]
    make.replace_folder(new, old)  # and this is what going well looks like
    assert [path.name for path in old.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [old]


def test_a_model_set_aside_by_one_that_was_killed_is_put_back(tmp_path: Path) -> None:
    (tmp_path / ".en-hi.0123.old").mkdir()
    (tmp_path / ".en-hi.0123.old" / "weights").touch()
    (tmp_path / ".en-hi.4567.part").mkdir()
    make.clean_up(tmp_path / "en-hi")
    assert [path.name for path in tmp_path.iterdir()] == ["en-hi"]
    assert (tmp_path / "en-hi" / "weights").exists()
