"""Which check runs in which configurations, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from lookleft.audit import huggingface
from lookleft.audit.checks.batch import batch
from lookleft.audit.checks.cache import cache
from lookleft.audit.checks.compiled import compiled_swap
from lookleft.audit.checks.dtype import dtype
from lookleft.audit.checks.encoder_decoder import encoder_decoder
from lookleft.audit.checks.future import REPEATED, SPECIAL, future_swap, lengths_swept
from lookleft.audit.checks.generation import generation
from lookleft.audit.checks.gradient import gradient
from lookleft.audit.checks.labels import labels
from lookleft.audit.checks.loud import loud_weights
from lookleft.audit.checks.packing import packing
from lookleft.audit.checks.padding import padding
from lookleft.audit.checks.purity import purity
from lookleft.audit.checks.receptive import receptive_field
from lookleft.audit.checks.truncation import truncation, truncation_swept
from lookleft.audit.session import Session, Setting
from lookleft.audit.verdict import Finding
from lookleft.errors import InputError

FLEX = "flex_attention"  # run only when asked for: it is compiled anew for every shape
COMPILE = "compile"  # run only when asked for: compiling takes longer than all other checks

Body = Callable[[Session, Setting], Finding]


@dataclass(frozen=True)
class Planned:
    """One check in one setting; an extra one that cannot run is skipped, not inconclusive."""

    check: str
    setting: Setting
    body: Body
    is_extra: bool = False

    @property
    def name(self) -> tuple[str, str]:
        """The check and its configuration in words."""
        return self.check, self.setting.words


def planned(session: Session, backends: Sequence[str] | str | None) -> Iterator[Planned]:
    """Checks in the order in which they rely on each other."""
    names = chosen_backends(session, backends)
    is_sweep = _is_all(backends)
    for name, special in ((FLEX, _flex), (COMPILE, _compiled)):
        if name in names:
            yield from (replace(one, is_extra=is_sweep) for one in special(session.base))
            names.remove(name)
    if not names and backends is not None and not is_sweep:
        return
    base = replace(session.base, backend=names[0] if names else None)
    yield Planned("K0", base, purity)
    yield Planned("K5", base, batch)
    yield Planned("K1", base, future_swap)
    yield Planned("K1g", base, gradient)
    yield Planned("K2", base, truncation)
    yield Planned("K3", base, cache)
    yield Planned("K4", base, padding)
    if session.quick:
        return
    for check, body in _REST:
        yield Planned(check, base, body)
    yield from _modes(session, base)
    yield from _masks(session, base)
    yield from _inputs(session, base)
    for name in names[1:]:
        yield from _backend(session, replace(base, backend=name))


_REST: tuple[tuple[str, Body], ...] = (
    ("K6", packing),
    ("K7", encoder_decoder),
    ("K8", receptive_field),
    ("K9", labels),
    ("K10", generation),
    ("K11", dtype),
)


def chosen_backends(session: Session, wanted: Sequence[str] | str | None) -> list[str]:
    """Attention backends to run, the model's own first; empty when there is no choice."""
    module = session.subject.module
    usable = list(huggingface.backends(module)) if module is not None else []
    if wanted is None or (session.quick and _is_all(wanted)):
        return usable[:1] if session.quick else usable
    special = [COMPILE] if module is not None else []
    if getattr(module, "_supports_flex_attn", False):
        special.append(FLEX)
    if _is_all(wanted):
        return usable + special
    asked = [wanted] if isinstance(wanted, str) else list(wanted)
    if not usable and set(asked) - set(special):
        raise InputError(f"{session.subject.name} offers no choice of attention backend")
    return asked


def _is_all(wanted: Sequence[str] | str | None) -> bool:
    return wanted is not None and (wanted == "all" or list(wanted) == ["all"])


def _compiled(base: Setting) -> Iterator[Planned]:
    """Future-swap on compiled code, bit for bit in the model's own dtype.

    The first backend traces and rewrites the graph; the second also generates code, if there is a
    compiler for it. One that cannot compile the model says so and is skipped.
    """
    own = replace(base, dtype=None)
    yield Planned("K1", replace(own, compiler="aot_eager"), compiled_swap, True)
    yield Planned("K1", replace(own, compiler="inductor"), compiled_swap, True)


def _flex(base: Setting) -> Iterator[Planned]:
    """What is compared bit for bit, in the model's own dtype.

    On a CPU these kernels know neither float64 nor gradients, so nothing else can be judged.
    """
    own = replace(base, backend=FLEX, dtype=None)
    yield Planned("K0", own, purity)
    yield Planned("K5", own, batch)
    yield Planned("K1", own, future_swap)


def _modes(session: Session, base: Setting) -> Iterator[Planned]:
    """Train and eval, dropout, gradients, redrawn weights, dtypes, cache flag, batch sizes."""
    has_weights = bool(session.subject.modules)
    native = replace(base, dtype=None)
    yield Planned("K0", native, purity, True)
    if has_weights:
        redrawn = replace(base, is_scrambled=True, is_brief=True)
        yield Planned("K5", redrawn, batch, True)
        yield Planned("K1", redrawn, future_swap, True)
        yield Planned("K1g", redrawn, gradient, True)
        yield Planned("K2", redrawn, truncation, True)
        yield Planned("K3", redrawn, cache, True)
        yield Planned("K4", redrawn, padding, True)
        train = replace(native, is_training=True, grad=True)
        yield Planned("K5", train, batch, True)
        yield Planned("K1", train, future_swap, True)
        dropping = replace(train, dropout=0.2)
        yield Planned("K1", dropping, future_swap, True)
        yield Planned("K1", replace(dropping, is_scrambled=True), future_swap, True)
    yield Planned("K1", native, future_swap, True)
    yield Planned("K1", replace(base, grad=True), future_swap, True)
    yield Planned("K1", replace(native, around="inference mode"), future_swap, True)
    if has_weights:
        yield Planned("K1", replace(native, around="autocast"), future_swap, True)
    for rows in (1, 2):
        yield Planned("K1", replace(base, rows=rows), future_swap, True)
    for flag in (True, False) if session.subject.plan.has("use_cache") else ():
        yield Planned("K1", replace(base, use_cache=flag), future_swap, True)
    if session.subject.plan.has("attentions"):
        yield Planned("K1", replace(base, attentions=True), future_swap, True)
        if has_weights:
            train = replace(native, is_training=True, grad=True, attentions=True)
            yield Planned("K1", train, future_swap, True)
    for narrow in (torch.bfloat16, torch.float16) if has_weights else ():
        yield Planned("K1", replace(base, dtype=narrow), future_swap, True)


def _masks(session: Session, base: Setting) -> Iterator[Planned]:
    if not session.subject.plan.has("is_token"):
        return
    for mask in _mask_kinds(session):
        yield Planned("K1", replace(base, mask=mask), future_swap, True)
        if session.subject.modules:
            redrawn = replace(base, mask=mask, is_scrambled=True)
            yield Planned("K1", redrawn, future_swap, True)
            train = replace(base, dtype=None, mask=mask, is_training=True, grad=True)
            yield Planned("K1", train, future_swap, True)
    for side in session.subject.plan.sides:
        yield Planned("K5", replace(base, mask=side), batch, True)
    yield Planned("K4", replace(base, grad=True, is_brief=True), padding, True)
    if session.is_wide:
        yield Planned("K4", replace(base, dtype=None), padding, True)


def _mask_kinds(session: Session) -> tuple[str, ...]:
    """Left padding moves tokens to other slots, which only some rules do not mind."""
    is_invariant = session.rule.name.split(":")[0] in (
        "causal",
        "strict",
        "window",
        "lookahead",
        "bidirectional",
    )
    sides = session.subject.plan.sides if is_invariant else ("right",)
    return ("ones", *(side for side in ("left", "right") if side in sides))


def _inputs(session: Session, base: Setting) -> Iterator[Planned]:
    """Special tokens in the suffix, loud values, other lengths."""
    if session.subject.kind.special:
        yield Planned("K1", replace(base, note=SPECIAL), future_swap, True)
    if session.subject.kind.is_discrete:
        yield Planned("K1", replace(base, note=REPEATED), future_swap, True)
        if session.subject.modules:
            yield Planned("K1", replace(base, note="loud weights"), loud_weights, True)
    if not session.subject.kind.is_discrete:
        for magnitude in (10.0, 1e3):
            yield Planned("K1", replace(base, magnitude=magnitude), future_swap, True)
            yield Planned("K1", replace(base, magnitude=magnitude, dtype=None), future_swap, True)
    if session.rule.documents is None and not session.subject.extras:
        yield Planned("K1", replace(base, note="other lengths"), lengths_swept, True)
        yield Planned("K2", replace(base, note="other lengths"), truncation_swept, True)


def _backend(session: Session, base: Setting) -> Iterator[Planned]:
    redrawn = replace(base, is_scrambled=True, is_brief=True)
    yield Planned("K5", base, batch)
    yield Planned("K1", base, future_swap)
    yield Planned("K1", redrawn, future_swap, True)
    yield Planned("K1g", base, gradient)
    yield Planned("K2", redrawn, truncation)
    yield Planned("K3", redrawn, cache)
    yield Planned("K4", redrawn, padding)
    yield Planned("K6", base, packing)
    yield Planned("K7", base, encoder_decoder)
    train = replace(base, dtype=None, is_training=True, grad=True, dropout=0.2)
    yield Planned("K1", train, future_swap, True)
    if session.subject.plan.has("attentions"):
        yield Planned("K1", replace(base, attentions=True), future_swap, True)
    if session.subject.plan.has("is_token"):
        for mask in _mask_kinds(session):
            yield Planned("K1", replace(base, mask=mask), future_swap, True)
    if session.subject.plan.has("use_cache"):
        yield Planned("K1", replace(base, use_cache=True), future_swap, True)
