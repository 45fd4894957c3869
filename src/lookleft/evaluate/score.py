"""Log-probabilities of given tokens, by one teacher-forced pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from lookleft.data.batch import Batch, next_token_batch, pad_rows, translation_batch
from lookleft.errors import InputError
from lookleft.models import AnyModel, DecoderOnly, EncoderDecoder


@torch.no_grad()
def score_ids(
    model: AnyModel, ids: Sequence[int], source: Sequence[int] | None = None
) -> list[float | None]:
    """The log-probability of each id; None for a first token that nothing precedes."""
    if not ids:
        raise InputError("there is nothing to score: give at least one token id")
    if isinstance(model, EncoderDecoder):
        if source is None:
            raise InputError("this model translates: it needs a source (--src-ids or --src)")
        batch = translation_batch([source], [ids], model.config.start_id)
        return list(_log_probs(model, batch, ids))
    if source is not None:
        raise InputError(f"a {model.config.family} model takes no source")
    if isinstance(model, DecoderOnly):
        if len(ids) == 1:
            model.score(Batch(pad_rows([ids])))  # nothing to score, but bad ids are still refused
            return [None]
        return [None, *_log_probs(model, next_token_batch([ids]), ids[1:])]
    return list(_log_probs(model, Batch(pad_rows([ids])), ids))


def _log_probs(model: AnyModel, batch: Batch, targets: Sequence[int]) -> list[float]:
    """Of each target at its position, computed in float64 so that printing loses nothing."""
    logits = model.score(batch)[0]  # (T, V)
    n_ids = logits.size(1)
    outside = [id for id in targets if not 0 <= id < n_ids]
    if outside:
        raise InputError(f"id {outside[0]} is outside the vocabulary 0..{n_ids - 1}")
    log_probs = logits.double().log_softmax(-1)
    picked: list[float] = log_probs[range(len(targets)), list(targets)].tolist()
    for id, value in zip(targets, picked, strict=True):
        if not math.isfinite(value):
            raise InputError(f"id {id} has log-probability {value}: the weights are not sound")
    return picked
