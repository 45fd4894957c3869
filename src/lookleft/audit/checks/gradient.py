"""K1g: one backward pass tells which output used which input, however faintly."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.cause import suggest
from lookleft.audit.checks.base import Hit, NoPowerError, finding
from lookleft.audit.explain import dependency_map
from lookleft.audit.jacobian import gradient_map
from lookleft.audit.localise import localise
from lookleft.audit.precision import LEAK_64, Rung, in_words, judge
from lookleft.audit.session import Session, Setting, compare
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

FAINT = 1e-25  # relative; smaller than any rounding, so it must be a weight that is nearly zero
ALL_ROWS = 40  # up to this length every output row gets its own copy


def gradient(session: Session, setting: Setting) -> Finding:
    """Outside the rule every entry of the Jacobian's norms must be zero."""
    length = setting.length or session.length
    outputs = session.rule.outputs(length)
    rows = _rows(session, outputs)
    norms = gradient_map(session, setting, rows)
    if not bool(torch.isfinite(norms).all()):
        raise NoPowerError("gradients are not finite, so they say nothing")
    allowed = session.rule.allowed(length)[rows]
    forbidden = norms.masked_fill(allowed, 0.0)
    picture = dependency_map(norms, session) if len(rows) == outputs else None
    scale = float(norms.max())
    if scale == 0.0:
        raise NoPowerError("no output depends on any input through gradients")
    if float(forbidden.max()) > 0:
        return _leak(session, setting, rows, norms, forbidden)
    missing = _blind(session, norms, rows, length)
    if missing is not None:
        target, source = missing
        return finding(
            "K1g",
            setting,
            Verdict.DISPROVED,
            f"output {target} does not use input {source}, which {session.rule.name!r} requires",
            worst=0.0,
            pair=missing,
            cause="a mask hides what must be seen (a causal mask on an encoder, a narrow window)",
            dependencies=picture,
        )
    if not _looks_back(session, norms, rows):
        if setting.is_scrambled or not session.subject.modules:
            raise NoPowerError("no output uses an earlier position")
        again = gradient(session, replace(setting, is_scrambled=True))
        return replace(again, reason=f"with redrawn weights: {again.reason}")
    return finding(
        "K1g",
        setting,
        Verdict.VERIFIED,
        f"{len(rows)} of {outputs} outputs differentiated: all forbidden entries are exactly zero",
        dependencies=picture,
    )


def _rows(session: Session, outputs: int) -> list[int]:
    if outputs <= (8 if session.quick else ALL_ROWS):
        return list(range(outputs))
    spread = {0, 1, outputs // 2, outputs - 2, outputs - 1}
    if not session.quick:
        spread |= {2**k for k in range(outputs.bit_length())}
        spread |= {2**k - 1 for k in range(outputs.bit_length())}
    return sorted(row for row in spread if 0 <= row < outputs)


def _looks_back(session: Session, norms: Tensor, rows: list[int]) -> bool:
    length = norms.size(1)
    back = session.rule.allowed(length)[rows]
    own = torch.zeros_like(back)
    for index, row in enumerate(rows):
        own[index, min(row * session.rule.stride, length - 1)] = True
    back = back & ~own
    return not bool(back.any()) or bool((norms[back] > 0).any())


def _blind(session: Session, norms: Tensor, rows: list[int], length: int) -> tuple[int, int] | None:
    required = session.rule.required(length)[rows]
    if not bool(required.any()):
        return None
    unused = required & (norms == 0)
    if session.rule.is_fully_required:
        if not bool(unused.any()):
            return None
    elif bool((required & (norms > 0)).any()):
        return None  # one output at the edge of the rule uses it: the rule is not too wide
    index, source = divmod(int(unused.int().argmax()), length)
    return rows[index], source


def _leak(
    session: Session, setting: Setting, rows: list[int], norms: Tensor, forbidden: Tensor
) -> Finding:
    """Weigh a non-zero forbidden gradient, and ask whether values follow it."""
    index, source = divmod(int(forbidden.argmax()), norms.size(1))
    target = rows[index]
    relative: list[float | None] = []
    for dtype in (torch.float32, torch.float64):
        try:
            again = gradient_map(session, replace(setting, dtype=dtype), rows)
            outside = again.masked_fill(session.rule.allowed(norms.size(1))[rows], 0.0)
            relative.append(float(outside.max()) / float(again.max()))
        except Exception:  # this precision is not possible, which `judge` allows for
            relative.append(None)
    rung = judge(relative[0], relative[1])
    words = in_words(rung, relative[0], relative[1])
    if relative[1] is not None and 0.0 < relative[1] < FAINT:
        session.note(
            f"hidden positions keep a weight of about {relative[1]:.0e}: the mask adds a finite "
            "number, which loud inputs can overcome"
        )
    if rung is Rung.ROUNDING:
        return finding("K1g", setting, Verdict.VERIFIED, f"forbidden gradients are {words}")
    hit = value_hit(session, setting, target, source)
    if hit is None or rung is Rung.UNDECIDED:
        return finding(
            "K1g",
            setting,
            Verdict.INCONCLUSIVE,
            f"output {target} has a gradient to input {source} ({words}), but replacing that input "
            "moved the output in no draw",
            worst=float(forbidden.max()),
            pair=(target, source),
        )
    is_whole = len(rows) == session.rule.outputs(norms.size(1))
    culprit = localise(session, hit)
    return finding(
        "K1g",
        setting,
        Verdict.DISPROVED,
        f"output {target} has a gradient to input {source}, which {session.rule.name!r} forbids: "
        f"{words}",
        worst=float(forbidden.max()),
        pair=(target, source),
        cause=suggest(norms, session.rule, culprit) if is_whole else None,
        culprit=culprit,
        snippet=script(session, hit),
        dependencies=dependency_map(norms, session) if is_whole else None,
    )


def value_hit(session: Session, setting: Setting, target: int, source: int) -> Hit | None:
    """A pair of inputs that differ at `source` only and move output `target`."""
    length = setting.length or session.length
    keep_one = torch.arange(session.rule.outputs(length)) == target
    for rows, magnitude in ((1, 1.0), (1, 10.0), (1, 1e3), (3, 1.0)):
        for attempt in range(2):
            draw = session.draw(60 + attempt)
            x = draw.x(rows, length)
            changed = torch.zeros(rows, length, dtype=torch.bool)
            changed[0, source] = True
            call, _ = session.dress(setting, x)
            other: Call = replace(call, x=draw.other(x, changed, magnitude))
            keep = torch.zeros(rows, keep_one.numel(), dtype=torch.bool)
            keep[0] = keep_one
            dtype = torch.float64 if session.is_wide else None
            twin = replace(setting, dtype=dtype, rows=rows, grad=True)
            diff = compare(session.out(twin, call), session.out(twin, other), keep)
            if diff.worst > 0 and diff.is_finite and diff.relative > LEAK_64 * 1e-6:
                return Hit(twin, call, other, keep, diff, source)
    return None
