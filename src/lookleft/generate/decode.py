"""The decode loop at its simplest: one column of ids at a time, until every row has ended.

`scheduler` is its twin for real work, in which rows come and go. Dimensions: B batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, pad_rows
from lookleft.errors import InputError
from lookleft.generate.pick import Pick, greedy
from lookleft.models.base import Runner

Step = Callable[[Tensor], Tensor]  # ids (B,) -> logits (B, V), one position on


def decode(
    step: Step, logits: Tensor, pick: Pick, *, max_new: int, eos: int | None
) -> Iterator[Tensor]:
    """Stream one column of ids (B,) at a time until every row has ended; ended rows repeat eos."""
    is_done = torch.zeros(logits.size(0), dtype=torch.bool, device=logits.device)
    for n_left in range(max_new, 0, -1):
        ids = pick(logits)  # (B,)
        if eos is not None:
            ids = ids.masked_fill(is_done, eos)
            is_done |= ids == eos
        yield ids
        if bool(is_done.all()) or n_left == 1:
            return
        logits = step(ids)


@torch.no_grad()
def generate_ids(
    model: Runner[Any],
    prompts: Sequence[Sequence[int]],
    *,
    max_new: int,
    eos: int | None,
    pick: Pick = greedy,
) -> list[list[int]]:
    """Continue prompts, or translate sources; each answer ends before its eos.

    For an encoder-decoder the prompts are the sources, and the target begins at its start token.
    """
    if max_new < 1:
        raise InputError(f"max_new={max_new}: at least one token must be asked for")
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise InputError(f"prompt {number} is empty: there is nothing to go on from")
    if isinstance(model.config, EncoderDecoderConfig):
        start = [[model.config.start_id]] * len(prompts)
        batch = Batch(pad_rows(start), source=pad_rows(prompts))
    else:
        batch = Batch(pad_rows(prompts))
    logits, state = model.prefill(batch.to(model.device), room=max_new)
    columns = decode(lambda ids: model.step(ids, state), logits, pick, max_new=max_new, eos=eos)
    rows: list[list[int]] = torch.stack(list(columns), 1).tolist()
    return [row[: row.index(eos)] if eos in row else row for row in rows]
