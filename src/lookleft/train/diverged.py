"""A loss that is no number: what is said about it, and what the run can go on from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import torch

from lookleft.data.batch import Batch
from lookleft.errors import LookleftError
from lookleft.files import link_atomically
from lookleft.train.checkpoint import take_back
from lookleft.train.world import ALONE, World

_LINES_SHOWN = 10


class DivergedError(LookleftError):
    """The loss is no longer a number; a step that would have gone on from it was not taken."""


def what_happened(
    step: int, group: Sequence[Batch], losses: Sequence[float], norm: float, world: World = ALONE
) -> str:
    """What went wrong, in which batch of which process, and what to do about it."""
    is_bad = [not math.isfinite(loss) for loss in losses]
    is_norm_alone = not world.is_any(any(is_bad))
    blamed = [batch for batch, bad in zip(group, is_bad, strict=True) if bad or is_norm_alone]
    places = sorted({(batch.epoch or 0, line) for batch in blamed for line in batch.lines})
    first = [number for place in places[:_LINES_SHOWN] for number in place]
    told = torch.tensor([len(places), *first, *[0] * (2 * _LINES_SHOWN - len(first))])
    found = [row.tolist() for row in world.gather(told)]  # how many in all, and the first of them
    shown = sorted(
        place for n, *some in found for place in list(zip(some[::2], some[1::2], strict=True))[:n]
    )[:_LINES_SHOWN]
    total = world.total(sum(losses))[0]
    n_more = sum(n for n, *_ in found) - len(shown)
    more = f" and {n_more} more" if n_more else ""
    is_stream = any(batch.epoch is not None for batch in group)
    where = f" on {_in_words(shown, is_stream=is_stream)}{more} of data.train"
    can_look = shown and not is_stream  # nobody has the rows of a stream before him
    advice = "Look at those texts, lower train.lr," if can_look else "Lower train.lr"
    return (
        f"step {step}: the loss is {total} and the norm of its gradient {norm}"
        f"{where if shown else ''}; the step was not taken. {advice} or lengthen train.warmup"
    )


def _in_words(places: Sequence[tuple[int, int]], *, is_stream: bool) -> str:
    """Lines, or, of one long text, the rows of each epoch."""
    epochs = {
        epoch: ", ".join(str(line) for _, line in those)
        for epoch, those in groupby(places, key=itemgetter(0))
    }
    if not is_stream:
        return "".join(f"lines {lines}" for lines in epochs.values())
    return " and ".join(f"rows {rows} of epoch {epoch}" for epoch, rows in epochs.items())


def way_back(
    folder: Path, step: int, lr: float, matrix_lr: float | None = None, world: World = ALONE
) -> str:
    """What to do next with the run in a folder; a checkpoint that only leads there again goes.

    The weights of a checkpoint of this very step are the ones that have no loss any more.
    """
    lower = f"--train.lr {lr / 2:g}"
    if matrix_lr is not None:  # the matrices do not listen to the other one
        lower += f" --train.matrix-lr {matrix_lr / 2:g}"
    found = take_back(folder / "checkpoints", step, world)
    if found is None:
        return f"There is no checkpoint from before: begin a new run with, say, {lower}"
    if world.is_main:
        link_atomically(folder / "last", found)
    return (
        f"Nothing after {found.name} is kept; go on from it with, say, "
        f"lookleft train --resume --out {folder} {lower}"
    )
