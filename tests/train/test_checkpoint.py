"""Checkpoints: a run that is taken up goes on bit for bit, and damage is always noticed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lookleft.data.batch import Batch, next_token_batch
from lookleft.errors import FileError
from lookleft.models import AnyModel, build, presets
from lookleft.train.checkpoint import (
    Progress,
    find_checkpoints,
    is_sound,
    load_checkpoint,
    newest_sound,
    save_checkpoint,
)
from lookleft.train.loop import train_steps
from lookleft.train.optim import make_optimizers
from lookleft.train.schedule import make_schedule

STEPS = 12


def make_model(seed: int) -> AnyModel:
    config = presets.gpt(30, 16, 2, 2, 32).model_copy(
        update={"dropout": 0.2, "attention_dropout": 0.1}
    )
    return build(config, torch.Generator().manual_seed(seed))


def group_of(step: int, accumulate: int) -> list[Batch]:
    draw = random.Random(step)
    return [
        next_token_batch([[draw.randrange(30) for _ in range(6)] for _ in range(2)])
        for _ in range(accumulate)
    ]


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("matrix_lr", [None, 0.01])
def test_a_run_taken_up_is_bit_identical(
    accumulate: int, matrix_lr: float | None, tmp_path: Path
) -> None:
    schedule = make_schedule("cosine", warmup=2, steps=STEPS)

    def run(model: AnyModel, optimizers: list[torch.optim.Optimizer], first: int) -> Iterator[int]:
        groups = (group_of(step, accumulate) for step in range(first, STEPS))
        for record in train_steps(model, groups, optimizers, schedule, first_step=first):
            yield record.step + 1

    torch.manual_seed(7)
    model = make_model(0)
    optimizers = make_optimizers(model, lr=0.01, matrix_lr=matrix_lr)
    for done in run(model, optimizers, 0):
        if done == 5:
            save_checkpoint(tmp_path, model, optimizers, Progress(done, {"line": 3}))
            chance = torch.get_rng_state()

    torch.manual_seed(99)  # somewhere else, to be put back
    again = make_model(1)
    others = make_optimizers(again, lr=0.01, matrix_lr=matrix_lr)
    checkpoint = newest_sound(tmp_path)
    assert checkpoint is not None
    progress = load_checkpoint(checkpoint, again, others)
    assert progress == Progress(5, {"line": 3})
    assert torch.equal(torch.get_rng_state(), chance)
    list(run(again, others, progress.step))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with two checkpoints, at steps 1 and 2."""
    model = make_model(0)
    optimizers = make_optimizers(model, lr=0.01)
    schedule = make_schedule("constant", warmup=0, steps=2)
    for record in train_steps(model, [group_of(0, 1), group_of(1, 1)], optimizers, schedule):
        save_checkpoint(tmp_path, model, optimizers, Progress(record.step + 1, {}))
    return tmp_path


def test_a_manifest_is_taken_only_as_it_was_written(saved: Path) -> None:
    """Tests of damage to any file are in tests/reliability/test_disk.py."""
    newest, before = find_checkpoints(saved)
    manifest = newest / "manifest.json"
    good = manifest.read_bytes()
    others = [good[:-1], good.replace(b"  ", b" "), good.replace(b"n_parts", b"m_parts")]
    others += [good.replace(b'"n_parts": 1', b'"n_parts": %d' % n) for n in (0, 3, 9, 10**9)]
    for other in others:
        assert other != good
        manifest.write_bytes(other)
        assert newest_sound(saved) == before
    manifest.write_bytes(good)
    assert newest_sound(saved) == newest


def test_a_save_cut_short_does_not_count_among_those_kept(saved: Path) -> None:
    cut_short = saved / "step-00000009"
    cut_short.mkdir()
    model = make_model(0)
    save_checkpoint(saved, model, make_optimizers(model, lr=0.01), Progress(3, {}))
    assert [f.name for f in find_checkpoints(saved) if is_sound(f)] == [
        "step-00000003",
        "step-00000002",
    ]


def test_a_save_that_was_cut_short_does_not_exist(saved: Path) -> None:
    newest, before = find_checkpoints(saved)
    (newest / "manifest.json").unlink()
    assert newest_sound(saved) == before
    shutil.rmtree(before)
    assert newest_sound(saved) is None


def test_a_sound_checkpoint_is_not_written_again(saved: Path) -> None:
    newest = find_checkpoints(saved)[0]
    written = (newest / "manifest.json").stat().st_ino
    model = make_model(0)
    save_checkpoint(saved, model, make_optimizers(model, lr=0.01), Progress(2, {}))
    assert (newest / "manifest.json").stat().st_ino == written
    (newest / "progress.json").write_text("damaged")
    save_checkpoint(saved, model, make_optimizers(model, lr=0.01), Progress(2, {}))
    assert is_sound(newest)


def test_two_are_kept(saved: Path) -> None:
    model = make_model(0)
    save_checkpoint(saved, model, make_optimizers(model, lr=0.01), Progress(3, {}), keep=1)
    assert [f.name for f in find_checkpoints(saved)] == ["step-00000003", "step-00000002"]
    assert all(is_sound(f) for f in find_checkpoints(saved))


def test_a_checkpoint_of_another_model_is_refused(saved: Path) -> None:
    other = build(presets.gpt(31, 16, 2, 2, 32))
    with pytest.raises(FileError, match="belongs to another model"):
        load_checkpoint(find_checkpoints(saved)[0], other, make_optimizers(other, lr=0.01))
