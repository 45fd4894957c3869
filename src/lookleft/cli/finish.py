"""The end of a run: the trained weights are audited, the card and the last report written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookleft.train.run import Run
    from lookleft.train.settings import RunSettings

LENGTH = 16  # positions that the audit of the trained weights looks at: enough to see a leak


def audit_weights(folder: Path, settings: RunSettings) -> str:
    """The verdict on the trained model, which is also written to audit.json.

    A masked-token model is meant to see both ways, so nothing is asked of it.
    """
    from lookleft.audit.run import audit
    from lookleft.bundle import load
    from lookleft.evaluate.audited import capabilities

    if settings.task == "mlm":
        return ""
    subject = load(folder / "model").audit_subject()
    report = audit(subject, **capabilities(subject), quick=True, length=LENGTH)
    report.to_json(folder / "audit.json")
    return str(report.verdict)


def finish(run: Run) -> list[str]:
    """Audit, card and report of a run that has ended; get what to say about it."""
    from lookleft.files import read_json
    from lookleft.train.card import write_card
    from lookleft.train.report import write_report

    folder, progress, train = run.folder, run.progress, run.settings.train
    verdict = audit_weights(folder, run.settings)
    write_card(folder)
    write_report(folder)
    lines = []
    if progress.step < run.n_steps:
        lines.append(
            f"early stop at step {progress.step:,}: dev {train.choose} has not beaten "
            f"{progress.best:.4g} (step {progress.best_step:,}) for {train.patience} checks"
        )
    if (folder / "scores.json").exists():
        scores = read_json(folder / "scores.json", max_bytes=1_000_000, max_depth=4)
        lines.append(" · ".join(_result(scores)))
    said = f"audit {verdict} on the trained weights · " if verdict else ""
    lines.append(f"{said}model in {folder / 'model'} · card and report.html written")
    if run.settings.task == "translate":
        is_from_hindi = run.settings.data.languages[0] == "hi"
        sentence = "मैं ठीक हूँ।" if is_from_hindi else "I am fine."
        lines.append(f'try:  lookleft translate {folder} "{sentence}"')
    elif run.settings.task == "lm":
        lines.append(f'try:  lookleft generate {folder} "Once upon a time"')
    return lines


def _result(scores: dict[str, object]) -> list[str]:
    """The parts of the line that says which weights were kept and how good they are."""
    if scores.get("n_averaged"):
        parts = [f"kept the mean of the last {scores['n_averaged']} checkpoints"]
    else:
        parts = [f"kept the best, of step {scores['step']:,}"]
    named = (("dev_loss", "dev loss"), ("chrf", "chrF++"), ("bleu", "BLEU"))
    for key, name in (*named, ("bits_per_byte", "bits per byte")):
        value = scores.get(key)
        if isinstance(value, float):
            parts.append(f"{name} {value:.2f}")
    if scores.get("signature"):
        parts.append(str(scores["signature"]))
    return parts
