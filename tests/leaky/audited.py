"""How the audit sees an exhibit: its own check, ended as soon as there is something to say."""

from __future__ import annotations

from lookleft.audit import Finding, Verdict, audit

from .exhibit import Exhibit


class Enough(Exception):
    """Raised by a progress callback to end an audit early."""


def first_violation(exhibit: Exhibit) -> Finding | None:
    """The first thing that the exhibit's own check has against the mutant, if anything."""
    model = exhibit.mutant()
    found: list[Finding] = []

    def watch(news: Finding | str) -> None:
        if isinstance(news, Finding) and news.verdict is Verdict.DISPROVED:
            found.append(news)
            raise Enough

    try:
        audit(model, checks=exhibit.check, progress=watch, **exhibit.options(model))
    except Enough:
        return found[0]
    return None


def accusations(exhibit: Exhibit, checks: str | None, *, quick: bool = False) -> list[str]:
    """What the audit has against the twin; the list should be empty."""
    model = exhibit.twin()
    report = audit(model, checks=checks, quick=quick, **exhibit.options(model))
    return [f"{f.check} [{f.configuration}] {f.reason}" for f in report.violations]
