"""Inside a culprit: the first torch call with clean inputs and a dirty output."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lookleft.audit.session import Session
from lookleft.audit.subject import Call, cast
from lookleft.audit.tensors import change_at, tensors_in

if TYPE_CHECKING:
    from lookleft.audit.checks.base import Hit

_OURS = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)
_SILENT = {"__get__", "__set__", "size", "dim", "numel", "stride", "is_floating_point"}


@dataclass
class Operation:
    """One torch call."""

    name: str
    place: str
    inputs: list[Tensor]
    outputs: list[Tensor]


class Recorder(TorchFunctionMode):
    """Keeps what every torch call took and gave."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Operation] = []

    def start(self) -> None:
        super().__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        if name in _SILENT:
            return func(*args, **(kwargs or {}))
        inputs = [t.detach().clone() for t in tensors_in((args, kwargs or {}))]
        result = func(*args, **(kwargs or {}))
        outputs = [t.detach().clone() for t in tensors_in(result)]
        if outputs:
            self.calls.append(Operation(name, _place(), inputs, outputs))
        return result


def _place() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OURS, _TORCH, "<")):
            return f"{_short(name)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _short(name: str) -> str:
    path = Path(name)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else name


def first_dirty_operation(
    session: Session, hit: Hit, module: str, count: int, floor: float
) -> tuple[str, str] | None:
    """Name and file:line of the call where clean turns dirty, or None."""
    before = _recorded(session, hit, hit.a, module, count)
    after = _recorded(session, hit, hit.b, module, count)
    mass = 0.0
    for one, two in zip(before, after, strict=False):
        if one.name != two.name:
            return None
        if "softmax" in one.name:
            mass = max(mass, _forbidden_mass(one.outputs[0], session))
        output = _largest(one.outputs, two.outputs, hit.keep)
        if output is None or output <= floor:
            continue
        if (_largest(one.inputs, two.inputs, hit.keep) or 0.0) <= floor:
            words = f"{one.name} (softmax puts {mass:.0%} of its weight on forbidden positions)"
            return (words if mass > 0.005 else one.name), one.place
    return None


def _forbidden_mass(weights: Tensor, session: Session) -> float:
    """Share of attention weight that lies where the rule forbids it. (..., T, T)"""
    if weights.dim() < 2 or weights.size(-1) != weights.size(-2):
        return 0.0
    forbidden = ~session.rule.allowed(weights.size(-1))
    if forbidden.shape != weights.shape[-2:]:
        return 0.0
    total = float(weights.sum())
    return float(weights.masked_fill(~forbidden, 0.0).sum()) / total if total > 0 else 0.0


def _largest(before: list[Tensor], after: list[Tensor], keep: Tensor) -> float | None:
    seen = [change_at(a, b, keep) for a, b in zip(before, after, strict=False)]
    known = [value for value in seen if value is not None]
    return max(known) if known else None


def _recorded(session: Session, hit: Hit, call: Call, module: str, count: int) -> list[Operation]:
    from lookleft.audit.localise import named_modules

    live = session.live(hit.setting)
    recorder, calls = Recorder(), 0

    def enter(part: nn.Module, args: Any) -> None:
        nonlocal calls
        del part, args
        calls += 1
        if calls == count:
            recorder.start()

    def leave(part: nn.Module, args: Any, result: Any) -> None:
        del part, args, result
        if calls == count:
            recorder.stop()

    part = dict(named_modules(live))[module]
    part.register_forward_pre_hook(enter)
    part.register_forward_hook(leave)
    session.forwards += 1
    with session.running(hit.setting):
        live.forward(cast(call, hit.setting.dtype))
    return recorder.calls
