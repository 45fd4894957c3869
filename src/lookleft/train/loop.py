"""The training loop: a generator of records. The caller logs, saves, prints and stops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from lookleft.data.batch import Batch
from lookleft.models import AnyModel
from lookleft.train.diverged import DivergedError, what_happened
from lookleft.train.loss import batch_loss
from lookleft.train.objective import Objective
from lookleft.train.schedule import Schedule
from lookleft.train.team import Team
from lookleft.train.world import ALONE, World


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
    objective: Objective | None = None,
    team: Team | None = None,
) -> Iterator[StepRecord]:
    """Train on one group of micro-batches per step, and yield after each step.

    The summed losses of a group are divided once, by all its targets: how a batch was cut into
    micro-batches, or dealt out to the processes of a team, does not change the gradient.
    """
    objective, team = objective or Objective(), team or Team(model)
    for step, group in enumerate(groups, start=first_step):
        model.train()
        share = schedule(step)
        n_targets = int(team.world.total(sum(batch.n_targets for batch in group))[0])
        for optimizer in optimizers:
            set_rate(optimizer, share)
            optimizer.zero_grad(set_to_none=True)
        losses = team.gradient(objective.at_rate(share), group, step, n_targets)
        norm = team.clip(max_norm)
        mean = team.world.total(sum(losses))[0] / max(n_targets, 1)
        if not math.isfinite(mean) or not math.isfinite(norm):  # the same in every process
            raise DivergedError(what_happened(step, group, losses, norm, team.world))
        for optimizer in optimizers:
            optimizer.step()
        yield StepRecord(step, mean, n_targets, norm, share)


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Let every group learn at this share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * share


@torch.no_grad()
def validate(model: AnyModel, batches: Iterable[Batch], world: World = ALONE) -> float:
    """The loss per target over all batches of all processes, without smoothing or dropout."""
    was_training = model.training
    model.eval()
    total, n_targets = 0.0, 0
    for batch in batches:
        total += batch_loss(model, batch.to(model.device)).item()
        n_targets += batch.n_targets
    model.train(was_training)
    total, n_all = world.total(total, n_targets)
    return total / max(n_all, 1)
