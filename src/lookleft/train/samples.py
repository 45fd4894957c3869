"""Sample translations of a run, one file per evaluation: samples/step-00000500.tsv."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lookleft.data.lines import read_lines
from lookleft.files import make_folder, write_atomically
from lookleft.train.judge import Sample

FOLDER = "samples"
_HEAD = "source\treference\toutput"
_GAPS = re.compile(r"[\t\n\r]+")  # would break a column or a line


def samples_text(samples: Sequence[Sample]) -> str:
    """The samples as lines with tabs between source, reference and output."""
    rows = (
        "\t".join(_GAPS.sub(" ", text) for text in (s.source, s.reference, s.output))
        for s in samples
    )
    return "\n".join([_HEAD, *rows]) + "\n"


def write_samples(folder: Path, step: int, samples: Sequence[Sample]) -> None:
    """Keep the samples of one evaluation in the run folder; none leave no file."""
    if samples:
        make_folder(folder / FOLDER)
        write_atomically(_path(folder, step), samples_text(samples).encode("utf-8"))


def samples_of(folder: Path, step: int) -> list[Sample]:
    """The samples of the evaluation at that step; none if there was none."""
    path = _path(folder, step)
    if not path.exists():
        return []
    rows = [(text or "").split("\t") for _, text in read_lines(path, after=1)]
    return [Sample(*row) for row in rows if len(row) == 3]


def read_samples(folder: Path) -> dict[int, list[Sample]]:
    """The samples of every evaluation so far, by step."""
    files = (folder / FOLDER).glob("step-*.tsv")
    steps = sorted(int(path.stem.removeprefix("step-")) for path in files)
    return {step: samples_of(folder, step) for step in steps}


def forget_samples_after(folder: Path, step: int) -> None:
    """Remove the samples of evaluations behind a step: another future made them."""
    for later in read_samples(folder):
        if later > step:
            _path(folder, later).unlink(missing_ok=True)


def _path(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"step-{step:08d}.tsv"
