"""The training loop: a generator of records. The caller logs, saves, prints and stops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import torch

from lookleft.data.batch import Batch
from lookleft.models import AnyModel
from lookleft.nn.fused import measuring
from lookleft.train.device import PrecisionName, computing_in
from lookleft.train.diverged import DivergedError, what_happened
from lookleft.train.loss import batch_loss
from lookleft.train.objective import Objective
from lookleft.train.replicas import threads_for
from lookleft.train.schedule import Schedule
from lookleft.train.team import Team
from lookleft.train.world import ALONE, World

BATCHES_IN_HAND = 16  # for each thread that measures: the dev set may be larger than memory


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


def validate(
    model: AnyModel,
    batches: Iterable[Batch],
    world: World = ALONE,
    *,
    precision: PrecisionName = "float32",
    n_at_once: int = 1,
) -> float:
    """The loss per target over all batches of all processes, without smoothing or dropout.

    By the kernels of training and in its precision; n_at_once batches side by side, a thread each.
    """

    @torch.no_grad()  # in here, for each thread has its own grad mode and contexts
    def cost(batch: Batch) -> float:
        with measuring(), computing_in(precision, model.device):
            return batch_loss(model, batch.to(model.device)).item()

    was_training = model.training
    model.eval()
    total, n_targets, waiting = 0.0, 0, iter(batches)
    with threads_for(n_at_once), ThreadPoolExecutor(n_at_once) as pool:
        while group := list(islice(waiting, n_at_once * BATCHES_IN_HAND)):
            total += sum(pool.map(cost, group))
            n_targets += sum(batch.n_targets for batch in group)
    model.train(was_training)
    total, n_all = world.total(total, n_targets)
    return total / max(n_all, 1)
