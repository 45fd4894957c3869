"""The audit: which checks run in which configurations, and the report about them."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
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
    only: Sequence[tuple[str, str]] | None = None,
    progress: Callable[[Finding | str], None] | None = None,
) -> Report:
    """A report on what the target's outputs depend on; the target itself is left as it was.

    `inputs` is an example tensor (or tuple, dictionary, function returning one) for targets whose
    inputs cannot be guessed; `time` names the time axis of input and output. The optional
    capabilities are functions or names of methods: `decode(source, target)` and
    `encode(source)` for encoder-decoders, `step(token, state) -> (out, state)`,
    `generate(ids, n) -> ids` or `(ids, scores)`, and `loss(ids, labels) -> scalar` or
    `loss(ids) -> (B, T)`.
    `stop` ends the audit at the first violation; `only` names checks and configurations out of
    `planned_for`; `progress` is told every finding as it comes.
    """
    tell = progress or _silent
    began = clock.perf_counter()
    given = {"encode": encode, "decode": decode, "generate": generate, "step": step, "loss": loss}
    options = _Options(inputs, spec, time, checks, quick, tiny, vocab, length, seed)
    with untouched():
        session, wanted = _prepared(target, given, options)
        subject = session.subject
        tell(f"auditing {subject.name} at length {session.length} under {session.rule.name}")
        findings = []
        for one in planned(session, backends):
            if one.check not in wanted or (only is not None and one.name not in only):
                continue
            found = guarded(one.check, one.setting, one.body, session, is_extra=one.is_extra)
            findings.append(found)
            tell(found)
            if stop and found.verdict is Verdict.DISPROVED:
                break
    seconds = clock.perf_counter() - began
    return Report(subject.name, tuple(findings), seconds, session.forwards, tuple(session.notes))


def planned_for(
    target: Any, *, backends: Sequence[str] | str | None = None, **asked: Any
) -> list[tuple[str, str]]:
    """(check, configuration) of everything `audit` would ask, called with the same words.

    Costs the few forwards that show how the target wants to be called.
    """
    names_of_options = {field.name for field in fields(_Options)}
    options = _Options(**{key: asked.pop(key) for key in names_of_options & asked.keys()})
    with untouched():
        session, wanted = _prepared(target, asked, options)
        names = [one.name for one in planned(session, backends) if one.check in wanted]
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class _Options:
    """What the caller asked for, as `audit` describes it."""

    inputs: Any = None
    spec: Spec = "causal"
    time: tuple[int, int] = (1, 1)
    checks: Sequence[str] | str | None = None
    quick: bool = False
    tiny: bool = False
    vocab: int | None = None
    length: int | None = None
    seed: int = 0


def _prepared(
    target: Any, given: dict[str, Any], options: _Options
) -> tuple[Session, tuple[str, ...]]:
    """A session that knows how to call the target, and the checks to run in it."""
    wanted = chosen_checks(options.checks, options.quick)
    if options.tiny:
        target = _tiny(target, options.seed)
    rule = parse_rule(options.spec)
    original, name = target, type(target).__name__
    target, offered = _offered(target)
    given.update({key: value for key, value in offered.items() if given.get(key) is None})
    subject, used = recognise(
        target,
        rule,
        inputs=options.inputs,
        time=options.time,
        vocab=options.vocab,
        length=options.length,
        capabilities=given,
    )
    if target is not original:
        subject.name = name
    session = Session(subject, rule, used, seed=options.seed, quick=options.quick)
    session.asked = wanted if options.checks is not None else ()
    session.notes.extend(subject.notes)
    session.choose_precision()
    return session, wanted


def _offered(target: Any) -> tuple[Any, dict[str, Any]]:
    """What a target that knows how it wants to be called offers instead of itself.

    Its method `audit_subject()` returns a callable, or a mapping with that callable under "target"
    and capabilities under their own names.
    """
    target = getattr(target, "_orig_mod", target)  # a compiled module holds the one it was made of
    offer = getattr(target, "audit_subject", None)
    offered = offer() if callable(offer) else target
    rest = dict(offered) if isinstance(offered, Mapping) else {"target": offered}
    target = rest.pop("target", None)
    if type(target).__module__.startswith("lookleft.models."):
        # Our own networks also generate and have a loss, in packages that lie above them. The audit
        # stands alone, so it asks by name, and only when one of them is brought in.
        rest = import_module("lookleft.evaluate.audited").capabilities(target) | rest
    return target, rest


def _tiny(target: Any, seed: int) -> Any:
    """A small random model of the target's class."""
    name = target if isinstance(target, str) else getattr(target, "__name__", None)
    name = name or type(target).__name__
    build = import_module("lookleft.audit.zoo").build_tiny  # brings its library, so only here
    return build(name, seed=seed)


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
