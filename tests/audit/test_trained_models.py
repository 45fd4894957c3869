"""Models that `lookleft train` made: the honest one passes, the one trained to peek is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

import lookleft
from lookleft.audit import Report, Verdict
from lookleft.train.run import Run
from lookleft.train.settings_file import read_settings

SETTINGS = {
    "text.kind": "char",
    "text.vocab_size": "300",
    "model.d_model": "32",
    "model.d_ff": "32",
    "model.n_layers": "2",
    "train.steps": "40",
    "train.warmup": "5",
    "train.lr": "0.01",
    "train.tokens": "512",
}


def audited(folder: Path, task: str, mask: str) -> Report:
    """Train on counting, then audit what came out."""
    text = folder / "text"
    numbers = [" ".join(str(n + i) for i in range(4)) for n in range(60)]
    lines = [f"{line}\t{line}" if task == "translate" else line for line in numbers]
    text.write_text("\n".join(lines) + "\n")
    settings = SETTINGS | {"task": task, "model.mask": mask}
    settings |= {"data.train": str(text), "data.dev": str(text)}
    list(Run.start(folder / "run", read_settings(None, settings)).train())
    return lookleft.audit(lookleft.load(folder / "run"), quick=True)


@pytest.mark.parametrize("task", ["translate", "lm"])
def test_an_honest_model_is_verified(task: str, tmp_path: Path) -> None:
    assert audited(tmp_path, task, "causal").verdict is Verdict.VERIFIED


@pytest.mark.parametrize("task", ["translate", "lm"])
def test_a_model_trained_without_the_mask_is_caught(task: str, tmp_path: Path) -> None:
    report = audited(tmp_path, task, "none")
    assert report.verdict is Verdict.DISPROVED
    found = next(finding for finding in report.violations if finding.check == "K1")
    assert found.module is not None
    assert found.module.endswith("decoder.layers.0.self_attention")
