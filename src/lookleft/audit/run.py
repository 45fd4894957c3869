"""The audit: which checks run in which configurations, and the report about them."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from torch import Tensor

from lookleft.audit.checks.base import TITLES, guarded
from lookleft.audit.plan import planned
from lookleft.audit.recognise import recognise
from lookleft.audit.session import Session, untouched
from lookleft.audit.spec import Rule, parse_rule
from lookleft.audit.verdict import Finding, Report, Verdict
from lookleft.errors import InputError, LookleftError

Spec = str | Rule | Sequence[int] | Callable[[int, int], bool]
_ALIASES = {
    "purity": ("K0",),
    "causal": ("K1", "K1g", "K2"),
    "cache": ("K3",),
    "padding": ("K4",),
    "batch": ("K5",),
    "packing": ("K6",),
    "encoder-decoder": ("K7",),
    "window": ("K8",),
    "labels": ("K9",),
    "generation": ("K10",),
    "dtype": ("K11",),
}
QUICK = ("K0", "K5", "K1", "K1g", "K2", "K3", "K4")


class NotCausalError(LookleftError, AssertionError):
    """A subject uses what its rule forbids; the text is the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(in_words(finding))
        self.finding = finding


def audit(
    target: Any,
    *,
    inputs: Any = None,
    spec: Spec = "causal",
    time: tuple[int, int] = (1, 1),
    encode: Callable[..., Any] | str | None = None,
    decode: Callable[..., Any] | str | None = None,
    generate: Callable[..., Any] | str | None = None,
    step: Callable[..., Any] | str | None = None,
    loss: Callable[..., Any] | str | None = None,
    checks: Sequence[str] | str | None = None,
    backends: Sequence[str] | str | None = None,
    quick: bool = False,
    tiny: bool = False,
    vocab: int | None = None,
    length: int | None = None,
    seed: int = 0,
    stop: bool = False,
    progress: Callable[[Finding | str], None] | None = None,
) -> Report:
    """A report on what the target's outputs depend on; the target itself is left as it was.

    `inputs` is an example tensor (or tuple, dictionary, function returning one) for targets whose
    inputs cannot be guessed; `time` names the time axis of input and output. The optional
    capabilities are functions or names of methods: `decode(source, target)` and
    `encode(source)` for encoder-decoders, `step(token, state) -> (out, state)`,
    `generate(ids, n) -> ids` or `(ids, scores)`, and `loss(ids, labels) -> scalar` or
    `loss(ids) -> (B, T)`.
    `stop` ends the audit at the first violation; `progress` is told every finding as it comes.
    """
    wanted = chosen_checks(checks, quick)
    tell = progress or _silent
    began = clock.perf_counter()
    with untouched():
        if tiny:
            target = _tiny(target, seed)
        rule = parse_rule(spec)
        given = {
            "encode": encode,
            "decode": decode,
            "generate": generate,
            "step": step,
            "loss": loss,
        }
        original, name = target, type(target).__name__
        target, offered = _offered(target)
        given.update({key: value for key, value in offered.items() if given.get(key) is None})
        subject, used = recognise(
            target, rule, inputs=inputs, time=time, vocab=vocab, length=length, capabilities=given
        )
        if offered or target is not original:
            subject.name = name
        tell(f"auditing {subject.name} at length {used} under the rule {rule.name}")
        session = Session(subject, rule, used, seed=seed, quick=quick)
        session.asked = wanted if checks is not None else ()
        session.choose_precision()
        findings = []
        for found in _findings(session, wanted, backends):
            findings.append(found)
            tell(found)
            if stop and found.verdict is Verdict.DISPROVED:
                break
    seconds = clock.perf_counter() - began
    return Report(subject.name, tuple(findings), seconds, session.forwards, tuple(session.notes))


def _offered(target: Any) -> tuple[Any, dict[str, Any]]:
    """What a target that knows how it wants to be called offers instead of itself.

    Its method `audit_subject()` returns a callable, or a mapping with that callable under "target"
    and capabilities under their own names.
    """
    target = getattr(target, "_orig_mod", target)  # a compiled module holds the one it was made of
    offer = getattr(target, "audit_subject", None)
    if not callable(offer):
        return target, {}
    offered = offer()
    if isinstance(offered, Mapping):
        rest = dict(offered)
        return rest.pop("target", None), rest
    return offered, {}


def _tiny(target: Any, seed: int) -> Any:
    """A small random model of the target's class."""
    name = target if isinstance(target, str) else getattr(target, "__name__", None)
    name = name or type(target).__name__
    build = import_module("lookleft.audit.zoo").build_tiny  # brings its library, so only here
    return build(name, seed=seed)


def _findings(
    session: Session, wanted: Sequence[str], backends: Sequence[str] | str | None
) -> Iterator[Finding]:
    for one in planned(session, backends):
        if one.check in wanted:
            yield guarded(one.check, one.setting, one.body, session, is_extra=one.is_extra)


def assert_causal(
    fn: Any, x: Tensor, *, spec: Spec = "causal", time: tuple[int, int] = (1, 1)
) -> None:
    """Return if fn(x) uses only what the rule allows; else raise with the finding in words."""
    report = audit(fn, inputs=x, spec=spec, time=time, checks=("K0", "K5", "K1", "K1g", "K2"))
    for found in report.findings:
        is_about_time = found.check in ("K1", "K1g", "K2")
        if found.verdict is Verdict.DISPROVED and is_about_time:
            raise NotCausalError(found)
    main = [f for f in report.findings if f.check in ("K1", "K1g")]
    if not any(f.verdict is Verdict.VERIFIED for f in main):
        raise NotCausalError(next((f for f in main if f.verdict is not Verdict.SKIPPED), main[0]))


def in_words(finding: Finding) -> str:
    """One finding as a paragraph."""
    parts = [
        f"{finding.check} {finding.title} [{finding.configuration}]: {finding.verdict}",
        finding.reason,
    ]
    if finding.culprit is not None:
        where = f" ({finding.culprit.place})" if finding.culprit.place else ""
        parts.append(f"first seen in {finding.culprit.module or 'the model itself'}{where}")
    if finding.cause is not None:
        parts.append(f"likely cause: {finding.cause}")
    return "; ".join(parts)


def chosen_checks(checks: Sequence[str] | str | None, quick: bool = False) -> tuple[str, ...]:
    """Check ids from ids or words such as causal, cache, padding."""
    if checks is None:
        return QUICK if quick else tuple(TITLES)
    names = checks.split(",") if isinstance(checks, str) else list(checks)
    found: list[str] = []
    ids = {name.lower(): name for name in TITLES}
    for name in (part.strip() for part in names):
        if name.lower() in ids:
            found.append(ids[name.lower()])
        elif name.lower() in _ALIASES:
            found.extend(_ALIASES[name.lower()])
        else:
            known = ", ".join([*TITLES, *_ALIASES])
            raise InputError(f"unknown check {name!r}: use some of {known}")
    return tuple(dict.fromkeys(found))


def _silent(message: Finding | str) -> None:
    del message
