"""Checkpoints of a run: everything that training needs to go on as if it had never stopped.

A checkpoint is a folder of safetensors and strict JSON; the manifest, with the size and sha256 of
each file, is written last. What has no manifest that verifies does not exist: a crash while
saving leaves the checkpoint before it, and a flipped bit is noticed.

Of several processes each writes what only it knows: its rows of the tensors that are cut over
processes (`shards.py`). The number of processes may be another when the checkpoint is read.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.errors import FileError, LookleftError
from lookleft.files import (
    format_json,
    make_folder,
    parse_json,
    read_bytes,
    read_json,
    sync_folder,
    write_json,
)
from lookleft.tensors import write_tensors
from lookleft.train.shards import Shards, file_name
from lookleft.train.team import cut_like, is_cut, part
from lookleft.train.world import ALONE, World

N_KEPT = 2  # at least: one may turn out to be damaged
MANIFEST = "manifest.json"
_FOLDER = re.compile(r"step-(\d{8})")
_MAX_JSON = 1_000_000


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    step: int  # optimiser steps done
    position: Mapping[str, Any]  # where the data goes on
    best: float | None = None  # of what train.choose names
    best_step: int = 0
    n_without_gain: int = 0  # evaluations since the best
    seconds: float = 0.0  # of training, evaluations counted, in all sittings
    evaluation_seconds: float | None = None  # of the last evaluation
    fit: Mapping[str, Any] | None = None  # what was decided about train.minutes
    settings: Mapping[str, Any] | None = None  # that led here; those of the run may be newer


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    progress: Progress,
    keep: int = N_KEPT,
    world: World = ALONE,
) -> Path:
    """Write folder/step-N, whole or not at all, and remove old ones beyond `keep`."""
    here = folder / f"step-{progress.step:08d}"
    with world.agreed():
        is_done = world.is_main and is_sound(here)
        if world.is_main and not is_done:
            _make_empty(here)
    if world.is_any(is_done):
        return here  # this very step is safe already: writing it again could only lose it
    tensors = {"model": model.state_dict(), "training": training_tensors(optimizers, world)}
    n_parts = world.size if any(map(is_cut, tensors["model"].values())) else 1
    try:
        with world.agreed():
            if world.rank < n_parts:
                _write_part(here, tensors, world.rank, n_parts)
        with world.agreed():
            if world.is_main:
                position = dict(progress.position)
                write_json(here / "progress.json", vars(progress) | {"position": position})
                files = {f.name: _fingerprint(f) for f in sorted(here.iterdir())}
                write_json(here / MANIFEST, {"n_parts": n_parts, "files": files})
    except LookleftError:
        if world.is_main:
            shutil.rmtree(here, ignore_errors=True)  # a full disk needs the room
        raise
    with world.agreed():
        if world.is_main:
            _remove_old(folder, progress.step, max(keep, N_KEPT))
    return here


def find_checkpoints(folder: Path) -> list[Path]:
    """All checkpoint folders, newest first, sound or not."""
    found = [f for f in folder.glob("step-*") if _FOLDER.fullmatch(f.name)]
    return sorted(found, key=lambda f: f.name, reverse=True)


def newest_sound(folder: Path, world: World = ALONE) -> Path | None:
    """The newest checkpoint whose manifest verifies; process 0 looks for all."""
    found = None
    with world.agreed():
        if world.is_main:
            found = next(filter(is_sound, find_checkpoints(folder)), None)
    return _told_by_main(found, folder, world)


def _told_by_main(found: Path | None, folder: Path, world: World) -> Path | None:
    """What process 0 found in a folder, for all."""
    step = int(world.from_main(-1 if found is None else step_of(found))[0])
    return None if step < 0 else folder / f"step-{step:08d}"


def take_back(folder: Path, step: int, world: World = ALONE) -> Path | None:
    """Remove the checkpoint of a step whose weights are of no use; get the one before.

    Without one before it stays, for whoever wants to look at it, and the answer is None.
    """
    here, found = folder / f"step-{step:08d}", None
    with world.agreed():
        if world.is_main:
            before = [f for f in find_checkpoints(folder) if step_of(f) < step]
            found = next(filter(is_sound, before), None)
            if found is not None and here.exists():
                _remove(here)
    return _told_by_main(found, folder, world)


def is_sound(checkpoint: Path) -> bool:
    """True if every file is there, of the size and content that the manifest says."""
    try:
        manifest = _read_manifest(checkpoint)
        files, n_parts = manifest.get("files"), manifest.get("n_parts")
        return (
            isinstance(files, dict)
            and type(n_parts) is int
            and n_parts <= len(files)  # before so many names are made
            and files.keys() == _file_names(n_parts)
            and all(_fingerprint(checkpoint / name) == mark for name, mark in files.items())
        )
    except LookleftError:
        return False


def load_checkpoint(
    checkpoint: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    world: World = ALONE,
) -> Progress:
    """Put model, optimisers and the random state back to where they were; get how far that was."""
    with world.agreed():
        try:
            n_parts = int(_read_manifest(checkpoint)["n_parts"])
            _restore_model(Shards(checkpoint, "model", n_parts), model, world)
            restore_training(Shards(checkpoint, "training", n_parts), optimizers, world)
            progress = read_json(checkpoint / "progress.json", max_bytes=_MAX_JSON, max_depth=8)
            return Progress(**progress)
        except (KeyError, TypeError) as error:
            raise FileError(f"{checkpoint}: is of another version: {error}") from error


def read_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The whole weights of a checkpoint, however many processes wrote it."""
    shards = Shards(checkpoint, "model", int(_read_manifest(checkpoint)["n_parts"]))
    return {name: shards.read(name) for name in shards.names()}


def training_tensors(
    optimizers: Sequence[torch.optim.Optimizer], world: World = ALONE
) -> dict[str, Tensor]:
    """The state of the optimisers and of chance in every process, by name."""
    states = world.gather(torch.get_rng_state())
    tensors = {f"random.{rank}": state for rank, state in enumerate(states)}
    for number, optimizer in enumerate(optimizers):
        for index, parameter in enumerate(_parameters(optimizer)):
            for name, value in optimizer.state[parameter].items():
                tensors[f"{number}.{index}.{name}"] = value
    return tensors


def restore_training(
    tensors: Shards, optimizers: Sequence[torch.optim.Optimizer], world: World = ALONE
) -> None:
    """The inverse of `training_tensors`."""
    names = tensors.names()
    for number, optimizer in enumerate(optimizers):
        for index, parameter in enumerate(_parameters(optimizer)):
            prefix = f"{number}.{index}."
            optimizer.state[parameter] = {
                name.removeprefix(prefix): cut_like(
                    tensors.read_like(name, parameter, world.rank, world.size), parameter
                ).to(parameter.device)
                for name in names
                if name.startswith(prefix)
            }
    if sum(name.startswith("random.") for name in names) == world.size:
        torch.set_rng_state(tensors.read(f"random.{world.rank}"))
    else:  # other processes than those that saved: each draws on from a place of its own
        torch.set_rng_state(tensors.read("random.0"))
        torch.manual_seed(int(torch.randint(2**62, ())) + world.rank)


def _restore_model(tensors: Shards, model: nn.Module, world: World) -> None:
    own = model.state_dict()
    if strange := sorted(own.keys() ^ set(tensors.names())):
        raise FileError(
            f"{tensors.folder}: belongs to another model: {strange[0]!r} is in one of the two only"
        )
    for name, tensor in own.items():
        part(tensor).copy_(tensors.read_like(name, tensor, world.rank, world.size))


def _make_empty(here: Path) -> None:
    """The folder of a save, without what one that was cut short may have left."""
    make_folder(here.parent)
    try:
        if here.exists():
            shutil.rmtree(here)
        here.mkdir()
        sync_folder(here.parent)
    except OSError as error:
        raise FileError(f"{here}: cannot be made: {error.strerror}") from error


def _write_part(
    here: Path, tensors: Mapping[str, Mapping[str, Tensor]], rank: int, n_parts: int
) -> None:
    """What this process holds of the tensors; chance and counts stand in the first file."""
    for stem, named in tensors.items():
        mine = {name: part(tensor) for name, tensor in named.items() if rank == 0 or is_cut(tensor)}
        write_tensors(here / file_name(stem, rank, n_parts), mine)


def _remove_old(folder: Path, step: int, keep: int) -> None:
    """Leave the newest `keep` that were finished; what was cut short before them goes too.

    What comes after this step is damaged, else the run would have gone on from it: no reserve.
    """
    found = [f for f in find_checkpoints(folder) if step_of(f) <= step]
    kept = [f for f in found if (f / MANIFEST).exists()][:keep]
    for old in found:
        if old not in kept:
            _remove(old)


def _remove(checkpoint: Path) -> None:
    try:
        (checkpoint / MANIFEST).unlink(missing_ok=True)  # first: half removed is not sound
        shutil.rmtree(checkpoint)
    except OSError as error:
        raise FileError(f"{checkpoint}: cannot be removed: {error.strerror}") from error


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def _file_names(n_parts: int) -> set[str]:
    """The files of a checkpoint that so many processes wrote; the manifest lists them."""
    parts = {file_name(stem, i, n_parts) for stem in ("model", "training") for i in range(n_parts)}
    return {"progress.json", *parts}


def _read_manifest(checkpoint: Path) -> dict[str, Any]:
    """What the manifest says, if it is written exactly as we write: no byte of it may differ."""
    data = read_bytes(checkpoint / MANIFEST, max_bytes=_MAX_JSON)
    manifest = parse_json(data, where=str(checkpoint / MANIFEST), max_depth=4)
    if format_json(manifest) != data:
        raise FileError(f"{checkpoint / MANIFEST}: was changed since it was written")
    return manifest


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _fingerprint(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            return {"bytes": opened.tell(), "sha256": digest}
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror}") from error
