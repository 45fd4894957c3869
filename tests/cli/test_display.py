"""How a run is shown: rows, plain lines, JSON, the live line, and a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import SMALL, as_words, small_settings, write_pairs

from lookleft.cli.display import (
    JsonDisplay,
    PlainDisplay,
    bar,
    live_line,
    make_display,
    perplexity,
    plain_line,
    sample_lines,
    seconds_left,
    table_head,
    table_row,
)
from lookleft.train.event import Event
from lookleft.train.judge import Sample
from lookleft.train.run import Run

COLUMNS = (("chrF++", 7, "chrf", ".1f"), ("BLEU", 5, "bleu", ".1f"))
EVENT = Event(
    step=800,
    loss=1.94,
    lr=4e-4,
    tokens=9_000,
    seconds=100.0,
    epoch=15,
    dev_loss=2.81,
    bleu=17.3,
    chrf=41.0,
    n_without_gain=1,
    best=2.74,
    best_step=700,
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    changes = {"train__steps": "1000", "train__patience": "5"}
    return Run.start(tmp_path / "run", small_settings(pairs, **changes))


def test_a_row_stands_under_its_heads() -> None:
    head, rule = table_head(COLUMNS)
    row = table_row(EVENT, COLUMNS)
    assert len(head) == len(rule) == len(row)
    ends = [head.index(name) + len(name) for name in ("dev loss", "chrF++", "BLEU", "tok/s")]
    assert [row[:end].split()[-1] for end in ends] == ["2.810", "41.0", "17.3", "90"]
    assert "best ✓ saved" not in row


def test_a_plain_line_has_words_that_scripts_can_read(run: Run) -> None:
    time, kind, *words = plain_line(run, EVENT).split()
    found = dict(word.split("=") for word in words)
    assert kind == "train"
    assert time.count(":") == 2
    assert found["step"] == "800"
    assert found["dev_loss"] == "2.8100"
    assert found["patience"] == "1/5"
    assert found["must_beat"] == "2.7400"
    assert found["best"] == "0"


def test_the_mean_of_checkpoints_is_called_so(run: Run) -> None:
    from dataclasses import replace

    mean = replace(EVENT, n_averaged=3, is_best=None, n_without_gain=None, best=None)
    assert " mean_of=3 " in plain_line(run, mean)
    assert "best=" not in plain_line(run, mean)
    assert table_row(mean, COLUMNS).endswith("mean of 3 checkpoints ✓ saved")


def test_the_live_line_says_patience_and_the_value_to_beat(run: Run) -> None:
    from dataclasses import replace

    run.progress = replace(run.progress, step=560, best=2.74, n_without_gain=1)
    line = live_line(run, EVENT, seconds=280)
    assert "560/1,000" in line
    assert "3:40 left" in line
    assert "no gain 1/5, must beat 2.74" in line


def test_steps_of_two_passes_take_twice_as_long(run: Run) -> None:
    assert seconds_left(run, 500, 250.0) == 250.0
    train = run.settings.train.model_copy(update={"rdrop": 2.0, "rdrop_after": 600})
    run.settings = run.settings.model_copy(update={"train": train})
    assert seconds_left(run, 500, 250.0) == 450.0
    assert seconds_left(run, 900, 600.0) == 100.0


def test_no_more_time_is_left_than_the_run_may_take(run: Run) -> None:
    from dataclasses import replace

    train = run.settings.train.model_copy(update={"minutes": 2.0})
    run.settings = run.settings.model_copy(update={"train": train})
    run.progress = replace(run.progress, seconds=50.0)
    assert seconds_left(run, 100, 50.0) == 70.0
    assert seconds_left(run, 900, 50.0) == pytest.approx(50 / 9)
    fit = {"steps": train.steps, "minutes": 2.0, "n_fit": 1_000, "pace": 0.5}
    run.progress = replace(run.progress, fit=fit)  # decided: then the steps are done in any case
    assert seconds_left(run, 100, 50.0) == 450.0


def test_a_bar_fills_to_an_eighth_of_a_cell() -> None:
    assert bar(0.0) == " " * 30
    assert bar(1.0) == bar(2.0) == "█" * 30
    assert bar(0.5 + 1 / 240) == "█" * 15 + "▏" + " " * 14
    assert perplexity(1e4) == float("inf")


def test_hindi_comes_last_on_its_own_line() -> None:
    lines = sample_lines(Sample("I am fine.", "मैं ठीक हूँ।", "मैं हूँ।"), ("en", "hi"))
    assert lines == [
        "         en   I am fine.",
        "         ref  मैं ठीक हूँ।",
        "         out  मैं हूँ।",
    ]


def test_what_is_no_terminal_gets_plain_lines_and_json_gets_objects(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(make_display(run, as_json=False, is_plain=False), PlainDisplay)
    with make_display(run, as_json=True, is_plain=False) as display:
        assert isinstance(display, JsonDisplay)
        display.show(EVENT, [])
    assert json.loads(capsys.readouterr().out)["dev_loss"] == 2.81


def test_a_terminal_gets_a_table_and_one_live_line(tmp_path: Path) -> None:
    pairs = str(write_pairs(tmp_path / "pairs.tsv"))
    words = as_words(SMALL | {"data.train": pairs, "data.dev": pairs})
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": "120", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "lookleft", "train", "--out", str(tmp_path / "run"), *words],
        stdout=slave,
        stderr=slave,
        env=environment,
    ):
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65_536)
            except OSError:  # the other end was closed: Linux says so
                break
            if not part:
                break
            shown += part
    os.close(master)
    text = shown.decode("utf-8")
    assert "dev loss" in text
    assert "best ✓ saved" in text
    assert "▕" in text  # the live line
    assert "audit VERIFIED on the trained weights" in text
    assert (tmp_path / "run" / "train.log").read_text().count("train step=") == 4
