"""Where two ways of computing the same outputs part: the first module that answers otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lookleft.audit.localise import Event, record
from lookleft.audit.precision import OTHER_SHAPE_TOLERANCE
from lookleft.audit.session import Session, Setting
from lookleft.audit.subject import Call, Subject
from lookleft.audit.tensors import change_between
from lookleft.audit.verdict import Culprit

CLEAN = 10 * OTHER_SHAPE_TOLERANCE


@dataclass(frozen=True)
class Way:
    """One way to compute the outputs: a call, and which of its positions to look at."""

    call: Call
    chosen: Tensor  # (B, T) bool, as many True as in the other way
    live: Subject | None = None  # a twin prepared before, with a warm cache for instance


def first_parting(session: Session, setting: Setting, one: Way, two: Way) -> Culprit | None:
    """The first module whose inputs agree and whose outputs do not; None when unknown."""
    try:
        before = record(session, setting, one.call, one.live)
        after = record(session, setting, two.call, two.live)
    except Exception:  # an address is a service, not evidence
        return None
    waiting: dict[str, list[Event]] = {}
    for event in after:
        waiting.setdefault(event.name, []).append(event)
    depth: list[tuple[str, float]] = []
    found: Event | None = None
    for event in before:
        partners = waiting.get(event.name)
        if not partners:
            continue
        partner = partners.pop(0)
        output = _change(event.outputs, partner.outputs, one.chosen, two.chosen)
        if output is None:
            continue
        depth.append((event.name, output))
        inputs = _change(event.inputs, partner.inputs, one.chosen, two.chosen)
        if found is None and output > CLEAN and (inputs or 0.0) <= CLEAN:
            found = event
    if found is None:
        return None
    return Culprit(found.name, found.kind, depth=tuple(depth))


def _change(
    before: list[Tensor], after: list[Tensor], chosen: Tensor, chosen_after: Tensor
) -> float | None:
    seen = [change_between(a, b, chosen, chosen_after) for a, b in zip(before, after, strict=False)]
    known = [value for value in seen if value is not None]
    return max(known) if known else None
