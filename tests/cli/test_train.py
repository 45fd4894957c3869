"""`lookleft train` as typed: overrides, resuming, and the loud word about a model that peeks."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch

from lookleft.bundle import load
from lookleft.cli.begin import name_of
from lookleft.cli.display import live_line, plain_line
from lookleft.cli.main import app
from lookleft.cli.train import log
from lookleft.errors import ConfigError, FileError, InputError, LookleftError
from lookleft.nn import fused
from lookleft.train.event import Event
from lookleft.train.run import Run
from lookleft.train.settings_file import read_settings

SETTINGS = {
    "text.kind": "char",
    "text.vocab-size": "300",
    "model.d-model": "16",
    "model.d-ff": "16",
    "model.n-layers": "1",
    "train.steps": "3",
    "train.tokens": "64",
    "train.log-every": "1",
    "data.max-tokens": "40",
}
SMALL = [word for name, value in SETTINGS.items() for word in (f"--{name}", value)]


def run(*arguments: str) -> None:
    app(["train", *arguments], result_action="return_value")


def settings_of(pairs: str) -> dict[str, str]:
    return SETTINGS | {"data.train": pairs, "data.dev": pairs}


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{n}\t{n}\n" for n in range(50)))
    return str(path)


def test_settings_come_from_file_and_command_line(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "my.toml"
    config.write_text(f'[data]\ntrain = "{pairs}"\ndev = "{pairs}"\n[train]\nlr = 1.0\n')
    out = str(tmp_path / "run")
    run(str(config), "--out", out, "--json", *SMALL, "--train.lr=1e-3", "--train.warmup", "0")
    *events, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["step"] for event in events] == [1, 2, 3]
    assert events[0]["lr"] == pytest.approx(1e-3)
    assert last == {"step": 3, "is_finished": True, "run": out, "model": f"{out}/model"}
    run("--resume", "--out", out)
    assert "nothing to do: this run finished at step 3" in capsys.readouterr().err


@pytest.mark.parametrize(("source", "sentence"), [("en", "I am fine."), ("hi", "मैं ठीक हूँ।")])
def test_what_to_try_next_is_in_the_language_that_the_model_reads(
    source: str, sentence: str, pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    run("--out", out, "--data.train", pairs, "--data.dev", pairs, "--data.source", source, *SMALL)
    assert f'try:  lookleft translate {out} "{sentence}"' in capsys.readouterr().err


def test_a_quiet_run_prints_nothing_and_logs_all(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["--out", str(out), "--data.train", pairs, *SMALL, "-q"]
    with pytest.raises(InputError, match="give one of them"):
        run(*words, "--json")
    run(*words)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert "step=3" in (out / "train.log").read_text()


def test_a_model_that_peeks_is_announced(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--data.train", pairs, "--data.dev", pairs]
    run("--out", str(tmp_path / "run"), *files, *SMALL, "--model.mask", "none")
    assert "PEEKS at the future" in capsys.readouterr().err


def test_compiling_is_announced_before_it_makes_one_wait(
    pairs: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = ["--data.train", pairs, "--data.dev", pairs]
    for is_there in (True, False):
        monkeypatch.setattr(fused, "are_kernels_compiled", partial(bool, is_there))
        run("--out", str(tmp_path / f"run-{is_there}"), *files, *SMALL)
        said = capsys.readouterr().err
        assert ("compiling the kernels of training, once" in said) != is_there


def test_the_time_left_counts_this_sitting_only(pairs: str, tmp_path: Path) -> None:
    files = ["--data.train", pairs, "--data.dev", pairs]
    run("--out", str(tmp_path / "run"), *files, *SMALL)
    stopped = Run.resume(tmp_path / "run", {"train.steps": "100"})
    stopped.first_step = 90
    line = plain_line(stopped, Event(step=95, loss=1.0, lr=1e-3, tokens=10, seconds=60.0))
    assert "left=1:00" in line


def test_a_budget_of_minutes_is_told_shown_and_prolonged(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(step=0.25)  # seconds: time passes by being asked for
    monkeypatch.setattr(Run, "__init__", partialmethod(begin_with, ticks.__next__, Run.__init__))
    out, files = tmp_path / "run", ["--data.train", pairs, "--data.dev", "false"]
    run("--out", str(out), *files, *SMALL, "--train.steps", "900", "--train.minutes", "0.5")
    told = capsys.readouterr().err
    (line,) = [line for line in told.splitlines() if "steps fit into" in line]
    n_fit = int(line.split()[0])
    assert 5 < n_fit < 100
    assert line.startswith(f"{n_fit} of 900 steps fit into 0.5 minutes at ")
    assert line in (out / "train.log").read_text()
    assert "early stop" not in told
    assert f"steps: {n_fit} of {n_fit}, as 0.5 minutes were too few for 900" in (
        (out / "model" / "README.md").read_text()
    )
    run("--resume", "--out", str(out))
    told = capsys.readouterr().err
    assert f"finished at step {n_fit}. To go on anyway: --train.minutes 1\n" in told
    fitted = Run.resume(out)
    event = Event(step=n_fit - 2, loss=1.0, lr=1e-3, tokens=10, seconds=n_fit - 2.0)
    assert "left=0:02" in plain_line(fitted, event)
    assert f"{n_fit}/{n_fit}" in live_line(fitted, event, seconds=1.0)


def begin_with(
    self: Run, clock: Callable[[], float], begin: Callable[..., None], *words: Any
) -> None:
    begin(self, *words)
    self.clock = clock


def test_a_run_leaves_its_log_command_report_card_and_verdict(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    files = ["--data.train", pairs, "--data.dev", pairs, "--data.target", "hi"]
    run("--out", str(out), *files, *SMALL, "--seed", "7", "--device", "cpu", "--threads", "1")
    told = capsys.readouterr().err
    assert "seed 7" in told
    assert "audit VERIFIED on the trained weights" in told
    assert "tok:intl" in told  # the signature beside the score
    assert json.loads((out / "audit.json").read_text())["verdict"] == "VERIFIED"
    assert "lookleft audit --quick" in (out / "model" / "README.md").read_text()
    assert "Audit of the trained weights" in (out / "report.html").read_text()
    assert (out / "train.log").read_text().count("train step=") == 3
    assert (out / "command.txt").read_text().startswith("lookleft")
    assert (out / "last").resolve() == (out / "checkpoints" / "step-00000003").resolve()
    logged = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {"step", "loss", "lr", "tokens", "seconds"} <= set(logged[0])
    assert {"dev_loss", "chrf", "bleu"} <= set(logged[-1])
    (out / "model" / "README.md").unlink()  # as if it had been killed after its last step
    run("--resume", str(out))
    told = capsys.readouterr().err
    assert "nothing to do: this run finished at step 3" in told
    assert "--train.steps 6" in told
    assert (out / "model" / "README.md").exists()


def test_an_interrupted_run_says_how_to_go_on_and_does(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, threads = str(tmp_path / "run"), torch.get_num_threads()
    files = ["--data.train", pairs, "--data.dev", pairs]

    def interrupt_at_two(self: Run, event: Event, *rest: object) -> Event:
        if event.step == 2:
            signal.raise_signal(signal.SIGINT)
        return event

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_logged", interrupt_at_two)
        with pytest.raises(SystemExit) as ended:
            run("--out", out, *files, *SMALL, "--threads", str(threads))
    assert ended.value.code == 130
    told = capsys.readouterr().err
    assert "finishing this step" in told
    assert f"continue with:  lookleft train --resume --out {out} --threads {threads}\n" in told
    run("--resume", "--out", out)
    told = capsys.readouterr().err
    assert f"resuming {out} at step 2 of 3 (epoch " in told
    assert "rounded otherwise" not in told


def test_another_number_of_threads_is_told(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    run("--out", str(out), "--data.train", pairs, *SMALL)
    facts = json.loads((out / "run.json").read_text())
    now = facts["threads"]
    (out / "run.json").write_text(json.dumps(facts | {"threads": now + 1}))
    run("--resume", "--out", str(out), "--train.steps", "4")
    said = f"{now} threads, {now + 1} before: sums are rounded otherwise (--threads {now + 1})"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [FileError("a disk is full"), KeyboardInterrupt(), ValueError("a fault of ours")]
)
def test_a_run_that_is_cut_short_says_what_is_safe_and_how_to_go_on(
    error: BaseException,
    pairs: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "a run"
    go_on = f"continue with:  lookleft train --resume --out '{out}'"

    def fail_at_two(self: Run, event: Event, *rest: object) -> Event:
        if event.step == 2:
            raise error
        return event

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_logged", fail_at_two)
        with pytest.raises(type(error)):
            run("--out", str(out), "--data.train", pairs, *SMALL)
        assert f"stopped at step 2, nothing was saved yet; {go_on}" in capsys.readouterr().err
        with pytest.raises(type(error)):
            run("--resume", "--out", str(out), "--train.save-every", "1")
        assert f"stopped at step 2, saved up to step 1; {go_on}" in capsys.readouterr().err
        assert type(error).__name__ in (out / "train.log").read_text()
    run("--resume", "--out", str(out))
    assert "resuming" in capsys.readouterr().err


def test_a_run_is_called_after_its_config_or_the_folder_of_that(tmp_path: Path) -> None:
    assert name_of(None, "mlm").startswith("mlm-")
    assert name_of(tmp_path / "captions.toml", "translate").startswith("captions-")
    assert name_of(tmp_path / "lookleft.toml", "translate").startswith(f"{tmp_path.name}-")


def test_a_run_named_as_a_config_is_not_begun_again(pairs: str, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    run("--out", out, "--data.train", pairs, *SMALL)
    with pytest.raises(FileError, match=f"is a run.*lookleft train --resume --out {out};"):
        run(out)


def test_a_run_without_a_dev_set_has_a_report_from_its_first_save_on(
    pairs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real = tmp_path / "run", Run._logged

    def stop_at_two(self: Run, event: Event, *rest: Any) -> Event:
        if event.step == 2:
            signal.raise_signal(signal.SIGINT)
        return real(self, event, *rest)

    monkeypatch.setattr(Run, "_logged", stop_at_two)
    with pytest.raises(SystemExit):
        run("--out", str(out), "--data.train", pairs, "--data.dev", "false", *SMALL)
    assert "step 2" in (out / "report.html").read_text()


def test_an_early_stop_names_the_value_that_was_not_beaten(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--data.train", pairs, "--data.dev", pairs]
    # A rate that destroys what was learned: after the first evaluation nothing gets better.
    wild = ["--train.lr", "50", "--train.warmup", "0", "--train.steps", "40"]
    wild += ["--train.eval-every", "1", "--train.patience", "2", "--train.eval-sentences", "0"]
    run("--out", str(tmp_path / "run"), *files, *SMALL, *wild)
    told = capsys.readouterr().err
    assert "early stop at step " in told
    assert "for 2 checks" in told
    run("--resume", "--out", str(tmp_path / "run"))
    assert "(early stop). To go on anyway: --train.steps 80 --train.patience 0" in (
        capsys.readouterr().err
    )


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    pairs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a file, not a folder"):
        run("--out", str(tmp_path / "file" / "run"), "--data.train", pairs, *SMALL)
    monkeypatch.setattr("lookleft.files.os.access", lambda path, mode: False)
    with pytest.raises(FileError, match="is read-only"):
        run("--out", str(tmp_path / "run"), "--data.train", pairs, *SMALL)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data.train": '["a.en", "short.de"]'}, "different lengths"),
        ({"data.train": '["a.en", "a.de"]', "data.dev": '["a.en", "short.de"]'}, "different"),
        ({"data.train": "holes.tsv"}, r"holes\.tsv:2: the target side is empty"),
        ({"data.train": "a", "data.dev": "dev"}, r"found .*dev\.en but not .*dev\.de"),
        ({"data.train": "a", "data.dev": "empty.tsv"}, "nothing to measure on"),
        ({"data.train": "a", "train.track": '["wandbb"]'}, "no tracker 'wandbb'"),
    ],
)
def test_bad_data_is_named_before_anything_is_written(
    settings: dict[str, str], message: str, tmp_path: Path
) -> None:
    for name, lines in {"a.en": 3, "a.de": 3, "short.de": 2, "dev.en": 3, "empty.tsv": 0}.items():
        (tmp_path / name).write_text("some words\n" * lines)
    (tmp_path / "holes.tsv").write_text("a\tb\nc\t\n")
    given = {"data.dir": str(tmp_path), "data.source": "en", "data.target": "de"} | settings
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    with pytest.raises(LookleftError, match=message):
        run("--out", str(tmp_path / "run"), *SMALL, *words)
    assert not (tmp_path / "run").exists()


def test_a_misspelt_key_is_named_with_its_line(tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text("[data]\n\n[train]\nlearning_rate = 1.0\n")
    with pytest.raises(
        ConfigError, match=r"learning_rate \(.*my\.toml:4\); did you mean train\.lr"
    ):
        run(str(config), "--out", str(tmp_path / "run"))


def test_a_misspelt_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean train\.warmup"):
        run("--out", str(tmp_path / "run"), "--train.warm-up", "3")
    assert not (tmp_path / "run").exists()


def test_a_run_can_be_ended_where_it_stands(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    settings = read_settings(None, settings_of(pairs) | {"train.steps": "9"})
    list(Run.start(out, settings).train(lambda: True))
    with pytest.raises(FileError, match=f"lookleft train --resume --out {out}"):
        load(out)
    run("--resume", "--out", str(out), "--train.steps", "1")
    assert "nothing to do: this run finished at step 1" in capsys.readouterr().err
    assert load(out).tokenizer is not None
    assert "1 of 1" in (out / "model" / "README.md").read_text()


def test_the_command_of_the_start_goes_on_when_resume_is_put_to_it(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, out = tmp_path / "my.toml", str(tmp_path / "run")
    config.write_text(f"[data]\ntrain = {pairs!r}\n[train]\nsteps = 4\n")
    words = [str(config), "--out", out, *(word for word in SMALL if word != "--json")]
    run(*words, "--train.steps", "2")
    capsys.readouterr()
    run(*words, "--resume", "--train.steps", "3")
    told = capsys.readouterr().err
    assert "resuming" in told
    assert "at step 2" in told
    assert "says otherwise" not in told
    run(str(config), "--resume", "--out", out, "--json")
    captured = capsys.readouterr()
    assert "says otherwise about" in captured.err
    assert "train.steps" in captured.err
    assert json.loads(captured.out)["is_finished"]
    run("--resume", "--out", out, "--train.steps", "1")
    assert "resuming" in (told := capsys.readouterr().err)
    assert "at step 3 (epoch" in told  # not: of 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--resume", "--out", "nowhere"], "nowhere: there is no run to go on with"),
        (["my.toml", "--resume"], r"train my\.toml --resume --out FOLDER"),
    ],
)
def test_a_resume_that_finds_no_run_says_what_to_type(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text("")
    with pytest.raises(LookleftError, match=message):
        run(*words)


def test_another_order_of_data_is_announced(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    Run.start(out, read_settings(None, settings_of(pairs))).save()
    run("--resume", "--out", str(out), "--train.seed", "9")
    told = capsys.readouterr().err
    assert "another order of data than before: train.seed changed" in told
    assert "same order" not in told


def test_lines_that_are_left_out_are_told_and_logged(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(pairs).open("a") as file:
        file.write("one " * 60 + "\tone\n")
    files = ["--data.train", pairs, "--data.dev", pairs]
    run("--out", str(tmp_path / "run"), *files, *SMALL)
    told = capsys.readouterr().err
    for part in ("training text", "dev set"):
        said = f"left out of the {part} up to line 51: too many tokens 1 (line 51)"
        assert told.count(f"{said}    (--data.max-tokens, --train.tokens)") == 1
    assert "too many tokens 1" in (tmp_path / "run" / "train.log").read_text()


def test_how_far_was_read_is_told(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(pairs).open("a") as file:
        file.write("\t\n")
    run("--out", str(tmp_path / "run"), "--data.train", pairs, "--data.skip-empty", "true", *SMALL)
    assert "training text up to line 51: empty 1 (line 51)" in capsys.readouterr().err


def test_lines_of_documents_are_told_as_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    document = "a line\n" * 20 + "end\n"
    text.write_text(document * 3 + "end\n" + document)
    words = ["--task", "lm", "--data.train", str(text), "--data.document-end", "end"]
    run("--out", str(tmp_path / "run"), *words, *SMALL)
    told = capsys.readouterr().err
    assert "left out of the training text up to line 85: empty 1 (line 64)" in told


def test_a_run_goes_on_when_nobody_reads_what_it_says(pairs: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "--out", str(out), "--data.train", pairs, *SMALL, "--train.steps", "30"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lookleft", *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["step"] == 1
    process.stdout.close()
    with process.stderr:
        told = process.stderr.read()
    assert process.wait() == 0, told
    assert Run.resume(out).progress.step == 30
    assert "Traceback" not in told + (out / "train.log").read_text()


def test_a_name_that_cannot_be_written_down_is_refused(pairs: str, tmp_path: Path) -> None:
    out = os.fsdecode(os.fsencode(tmp_path / "caf") + b"\xe9")
    with pytest.raises(FileError, match="caf\ufffd: the name is not UTF-8: give another --out"):
        Run.start(Path(out), read_settings(None, settings_of(pairs)))
    assert not Path(out).exists()


@pytest.mark.parametrize("name", ["train.steps", "train.eval_sentences", "data.max_tokens"])
def test_numbers_beyond_all_counting_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.*less than or equal to 1000000000000000"):
        read_settings(None, {name: "9" * 20})


def test_a_checkpoint_that_is_not_whole_is_told(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    Run.start(out, read_settings(None, settings_of(pairs))).save()
    (out / "checkpoints" / "step-00000001").mkdir()
    run("--resume", "--out", str(out))
    assert "at step 0 of 3 (epoch 0) · step-00000001 is not whole" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "train.log").mkdir()
    with pytest.raises(FileError, match=r"train\.log: cannot be written"):
        log(tmp_path, "a line")
