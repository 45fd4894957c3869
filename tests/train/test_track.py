"""Figures of a run: one object per logged step, whatever happens in between."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from small_runs import small_settings, write_pairs

from lookleft.errors import ConfigError, FileError, MissingExtraError
from lookleft.train import track
from lookleft.train.run import Run
from lookleft.train.track import check_trackers, forget_after, open_trackers, read_metrics


class FakeWriter:
    """What `torch.utils.tensorboard.SummaryWriter` is asked to do."""

    def __init__(self, folder: str, purge_step: int) -> None:
        self.folder, self.purge_step, self.is_closed = folder, purge_step, False
        self.calls: list[tuple[str, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.calls.append((name, step))

    def add_text(self, name: str, text: str, step: int) -> None:
        self.calls.append((name, step))

    def close(self) -> None:
        self.is_closed = True


def test_tensorboard_gets_what_the_json_lines_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FakeWriter] = []

    def make(folder: str, purge_step: int) -> FakeWriter:
        made.append(FakeWriter(folder, purge_step))
        return made[-1]

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(track, "find_spec", lambda name: object())
    settings = small_settings(
        write_pairs(tmp_path / "pairs.tsv"), train__track='["tensorboard"]', train__steps="2"
    )
    list(Run.start(tmp_path / "run", settings).train())
    [writer] = made
    assert writer.is_closed
    assert {("loss", 1), ("loss", 2), ("dev_loss", 2)} <= set(writer.calls)
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2]
    again = Run.resume(tmp_path / "run", {"train.steps": "4"})
    events = again.train()
    next(events)
    assert made[-1].purge_step == 3  # what the first sitting logged stays
    events.close()  # type: ignore[attr-defined]
    assert made[-1].is_closed  # whatever ends a run


def test_a_tracker_that_is_not_installed_stops_the_run_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track, "find_spec", lambda name: None)
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), train__track='["tensorboard"]')
    with pytest.raises(MissingExtraError, match=r"lookleft\[track\]"):
        Run.start(tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_named() -> None:
    with pytest.raises(ConfigError, match="no tracker 'tensorbord'; known: tensorboard"):
        check_trackers(["tensorbord"])


def test_a_line_cut_short_by_a_crash_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    [tracker] = open_trackers(tmp_path, [])
    assert read_metrics(tmp_path) == []
    tracker.log(1, {"loss": 2.0})
    tracker.log(2, {"loss": 1.0})
    tracker.show(2, "samples", "text")
    tracker.close()
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 3, "lo')
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]
    path.write_text("{\n" + path.read_text())
    with pytest.raises(FileError, match=r"metrics\.jsonl:1: is not JSON"):
        read_metrics(tmp_path)


def test_a_run_taken_up_logs_no_step_twice(tmp_path: Path) -> None:
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), train__save_every="2")
    run = Run.start(tmp_path / "run", settings)
    for event in run.train():
        if event.step == 3:
            break  # as a crash would: the last checkpoint is of step 2
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2, 3]
    list(Run.resume(tmp_path / "run").train())
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2, 3, 4]


def test_forgetting_keeps_what_is_before(tmp_path: Path) -> None:
    rows = [{"step": n, "loss": 1.0} for n in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    forget_after(tmp_path, 2)
    assert read_metrics(tmp_path) == rows[:2]


def test_a_run_whose_log_was_cut_short_goes_on(tmp_path: Path) -> None:
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), train__save_every="2")
    next(iter(Run.start(tmp_path / "run", settings).train(lambda: True)))
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 3, "lo')  # as a full disk leaves it
    list(Run.resume(tmp_path / "run").train())
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2, 3, 4]
