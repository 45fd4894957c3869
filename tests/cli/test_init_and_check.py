"""`init`, `check`, `ls`, `show`, `cp` and `config`: the way to a first run of one's own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from small_runs import SMALL, as_words, small_settings, write_pairs, write_texts

from lookleft.cli.check import look
from lookleft.cli.config import difference
from lookleft.cli.main import app
from lookleft.cli.recipes import find_config, find_recipes
from lookleft.errors import FileError, InputError
from lookleft.train.corpora import find_files, open_pairs, open_texts
from lookleft.train.keys import all_keys
from lookleft.train.settings_file import read_settings
from lookleft.train.survey import survey
from lookleft.train.where import line_of


def call(*words: str) -> object:
    return app(list(words), result_action="return_value")


@pytest.mark.parametrize(("task", "ending"), [("translate", "tsv"), ("lm", "txt"), ("mlm", "txt")])
def test_init_writes_every_option_and_data_that_fits(
    task: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("init", str(tmp_path / "demo"), "--task", task)
    assert "lookleft check" in capsys.readouterr().err
    config = tmp_path / "demo" / "lookleft.toml"
    settings = read_settings(config)
    assert settings.task == task
    text = config.read_text(encoding="utf-8")
    assert all(key.meaning for key in all_keys())  # an option without a word of explanation
    assert all(line_of(text, key.path) or f"# {key.name} =" in text for key in all_keys())
    assert find_files(settings.data, "dev")[0] == tmp_path / "demo" / "data" / f"dev.{ending}"
    if task == "translate":
        assert len(list(open_pairs(settings.data, "train"))) == 1_800
    call("init", str(tmp_path / "other"), "--task", task, "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["config"] == str(tmp_path / "other" / "lookleft.toml")
    assert said["counts"] == {"train": 1_800, "dev": 100, "test": 100}


@pytest.mark.parametrize(
    ("task", "use"),
    [
        ("translate", ["translate", "RUN", "I am fine.", "--beam", "1"]),
        ("lm", ["generate", "RUN", "I am", "--max-new", "3"]),
        ("mlm", []),
    ],
)
def test_what_init_wrote_is_checked_trained_and_used(
    task: str, use: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo, out = str(tmp_path / "demo"), str(tmp_path / "run")
    call("init", demo, "--task", task)
    short = {"train.steps": "2", "train.tokens": "256", "train.eval_sentences": "2"}
    short |= {"text.vocab_size": "400", "model.d_model": "16", "model.d_ff": "16"}
    call("check", demo, *as_words(short))
    call("train", demo, "--out", out, *as_words(short))
    said = capsys.readouterr().err
    assert f"model in {out}/model" in said
    if use:
        assert f"try:  lookleft {use[0]} {out} " in said
        call(*[out if word == "RUN" else word for word in use])
        assert capsys.readouterr().out


def test_the_comment_of_a_setting_that_is_no_single_value_shows_its_form() -> None:
    meanings = {key.path: key.meaning for key in all_keys()}
    assert '["a.en", "a.de"]' in meanings["data.train"]
    assert '["tatoeba"]' in meanings["data.origins"]
    assert '["tensorboard"]' in meanings["train.track"]
    assert 'like "rotary"' in meanings["model.positions"]


def test_init_touches_nothing_that_is_there_and_knows_its_languages(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match="not empty"):
        call("init", str(tmp_path))
    with pytest.raises(InputError, match="language 'de'"):
        call("init", str(tmp_path / "demo"), "--tgt", "de")
    with pytest.raises(InputError, match="nothing to translate"):
        call("init", str(tmp_path / "demo"), "--tgt", "en")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_check_says_what_a_run_would_be_and_keeps_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = write_pairs(tmp_path / "pairs.tsv")
    files = {"data.train": str(pairs), "data.dev": str(pairs), "data.max_tokens": "9"}
    words = as_words(SMALL | files)
    assert call("check", *words, "--out", str(tmp_path / "check.json")) == 0
    told = capsys.readouterr().out
    for line in ("config     ok", "causality  PASS", "model      ok      1+1 layers", "≈"):
        assert line in told
    assert "also in train: 36 of the dev sentences" in told
    found = json.loads((tmp_path / "check.json").read_text())
    assert found["data"]["n_too_long"] > 0
    for part, n_over in (("train", "n_too_long"), ("dev", "n_dev_too_long")):
        assert f"{found['data'][n_over]} pairs of {part} longer than 9 tokens" in told
    assert found["cost"]["seconds"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.tsv", "check.json"}


def test_check_takes_what_train_takes_and_writes_where_it_is_told(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    words = as_words(SMALL | {"data.train": str(pairs)})
    out = tmp_path / "new" / "found.json"
    assert call("check", *words, "--seed", "7", "--device", "cpu", "--out", str(out)) == 0
    assert "train.seed" in json.loads(out.read_text())["config"]["changed"]


@pytest.mark.parametrize(
    ("minutes", "said"),
    [("1e-9", "0 of them fit into 1e-09 minutes, the others will be left out"), ("999", "all of")],
)
def test_check_says_what_a_budget_of_minutes_will_do(
    minutes: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    words = as_words(SMALL | {"data.train": str(pairs), "train.minutes": minutes})
    call("check", *words)
    assert said in capsys.readouterr().out


def test_check_answers_no_to_a_model_that_peeks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    words = as_words(SMALL | {"data.train": str(pairs), "model.mask": "none"})
    assert call("check", *words, "--json") == 1
    assert json.loads(capsys.readouterr().out)["causality"]["verdict"] == "DISPROVED"


def test_a_masked_token_model_is_meant_to_see_both_ways(tmp_path: Path) -> None:
    settings = small_settings(write_texts(tmp_path / "text.txt"), task="mlm")
    assert look(settings)["causality"]["verdict"] == "BOTH WAYS"


def test_the_survey_counts_what_it_reads(tmp_path: Path) -> None:
    from lookleft.text.tokenizer import Tokenizer

    (tmp_path / "pairs.tsv").write_text("a b\tघर में\nc\tcafe\u0301 x\n", encoding="utf-8")
    settings = small_settings(tmp_path / "pairs.tsv", data__dev="false")
    tokenizer = Tokenizer.train(["a b c", "घर में"], kind="char", vocab_size=300)
    found = survey(settings, tokenizer)
    assert (found.n_train, found.n_dev, found.n_shared) == (2, 0, 0)
    assert (found.source.n_words, found.target.n_words) == (3, 4)
    assert found.source.n_tokens == len(tokenizer.encode("a b")) + 1
    assert found.target.n_not_nfc == 1
    assert 0 < found.target.devanagari_share < 1


def test_check_says_what_training_will_leave_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, dev = write_pairs(tmp_path / "pairs.tsv"), tmp_path / "dev.tsv"
    n_lines = len(pairs.read_text(encoding="utf-8").splitlines())
    pairs.write_text(pairs.read_text(encoding="utf-8") + "a\t\n\tb\n", encoding="utf-8")
    dev.write_text("a\tb\n\tb\n", encoding="utf-8")
    files = {"data.train": str(pairs), "data.dev": str(dev), "data.skip_empty": "true"}
    words = as_words(SMALL | files)
    call("check", *words)
    told = capsys.readouterr().out
    assert f"left out of train: empty 2 (line {n_lines + 1}, {n_lines + 2})" in told
    assert "left out of dev: empty 1 (line 2)" in told
    call("check", *words, "--json")
    assert json.loads(capsys.readouterr().out)["data"]["dev_left_out"] == "empty 1 (line 2)"


@pytest.mark.parametrize("name", sorted(find_recipes()))
def test_every_recipe_is_a_valid_config_that_says_what_it_is(name: str) -> None:
    text = find_recipes()[name].read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"lookleft train {name}" in text
    read_settings(find_recipes()[name])


def test_recipes_with_real_data_find_their_files(corpora: Path) -> None:
    folders = {
        "multi30k-en-de": "multi30k",
        "multi30k-en-fr": "multi30k",
        "en-hi": "en-hi",
        "shakespeare-char": "tinyshakespeare",
        "mlm": "tinystories",
    }
    assert set(folders) <= set(find_recipes())
    for name, folder in folders.items():
        given = {"data.dir": str(corpora / folder)}
        settings = read_settings(find_recipes()[name], given)
        assert settings.data.dev_set is not None
        for part in ("train", "dev"):
            assert find_files(settings.data, part)


def test_the_recipe_for_stories_reads_each_of_them_whole(corpora: Path) -> None:
    given = {"data.dir": str(corpora / "tinystories")}
    settings = read_settings(find_recipes()["mlm"], given)
    texts = [text.text for text in open_texts(settings.data, "dev")]
    assert len(texts) == 101
    assert not any("<|endoftext|>" in text for text in texts)


def test_recipes_are_listed_shown_and_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call("ls", "--json")
    assert set(json.loads(capsys.readouterr().out)) == set(find_recipes())
    call("show", "mlm")
    assert tomllib.loads(capsys.readouterr().out)["task"] == "mlm"
    call("cp", "mlm")
    assert Path("mlm.toml").read_bytes() == find_recipes()["mlm"].read_bytes()
    call("cp", "mlm", "other.toml", "--json")
    said = {"wrote": "other.toml", "next": "lookleft check other.toml"}
    assert json.loads(capsys.readouterr().out) == said
    with pytest.raises(FileError, match=r"mlm\.toml: is there already"):
        call("cp", "mlm.toml")
    with pytest.raises(InputError, match="did you mean mlm"):
        call("show", "mlmm")


def test_a_config_is_found_by_path_or_by_the_name_of_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in ("en-hi", "recipes/en-hi.toml"):
        assert find_config(word) == find_recipes()["en-hi"]
    with pytest.raises(FileError, match="did you mean en-hi"):
        find_config("en-hi.toml")  # a copy with changes, looked for in the wrong folder
    Path("en-hi.toml").write_text("")
    assert find_config("en-hi.toml") == Path("en-hi.toml")  # one's own comes first
    with pytest.raises(FileError, match="did you mean en-hi"):
        find_config("elsewhere/en-hi.toml")


def test_config_explains_keys_and_tells_configs_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call("config", "keys", "text", "--json")
    assert [key["key"] for key in json.loads(capsys.readouterr().out)] == [
        "text.kind",
        "text.vocab_size",
        "text.joint",
    ]
    with pytest.raises(InputError, match="no section 'txt'"):
        call("config", "keys", "txt")
    (tmp_path / "a.toml").write_text("[train]\nlr = 1.0\n")
    (tmp_path / "b.toml").write_text("[train]\nlr = 2.0\n")
    assert difference(str(tmp_path / "a.toml"), str(tmp_path / "b.toml")) == {
        "train.lr": (1.0, 2.0)
    }
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "lookleft.toml").write_text("[train]\nlr = 3.0\n")  # as by init
    assert difference(str(tmp_path / "begun"), str(tmp_path / "b.toml")) == {"train.lr": (3.0, 2.0)}
    with pytest.raises(InputError, match="compares two"):
        call("config", "diff", "mlm")


def test_a_key_is_found_in_its_own_section_only() -> None:
    text = 'task = "lm"\n[data]\nlr = 1\n\n[ train ]\n"lr" = 2\n'
    assert line_of(text, "task") == 1
    assert line_of(text, "train.lr") == 6
    assert line_of(text, "data.lr") == 3
    assert line_of(text, "model.lr") is None
    assert line_of(text, "train") == 5
