"""A planted leak of known size: the smallest one a check still notices is its detection limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lookleft.audit.checks.base import lookup_of
from lookleft.audit.session import Session, Setting, compare
from lookleft.audit.subject import Call, cast

SIZES = tuple(10.0**-k for k in range(2, 17, 2))
ROWS = 3


class Plant(TorchFunctionMode):
    """Adds a little of the next position's embedding to every embedding of these ids."""

    def __init__(self, ids: Tensor, size: float, axis: int) -> None:
        super().__init__()
        self.ids, self.size, self.axis, self.count = ids, size, axis, 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if lookup_of(func, args, kwargs or {}, result, self.ids):
            self.count += 1
            return result + self.size * result.roll(-1, self.axis)
        return result


def detection_limit(session: Session, setting: Setting) -> float | None:
    """The smallest share of the next position's embedding that future-swap notices, or None."""
    length = setting.length or session.length
    if session.rule.documents is None and not session.subject.extras:
        length = min(length, 16)
    if length < 3 or session.rule.stride != 1 or bool(session.rule.allowed(length)[0, 1]):
        return None
    x = session.draw(101).x(ROWS, length, setting.magnitude)
    cuts = torch.tensor([1, length // 2, length - 1])
    changed = torch.arange(length)[None, :] >= cuts[:, None]
    call, _ = session.dress(setting, x)
    other = replace(call, x=session.draw(102).other(x, changed, setting.magnitude))
    keep = torch.stack([session.rule.protected(row) for row in changed])

    def notices(size: float) -> bool:
        before = planted(session, setting, call, size)
        after = planted(session, setting, other, size)
        return before is not None and after is not None and compare(before, after, keep).worst > 0

    return _smallest(notices)


def _smallest(notices: Callable[[float], bool]) -> float | None:
    """Binary search: sizes are sorted from large to small and noticed up to some point."""
    low, high = 0, len(SIZES)
    while low < high:
        middle = (low + high) // 2
        if notices(SIZES[middle]):
            low = middle + 1
        else:
            high = middle
    return SIZES[low - 1] if low else None


def planted(
    session: Session, setting: Setting, call: Call, size: float, seed: int | None = None
) -> Tensor | None:
    """Outputs with a leak of this size planted; None where there is nothing to plant it in."""
    call = cast(call, setting.dtype)
    if call.x.is_floating_point():
        mixed = replace(call, x=call.x + size * call.x.roll(-1, 1))
        return session.run(setting, mixed, seed=seed).out.detach()
    live = session.live(setting)
    session.forwards += 1
    axis = session.subject.time[0] if session.subject.is_batched else 0
    native = session.subject.native(call.x, session.subject.time[0])
    with session.running(setting, seed), Plant(native, size, axis) as plant:
        out = live.forward(call).out.detach()
    return out if plant.count else None
