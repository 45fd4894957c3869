"""Runs so small that they take a second, for tests of what is around training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from lookleft.files import read_json
from lookleft.tensors import read_tensors
from lookleft.train.checkpoint import Progress, find_checkpoints, is_sound
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings

WORDS = ["one", "two", "three", "four", "five", "six"]
NETWORK = {
    "text.kind": "char",
    "text.vocab_size": "300",
    "model.d_model": "16",
    "model.d_ff": "16",
    "model.n_layers": "1",
}
SMALL = NETWORK | {
    "train.steps": "4",
    "train.tokens": "128",
    "train.log_every": "1",
    "train.eval_every": "2",
    "train.save_every": "4",
    "train.eval_sentences": "4",
    "data.max_tokens": "40",
}
STOPPABLE = NETWORK | {  # long enough to be stopped and taken up on the way
    "model.dropout": "0.2",
    "train.steps": "8",
    "train.tokens": "64",
    "train.log_every": "1",
    "train.eval_every": "4",
}


def write_pairs(path: Path) -> Path:
    """Pairs of two words and the same words turned round, in a .tsv file."""
    lines = [f"{one} {other}\t{other} {one}\n" for one in WORDS for other in WORDS]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_texts(path: Path) -> Path:
    """Short lines of text."""
    path.write_text("".join(f"{one} and {other}\n" for one in WORDS for other in WORDS))
    return path


def small_settings(file: Path, *, base: Mapping[str, str] = SMALL, **changes: str) -> RunSettings:
    """The settings of a small run that trains and measures on one file; `train__lr` is train.lr."""
    data = {"data.train": str(file), "data.dev": str(file)}
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return read_settings(None, data | dict(base) | given)


def as_words(settings: dict[str, str]) -> list[str]:
    """Settings as they are typed."""
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def differences(one: Path, other: Path) -> list[str]:
    """What two run folders do not end with alike, bit for bit; of equal runs there is nothing.

    The last checkpoint counts, not model/ alone: that may hold the best weights, which are older
    than the moment at which one of the two runs was stopped.
    """
    ours, theirs = end_of(one), end_of(other)
    named = [
        name
        for name in sorted(ours.keys() | theirs.keys())
        if name not in ours or name not in theirs or not torch.equal(ours[name], theirs[name])
    ]
    return named + ["progress"] * (progress_of(one) != progress_of(other))


def end_of(folder: Path) -> dict[str, Tensor]:
    """All tensors that a run ends with: the result, and what training would go on with."""
    last = find_checkpoints(folder / "checkpoints")[0]
    assert is_sound(last), last
    files = sorted(last.glob("*.safetensors"))
    assert [file.name for file in files] == ["model.safetensors", "training.safetensors"]
    files.append(folder / "model" / "model.safetensors")
    return {
        f"{file.relative_to(folder)}: {name}": tensor
        for file in files
        for name, tensor in read_tensors(file).items()
    }


def progress_of(folder: Path) -> Progress:
    """How far the last checkpoint of a run is, without how long that took."""
    last = find_checkpoints(folder / "checkpoints")[0]
    found = Progress(**read_json(last / "progress.json", max_bytes=100_000, max_depth=8))
    return replace(found, seconds=0.0, evaluation_seconds=None)
