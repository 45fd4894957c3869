"""Learning rates over a run: each schedule is a function of the step, giving a share of the peak.

The first step is 0. Warm-up rises in a straight line and reaches 1 at step `warmup - 1`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from lookleft.errors import ConfigError

SHORTEST = 64  # rows of a language model before they grow
Schedule = Callable[[int], float]
Kind = Literal["inverse-sqrt", "cosine", "wsd", "constant"]


def row_length(step: int, *, length: int, warmup: int) -> int | None:
    """How long the rows of a language model are at a step: from 64 up to `length`, in eighths.

    None: as long as they come. Short rows first, because much is learned from a few words back,
    and attention over few words is cheap.
    """
    if step >= warmup or length <= SHORTEST:
        return None
    return SHORTEST + (length - SHORTEST) * (8 * step // warmup) // 8


def make_schedule(
    kind: Kind, *, warmup: int, steps: int, decay_share: float = 0.2, floor: float = 0.0
) -> Schedule:
    """The schedule of that name.

    inverse-sqrt falls with 1/sqrt(step) after the warm-up (Vaswani et al. 2017, 5.3); cosine ends
    at `floor`; wsd stays at the peak and falls in a straight line over the last `decay_share`.
    A run shorter than its warm-up, as a first try often is, simply ends while it rises.
    """
    if warmup < 0 or steps < 1:
        raise ConfigError(f"warmup={warmup} must be 0 or more, steps={steps} 1 or more")
    if not 0 <= floor <= 1 or not 0 < decay_share <= 1:
        raise ConfigError(f"floor={floor} and decay_share={decay_share} are shares of 1")
    first_fall = steps - round(decay_share * steps)

    def after_warmup(step: int) -> float:
        if kind == "inverse-sqrt":
            return math.sqrt(max(warmup, 1) / (step + 1))
        if kind == "cosine":
            done = (step - warmup) / max(steps - 1 - warmup, 1)
            return floor + (1 - floor) * (1 + math.cos(math.pi * min(done, 1.0))) / 2
        if kind == "wsd" and step >= first_fall:
            left = max(steps - 1 - step, 0) / max(steps - 1 - first_fall, 1)
            return floor + (1 - floor) * left
        return 1.0

    def schedule(step: int) -> float:
        return (step + 1) / warmup if step < warmup else after_warmup(step)

    return schedule
