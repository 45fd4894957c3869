"""The card of the translator that comes with lookleft: README.md beside its weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lookleft import __version__
from lookleft.bundled import DEFAULT
from lookleft.demo.box.measure import BEAM, Findings
from lookleft.demo.box.origins import FREE, WEIGHTS_LICENCE
from lookleft.train.report import clock, read_if_there, sittings
from lookleft.train.settings import RunSettings
from lookleft.train.track import read_metrics

UNREAD = "not read yet"  # stands where a person's word on a translation belongs
TRAINING = "training.toml"  # the settings of the run, beside the weights

LIMITS = """\
- It is small and was trained on little text. A word that it does not know it spells out by pieces,
  leaves out, or replaces by another.
- How it does on short and on long sentences, the table by length says.
- Fluent Hindi may say something else than the English, most of all where negation, numbers, names
  or pronouns matter. Do not rely on it for medicine, law, safety or anything that cannot be undone.
- English does not say whether *you* is आप or तुम, nor the gender of *I*: it guesses.
- It translates one sentence at a time and knows nothing of the one before.
- Its text is software messages, scripture, encyclopaedia and health advice besides everyday
  sentences: words are sometimes taken in the wrong one of these worlds.
- English to Hindi only. What is not English gives nonsense."""


@dataclass(frozen=True)
class Facts:
    """What the card is made from, besides the run folder."""

    settings: RunSettings
    n_parameters: int
    n_bytes: int
    findings: Findings


def to_markdown(run: Path, facts: Facts) -> str:
    """The card as text."""
    parts = (_head(), *_opening(facts), *_measured(facts.findings), *_audit(facts.findings))
    rest = (*_data(facts.settings), *_making(run, facts.settings), "## What it cannot do", LIMITS)
    return "\n\n".join((*parts, *rest, *_sentences(facts.findings))) + "\n"


def _head() -> str:
    return (
        f"---\nlanguage:\n- en\n- hi\nlicense: {WEIGHTS_LICENCE.lower()}\nlibrary_name: lookleft\n"
        f"pipeline_tag: translation\n---"
    )


def _opening(facts: Facts) -> Iterator[str]:
    yield f"# {DEFAULT}: English to Hindi"
    yield (
        f"A small Transformer, {facts.n_parameters:,} parameters in 8 bits, "
        f"{facts.n_bytes / 1e6:.1f} MB. It comes with lookleft {__version__} so that there is "
        f"something to try and to look into at once; it is no rival of large translators."
    )
    yield '```console\n$ lookleft translate "How are you?"\n$ lookleft explain\n```'


def _measured(findings: Findings) -> Iterator[str]:
    yield "## Measured"
    rows = [
        f"| `{result.file}` | {result.part} | {result.n:,} | "
        f"{'greedy' if result.beam == 1 else f'beam {result.beam}'} | "
        f"{result.scores.chrf:.2f} | {result.scores.bleu:.2f} |"
        for result in findings.results
    ]
    head = (
        "| validation set | origins | sentences | decoding | chrF++ | BLEU |\n" + "|---" * 6 + "|"
    )
    yield "\n".join((head, *rows))
    scores = findings.results[0].scores
    yield f"`{scores.chrf_signature}`  \n`{scores.signature}`"
    file = findings.results[0].file
    stem = file.split(".")[0]
    yield (
        "The int8 weights themselves were measured. None of these sentences is in the training "
        "files; whether the grammar happens to make one of them was not looked at. The same "
        f"figures, for `{file}`:\n\n"
        f"```bash\nzcat DIR/{file} | cut -f1 > {stem}.en\nzcat DIR/{file} | cut -f2 > {stem}.hi\n"
        f"lookleft evaluate {DEFAULT} --src {stem}.en --ref {stem}.hi --beam {BEAM}\n```"
    )
    rows = [f"| {b.words} | {b.n:,} | {b.chrf:.2f} | {b.bleu:.2f} |" for b in findings.by_length]
    head = "| words of the source | sentences | chrF++ | BLEU |\n|---|---|---|---|"
    yield f"`{file}` by length, beam {BEAM}:"
    yield "\n".join((head, *rows))


def _audit(findings: Findings) -> Iterator[str]:
    report = findings.report
    yield "## Does it look at the future?"
    yield (
        f"**{report.verdict}** by `{findings.command}` on these weights, "
        f"{len(report.findings)} findings. It is evidence for these weights, lengths and seeds, "
        f"not a proof."
    )
    counts = Counter((one.check, one.title, str(one.verdict)) for one in report.findings)
    yield "\n".join(
        f"- {check} {title}: {verdict}, {n} setting{'s' if n > 1 else ''}"
        for (check, title, verdict), n in counts.items()
    )


def _data(settings: RunSettings) -> Iterator[str]:
    data = settings.data
    yield "## Data and licences"
    rows = [
        f"| `{name}` | {FREE[name].what} | {FREE[name].authors} | {FREE[name].licence} |"
        for name in data.origins
    ]
    if rows:
        head = "| origin | what it is | by whom | licence |\n|---|---|---|---|"
        yield "\n".join((head, *rows))
    if data.add_phrases or not data.origins:
        count = f"{data.add_phrases:,}" if data.origins else "All"
        yield f"{count} sentences are of lookleft's own English-Hindi grammar (Apache-2.0)."
    yield (
        f"The weights may be passed on under {WEIGHTS_LICENCE}, with the authors above named: the "
        f"licence that the share-alike parts ask for. lookleft itself is under Apache-2.0."
    )


def _making(run: Path, settings: RunSettings) -> Iterator[str]:
    rows, machine = read_metrics(run), read_if_there(run / "run.json")
    seconds = sum(row["seconds"] for row in sittings(rows))
    told = ", ".join(
        f"{key} {machine[key]}" for key in ("device", "threads", "torch") if key in machine
    )
    steps = rows[-1]["step"] if rows else 0
    folder = f"src/lookleft/bundled/{DEFAULT}"
    yield "## How it was made"
    yield (
        f"{steps:,} steps in {clock(seconds)} ({told}), seed {settings.train.seed}. DIR holds "
        f"`train.tsv.gz` and the validation sets, each with its `*.origin.txt.gz`:"
    )
    yield (
        f"```bash\nlookleft train {folder}/{TRAINING} --data.dir DIR --out runs/{DEFAULT}\n"
        f"python -m lookleft.demo.box runs/{DEFAULT} --data.dir DIR\n```"
    )
    yield "The same seed gives the same run; on another processor roundings differ."


def _sentences(findings: Findings) -> Iterator[str]:
    yield "## Twenty everyday sentences"
    yield (
        "Greedy, as `lookleft translate` does it; not chosen for coming out well. The remarks are "
        "a reader's."
    )
    rows = [f"| {english} | {hindi} | {UNREAD} |" for english, hindi in findings.examples]
    yield "\n".join(("| English | what it says | remark |\n|---|---|---|", *rows))
