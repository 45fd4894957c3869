"""Where a leak starts: the deepest module with clean inputs and a dirty output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lookleft.audit.operations import first_dirty_operation
from lookleft.audit.session import Session, Setting
from lookleft.audit.subject import Call, Subject, cast
from lookleft.audit.tensors import change_at, tensors_in, with_suffix_of
from lookleft.audit.verdict import Culprit

if TYPE_CHECKING:
    from lookleft.audit.checks.base import Hit

ROOT = "(model)"
MOST_REPLAYED = 80


@dataclass
class Event:
    """One call of one module: what went in and what came out."""

    name: str
    kind: str
    count: int  # which call of this module it was
    args: Any
    kwargs: Any
    inputs: list[Tensor]
    outputs: list[Tensor]


def localise(session: Session, hit: Hit, *, is_brief: bool = False) -> Culprit | None:
    """The first culprit in call order, or None when no module can be blamed.

    A brief answer names the module only: no line, no list of other leaking modules.
    """
    if hit.setting.compiler:  # nothing can be hooked into compiled code: ask what it was made of
        hit = replace(hit, setting=replace(hit.setting, compiler=""))
    try:
        before = record(session, hit.setting, hit.a)
        after = record(session, hit.setting, hit.b)
        return _blame(session, hit, before, after, is_brief)
    except Exception:  # the hit stands without an address; a stranger's hooks may do anything
        return None


def _blame(
    session: Session, hit: Hit, before: list[Event], after: list[Event], is_brief: bool
) -> Culprit | None:
    floor = 1e-6 * hit.difference.relative
    depth: list[tuple[str, float]] = []
    found: Event | None = None
    for one, two in zip(before, after, strict=False):
        if one.name != two.name:
            break
        output = _change(one.outputs, two.outputs, hit.keep)
        if output is None:
            continue
        depth.append((one.name, output))
        is_clean = (_change(one.inputs, two.inputs, hit.keep) or 0.0) <= floor
        if found is None and output > floor and is_clean:
            found = one
    if found is None:
        return None
    if is_brief:
        return Culprit(found.name, found.kind, depth=tuple(depth))
    operation = first_dirty_operation(session, hit, found.name, found.count, floor)
    return Culprit(
        found.name,
        found.kind,
        op=operation[0] if operation else None,
        place=operation[1] if operation else None,
        others=tuple(_replayed(session, hit, before, after, floor)),
        depth=tuple(depth),
    )


def _change(before: list[Tensor], after: list[Tensor], keep: Tensor) -> float | None:
    """The largest relative change at kept positions; None: no tensor shows positions."""
    seen = [change_at(a, b, keep) for a, b in zip(before, after, strict=False)]
    known = [value for value in seen if value is not None]
    return max(known) if known else None


def named_modules(subject: Subject) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, with the name a user would look for."""
    roots = subject.modules
    for index, root in enumerate(roots):
        prefix = "" if len(roots) == 1 else f"[{index}]."
        for name, module in root.named_modules():
            yield (prefix + name).rstrip(".") or ROOT, module


def record(
    session: Session, setting: Setting, call: Call, live: Subject | None = None
) -> list[Event]:
    """Events of all modules in the order in which they finish."""
    live = session.live(setting) if live is None else live
    events: list[Event] = []
    counts: dict[str, int] = {}
    waiting: dict[str, list[tuple[Any, Any, list[Tensor]]]] = {}

    def enter(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        del module
        kept = _cloned(args), _cloned(kwargs)
        waiting.setdefault(name, []).append((*kept, list(tensors_in(kept))))

    def leave(name: str, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        del args, kwargs
        if not waiting.get(name):
            return
        stored, named, inputs = waiting[name].pop()
        counts[name] = counts.get(name, 0) + 1
        outputs = [t.detach().clone() for t in tensors_in(result)]
        kind = type(module).__name__
        events.append(Event(name, kind, counts[name], stored, named, inputs, outputs))

    for name, module in named_modules(live):
        module.register_forward_pre_hook(partial(enter, name), with_kwargs=True)
        module.register_forward_hook(partial(leave, name), with_kwargs=True)
    session.forwards += 1
    with session.running(setting):
        live.forward(cast(call, setting.dtype))
    return events


def first_not_finite(session: Session, setting: Setting, call: Call) -> Culprit | None:
    """The first module with finite inputs and an output that is not."""
    try:
        events = record(session, setting, call)
    except Exception:  # an address is a service, not evidence
        return None
    for event in events:
        is_fine = all(bool(torch.isfinite(t).all() | torch.isneginf(t).any()) for t in event.inputs)
        if is_fine and any(not bool(torch.isfinite(t).all()) for t in event.outputs):
            return Culprit(event.name, event.kind)
    return None


def _cloned(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_cloned(part) for part in value)
    if isinstance(value, list):
        return [_cloned(part) for part in value]
    if type(value) is dict:
        return {key: _cloned(part) for key, part in value.items()}
    return value


def _replayed(
    session: Session, hit: Hit, before: list[Event], after: list[Event], floor: float
) -> list[str]:
    """Modules that leak by themselves when only their later inputs change."""
    live = session.live(hit.setting)
    modules = dict(named_modules(live))
    guilty: list[str] = []
    for one, two in zip(before[:MOST_REPLAYED], after, strict=False):
        if one.name != two.name or one.count > 1 or one.name == ROOT:
            continue
        if any(_is_inside(name, one.name) for name in guilty):
            continue  # a part of it leaks, so of course it does
        args = with_suffix_of(one.args, two.args, hit.keep)
        kwargs = with_suffix_of(one.kwargs, two.kwargs, hit.keep)
        try:
            with session.running(hit.setting):
                expected = modules[one.name](*one.args, **one.kwargs)
            with session.running(hit.setting):
                got = modules[one.name](*args, **kwargs)
        except Exception:  # some modules cannot be called alone
            continue
        change = _change(list(tensors_in(expected)), list(tensors_in(got)), hit.keep)
        if change is not None and change > floor:
            guilty.append(one.name)
    return guilty


def _is_inside(name: str, outer: str) -> bool:
    return outer == ROOT or name == outer or name.startswith(outer + ".")
