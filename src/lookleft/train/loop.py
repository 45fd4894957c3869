"""The training loop: a generator of records. The caller logs, saves, prints and stops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils import clip_grad_norm_

from lookleft.data.batch import Batch
from lookleft.errors import LookleftError
from lookleft.models import AnyModel
from lookleft.train.loss import batch_loss
from lookleft.train.schedule import Schedule


class DivergedError(LookleftError):
    """The loss is no longer a number; the model still is what it was before that step."""


@dataclass(frozen=True)
class StepRecord:
    """What one optimiser step did."""

    step: int  # counted from 0
    loss: float  # per target, label smoothing included
    n_targets: int
    grad_norm: float  # before clipping
    lr_share: float  # of each optimiser's peak


def train_steps(
    model: AnyModel,
    groups: Iterable[Sequence[Batch]],
    optimizers: Sequence[torch.optim.Optimizer],
    schedule: Schedule,
    *,
    first_step: int = 0,
    max_norm: float = 1.0,
    smoothing: float = 0.0,
) -> Iterator[StepRecord]:
    """Train on one group of micro-batches per step, and yield after each step.

    The summed losses of a group are divided once, by all its targets: how a batch was cut into
    micro-batches does not change the gradient.
    """
    for step, group in enumerate(groups, start=first_step):
        model.train()
        share = schedule(step)
        n_targets = sum(batch.n_targets for batch in group)
        total = 0.0
        for optimizer in optimizers:
            set_rate(optimizer, share)
            optimizer.zero_grad(set_to_none=True)
        for batch in group:
            loss = batch_loss(model, batch, smoothing)
            total += loss.item()
            (loss / max(n_targets, 1)).backward()  # type: ignore[no-untyped-call]
        norm = float(clip_grad_norm_(model.parameters(), max_norm))
        mean = total / max(n_targets, 1)
        if not math.isfinite(mean) or not math.isfinite(norm):
            raise DivergedError(
                f"step {step}: the loss is {mean} and the norm of its gradient {norm}; the step "
                f"was not taken. Lower the learning rate or lengthen the warm-up"
            )
        for optimizer in optimizers:
            optimizer.step()
        yield StepRecord(step, mean, n_targets, norm, share)


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Let every group learn at this share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * share


@torch.no_grad()
def validate(model: AnyModel, batches: Iterable[Batch]) -> float:
    """The loss per target over all batches, without smoothing or dropout."""
    was_training = model.training
    model.eval()
    total, n_targets = 0.0, 0
    for batch in batches:
        total += batch_loss(model, batch).item()
        n_targets += batch.n_targets
    model.train(was_training)
    return total / max(n_targets, 1)
