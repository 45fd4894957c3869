"""From the data settings to corpora: folders, two sides, origins, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookleft.errors import ConfigError, FileError
from lookleft.train.corpora import find_files, fingerprint, open_pairs, open_texts
from lookleft.train.settings import DataSettings, read_settings, write_settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.en", "train.hi", "dev.en"):
        (tmp_path / name).write_text("a\nb\n")
    (tmp_path / "pairs.tsv").write_text("a\tb\nc\td\n")
    (tmp_path / "pairs.origin.txt").write_text("x\ny\n")
    return tmp_path


def test_relative_names_begin_at_the_data_folder(folder: Path) -> None:
    data = DataSettings(dir=str(folder), train=("train.en", "train.hi"))
    assert [pair.source for pair in open_pairs(data, "train")] == ["a", "b"]
    with pytest.raises(FileError, match=r"data\.train = 'pairs\.tsv': there is no such file"):
        open_pairs(DataSettings(train="pairs.tsv"), "train")


def test_one_name_and_two_languages_stand_for_two_files(folder: Path) -> None:
    data = DataSettings(dir=str(folder), train="train", dev="dev", source="en", target="hi")
    assert [path.name for path in find_files(data, "train")] == ["train.en", "train.hi"]
    assert set(fingerprint(data.model_copy(update={"dev": False}))) == {"train.en", "train.hi"}
    with pytest.raises(FileError, match=r"found .*dev\.en but not .*dev\.hi.*data\.dev = false"):
        find_files(data, "dev")


def test_a_data_folder_in_a_file_is_seen_from_that_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub").mkdir()
    config = folder / "sub" / "my.toml"
    config.write_text('[data]\ndir = ".."\ntrain = "pairs.tsv"\n')
    settings = read_settings(config)
    assert settings.data.dir == str(folder)
    monkeypatch.chdir(folder / "sub")
    assert read_settings(None, {"data.dir": ".."}).data.dir == str(folder)
    write_settings(settings, folder / "copy.toml")
    assert read_settings(folder / "copy.toml") == settings


def test_a_dev_set_can_be_refused_and_stays_refused(folder: Path) -> None:
    assert DataSettings().dev_set == "phrases"
    assert DataSettings(train="pairs.tsv").dev_set is None
    settings = read_settings(None, {"data.dev": "false", "data.train": "pairs.tsv"})
    write_settings(settings, folder / "config.toml")
    assert read_settings(folder / "config.toml").data.dev_set is None


def test_origins_and_the_built_in_grammar_are_put_together(folder: Path) -> None:
    data = DataSettings(dir=str(folder), train="pairs.tsv", origins=("y",), add_phrases=3)
    pairs = list(open_pairs(data, "train"))
    assert pairs[0].source == "c"
    assert [pair.line for pair in pairs] == [2, 3, 4, 5]
    alone = data.model_copy(update={"dev": "pairs.tsv"})
    assert [pair.source for pair in open_pairs(alone, "dev")] == ["c"]  # none are measured on


def test_the_marks_of_files_do_not_depend_on_where_they_lie(folder: Path, tmp_path: Path) -> None:
    data = DataSettings(dir=str(folder), train="pairs.tsv")
    before = fingerprint(data)
    (folder / "elsewhere").mkdir()
    (folder / "pairs.tsv").rename(folder / "elsewhere" / "pairs.tsv")
    moved = data.model_copy(update={"dir": str(folder / "elsewhere")})
    assert fingerprint(moved) == before
    (folder / "elsewhere" / "pairs.tsv").write_text("a\tx\n")
    assert fingerprint(moved) != before


def test_a_language_model_needs_one_text_file(folder: Path) -> None:
    with pytest.raises(ConfigError, match="needs one text file"):
        open_texts(DataSettings(train=("train.en", "train.hi")), "train")
    data = DataSettings(dir=str(folder), train="train.en")
    assert [line.text for line in open_texts(data, "train")] == ["a", "b"]


def test_an_empty_side_is_an_error_unless_it_may_be_skipped(folder: Path) -> None:
    (folder / "holes.tsv").write_text("a\tb\n\tc\n")
    data = DataSettings(dir=str(folder), train="holes.tsv")
    with pytest.raises(FileError, match=r"holes\.tsv:2: the source side is empty"):
        list(open_pairs(data, "train"))
    assert len(list(open_pairs(data.model_copy(update={"skip_empty": True}), "train"))) == 1
