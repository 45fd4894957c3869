"""Full disks, read-only folders, damaged files: noticed, said in one sentence, and survived.

Faults are made by an audit hook, which Python asks before it opens, renames or removes anything:
the code under test is not touched, and every such moment of it can be made to fail.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import STOPPABLE, differences, small_settings, write_pairs

from lookleft.data.batch import next_token_batch
from lookleft.errors import FileError, LookleftError
from lookleft.models import build, presets
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
from lookleft.train.run import Run
from lookleft.train.schedule import make_schedule
from lookleft.train.settings import RunSettings

REMOVALS = {"os.remove", "os.rmdir"}
CHANGES = {"os.rename", "os.mkdir", *REMOVALS}


class Faults:
    """Lets changes below a folder fail from the k-th on, with an error of the system."""

    def __init__(self) -> None:
        self.folder, self.first, self.code, self.n_seen = "", 0, 0, 0
        sys.addaudithook(self._ask)  # for good: hooks cannot be taken away, only be idle

    @contextmanager
    def below(self, folder: Path, first: int, code: int = errno.ENOSPC) -> Iterator[None]:
        """Inside, changes below the folder are counted, and fail from number `first` on."""
        self.folder, self.first, self.code, self.n_seen = str(folder), first, code, 0
        try:
            yield
        finally:
            self.folder = ""

    def _ask(self, event: str, details: tuple[Any, ...]) -> None:
        if not self.folder or not (event in CHANGES or event == "open"):
            return
        is_read = event == "open" and not (details[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if is_read or not where(event, details).startswith(self.folder):
            return
        if event in REMOVALS and self.code == errno.ENOSPC:
            return  # a full disk lets go
        self.n_seen += 1
        if self.n_seen > self.first:
            raise OSError(self.code, os.strerror(self.code), details[0])


def where(event: str, details: tuple[Any, ...]) -> str:
    """The path that an event is about; some name a file within an open folder."""
    path, folder = str(details[0]), details[-1]
    is_within = event in REMOVALS and folder >= 0
    return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path) if is_within else path


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()


class Saver:
    """A model in training that can be saved at its steps 1, 2 and 3."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = build(presets.gpt(30, 16, 1, 2, 32), torch.Generator().manual_seed(0))
        self.optimizers = make_optimizers(self.model, lr=0.01)
        groups = [[next_token_batch([[step + 1, 2, 3]])] for step in range(3)]
        schedule = make_schedule("constant", warmup=0, steps=3)
        self._steps = train_steps(self.model, groups, self.optimizers, schedule)
        self.step = 0

    def learn(self) -> None:
        next(self._steps)
        self.step += 1

    def save(self) -> Path:
        return save_checkpoint(self.folder, self.model, self.optimizers, Progress(self.step, {}))


@pytest.fixture
def saver(tmp_path: Path) -> Saver:
    """Saved at steps 1 and 2, now at 3."""
    saver = Saver(tmp_path / "checkpoints")
    for _ in range(2):
        saver.learn()
        saver.save()
    saver.learn()
    return saver


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_at_any_moment_of_a_save_costs_at_most_that_save(
    code: int, saver: Saver, faults: Faults
) -> None:
    before = find_checkpoints(saver.folder)[0]
    for first in range(100):
        said = None
        with faults.below(saver.folder, first, code):
            try:
                saver.save()
            except FileError as error:
                said = str(error)
        if said is None:
            break
        assert os.strerror(code) in said
        found = newest_sound(saver.folder)
        assert found is not None
        assert found == before or found.name == "step-00000003", first
        load_checkpoint(found, saver.model, saver.optimizers)
    else:
        raise AssertionError("the save never succeeded")
    assert first > 8, "there are more moments than that"
    newest = newest_sound(saver.folder)
    assert newest is not None
    assert newest.name == "step-00000003"


def test_a_read_only_folder_is_left_as_it_was(saver: Saver, faults: Faults) -> None:
    def content() -> dict[Path, bytes]:
        return {f: f.read_bytes() for f in saver.folder.rglob("*") if f.is_file()}

    was = content()
    with (
        faults.below(saver.folder, 0, errno.EROFS),
        pytest.raises(FileError, match="cannot be made: Read-only file system"),
    ):
        saver.save()
    assert content() == was


@pytest.mark.parametrize("limit", [0, 1, 1_000, 10_000, 20_000])
def test_a_file_that_cannot_be_written_to_its_end_is_not_there(limit: int, saver: Saver) -> None:
    """The system itself refuses here: no file may grow beyond the limit."""
    before = find_checkpoints(saver.folder)[0]
    assert (before / "training.safetensors").stat().st_size > 20_000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(FileError, match="cannot be written: File too large"):
            saver.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert newest_sound(saver.folder) == before
    assert not (saver.folder / "step-00000003").exists()  # the room is given back
    assert is_sound(saver.save())


def test_a_thousand_damages_are_noticed_and_the_one_before_is_taken(saver: Saver) -> None:
    newest, before = find_checkpoints(saver.folder)
    draw = random.Random(0)
    for number in range(1000):
        file = draw.choice(sorted(newest.iterdir()))
        good = file.read_bytes()
        place = draw.randrange(len(good)) if draw.random() < 0.9 else len(good) - 1
        if number % 2:
            file.write_bytes(good[:place])
        else:
            flipped = good[place] ^ (1 << draw.randrange(8))
            file.write_bytes(good[:place] + bytes([flipped]) + good[place + 1 :])
        assert newest_sound(saver.folder) == before, (file.name, place)
        file.write_bytes(good)
    assert newest_sound(saver.folder) == newest


SHORT = STOPPABLE | {"train.steps": "4", "train.eval_every": "2", "train.save_every": "2"}


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    return small_settings(write_pairs(tmp_path / "pairs.tsv"), base=SHORT)


def open_run(folder: Path, settings: RunSettings) -> Run:
    is_begun = (folder / "config.toml").exists()
    return Run.resume(folder) if is_begun else Run.start(folder, settings)


def spoilt_runs(
    moments: Iterator[int], settings: RunSettings, folder: Path, faults: Faults
) -> Iterator[int]:
    """For each moment: the disk fills up there; the run stops with a sentence, goes on later."""
    list(Run.start(folder / "whole", settings).train())
    for first in moments:
        cut = folder / "disk" / "cut"
        said = None
        with faults.below(cut.parent, first):
            try:
                list(open_run(cut, settings).train())
            except LookleftError as error:
                said = str(error)
        if said is None:
            return  # there are no more moments
        assert "No space left on device" in said
        list(open_run(cut, settings).train())
        assert differences(folder / "whole", cut) == [], first
        shutil.rmtree(cut.parent)
        yield first


def test_a_run_on_a_full_disk_stops_and_goes_on_when_there_is_room(
    settings: RunSettings, tmp_path: Path, faults: Faults
) -> None:
    moments = iter([0, 1, 3, 6, 10, 18, 30, 45])
    assert len(list(spoilt_runs(moments, settings, tmp_path, faults))) >= 6


@pytest.mark.full
def test_a_disk_may_fill_up_at_any_moment_of_a_run(
    settings: RunSettings, tmp_path: Path, faults: Faults
) -> None:
    assert len(list(spoilt_runs(iter(range(1000)), settings, tmp_path, faults))) > 60
