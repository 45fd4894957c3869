"""What the dev set and the judge say of a model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from lookleft.bundle import Bundle
from lookleft.data.corpus import Summary
from lookleft.files import write_json
from lookleft.train.data import dev_batches
from lookleft.train.diverged import DivergedError
from lookleft.train.event import Event
from lookleft.train.judge import Judge, Opinion
from lookleft.train.loop import validate
from lookleft.train.settings import RunSettings
from lookleft.train.world import World


def measured(
    event: Event,
    bundle: Bundle,
    settings: RunSettings,
    judge: Judge,
    world: World,
    read: Summary,
) -> tuple[Event, Opinion]:
    """The event with the loss on the dev set and the judge's scores, and all that the judge says.

    Every process takes its share of the loss; the judge is asked by process 0 only. `read` counts
    the lines. A loss that is no number is an error.
    """
    model, tokenizer = bundle.network, bundle.tokenizer
    assert tokenizer is not None, "a run has one"
    start_id = getattr(model.config, "start_id", 0)
    source = bundle.source_tokenizer
    batches = dev_batches(settings, tokenizer, start_id, world.share, source, read)
    loss = validate(model, batches, world)
    if not math.isfinite(loss):  # before anything is written; the same in every process
        raise DivergedError(
            f"after step {event.step} the loss on the dev set is {loss}; lower train.lr"
        )
    was_training = model.training
    model.eval()
    try:
        opinion = judge(bundle) if world.is_main else Opinion()
    finally:
        model.train(was_training)
    event = replace(
        event,
        dev_loss=loss,
        bleu=opinion.bleu,
        chrf=opinion.chrf,
        bits_per_byte=opinion.bits_per_byte,
    )
    return event, opinion


def write_scores(folder: Path, event: Event, opinion: Opinion) -> None:
    """Write scores.json: what the dev set says of the model that would be the result now."""
    facts = {"step": event.step, **event.figures, "signature": opinion.signature}
    write_json(folder / "scores.json", facts)
