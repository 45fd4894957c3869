"""Weights averaged over time, held against the formula and against plain means."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from lookleft.errors import FileError, InputError
from lookleft.models import build, presets
from lookleft.tensors import write_tensors
from lookleft.train.average import MovingAverage, mean_model, mean_of
from lookleft.train.checkpoint import Progress, load_checkpoint, save_checkpoint


def moved(average: MovingAverage, parameter: nn.Parameter, values: list[float]) -> None:
    """Let the parameter take these values one after another."""
    for value in values:
        with torch.no_grad():
            parameter.fill_(value)
        average.step()


def test_the_moving_average_follows_its_formula() -> None:
    parameter = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    average = MovingAverage([parameter], 0.5)
    moved(average, parameter, [4.0, 2.0, -1.0, *[8.0] * 20])
    expected = 0.0
    for n, value in enumerate([4.0, 2.0, -1.0, *[8.0] * 20]):
        decay = min(0.5, n / (10 + n))
        expected = decay * expected + (1 - decay) * value
    with average.in_place():
        assert parameter[0].item() == pytest.approx(expected, rel=1e-12)
    assert parameter[0].item() == 8.0  # and has its own value again


def test_weights_come_back_bit_for_bit_even_when_something_fails() -> None:
    parameter = nn.Parameter(torch.randn(100))
    average = MovingAverage([parameter], 0.9)
    moved(average, parameter, [1.0, 2.0])
    before = parameter.detach().clone()
    with suppress(ZeroDivisionError), average.in_place():
        assert not torch.equal(parameter, before)
        raise ZeroDivisionError
    assert torch.equal(parameter, before)


def test_before_the_first_step_the_weights_are_their_own_average() -> None:
    parameter = nn.Parameter(torch.ones(2))
    with MovingAverage([parameter], 0.9).in_place():
        assert parameter.tolist() == [1.0, 1.0]


def test_what_is_remembered_goes_through_a_checkpoint(tmp_path: Path) -> None:
    model, other = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    average, again = (MovingAverage(one.parameters(), 0.9) for one in (model, other))
    moved(average, model.weight, [1.0, 5.0, 2.0])
    load_checkpoint(save_checkpoint(tmp_path, model, [average], Progress(3, {})), other, [again])
    for one, its in ((average, model.weight), (again, other.weight)):
        moved(one, its, [3.0, -1.0])
    with average.in_place(), again.in_place():
        assert torch.equal(model.weight, other.weight)
        assert model.weight[0, 0] not in (3.0, -1.0)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5])
def test_a_decay_that_remembers_nothing_or_all_is_refused(decay: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        MovingAverage([nn.Parameter(torch.zeros(1))], decay)


def test_the_mean_of_files_is_the_mean_of_their_numbers(tmp_path: Path) -> None:
    tensors = [{"a": torch.randn(3, 2), "b": torch.randn(4)} for _ in range(5)]
    for number, weights in enumerate(tensors):
        write_tensors(tmp_path / f"{number}.safetensors", weights)
    mean = mean_of(sorted(tmp_path.iterdir()))
    for name in ("a", "b"):
        expected = torch.stack([weights[name].double() for weights in tensors]).mean(0).float()
        assert torch.equal(mean[name], expected)
    assert not torch.equal(mean["a"], tensors[0]["a"])


def test_a_folder_without_a_sound_checkpoint_has_no_mean(tmp_path: Path) -> None:
    model = build(presets.gpt(30, 16, 1, 2, 32))
    saved = save_checkpoint(tmp_path, model, [], Progress(1, {}))
    assert mean_model(tmp_path, model, 3)[1] == 1
    (saved / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(FileError, match="no sound checkpoint"):
        mean_model(tmp_path, model, 3)


def test_files_of_different_models_have_no_mean(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("1", "2", "3"))
    write_tensors(one, {"a": torch.zeros(2)})
    write_tensors(two, {"a": torch.zeros(2), "b": torch.zeros(2)})
    write_tensors(three, {"a": torch.zeros(3)})
    with pytest.raises(FileError, match="'b': not the same model"):
        mean_of([one, two])
    with pytest.raises(FileError, match=r"'a' is \(3,\)"):
        mean_of([one, three])
    with pytest.raises(InputError, match="at least one file"):
        mean_of([])
