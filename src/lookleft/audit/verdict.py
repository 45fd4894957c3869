"""What a check can say, and the record of what it said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from os import PathLike


class Verdict(StrEnum):
    """Testing can disprove; it cannot prove for all inputs, so nothing here is called proved."""

    DISPROVED = "DISPROVED"  # a counterexample is in hand
    VERIFIED = "VERIFIED"  # no violation in the listed probes, and they could have found one
    INCONCLUSIVE = "INCONCLUSIVE"  # the probe had no power, or noise drowned it: never a pass
    SKIPPED = "SKIPPED"  # does not apply to this model; the reason says why


@dataclass(frozen=True)
class Culprit:
    """Where a violation starts, as far as it could be followed."""

    module: str  # dotted name of the deepest module with clean inputs and a dirty output
    kind: str  # its class name
    op: str | None = None  # the torch call inside it
    place: str | None = None  # file:line of that call
    others: tuple[str, ...] = ()  # every module that leaks when replayed alone
    depth: tuple[tuple[str, float], ...] = ()  # (module, largest change) in call order


@dataclass(frozen=True)
class DependencyMap:
    """Which output position used which input position, beside what the rule allows."""

    used: tuple[tuple[float, ...], ...]  # used[i][j]: strength with which output i reads input j
    allowed: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True)
class Finding:
    """One check in one configuration."""

    check: str  # short id: "K1"
    title: str  # what it asks: "future-swap"
    configuration: str  # "sdpa, eval, B=3, float64"
    verdict: Verdict
    reason: str  # one sentence, always there
    worst: float | None = None  # largest forbidden change (or missing one: 0.0)
    pair: tuple[int, int] | None = None  # (output i, input j) of the worst
    detection_limit: float | None = None  # smallest planted leak this check noticed
    cause: str | None = None  # what the shape of the violation suggests
    culprit: Culprit | None = None
    snippet: str | None = None  # a script that shows the violation without lookleft
    dependencies: DependencyMap | None = None

    @property
    def module(self) -> str | None:
        return self.culprit.module if self.culprit else None


@dataclass(frozen=True)
class Report:
    """All findings about one target."""

    target: str
    findings: Sequence[Finding]
    seconds: float
    forwards: int = 0  # forward passes spent
    notes: Sequence[str] = field(default=())  # warnings that are no verdict

    @property
    def verdict(self) -> Verdict:
        """The worst of what was found; all skipped means nothing was shown."""
        seen = {finding.verdict for finding in self.findings}
        if Verdict.DISPROVED in seen:
            return Verdict.DISPROVED
        if Verdict.INCONCLUSIVE in seen or Verdict.VERIFIED not in seen:
            return Verdict.INCONCLUSIVE
        return Verdict.VERIFIED

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.VERIFIED

    @property
    def violations(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.verdict is Verdict.DISPROVED)

    @property
    def exit_code(self) -> int:
        """0 all pass, 1 violation, 2 inconclusive only."""
        return {Verdict.DISPROVED: 1, Verdict.INCONCLUSIVE: 2}.get(self.verdict, 0)

    def __str__(self) -> str:
        from lookleft.audit.report import to_text

        return to_text(self)

    def raise_for_violations(self) -> None:
        """Raise NotCausalError if anything was disproved; `ok` also asks that it was examined."""
        from lookleft.audit.run import NotCausalError

        if self.violations:
            error = NotCausalError(self.violations[0])
            error.add_note(str(self))
            raise error

    def to_json(self, path: str | PathLike[str]) -> None:
        from lookleft.audit.report import json_text, write_text

        write_text(path, json_text(self))

    def to_junit(self, path: str | PathLike[str]) -> None:
        from lookleft.audit.junit import to_junit
        from lookleft.audit.report import write_text

        write_text(path, to_junit(self))

    def to_html(self, path: str | PathLike[str]) -> None:
        from lookleft.audit.html import to_html
        from lookleft.audit.report import write_text

        write_text(path, to_html(self))
