"""Whether two runs ended alike: the judge of every test that stops a run and takes it up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_runs import STOPPABLE, differences, small_settings, write_pairs

from lookleft.tensors import read_tensors, write_tensors
from lookleft.train.run import Run


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run of eight steps, stopped after the fourth, which was measured."""
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), base=STOPPABLE)
    run = Run.start(tmp_path / "stopped", settings)
    list(run.train(is_stop_asked=lambda: run.progress.step == 4))
    return run.folder


def gone_on(stopped: Path, name: str, **changes: str) -> Path:
    """A copy of the run, trained to its end."""
    folder = Path(shutil.copytree(stopped, stopped.with_name(name), symlinks=True))
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    list(Run.resume(folder, overrides).train())
    return folder


def test_a_run_that_went_another_way_after_its_best_model_is_noticed(stopped: Path) -> None:
    """Steps that only do harm leave the model of step 4 as the result, whatever they were."""
    one, same, other = (
        gone_on(stopped, name, train__lr=lr, train__warmup="0")
        for name, lr in (("one", "5"), ("same", "5"), ("other", "6"))
    )
    results = [read_tensors(folder / "model" / "model.safetensors") for folder in (one, other)]
    assert all(results[0][name].equal(results[1][name]) for name in results[0])
    assert differences(one, same) == []
    named = differences(one, other)
    last = "checkpoints/step-00000008"
    assert {name.split(":")[0] for name in named} == {
        f"{last}/model.safetensors",
        f"{last}/training.safetensors",
        "progress",  # with which settings the steps were made
    }


def test_what_is_in_one_of_the_two_only_is_noticed_from_both_sides(stopped: Path) -> None:
    one, other = gone_on(stopped, "one"), gone_on(stopped, "other")
    file = other / "model" / "model.safetensors"
    tensors = read_tensors(file)
    first = min(tensors)
    write_tensors(file, {name: tensor for name, tensor in tensors.items() if name != first})
    for pair in ((one, other), (other, one)):
        assert differences(*pair) == [f"model/model.safetensors: {first}"]


def test_another_place_in_the_data_is_noticed(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = gone_on(stopped, "one"), gone_on(stopped, "other")
    file = other / "checkpoints" / "step-00000008" / "progress.json"
    progress = json.loads(file.read_text())
    progress["position"]["epoch"] += 1
    file.write_text(json.dumps(progress))
    with pytest.raises(AssertionError, match="step-00000008"):  # not as the manifest says
        differences(one, other)
    monkeypatch.setattr("small_runs.is_sound", lambda checkpoint: True)
    assert differences(one, other) == ["progress"]
