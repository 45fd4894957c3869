"""Runs so small that they take a second, for tests of what is around training."""

from __future__ import annotations

from pathlib import Path

from lookleft.train.settings import RunSettings, read_settings

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


def small_settings(file: Path, **changes: str) -> RunSettings:
    """The settings of a small run that trains and measures on one file; `train__lr` is train.lr."""
    data = {"data.train": str(file), "data.dev": str(file)}
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return read_settings(None, SMALL | data | given)


def as_words(settings: dict[str, str]) -> list[str]:
    """Settings as they are typed."""
    return [word for name, value in settings.items() for word in (f"--{name}", value)]
