"""A run: what it leaves in its folder, and that stopping it changes nothing."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from small_runs import STOPPABLE, differences, small_settings, write_pairs

import lookleft
from lookleft.errors import ConfigError, FileError, LookleftError
from lookleft.train.prepare import prepare
from lookleft.train.run import Run
from lookleft.train.settings_file import read_settings, write_settings
from lookleft.train.track import read_metrics

SMALL = STOPPABLE | {"train.save_every": "3"}
settings_for = partial(small_settings, base=SMALL)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv")


@pytest.mark.parametrize("accumulate", ["1", "3"])
@pytest.mark.parametrize("dropout", ["0.0", "0.1"])
def test_a_run_stopped_and_taken_up_ends_bit_for_bit_the_same(
    accumulate: str, dropout: str, pairs: Path, tmp_path: Path
) -> None:
    kind = "bpe" if float(dropout) else "char"  # BPE-dropout cuts the words anew each epoch
    joined = "0.5" if float(dropout) else "0.0"  # and so are partners chosen
    settings = settings_for(
        pairs,
        train__accumulate=accumulate,
        data__bpe_dropout=dropout,
        data__joined=joined,
        text__kind=kind,
    )
    list(Run.start(tmp_path / "whole", settings).train())
    cut = Run.start(tmp_path / "cut", settings)
    for event in cut.train():
        if event.step == 5:
            cut.save()
            break
    again = Run.resume(tmp_path / "cut")
    assert again.progress.step == 5
    list(again.train())
    assert differences(tmp_path / "whole", tmp_path / "cut") == []
    assert Run.resume(tmp_path / "cut").is_finished


def test_a_run_leaves_what_it_promises(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    events = list(Run.start(folder, settings_for(pairs)).train())
    assert {f.name for f in folder.iterdir()} >= {
        "config.toml",
        "data.json",
        "metrics.jsonl",
        "checkpoints",
        "model",
        "tokenizer.json",
    }
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged] == [event.step for event in events] == list(range(1, 9))
    assert all({"loss", "lr", "tokens", "seconds"} <= set(row) for row in logged)
    assert ["dev_loss" in row for row in logged] == [n % 4 == 0 for n in range(1, 9)]
    bundle = lookleft.load(folder)
    assert bundle.tokenizer is not None
    assert bundle.tokenizer.decode(bundle.tokenizer.encode("one two")) == "one two"


def test_a_language_model_learns(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("abababababab\n" * 200)
    settings = settings_for(
        text,
        task="lm",
        train__steps="60",
        train__eval_every="60",
        train__length="32",
        train__warmup="5",
        train__lr="0.02",
        model__dropout="0.0",
    )
    *_, last = Run.start(tmp_path / "run", settings).train()
    assert last.dev_loss is not None
    assert last.dev_loss < 0.5  # of log(300) = 5.7


def test_a_run_asked_to_stop_finishes_its_step_and_can_go_on(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    events = list(run.train(is_stop_asked=lambda: run.progress.step >= 4))
    assert [event.step for event in events] == [1, 2, 3, 4]
    assert not (tmp_path / "run" / "model").exists()
    assert Run.resume(tmp_path / "run").progress == run.progress


def test_patience_ends_a_run_that_no_longer_gains(pairs: Path, tmp_path: Path) -> None:
    settings = settings_for(
        pairs, train__steps="100", train__eval_every="1", train__patience="2", train__lr="1e-12"
    )
    *_, last = Run.start(tmp_path / "run", settings).train()
    assert last.step < 100
    assert last.n_without_gain == 2


def test_changed_data_is_not_taken_up(pairs: Path, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings_for(pairs))
    run.save()
    pairs.write_text(pairs.read_text() + "seven\tseven\n")
    with pytest.raises(ConfigError, match="has changed since"):
        Run.resume(tmp_path / "run")


def test_a_folder_with_files_is_not_written_into(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match="is not empty"):
        Run.start(tmp_path / "run", settings_for(pairs))


def test_an_empty_folder_is_filled_not_replaced(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone may stand in it, and it may be the top of a disk: neither can be renamed."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    which = Path().stat().st_ino
    run = Run.start(Path(), small_settings(pairs))
    list(run.train())
    assert (tmp_path / "here").stat().st_ino == which
    assert Run.resume(tmp_path / "here").is_finished
    assert not list(tmp_path.glob("**/*.part"))


def test_a_wrong_setting_leaves_nothing_behind(pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no multiple of n_heads"):
        Run.start(tmp_path / "run", settings_for(pairs, model__n_heads="3"))
    with pytest.raises(FileError, match=r"data\.train = 'nowhere\.tsv': there is no such file"):
        Run.start(tmp_path / "run", settings_for(Path("nowhere.tsv")))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.learning_rate": "1"}, r"unknown option train\.learning_rate"),
        ({"train.warm_up": "1"}, r"did you mean train\.warmup"),
        ({"trian.lr": "1"}, "did you mean train"),
        ({"train.lr": "-1"}, r"train\.lr=-1: Input should be greater than 0"),
        ({"task.lr": "1"}, "task"),
    ],
)
def test_a_misspelt_setting_is_named(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(None, overrides)


@pytest.mark.parametrize("name", ["2026", "2026-11-18", "1e3", "nan", "true story"])
def test_a_name_that_looks_like_a_number_is_a_name(name: str) -> None:
    data = read_settings(None, {"data.dir": name, "data.train": name, "data.source": name}).data
    assert (Path(data.dir or "").name, data.train, data.source) == (name, name, name)
    assert read_settings(None, {"train.steps": "2026"}).train.steps == 2026


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = " + "[" * 100_000, "is no valid TOML: it is nested too deeply"),
        ("#" * 1_000_001, "has 1,000,001 bytes, the limit is 1,000,000"),
    ],
)
def test_a_config_that_is_none_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(content)
    with pytest.raises(LookleftError, match=message):
        read_settings(tmp_path / "my.toml")


def test_a_config_of_an_editor_that_marks_its_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[train]\nsteps = 7\n", encoding="utf-8-sig")
    assert read_settings(tmp_path / "my.toml").train.steps == 7


def test_settings_survive_being_written(tmp_path: Path) -> None:
    settings = read_settings(None, {"train.lr": "3e-4", "model.positions.kind": "rotary"})
    write_settings(settings, tmp_path / "config.toml")
    assert read_settings(tmp_path / "config.toml") == settings


def test_the_newest_checkpoint_that_is_sound_is_taken(pairs: Path, tmp_path: Path) -> None:
    list(Run.start(tmp_path / "run", settings_for(pairs)).train())
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    (newest / "model.safetensors").write_bytes(b"damaged")
    assert Run.resume(tmp_path / "run").progress.step == 6


def test_a_run_without_a_whole_checkpoint_is_refused_and_keeps_what_it_measured(
    pairs: Path, tmp_path: Path
) -> None:
    list(Run.start(tmp_path / "run", settings_for(pairs)).train())
    rows = read_metrics(tmp_path / "run")
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        (checkpoint / "model.safetensors").write_bytes(b"damaged")
    for _ in range(2):
        with pytest.raises(FileError, match="no checkpoint is left whole"):
            Run.resume(tmp_path / "run")
        assert read_metrics(tmp_path / "run") == rows
        shutil.rmtree(tmp_path / "run" / "checkpoints", ignore_errors=True)


@pytest.mark.parametrize("part", ["train", "dev"])
def test_text_that_does_not_go_round_is_refused_before_training(
    part: str, pairs: Path, tmp_path: Path
) -> None:
    (tmp_path / "two.tsv").write_text("a\tb\nc\td\n")
    settings = settings_for(pairs, **{f"data__{part}": str(tmp_path / "two.tsv")})
    with pytest.raises(ConfigError, match=f"data.{part}: 2 of its texts .* 3 processes"):
        prepare(tmp_path / "run", settings, n_processes=3)
    assert not (tmp_path / "run").exists()
    prepare(tmp_path / "run", settings, n_processes=2)


def test_a_run_killed_before_its_first_checkpoint_begins_again(pairs: Path, tmp_path: Path) -> None:
    Run.start(tmp_path / "run", settings_for(pairs))
    (tmp_path / "run" / "checkpoints" / "step-00000002").mkdir(parents=True)  # half of one
    assert Run.resume(tmp_path / "run").progress.step == 0


def test_what_is_put_over_the_settings_stays(pairs: Path, tmp_path: Path) -> None:
    Run.start(tmp_path / "run", settings_for(pairs)).save()
    Run.resume(tmp_path / "run", {"train.lr": "0.5"})
    assert Run.resume(tmp_path / "run").settings.train.lr == 0.5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.choose": "bleu", "train.eval_sentences": "0"}, "needs task"),
        ({"train.choose": "chrf", "task": "lm"}, "needs task"),
        ({"train.bleu_tokenize": "13b"}, "bleu_tokenize"),
        ({"data.bpe_dropout": "0.1", "text.kind": "unigram"}, "data.bpe_dropout needs"),
        ({"data.joined": "0.5", "task": "lm"}, "data.joined is for translate"),
        ({"model.positions.kind": "learned", "model.positions.max_len": "16"}, "has 16 places"),
        ({"data.document_end": "END"}, "data.document_end is for lm and mlm"),
        ({"train.seed": str(2**63)}, "train.seed"),
    ],
)
def test_settings_that_would_fail_later_are_refused_at_once(
    overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(None, overrides)


def test_text_of_which_nothing_fits_is_refused_before_a_folder_is_made(
    pairs: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"data\.train: there is nothing in it to use"):
        Run.start(tmp_path / "run", settings_for(pairs, data__max_tokens="2"))
    long = tmp_path / "long.tsv"
    long.write_text("one " * 300 + "\t" + "one " * 300 + "\n")  # more than data.max_tokens
    with pytest.raises(ConfigError, match=r"data\.dev: there is nothing in it to use"):
        Run.start(tmp_path / "run", settings_for(pairs, data__dev=str(long)))
    assert not (tmp_path / "run").exists()


def test_pairs_that_are_left_out_are_counted(pairs: Path, tmp_path: Path) -> None:
    n_lines = len(pairs.read_text().splitlines())
    with pairs.open("a") as file:
        file.write("one " * 30 + "\t" + "one\n")
    run = Run.start(tmp_path / "run", settings_for(pairs))
    next(iter(run.train()))
    assert run.read.n_given == n_lines + 1
    assert str(run.read) == f"too many tokens 1 (line {n_lines + 1})"


@pytest.mark.parametrize("task", ["lm", "mlm"])
def test_documents_of_many_lines_are_trained_on_whole(task: str, tmp_path: Path) -> None:
    text = tmp_path / "stories.txt"
    text.write_text("One.\nTwo.\nEND\nThree.\nEND\n" * 20)
    changes = {"task": task, "data__document_end": "END", "train__eval_sentences": "0"}
    run = Run.start(tmp_path / "run", settings_for(text, **changes))
    next(iter(run.train()))
    assert run.read.n_given == 40


def test_a_change_of_origins_is_noticed(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    origins = tmp_path / "pairs.origin.txt"
    n_lines = len(pairs.read_text().splitlines())
    origins.write_text("good\n" * (n_lines - 1) + "bad\n")
    Run.start(tmp_path / "run", settings_for(pairs, data__origins='["good"]')).save()
    origins.write_text("bad\n" + "good\n" * (n_lines - 1))
    with pytest.raises(ConfigError, match=r"origins: has changed since"):
        Run.resume(tmp_path / "run")
