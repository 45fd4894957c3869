"""Other models that the page offers: the bundled one, runs, and what lies beside the one shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lookleft import bundled

MAX_KNOWN = 32  # a menu, not a file manager
RUNS = Path("runs")  # where `lookleft train` writes unless told otherwise


def known_models(shown: Path) -> dict[str, Path]:
    """Name and path of each model but the one that is shown; nothing is opened."""
    found: dict[str, Path] = {}
    seen = {os.path.realpath(shown)}
    for path in _candidates(shown):
        place = os.path.realpath(path)
        if place in seen or len(found) == MAX_KNOWN or not is_model(path):
            continue
        seen.add(place)
        found[path.name if path.parent == bundled.FOLDER else str(path)] = path
    return found


def is_model(path: Path) -> bool:
    """Whether a path looks like a model: a GGUF file, a model folder, a run that has one.

    A folder that may not be looked into is none; pathlib would raise an error.
    """
    if path.suffix == ".gguf":
        return os.path.isfile(path)
    return any(os.path.isfile(path / name) for name in ("config.json", "model/config.json"))


def _candidates(shown: Path) -> Iterator[Path]:
    yield from (bundled.FOLDER / name for name in bundled.NAMES)
    for folder in (shown.parent, RUNS):
        try:
            yield from sorted(folder.iterdir())
        except OSError:  # not there, or not to be read: then it offers nothing
            continue
