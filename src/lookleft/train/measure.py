"""What the dev set and the judge say of a model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from lookleft.bundle import Bundle
from lookleft.data.corpus import Summary
from lookleft.files import write_json
from lookleft.train.data import dev_batches
from lookleft.train.diverged import DivergedError
from lookleft.train.judge import Judge, Opinion
from lookleft.train.loop import validate
from lookleft.train.replicas import n_replicas
from lookleft.train.settings import RunSettings
from lookleft.train.world import World

Figures = dict[str, Any]
"""What was measured, by the names that events and scores.json have for it."""


def measured(
    step: int,
    bundle: Bundle,
    settings: RunSettings,
    judge: Judge,
    world: World,
    read: Summary,
) -> tuple[Figures, Opinion]:
    """The loss on the dev set and the judge's scores after a step, and all that the judge says.

    Every process takes its share of the loss; the judge is asked by process 0 only. `read` counts
    the lines. A loss that is no number is an error.
    """
    model, tokenizer = bundle.network, bundle.tokenizer
    assert tokenizer is not None, "a run has one"
    start_id = getattr(model.config, "start_id", 0)
    source = bundle.source_tokenizer
    batches = dev_batches(settings, tokenizer, start_id, world.share, source, read)
    train = settings.train
    n_at_once = n_replicas(torch.get_num_threads(), model.device, train.compile)
    loss = validate(model, batches, world, precision=train.precision, n_at_once=n_at_once)
    if not math.isfinite(loss):  # before anything is written; the same in every process
        raise DivergedError(f"after step {step} the loss on the dev set is {loss}; lower train.lr")
    was_training = model.training
    model.eval()
    try:
        opinion = judge(bundle) if world.is_main else Opinion()
    finally:
        model.train(was_training)
    return {"dev_loss": loss, **opinion.scores}, opinion


def write_scores(folder: Path, step: int, figures: Figures, opinion: Opinion) -> None:
    """Write scores.json: what the dev set says of the model that would be the result now."""
    known = {name: value for name, value in figures.items() if value is not None}
    write_json(folder / "scores.json", {"step": step, **known, "signature": opinion.signature})
