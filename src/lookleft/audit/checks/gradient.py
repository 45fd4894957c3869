"""K1g: one backward pass tells which output used which input, however faintly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lookleft.audit.cause import suggest
from lookleft.audit.checks.base import (
    Hit,
    NoPowerError,
    SkipCheckError,
    finding,
    lookup_of,
)
from lookleft.audit.explain import dependency_map
from lookleft.audit.localise import localise
from lookleft.audit.precision import LEAK_64, Rung, in_words, judge
from lookleft.audit.session import Session, Setting, compare
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call, cast
from lookleft.audit.verdict import Finding, Verdict

FAINT = 1e-25  # relative; smaller than any rounding, so it must be a weight that is nearly zero
ALL_ROWS = 40  # up to this length every output row gets its own copy


class CatchEmbeddings(TorchFunctionMode):
    """Makes every embedding of exactly these ids a leaf whose gradient can be read."""

    def __init__(self, ids: Tensor) -> None:
        super().__init__()
        self.ids = ids
        self.leaves: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if lookup_of(func, args, kwargs or {}, result, self.ids):
            leaf = result.detach().clone().requires_grad_()
            self.leaves.append(leaf)
            return leaf.clone()
        return result


def gradient_map(session: Session, setting: Setting, rows: list[int]) -> Tensor:
    """Norm of d output_i / d input_j for the outputs asked for. (R, T)"""
    setting = replace(setting, grad=True)
    length = setting.length or session.length
    x = session.draw(12).x(1, length, setting.magnitude)
    x = x.expand(len(rows), *x.shape[1:]).contiguous()
    call, _ = session.dress(setting, x)
    call = cast(call, setting.dtype)
    live = session.live(setting)
    for module in live.modules:
        module.requires_grad_(False)  # the variant's own parameters, never the user's
    session.forwards += 1
    with session.running(setting):
        if x.is_floating_point():
            leaf = call.x.detach().clone().requires_grad_()
            out = live.forward(replace(call, x=leaf * 1.0)).out
            leaves = [leaf]
        else:
            if not session.subject.is_batched:
                raise SkipCheckError(
                    "rows of ids are run one by one, so one backward is not enough"
                )
            native = session.subject.native(call.x, session.subject.time[0])
            with CatchEmbeddings(native) as catch:
                out = live.forward(call).out
            leaves = catch.leaves  # laid out as the model wants its ids
        if not leaves:
            raise SkipCheckError("no embedding of the input ids was found to differentiate")
        if not out.requires_grad:
            raise SkipCheckError("no gradient reaches the outputs")
        generator = torch.Generator().manual_seed(session.seed)
        cotangent = torch.zeros_like(out)
        for row, position in enumerate(rows):
            noise = torch.randn(out.shape[2:], generator=generator, dtype=torch.float64)
            cotangent[row, position] = noise.to(out.dtype)
        grads = torch.autograd.grad(out, leaves, cotangent, allow_unused=True)
    if not x.is_floating_point() and session.subject.time[0] == 0:
        grads = tuple(None if g is None else g.transpose(0, 1) for g in grads)
    norms = [
        g.detach().double().flatten(2).norm(dim=-1) if g.dim() > 2 else g.detach().double().abs()
        for g in grads
        if g is not None
    ]
    if not norms:
        raise SkipCheckError("no gradient reaches the inputs")
    return torch.stack(norms).sum(0)  # (R, T)


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
    return finding(
        "K1g",
        setting,
        Verdict.DISPROVED,
        f"output {target} has a gradient to input {source}, which {session.rule.name!r} forbids: "
        f"{words}",
        worst=float(forbidden.max()),
        pair=(target, source),
        cause=suggest(norms, session.rule) if is_whole else None,
        culprit=localise(session, hit),
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
            twin = replace(setting, dtype=torch.float64, rows=rows, grad=True)
            diff = compare(session.out(twin, call), session.out(twin, other), keep)
            if diff.worst > 0 and diff.is_finite and diff.relative > LEAK_64 * 1e-6:
                return Hit(twin, call, other, keep, diff, source)
    return None
