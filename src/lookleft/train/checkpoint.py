"""Checkpoints of a run: everything that training needs to go on as if it had never stopped.

A checkpoint is a folder of safetensors and strict JSON; the manifest, with the size and sha256 of
each file, is written last. What has no manifest that verifies does not exist: a crash while
saving leaves the checkpoint before it, and a flipped bit is noticed.
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
from lookleft.files import read_json, write_json
from lookleft.tensors import read_tensors, write_tensors

N_KEPT = 2  # at least: one may turn out to be damaged
MANIFEST = "manifest.json"
_FOLDER = re.compile(r"step-(\d{8})")
_MAX_JSON = 1_000_000


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    step: int  # optimiser steps done
    position: Mapping[str, int]  # where the data goes on
    best_loss: float | None = None
    n_without_gain: int = 0


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    progress: Progress,
    keep: int = N_KEPT,
) -> Path:
    """Write folder/step-N, whole or not at all, and remove old ones beyond `keep`."""
    here = folder / f"step-{progress.step:08d}"
    if is_sound(here):
        return here  # this very step is safe already: writing it again could only lose it
    if here.exists():
        shutil.rmtree(here)  # a save that was cut short
    here.mkdir(parents=True)
    write_tensors(here / "model.safetensors", model.state_dict())
    write_tensors(here / "training.safetensors", training_tensors(optimizers))
    write_json(here / "progress.json", vars(progress) | {"position": dict(progress.position)})
    write_json(
        here / MANIFEST, {"files": {f.name: _fingerprint(f) for f in sorted(here.iterdir())}}
    )
    for old in find_checkpoints(folder)[max(keep, N_KEPT) :]:
        shutil.rmtree(old)
    return here


def find_checkpoints(folder: Path) -> list[Path]:
    """All checkpoint folders, newest first, sound or not."""
    found = [f for f in folder.glob("step-*") if _FOLDER.fullmatch(f.name)]
    return sorted(found, key=lambda f: f.name, reverse=True)


def newest_sound(folder: Path) -> Path | None:
    """The newest checkpoint whose manifest verifies."""
    return next((f for f in find_checkpoints(folder) if is_sound(f)), None)


def is_sound(checkpoint: Path) -> bool:
    """True if every file is there, of the size and content that the manifest says."""
    try:
        files = read_json(checkpoint / MANIFEST, max_bytes=_MAX_JSON, max_depth=4).get("files")
        return (
            isinstance(files, dict)
            and len(files) == 3
            and all(_fingerprint(checkpoint / Path(name).name) == f for name, f in files.items())
        )
    except LookleftError:
        return False


def load_checkpoint(
    checkpoint: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> Progress:
    """Put model, optimisers and the random state back to where they were; get how far that was."""
    try:
        model.load_state_dict(read_tensors(checkpoint / "model.safetensors"))
        restore_training(read_tensors(checkpoint / "training.safetensors"), optimizers)
        return Progress(**read_json(checkpoint / "progress.json", max_bytes=_MAX_JSON, max_depth=4))
    except (RuntimeError, KeyError, TypeError) as error:
        raise FileError(f"{checkpoint}: belongs to another model or version: {error}") from error


def training_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """The state of the optimisers and of chance, by name."""
    tensors = {"random": torch.get_rng_state()}
    for number, optimizer in enumerate(optimizers):
        for index, parameter in enumerate(_parameters(optimizer)):
            for name, value in optimizer.state[parameter].items():
                tensors[f"{number}.{index}.{name}"] = value
    return tensors


def restore_training(
    tensors: Mapping[str, Tensor], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """The inverse of `training_tensors`."""
    for number, optimizer in enumerate(optimizers):
        for index, parameter in enumerate(_parameters(optimizer)):
            prefix = f"{number}.{index}."
            optimizer.state[parameter] = {
                name.removeprefix(prefix): tensor
                for name, tensor in tensors.items()
                if name.startswith(prefix)
            }
    torch.set_rng_state(tensors["random"])


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _fingerprint(file: Path) -> dict[str, Any]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror}") from error
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
