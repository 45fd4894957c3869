"""The rows of a sweep as JSON and as a page of Markdown."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lookleft.audit.verdict import Culprit, Finding, Verdict
from lookleft.audit.zoo.design import anchor
from lookleft.audit.zoo.sweep import (
    BACKENDS,
    BY_DESIGN,
    NOT_AUDITED,
    NOT_BUILDABLE,
    Entry,
    Row,
    explain,
)
from lookleft.errors import InputError

SCHEMA = 1
_MEANINGS = {
    str(Verdict.DISPROVED): "a counterexample is in hand and its source was read",
    BY_DESIGN: "a counterexample is in hand, and the authors meant or documented it",
    str(Verdict.INCONCLUSIVE): "a check could not be run or had no power",
    str(Verdict.VERIFIED): "no violation in the probes listed in the JSON file",
    NOT_AUDITED: "the audit itself failed on this class",
    NOT_BUILDABLE: "the class cannot be built small, or needs more than ids",
}


def to_json(
    rows: Sequence[Row], *, library: str = "transformers", backends: Sequence[str] = BACKENDS
) -> str:
    """The rows with all their findings, as one JSON document with one line per class."""
    head = {
        "schema": SCHEMA,
        "library": library,
        "versions": {name: _version(name) for name in (library, "torch", "lookleft")},
        "backends": list(backends),
        "seconds": round(sum(row.seconds for row in rows), 1),
        "summary": dict(Counter(row.verdict for row in rows)),
    }
    lines = ",\n  ".join(json.dumps(_row_record(row), ensure_ascii=False) for row in rows)
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "rows": [\n  {lines}\n ]\n}}\n'


def from_json(text: str) -> list[Row]:
    """The rows of a document made by to_json, each explained anew."""
    document = json.loads(text)
    if document.get("schema") != SCHEMA:
        raise InputError(f"zoo schema {document.get('schema')!r}: this version reads {SCHEMA}")
    return [_row_from(record) for record in document["rows"]]


def to_markdown(
    rows: Sequence[Row],
    *,
    library: str = "transformers",
    command: str = "python -m lookleft.audit.zoo docs",
) -> str:
    """A page: how many of each verdict, then the classes, the bad news first."""
    counts = Counter(row.verdict for row in rows)
    lines = [
        f"# The zoo: {library} {_version(library)}",
        "",
        f"{len(rows)} classes, each built as a tiny random model and audited on the attention",
        f"backends {' and '.join(BACKENDS)} (torch {_version('torch')}, CPU). Made by",
        "",
        f"    {command}",
        "",
        "| verdict | classes | meaning |",
        "|---|---|---|",
        *(
            f"| {verdict} | {counts[verdict]} | {meaning} |"
            for verdict, meaning in _MEANINGS.items()
            if counts[verdict]
        ),
        "",
        "Testing can disprove; it cannot prove for all inputs. What was found and read, with a",
        "script for each fault, is in [zoo-findings.md](zoo-findings.md).",
    ]
    for verdict in _MEANINGS:
        chosen = [row for row in rows if row.verdict == verdict]
        if chosen:
            lines += ["", f"## {verdict.capitalize()}", "", *_section(verdict, chosen)]
    return "\n".join(lines) + "\n"


def _section(verdict: str, rows: Sequence[Row]) -> list[str]:
    if verdict == Verdict.VERIFIED:
        return [", ".join(f"`{row.name}`" for row in rows) + "."]
    head = ["| class | check | what happened | where |", "|---|---|---|---|"]
    if verdict in (NOT_BUILDABLE, NOT_AUDITED):
        return ["| class | reason |", "|---|---|", *(f"| `{r.name}` | {r.reason} |" for r in rows)]
    return head + [line for row in rows for line in _lines(row, verdict)]


def _lines(row: Row, verdict: str) -> list[str]:
    """One line per check of a class; the same check on a second backend is not repeated."""
    seen: dict[str, Entry] = {}
    for entry in row.entries:
        bad = (Verdict.DISPROVED, Verdict.INCONCLUSIVE)
        if entry.finding.verdict in bad and verdict != Verdict.VERIFIED:
            seen.setdefault(entry.finding.check, entry)
    return [_line(row.name, entry) for entry in seen.values()]


def _line(name: str, entry: Entry) -> str:
    finding = entry.finding
    what = entry.explanation or finding.reason
    heading = anchor(name, finding.check)
    if finding.verdict is Verdict.INCONCLUSIVE:
        what = f"inconclusive: {what}"
    elif entry.explanation:
        what = f"by design: {what}"
    elif heading:
        what = f"{what} ([read](zoo-findings.md#{heading}))"
    place = _place(finding) or (f"`{finding.module}`" if finding.module else "")
    cells = (f"`{name}`", f"{finding.check} {finding.title}", what, place)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _row_record(row: Row) -> dict[str, Any]:
    return {
        "class": row.name,
        "verdict": row.verdict,
        "reason": row.reason,
        "parameters": row.parameters,
        "length": row.length,
        "seconds": round(row.seconds, 2),
        "findings": [_entry_record(row.name, entry) for entry in row.entries],
    }


def _entry_record(name: str, entry: Entry) -> dict[str, Any]:
    """What is known about one finding; what is not known is left out."""
    finding = entry.finding
    record = {
        "check": finding.check,
        "title": finding.title,
        "configuration": finding.configuration,
        "verdict": entry.verdict,
        "reason": finding.reason,
        "explanation": entry.explanation,
        "described": anchor(name, finding.check) if entry.verdict == Verdict.DISPROVED else None,
        "worst": finding.worst if math.isfinite(finding.worst or 0.0) else None,  # JSON has no inf
        "pair": list(finding.pair) if finding.pair else None,
        "module": finding.module,
        "kind": finding.culprit.kind if finding.culprit else None,
        "place": _place(finding),
        "cause": finding.cause,
    }
    return {key: value for key, value in record.items() if value is not None}


def _place(finding: Finding) -> str | None:
    """File and line inside the library, without the folder it happens to be installed in."""
    place = finding.culprit.place if finding.culprit else None
    return place.rpartition("site-packages/")[2] if place else None


def _row_from(record: Mapping[str, Any]) -> Row:
    name, failed = record["class"], record["verdict"] in (NOT_BUILDABLE, NOT_AUDITED)
    return Row(
        name,
        record["reason"],
        record["verdict"] if failed else "",
        tuple(explain(name, map(_finding_from, record["findings"]))),
        record["parameters"],
        record["length"],
        record["seconds"],
    )


def _finding_from(record: Mapping[str, Any]) -> Finding:
    pair, module = record.get("pair"), record.get("module")
    return Finding(
        record["check"],
        record["title"],
        record["configuration"],
        Verdict.DISPROVED if record["verdict"] == BY_DESIGN else Verdict(record["verdict"]),
        record["reason"],
        worst=record.get("worst"),
        pair=(pair[0], pair[1]) if pair else None,
        cause=record.get("cause"),
        culprit=None
        if module is None
        else Culprit(module, record["kind"], place=record.get("place")),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
