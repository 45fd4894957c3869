"""Trial runs that show how a subject wants its masks: padding, and the causal one if it asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from lookleft.audit.inputs import Draw
from lookleft.audit.signature import MaskStyle, Plan, TriangleStyle
from lookleft.audit.subject import Subject
from lookleft.audit.trials import trial_call, tried

# Names under which both polarities are in use.
_AMBIGUOUS = ("mask", "src_mask", "source_mask", "valid", "padding_mask", "pad_mask")
_TRIANGLES = tuple(
    TriangleStyle(form, axes) for form in ("added", "hide", "allow", "ones") for axes in range(3)
)
_SAME = 1e-5  # relative, in the model's own dtype


def ways_to_call(plan: Plan) -> Iterator[Plan]:
    """The plan, then the same with every other way to write masks that must be given."""
    yield plan
    padding = [role for role in plan.needed if role in plan.styles]
    for axes in (1, 2) if padding else ():
        styles = {role: replace(plan.styles[role], axes=axes) for role in padding}
        placed = replace(plan, styles={**plan.styles, **styles})
        yield placed
        yield from (replace(placed, triangle=style) for style in _triangles_of(placed))
    name = plan.roles.get("is_token", "")
    if name in plan.triangles and "is_token" in plan.needed:  # a `mask` may be either
        yield from (_with_triangle(plan, name, style) for style in _TRIANGLES)
    yield from (replace(plan, triangle=style) for style in _triangles_of(plan))


def _triangles_of(plan: Plan) -> tuple[TriangleStyle, ...]:
    return _TRIANGLES if "triangle" in plan.needed else ()


def _with_triangle(plan: Plan, name: str, style: TriangleStyle) -> Plan:
    if plan.roles.get("is_token") == name:
        plan = plan.without("is_token")
    return replace(plan, roles={**plan.roles, "triangle": name}, triangle=style)


def with_causal_mask(subject: Subject, length: int) -> Subject:
    """The subject with its caller's part of the causal mask written as it understands it.

    What the model makes of no mask is its own affair, and is audited; but a mask that must be given
    has to be given in the right form, and a form in which the model is causal is right.
    """
    plan = subject.plan
    if plan.has("triangle"):
        styles = (plan.triangle, *_TRIANGLES)
        trials = (replace(subject, plan=replace(plan, triangle=style)) for style in styles)
        return next((one for one in trials if is_causal(one, length)), subject)
    free = [name for name in plan.triangles if name not in plan.needed_names]
    if not free or is_causal(subject, length) is not False:
        return subject
    for name in free:
        for style in _TRIANGLES:
            if is_causal(replace(subject, plan=_with_triangle(plan, name, style)), length):
                words = (
                    f"{name!r} was not passed; with a causal mask passed under that name the model "
                    "is causal, so wrap it in a function that passes one to audit that use"
                )
                return replace(subject, notes=(*subject.notes, words))
    return subject


def is_causal(subject: Subject, length: int) -> bool | None:
    """Do outputs keep still when only later inputs change? None: it does not run this way."""
    call = trial_call(subject, length, rows=2)
    cut = max(length // 2, 1)
    changed = (torch.arange(length) >= cut).expand(2, -1)
    other = call.changed(x=Draw(subject.kind, 1).other(call.x, changed))
    try:
        before, after = tried(subject, call), tried(subject, other)
    except Exception:  # this way of writing the mask is not understood
        return None
    if before.size(1) != length or not bool(torch.isfinite(before).all()):
        return None
    apart = (before - after)[:, :cut].abs().max()
    return bool(apart <= _SAME * before.abs().max())


def with_mask_style(subject: Subject, length: int) -> Subject:
    """The subject with its padding masks written the way it understands, or without them."""
    for role in ("is_token", "source_is_token"):
        if not subject.plan.has(role):
            continue
        best = _best_style(subject, role, length)
        plan = subject.plan
        if best is not None:
            plan = replace(plan, styles={**plan.styles, role: best})
        else:
            plan = plan.without(role)
        subject = replace(subject, plan=plan)
    return subject


def _styles(plan: Plan, role: str) -> Iterator[MaskStyle]:
    """Ways to write one padding mask, most likely first."""
    guess = plan.styles[role]
    yield guess
    if guess.is_lengths:
        return
    is_ambiguous = plan.roles[role] in _AMBIGUOUS
    turns = (guess.token_is_true, *([not guess.token_is_true] if is_ambiguous else []))
    dtypes = dict.fromkeys((guess.dtype, torch.bool, torch.long, torch.float32))
    for axes in (guess.axes, *(n for n in range(3) if n != guess.axes and is_ambiguous)):
        yield from (MaskStyle(turn, dtype, axes) for turn in turns for dtype in dtypes)


def _best_style(subject: Subject, role: str, length: int) -> MaskStyle | None:
    """The first style in which a mask of tokens says nothing; else the first that runs."""
    runs = None
    for style in _styles(subject.plan, role):
        rank = _understands(subject, role, style, length)
        if rank == 0:
            return style
        if rank is not None and runs is None:
            runs = style
    return runs


def _understands(subject: Subject, role: str, style: MaskStyle, length: int) -> int | None:
    """0: a mask of all tokens says the same as no mask; 1: it runs; None: it fails."""
    plan = replace(subject.plan, styles={**subject.plan.styles, role: style})
    trial = replace(subject, plan=plan)
    call = trial_call(trial, length, rows=2)
    shape = call.x.shape[:2] if role == "is_token" or call.source is None else call.source.shape[:2]
    dressed = call.changed(**{role: torch.ones(shape, dtype=torch.bool)})
    try:
        outs = [tried(trial, one) for one in (call, dressed)]
    except Exception:  # this way of writing the mask is not understood
        return None
    if outs[0].shape != outs[1].shape:
        return None
    return 0 if torch.allclose(outs[0], outs[1], rtol=1e-3, atol=1e-5, equal_nan=True) else 1
