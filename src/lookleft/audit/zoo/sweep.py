"""Audit every class of a library as a tiny random model and say what came out, row by row."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from lookleft.audit.run import audit
from lookleft.audit.verdict import Finding, Verdict
from lookleft.audit.zoo.build import build_tiny, class_names
from lookleft.audit.zoo.design import explained
from lookleft.errors import InputError

BACKENDS = ("sdpa", "eager")
CHECKS = ("K0", "K5", "K1", "K1g", "K2", "K3", "K4", "K7", "K9", "K10")
_QUICK = CHECKS[:7]  # the ones a quick audit knows
_BY_BACKEND = ("K1", "K2", "K3", "K4")  # what a second backend could still get wrong
LENGTH = 37
_LENGTH_OF_SCANS = 67  # linear attention works in fixed blocks of 64; this crosses one

BY_DESIGN = "BY DESIGN"
NOT_BUILDABLE = "NOT BUILDABLE"
NOT_AUDITED = "NOT AUDITED"


@dataclass(frozen=True)
class Entry:
    """One finding of one class; `explanation` is why it is meant to be so, if it is."""

    finding: Finding
    explanation: str | None = None

    @property
    def verdict(self) -> str:
        return BY_DESIGN if self.explanation else str(self.finding.verdict)


@dataclass(frozen=True)
class Row:
    """What the zoo knows about one class."""

    name: str
    reason: str = ""  # why nothing more is known
    failure: str = ""  # NOT_BUILDABLE or NOT_AUDITED, if it came to that
    entries: tuple[Entry, ...] = ()
    parameters: int = 0
    length: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """The worst of the entries that nothing explains."""
        if self.failure:
            return self.failure
        seen = {entry.verdict for entry in self.entries}
        order = (Verdict.DISPROVED, BY_DESIGN, Verdict.INCONCLUSIVE, Verdict.VERIFIED)
        return next((str(verdict) for verdict in order if verdict in seen), Verdict.INCONCLUSIVE)

    @property
    def violations(self) -> tuple[Entry, ...]:
        return tuple(e for e in self.entries if e.finding.verdict is Verdict.DISPROVED)


def sweep(
    library: str = "transformers",
    *,
    names: Sequence[str] | None = None,
    backends: Sequence[str] = BACKENDS,
    checks: Sequence[str] = CHECKS,
    build: Callable[[str], nn.Module] = build_tiny,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """One row per class, in the order of `names`; by default every class the library registers."""
    if library != "transformers":
        raise InputError(f"no zoo for library {library!r}: use 'transformers'")
    rows = []
    with _quiet():
        for name in class_names() if names is None else names:
            row = _row(name, build, backends, checks)
            rows.append(row)
            if progress is not None:
                progress(row)
    return rows


def _row(
    name: str, build: Callable[[str], nn.Module], backends: Sequence[str], checks: Sequence[str]
) -> Row:
    began = clock.perf_counter()
    try:
        model = build(name)
    except Exception as error:  # of a stranger's code: the reason belongs in the table
        return Row(name, _first_line(error), NOT_BUILDABLE, seconds=clock.perf_counter() - began)
    parameters = sum(weight.numel() for weight in model.parameters())
    length = _length(model)
    try:
        entries = tuple(explain(name, _findings(model, length, backends, checks)))
        reason, failure = "", ""
    except Exception as error:
        reason, failure, entries = _first_line(error), NOT_AUDITED, ()
    seconds = clock.perf_counter() - began
    return Row(name, reason, failure, entries, parameters, length, seconds)


def _findings(
    model: nn.Module, length: int, backends: Sequence[str], checks: Sequence[str]
) -> Iterator[Finding]:
    """All checks on the first backend the class supports, the ones about masks on the others."""
    usable = [b for b in backends if b != "sdpa" or getattr(model, "_supports_sdpa", False)]
    for i, backend in enumerate(usable):
        quick = [check for check in checks if check in (_BY_BACKEND if i else _QUICK)]
        slow = [check for check in checks if check not in _QUICK and i == 0]
        for wanted, is_quick in ((quick, True), (slow, False)):
            if wanted:
                yield from audit(
                    model, checks=wanted, backends=(backend,), length=length, quick=is_quick
                ).findings


def explain(name: str, findings: Iterable[Finding]) -> Iterator[Entry]:
    """The findings about one class, each beside the reason why it is meant to be so, if it is."""
    for finding in findings:
        is_bad = finding.verdict is Verdict.DISPROVED
        yield Entry(finding, explained(name, finding.check) if is_bad else None)


def _length(model: nn.Module) -> int:
    config: Any = model.config
    kinds = getattr(config.get_text_config(decoder=True), "layer_types", None) or ()
    return _LENGTH_OF_SCANS if "linear_attention" in kinds else LENGTH


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text if isinstance(error, InputError) else f"{type(error).__name__}: {text}")[:300]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the hints transformers gives to people who load real weights."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
