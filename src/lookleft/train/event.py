"""What a run tells while it trains."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Event:
    """Something to tell: a logged step, an evaluation, a save."""

    step: int  # steps done
    loss: float
    lr: float
    tokens: int  # targets learned from since the run began in this sitting
    seconds: float
    epoch: int = 0  # epochs done
    since: int = 0  # the step at which this sitting began
    dev_loss: float | None = None
    bleu: float | None = None
    chrf: float | None = None
    bits_per_byte: float | None = None
    is_best: bool | None = None  # this and the next three of an evaluation
    n_without_gain: int | None = None
    best: float | None = None  # of what train.choose names
    best_step: int | None = None
    ema: float | None = None  # decay, if the moving average of the weights was measured
    n_averaged: int | None = None  # checkpoints whose mean was measured
    steps_that_fit: int | None = None  # into train.minutes, where that was decided
    seconds_per_step: float | None = None  # by which it was decided

    @property
    def figures(self) -> dict[str, float | int | bool]:
        """What is logged of it besides the step: what was measured."""
        facts = asdict(self).items()
        return {name: value for name, value in facts if name != "step" and value is not None}
