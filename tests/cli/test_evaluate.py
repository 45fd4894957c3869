"""`lookleft evaluate` as typed: fixed names, files that sacreBLEU can score again, two systems."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import WORDS, small_settings, write_pairs, write_texts

from lookleft.cli.main import app
from lookleft.errors import FileError, InputError
from lookleft.train.run import Run


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two translators, a language model, and files to score them on."""
    folder = tmp_path_factory.mktemp("evaluate")
    pairs = write_pairs(folder / "pairs.tsv")
    for name, seed in (("run", "1"), ("other", "2")):
        settings = small_settings(pairs, train__seed=seed, train__steps="2", data__target="hi")
        list(Run.start(folder / name, settings).train())
    texts = small_settings(write_texts(folder / "text.txt"), task="lm", train__steps="2")
    list(Run.start(folder / "lm", texts).train())
    rows = [line.split("\t") for line in pairs.read_text().splitlines()]
    (folder / "src.en").write_text("".join(f"{row[0]}\n" for row in rows))
    with gzip.open(folder / "ref.hi.gz", "wt") as file:
        file.write("".join(f"{row[1]}\n" for row in rows))
    (folder / "ref.hi").write_text("".join(f"{row[1]}\n" for row in rows))
    return folder


def evaluate(here: Path, model: str, *arguments: str) -> None:
    words = [str(here / word[1:]) if word.startswith("@") else word for word in arguments]
    app(["evaluate", str(here / model), *words], result_action="return_value")


def test_the_names_are_fixed_and_sacrebleu_finds_the_same(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(here, "run", "--src", "@src.en", "--ref", "@ref.hi.gz", "--json", "--out", "@out.hi")
    found = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf", "signature", "perplexity", "bits_per_byte", "by_length"} <= set(found)
    assert "tok:intl" in found["signature"]  # the run says that its target is Hindi
    assert sum(row["n"] for row in found["by_length"]) == found["sentences"] == 36
    command = [sys.executable, "-m", "sacrebleu", str(here / "ref.hi"), "-i", str(here / "out.hi")]
    command += ["-m", "bleu", "chrf", "--chrf-word-order", "2", "--tokenize", "intl", "-w", "6"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bleu, chrf = json.loads(done.stdout)
    assert (round(found["bleu"], 6), round(found["chrf"], 6)) == (bleu["score"], chrf["score"])
    assert found["signature"] == f"BLEU|{bleu['signature']}"


def test_two_models_or_a_file_are_compared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(here, "run", "--src", "@src.en", "--ref", "@ref.hi", "--beam", "1", "--hyp", "@ref.hi")
    told = capsys.readouterr().out
    assert "chrF++ 100.00 (p = 0.0" in told
    words = ["--src", "@src.en", "--ref", "@ref.hi", "--beam", "1", "--against", "@other", "--json"]
    evaluate(here, "run", *words, "--tokenize", "none")
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["against"]["bleu_p"] <= 1
    assert "tok:none" in found["signature"]


def test_a_language_model_is_scored_on_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(here, "lm", "--text", "@text.txt", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["perplexity"] > 1
    assert found["bits_per_byte"] > 0
    evaluate(here, "lm", "--text", "@text.txt")
    assert "bits per byte" in capsys.readouterr().out


def test_the_texts_of_json_lines_are_scored_not_the_json(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (here / "text.txt").read_text().splitlines()
    held_out = tmp_path / "text.jsonl"
    held_out.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    evaluate(here, "lm", "--text", "@text.txt", "--json")
    evaluate(here, "lm", "--text", str(held_out), "--json")
    as_text, as_json = map(json.loads, capsys.readouterr().out.splitlines())
    assert as_json == as_text


def test_json_lines_whose_key_is_a_language_are_scored_as_they_were_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "text.jsonl"
    texts.write_text("".join(json.dumps({"en": f"{word} and two"}) + "\n" for word in WORDS))
    changes = {"task": "lm", "data__target": "en", "train__steps": "2"}
    list(Run.start(tmp_path / "run", small_settings(texts, **changes)).train())
    evaluate(tmp_path, "run", "--text", "@text.jsonl", "--json")
    n_tokens = sum(len(f"{word} and two") for word in WORDS)  # the first is given, an end is put to
    assert json.loads(capsys.readouterr().out)["tokens"] == n_tokens


def test_a_line_that_is_too_long_is_not_left_out_of_a_score(here: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text("one two\n" + "word " * 300_000 + "\n")
    with pytest.raises(FileError, match=r"longer than a line may be: 1 \(line 2\)"):
        evaluate(here, "lm", "--text", str(long))


def test_a_model_of_one_long_text_reads_the_file_as_in_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_texts(tmp_path / "text.txt")
    changes = {"task": "lm", "data__stream": "true", "train__length": "16", "train__steps": "2"}
    [*_, last] = Run.start(tmp_path / "run", small_settings(text, **changes)).train()
    evaluate(tmp_path, "run", "--text", "@text.txt", "--json")
    found = json.loads(capsys.readouterr().out)
    assert last.dev_loss is not None
    n_tokens = len(text.read_text()) - 1  # the first is given
    assert found["tokens"] == n_tokens  # one long text has no end to be guessed
    assert found["loss"] == pytest.approx(last.dev_loss, abs=8 / n_tokens)


def test_a_model_inside_of_a_run_is_scored_as_the_run(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, run = here / "pairs.tsv", tmp_path / "run"
    list(Run.start(run, small_settings(pairs, train__bleu_tokenize="char")).train())
    for model in (run, run / "model", run / "best"):
        evaluate(here, str(model), "--src", "@src.en", "--ref", "@ref.hi", "--json")
        assert "tok:char" in json.loads(capsys.readouterr().out)["signature"]


def test_what_another_kind_of_model_is_scored_on_is_said(here: Path) -> None:
    with pytest.raises(InputError, match="encoder-decoder: score it with --src FILE --ref FILE"):
        evaluate(here, "run", "--text", "@text.txt")
    with pytest.raises(InputError, match="decoder-only: score it with --text FILE"):
        evaluate(here, "lm", "--src", "@src.en", "--ref", "@ref.hi", "--beam", "1")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([], InputError, "say what to score on"),
        (["--src", "@src.en"], InputError, "say what to score on"),
        (["--text", "@text.txt", "--src", "@src.en"], InputError, "--src is for translations"),
        (["--text", "@text.txt", "--hyp", "@ref.hi"], InputError, "--hyp is for translations"),
        (["--text", "@text.txt", "--lowercase"], InputError, "--lowercase is for translations"),
        (["--src", "@src.en", "--ref", "@ref.hi", "--beam", "0"], InputError, "--beam 0"),
        (["--src", "@src.en", "--ref", "@text.txt.no"], FileError, "cannot be read"),
        (["--src", "@src.en", "--ref", "@short.hi"], FileError, "different lengths"),
        (
            ["--src", "@src.en", "--ref", "@ref.hi", "--beam", "1", "--hyp", "@short.hi"],
            FileError,
            "has 1 lines for 36 sentences",
        ),
        (
            ["--src", "@src.en", "--ref", "@ref.hi", "--beam", "1", "--tokenize", "flores200"],
            InputError,
            "use one of 13a",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused(
    words: list[str], error: type[Exception], message: str, here: Path
) -> None:
    (here / "short.hi").write_text("one\n")
    with pytest.raises(error, match=message):
        evaluate(here, "run", *words)


def test_translations_are_written_where_they_are_asked_for(here: Path) -> None:
    words = ["--src", "@src.en", "--ref", "@ref.hi", "--beam", "1", "--out"]
    evaluate(here, "run", *words, str(here / "new" / "folder" / "out.hi"))
    assert len((here / "new" / "folder" / "out.hi").read_text("utf-8").splitlines()) == 36
    with pytest.raises(FileError, match="is a folder; give the name of a file"):
        evaluate(here, "run", *words, str(here / "new"))
