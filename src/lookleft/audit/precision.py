"""Rounding or leak? Float64 runs that stay in float64, and the ladder that compares sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

OTHER_SHAPE_TOLERANCE = 1e-9  # relative, float64: shapes differ, so reduction orders may
ROUNDING_64 = 1.5e-14  # 64 units in the last place of float64
LEAK_64 = 1e-12  # larger than any rounding seen in float64, smaller than leaks that matter
ROUNDING_32 = 1e-4  # float32 rounding, amplified by depth, stays below this

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_CASTS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
}


class Promote(TorchFunctionMode):
    """Turns every request for a narrower float into float64.

    A model in float64 is not yet a float64 computation: norms, softmax and rotary tables cast to
    float32 inside, and then other shapes differ by 1e-7 on honest models.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = {key: _widened(value) for key, value in (kwargs or {}).items()}
        return _CASTS.get(func, func)(*(_widened(value) for value in args), **kwargs)


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype) and value in _NARROW:
        return torch.float64
    return value


@contextmanager
def float64_throughout() -> Iterator[None]:
    """Inside, new tensors are float64 and casts to narrower floats do nothing."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Promote():
            yield
    finally:
        torch.set_default_dtype(before)


class Rung(StrEnum):
    """What the sizes of one difference in two precisions say."""

    NOTHING = "no difference"
    ROUNDING = "rounding"
    LEAK = "leak"
    TINY_LEAK = "leak too small for float32"
    UNDECIDED = "too close to rounding to tell"


def judge(d32: float | None, d64: float | None) -> Rung:
    """Weigh a relative difference seen in float32 against the same one in float64."""
    if not d32 and not d64:
        return Rung.NOTHING
    if d64 is None:  # the model cannot run in float64
        return Rung.LEAK if d32 is not None and d32 > ROUNDING_32 else Rung.UNDECIDED
    if d32 and d32 > ROUNDING_32 and d64 < 1e-11 * d32:
        return Rung.LEAK  # far less than rounding would leave in float64: a float32 path of its own
    if d32 and d64 < 1e-7 * d32 and d64 < 1e-10:
        return Rung.ROUNDING  # shrinks with the precision, as a leak would not
    if d64 > LEAK_64:
        return Rung.TINY_LEAK if d32 == 0.0 else Rung.LEAK
    if d32 is not None and d32 > ROUNDING_32:
        return Rung.LEAK  # far too large for float32, even if float64 hides it
    if d64 <= ROUNDING_64:
        return Rung.ROUNDING
    return Rung.TINY_LEAK if d32 == 0.0 else Rung.UNDECIDED


def in_words(rung: Rung, d32: float | None, d64: float | None) -> str:
    """The ladder's result as a clause of a sentence."""
    narrow = "not run" if d32 is None else f"{d32:.1e}"
    wide = "not possible" if d64 is None else f"{d64:.1e}"
    return f"{rung.value} (relative change {narrow} in float32, {wide} in float64)"
