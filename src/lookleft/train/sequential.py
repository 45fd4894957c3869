"""Training without the parallel pass: the target is fed one position at a time, as in generation.

Someone without the causal mask would have to train like this, because the only sure way not to see
the future is not to have read it yet. Keys and values of earlier positions come from the cache, and
gradients flow back through it. Loss and gradients are those of the parallel pass; the price is one
forward per position. Dimensions: B batch, T positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from lookleft.data.batch import Batch, as_rows, unpack_documents
from lookleft.errors import InputError
from lookleft.models import AnyModel, EncoderOnly
from lookleft.train.loss import summed_loss


def sequential_loss(model: AnyModel, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The summed loss of a batch, position by position through the cache. -> ()."""
    if isinstance(model, EncoderOnly):
        raise InputError("a masked-token model has no order in which to feed a text")
    assert batch.targets is not None, "a training batch has targets"
    batch = unpack_documents(batch)  # a cache knows one document per row
    assert batch.targets is not None, "unpacking keeps the targets"
    rows = batch.inputs
    if not bool(rows.is_token[:, 0].all()):
        raise InputError("rows that are fed one position at a time must be padded on the right")
    first = as_rows(rows.ids[:, :1])
    logits, state = model.prefill(replace(batch, inputs=first), room=rows.shape[1] - 1)  # (B, V)
    loss = summed_loss(logits, batch.targets[:, 0], smoothing)
    for t in range(1, rows.shape[1]):
        here = slice(t, t + 1)
        column = as_rows(rows.ids[:, here], rows.is_token[:, here])  # (B, 1)
        logits = model.extend(column, state)[:, 0]  # (B, V)
        loss = loss + summed_loss(logits, batch.targets[:, t], smoothing)
    return loss
