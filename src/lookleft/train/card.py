"""The model card: model/README.md, written from what the run folder says and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lookleft import __version__
from lookleft.bundle import GENERATION_NAME
from lookleft.files import write_atomically
from lookleft.train.report import PEEKS, clock, read_if_there, sittings, total_steps
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings
from lookleft.train.track import read_metrics

_PIPELINES = {"translate": "translation", "lm": "text-generation", "mlm": "fill-mask"}
_FIGURES = {  # key in scores.json -> name on the card, type for the head
    "bleu": ("BLEU", "bleu"),
    "chrf": ("chrF++", "chrf"),
    "dev_loss": ("loss per token", "loss"),
    "bits_per_byte": ("bits per byte", "bits_per_byte"),
}
Facts = Mapping[str, Any]


def write_card(folder: Path) -> Path:
    """Write the card of a finished run; get its path."""
    path = folder / "model" / "README.md"
    write_atomically(path, to_markdown(folder).encode("utf-8"))
    return path


def to_markdown(folder: Path) -> str:
    """The card as text."""
    settings = read_settings(folder / "config.toml")
    scores, facts = read_if_there(folder / "scores.json"), read_if_there(folder / "run.json")
    name = folder.resolve().name
    head = "\n".join(_head(name, settings, scores))
    body = "\n".join(_body(name, folder, settings, scores, facts))
    return f"---\n{head}\n---\n\n{body}\n"


def _head(name: str, settings: RunSettings, scores: Facts) -> Iterator[str]:
    """The YAML that model hubs read; JSON strings are valid YAML and need no care."""
    languages = [code for code in settings.data.languages if code]
    if languages:
        yield "language:"
        yield from (f"- {json.dumps(code)}" for code in languages)
    yield "library_name: lookleft"
    yield f"pipeline_tag: {_PIPELINES[settings.task]}"
    measured = {key: value for key, value in _FIGURES.items() if scores.get(key) is not None}
    if not measured:
        return
    yield "metrics:"
    yield from (f"- {kind}" for _, kind in measured.values())
    yield "model-index:"
    yield f"- name: {json.dumps(name)}"
    yield "  results:"
    yield f"  - task: {{type: {_PIPELINES[settings.task]}}}"
    yield "    dataset: {name: dev set of the run, type: own}"
    yield "    metrics:"
    for key, (shown, kind) in measured.items():
        yield f"    - {{type: {kind}, name: {json.dumps(shown)}, value: {scores[key]:.4f}}}"


def _body(
    name: str, folder: Path, settings: RunSettings, scores: Facts, facts: Facts
) -> Iterator[str]:
    yield f"# {name}"
    yield ""
    source, target = settings.data.languages
    kind = {
        "translate": f"Translates {source or 'source'} to {target or 'target'}",
        "lm": "Continues text",
    }.get(settings.task, "Guesses hidden tokens")
    yield f"{kind}. {facts.get('parameters', 0):,} parameters. Trained by lookleft {__version__}."
    if settings.model.mask == "none":
        yield f"\n**{PEEKS}**"
    yield "\n## Measured\n"
    yield from _measured(scores, settings)
    decoding = read_if_there(folder / "model" / GENERATION_NAME)
    if "length_penalty" in decoding:
        yield (
            f"\nBeams divide by the length to the power {decoding['length_penalty']:g}, which the "
            f"dev set chose for a beam of {decoding['num_beams']}."
        )
    yield "\n## Training\n"
    rows = read_metrics(folder)
    ends = sittings(rows)
    yield f"- steps: {rows[-1]['step'] if rows else 0:,} of {_steps(settings, facts)}"
    yield f"- time: {clock(sum(row['seconds'] for row in ends))}, {_machine(facts)}"
    yield f"- seed: {settings.train.seed}"
    yield "\n## Data\n"
    for file, mark in read_if_there(folder / "data.json").items():
        yield f"- `{file}`: {f'sha256 `{mark}`' if len(mark) == 64 else mark}"
    if settings.data.origins:
        yield f"- origins: {', '.join(settings.data.origins)}"
    if settings.data.add_phrases:
        yield f"- {settings.data.add_phrases:,} pairs of the built-in grammar"
    yield "\n## Does it look at the future?\n"
    yield _verdict(read_if_there(folder / "audit.json"))


def _measured(scores: Facts, settings: RunSettings) -> Iterator[str]:
    if not scores:
        yield "Nothing: the run had no dev set."
        return
    weights = f"the weights of step {scores['step']:,}"
    if scores.get("n_averaged"):
        weights = f"the mean of the last {scores['n_averaged']} checkpoints"
    elif scores.get("ema"):
        weights = f"the moving average (decay {scores['ema']}) at step {scores['step']:,}"
    yield (
        f"On the dev set, {weights}; translations greedy."
        if "bleu" in scores
        else (f"On the dev set, {weights}.")
    )
    yield ""
    yield "| figure | value |"
    yield "|---|---|"
    for key, (shown, _) in _FIGURES.items():
        if scores.get(key) is not None:
            yield f"| {shown} | {scores[key]:.2f} |"
    if scores.get("signature"):
        yield f"\n`{scores['signature']}`, of {settings.train.eval_sentences:,} sentences at most"


def _steps(settings: RunSettings, facts: Facts) -> str:
    asked, total = settings.train.steps, total_steps(settings, facts)
    if total == asked:
        return f"{asked:,}"
    return f"{total:,}, as {settings.train.minutes:g} minutes were too few for {asked:,}"


def _machine(facts: Facts) -> str:
    shown = (f"{name} {facts[name]}" for name in ("device", "threads", "torch") if name in facts)
    return ", ".join(shown)


def _verdict(audit: Facts) -> str:
    if not audit:
        return "Not audited. To find out: `lookleft audit FOLDER`"
    n_checks = len(audit.get("checks", ()))
    return (
        f"**{audit.get('verdict')}** by `lookleft audit --quick` on the trained weights, "
        f"{n_checks} checks. It is evidence for these weights, lengths and seeds, not a proof."
    )
