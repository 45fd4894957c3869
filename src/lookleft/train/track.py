"""Where the figures of a run go: always into metrics.jsonl, and to other trackers if asked.

A tracker has three methods. To add one: write a class with them and name it in `TRACKERS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from lookleft.errors import ConfigError, FileError, MissingExtraError
from lookleft.files import append_line, write_atomically

METRICS = "metrics.jsonl"
Figures = Mapping[str, float | int | bool]


class Tracker(Protocol):
    """Something that keeps the figures of a run."""

    def log(self, step: int, figures: Figures) -> None:
        """Keep the figures of one step."""

    def show(self, step: int, name: str, text: str) -> None:
        """Keep a piece of text, such as sample translations."""

    def close(self) -> None:
        """Write what is not written yet."""


class JsonTracker:
    """One JSON object per line of metrics.jsonl, there as soon as it is logged."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS

    def log(self, step: int, figures: Figures) -> None:
        append_line(self._path, json.dumps({"step": step, **figures}))

    def show(self, step: int, name: str, text: str) -> None:
        """Texts have their own files in the run folder."""

    def close(self) -> None:
        """Nothing is held back."""


class TensorBoardTracker:
    """Event files for TensorBoard, in the folder `tensorboard` of the run."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # TensorBoard hides what an earlier sitting logged of the steps that come again.
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, figures: Figures) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def show(self, step: int, name: str, text: str) -> None:
        self._writer.add_text(name, text, step)

    def close(self) -> None:
        self._writer.close()


# Each is called like the package that it needs.
TRACKERS: dict[str, Callable[[Path, int], Tracker]] = {"tensorboard": TensorBoardTracker}


def check_trackers(names: Sequence[str]) -> None:
    """Raise if a tracker has no such name, or if its package is not installed."""
    for name in names:
        if name not in TRACKERS:
            known = ", ".join(TRACKERS)
            raise ConfigError(f"train.track: there is no tracker {name!r}; known: {known}")
        if find_spec(name) is None:
            raise MissingExtraError(f"train.track = [{name!r}]", "track", name)


def open_trackers(folder: Path, names: Sequence[str], step: int = 0) -> list[Tracker]:
    """The JSON lines, and every tracker that the settings name, of a run that goes on at a step."""
    return [JsonTracker(folder), *(TRACKERS[name](folder, step) for name in names)]


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """What metrics.jsonl says so far; a last line that a crash cut short is left out."""
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{folder / METRICS}: cannot be read: {error}") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise FileError(f"{folder / METRICS}:{number}: is not JSON: {error}") from error
    return rows


def forget_after(folder: Path, step: int) -> None:
    """Leave out what was logged behind a step, so that a run taken up there logs it only once."""
    path = folder / METRICS
    kept = [row for row in read_metrics(folder) if row["step"] <= step]
    data = "".join(json.dumps(row) + "\n" for row in kept).encode("utf-8")
    # Also where only a line was cut short: the next row must not be put to it.
    if path.exists() and path.read_bytes() != data:
        write_atomically(path, data)
