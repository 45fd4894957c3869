"""From the data settings to corpora: folders, two sides, origins, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookleft.data.corpus import Line, Pair
from lookleft.errors import ConfigError, FileError
from lookleft.train.corpora import (
    find_files,
    fingerprint,
    is_read_by_language,
    open_pairs,
    open_texts,
    texts_of,
)
from lookleft.train.settings import DataSettings, Part
from lookleft.train.settings_file import read_settings, write_settings


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


@pytest.mark.parametrize(
    "named",
    [{"data.source": "hi"}, {"data.target": "en"}, {"data.source": "hi", "data.target": "en"}],
)
def test_the_built_in_grammar_is_read_in_the_direction_that_is_asked_for(
    named: dict[str, str], folder: Path
) -> None:
    data, plain = read_settings(None, named).data, DataSettings()
    assert data.languages == ("hi", "en")
    assert plain.languages == ("en", "hi")
    turned, given = (next(iter(open_pairs(each, "dev"))) for each in (data, plain))
    assert (turned.source, turned.target) == (given.target, given.source)
    pairs = named | {"data.dir": str(folder), "data.train": "pairs.tsv", "data.add_phrases": "1"}
    *_, added = open_pairs(read_settings(None, pairs).data, "train")
    assert added.target.isascii()
    assert not added.source.isascii()


@pytest.mark.parametrize("name", ["data.source", "data.target"])
@pytest.mark.parametrize("given", [{}, {"data.train": "pairs.tsv", "data.add_phrases": "5"}])
def test_the_built_in_grammar_knows_two_languages(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError, match=r"is English and Hindi, not de: .*en and hi, or hi and"):
        read_settings(None, given | {name: "de"})


@pytest.mark.parametrize("part", ["train", "dev"])
@pytest.mark.parametrize("origins", ["x\n", "x\ny\ny\n"], ids=["too few", "too many"])
def test_origins_must_be_as_many_as_the_pairs(part: Part, origins: str, folder: Path) -> None:
    (folder / "other.tsv").write_text("a\tb\nc\td\n")
    (folder / "other.origin.txt").write_text(origins)
    data = DataSettings(dir=str(folder), train="other.tsv", dev="other.tsv", origins=("x",))
    message = rf"other\.origin\.txt: has {origins.count(chr(10))} lines, .*other\.tsv has 2;"
    with pytest.raises(FileError, match=message):
        open_pairs(data, part)


def test_a_small_dev_set_need_not_have_every_origin(folder: Path) -> None:
    data = DataSettings(dir=str(folder), train="pairs.tsv", dev="pairs.tsv", origins=("x", "z"))
    with pytest.raises(ConfigError, match=r"data\.origins: z not found"):
        open_pairs(data, "train")
    assert [pair.source for pair in open_pairs(data, "dev")] == ["a"]


def test_the_name_of_a_file_says_how_its_texts_are_read(folder: Path) -> None:
    (folder / "x.jsonl").write_text('{"text": "a\\nb"}\n')
    (folder / "x.txt").write_text("a\n--\nb\nc\n")
    assert list(texts_of(folder / "x.jsonl")) == [Line("a\nb", 1)]
    assert list(texts_of(folder / "x.jsonl", "--")) == [Line("a\nb", 1)]
    assert [line.text for line in texts_of(folder / "x.txt")] == ["a", "--", "b", "c"]
    assert [line.text for line in texts_of(folder / "x.txt", "--")] == ["a", "b\nc"]
    data = DataSettings(dir=str(folder), train="x.txt", document_end="--")
    assert open_texts(data, "train") == texts_of(folder / "x.txt", "--")


def test_the_languages_are_the_keys_of_json_that_has_no_others(folder: Path) -> None:
    (folder / "x.jsonl").write_text('{"en": "a", "hi": "b"}\n')
    data = DataSettings(dir=str(folder), train="x.jsonl")
    with pytest.raises(
        FileError, match=r"its keys are 'en', 'hi'\. .* --data\.source KEY --data\."
    ):
        list(open_pairs(data, "train"))
    with pytest.raises(FileError, match=r"no 'text'; .* --data\.target KEY"):
        list(open_texts(data, "train"))
    turned = data.model_copy(update={"source": "hi", "target": "en"})
    assert list(open_pairs(turned, "train")) == [Pair("b", "a", 1)]
    assert list(open_texts(turned, "train")) == [Line("a", 1)]
    assert is_read_by_language(turned)
    assert not is_read_by_language(turned.model_copy(update={"train": "pairs.tsv"}))


def test_a_document_end_that_never_comes_is_refused_before_training(folder: Path) -> None:
    (folder / "x.txt").write_text("a\n--\nb\n")
    data = DataSettings(dir=str(folder), train="x.txt", dev="x.txt", document_end="---")
    with pytest.raises(
        ConfigError, match=r"data\.document_end = '---': no line of .*x\.txt says.*--data\.stream"
    ):
        open_texts(data, "train")
    assert [line.text for line in open_texts(data, "dev")] == ["a\n--\nb"]


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
