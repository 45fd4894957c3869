"""K11: in its own dtype the model stays finite and close to float64, at large positions too."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import NoPowerError, SkipCheckError, finding
from lookleft.audit.localise import first_not_finite
from lookleft.audit.session import Session, Setting
from lookleft.audit.verdict import Finding, Verdict

FAR = (120, 4000)  # positions far enough for a coarse table to show
GROWTH = 6.0  # how much larger the error may be far out than near the start


def dtype(session: Session, setting: Setting) -> Finding:
    """Native run against float64 of the same weights: finite, and no worse far from the start."""
    native = replace(setting, dtype=None)
    if not session.is_wide:
        raise SkipCheckError("float64 cannot be run, so there is nothing to compare with")
    call, _ = session.dress(native, session.draw(88).x(2, session.length))
    near = _error(session, native, call.x, None)
    kind = str(_native_dtype(session)).removeprefix("torch.")
    if near is None:
        wide = replace(native, dtype=torch.float64)
        if not bool(torch.isfinite(session.out(wide, call)).all()):
            raise NoPowerError("outputs are not finite, in float64 neither")
        return finding(
            "K11",
            native,
            Verdict.DISPROVED,
            f"outputs are NaN or infinite in {kind}, the model's own dtype, and finite in float64",
            cause="a constant or a product is too large for this dtype",
            culprit=first_not_finite(session, native, call),
        )
    if _native_dtype(session) in (torch.float16, torch.bfloat16):
        found = _far(session, native, call.x, near)
        if found is not None:
            return found
    return finding(
        "K11",
        native,
        Verdict.VERIFIED,
        f"finite in {kind}; largest error against float64 is {near:.1e} of the largest output",
        worst=near,
    )


def _native_dtype(session: Session) -> torch.dtype:
    floats = [
        p.dtype for m in session.subject.modules for p in m.parameters() if p.is_floating_point()
    ]
    return floats[0] if floats else torch.float32


def _error(session: Session, native: Setting, x: Tensor, positions: Tensor | None) -> float | None:
    call, _ = session.dress(native, x)
    if positions is not None:
        call = replace(call, positions=positions)
    got = session.out(native, call).double()
    true = session.out(replace(native, dtype=torch.float64), call).double()
    if not bool(torch.isfinite(got).all() and torch.isfinite(true).all()):
        return None
    scale = float(true.abs().max())
    return float((got - true).abs().mean()) / scale if scale else 0.0


def _far(session: Session, native: Setting, x: Tensor, near: float) -> Finding | None:
    """A coarse rotary table is right near the start and wrong far from it."""
    if not session.subject.plan.has("positions"):
        return None
    for start in FAR:
        positions = torch.arange(start, start + x.size(1)).expand(x.size(0), -1)
        try:
            far = _error(session, native, x, positions)
        except Exception:  # a table that ends earlier
            return None
        if far is not None and far > GROWTH * max(near, 1e-6) and far > 0.005:
            return finding(
                "K11",
                native,
                Verdict.DISPROVED,
                f"the error against float64 grows from {near:.1e} near the start to {far:.1e} at "
                f"position {start}",
                worst=far,
                cause="position tables or angles are worked out in half precision",
            )
    return None
