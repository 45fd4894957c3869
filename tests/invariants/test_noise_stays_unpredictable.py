"""Shift by one: trained on uniform random ids, no honest model scores below log V on fresh ones.

The widest net: whatever the leak (a mask, a shift, a batch), a model that can use it learns to,
since there is nothing else to learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from invariants.families import PRE, decoder_only, encoder_decoder
from torch import Tensor

from lookleft.config import EncoderDecoderConfig, Rotary
from lookleft.data.batch import NO_TARGET, Batch, next_token_batch, translation_batch
from lookleft.models import AnyConfig, AnyModel, build

VOCAB, LENGTH, STEPS = 8, 8, 110
GAP = 0.3  # nats below log V that a leak is worth, at the least, after STEPS steps

Change = Callable[[Batch], Batch]


def unchanged(batch: Batch) -> Batch:
    return batch


def random_batch(config: AnyConfig, n_rows: int, generator: torch.Generator) -> Batch:
    """Texts in which every id is drawn uniformly, as training would batch them."""

    def rows(length: int) -> list[list[int]]:
        return torch.randint(VOCAB, (n_rows, length), generator=generator).tolist()

    if isinstance(config, EncoderDecoderConfig):
        return translation_batch(rows(3), rows(LENGTH), config.start_id)
    return next_token_batch(rows(LENGTH + 1))


def losses(model: AnyModel, batch: Batch) -> Tensor:
    """One loss per target, in nats. -> (N,)."""
    assert batch.targets is not None
    is_target = batch.targets != NO_TARGET
    return F.cross_entropy(
        model.score(batch)[is_target], batch.targets[is_target], reduction="none"
    )


def check_noise_stays_unpredictable(config: AnyConfig, change: Change = unchanged) -> None:
    """After training on noise, fresh noise costs log V at the least, but for chance."""
    generator = torch.Generator().manual_seed(0)
    model = build(config, torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        loss = losses(model, change(random_batch(config, 48, generator))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        fresh = losses(model, change(random_batch(config, 512, generator)))
    chance = 4 * float(fresh.std()) / math.sqrt(len(fresh))
    assert chance < GAP / 3, "too few fresh targets to tell a leak from luck"
    assert float(fresh.mean()) > math.log(VOCAB) - chance, "noise was predicted: something leaks"
    assert float(fresh.mean()) < math.log(VOCAB) + GAP, "the model did not even learn the base rate"


LANGUAGE_MODEL = decoder_only(vocab_size=VOCAB, **PRE)
TRANSLATOR = encoder_decoder(vocab_size=VOCAB, n_encoder_layers=1, **PRE)


@pytest.mark.parametrize(
    "config",
    [
        LANGUAGE_MODEL,
        decoder_only(vocab_size=VOCAB, positions=Rotary(), window=3, n_layers=1, **PRE),
        TRANSLATOR,
    ],
    ids=["decoder-only", "window", "encoder-decoder"],
)
def test_noise_stays_unpredictable(config: AnyConfig) -> None:
    check_noise_stays_unpredictable(config)


# --- the alarms can ring ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [LANGUAGE_MODEL, TRANSLATOR], ids=["decoder-only", "encoder-decoder"]
)
def test_a_model_without_its_mask_predicts_noise_and_is_caught(config: AnyConfig) -> None:
    with pytest.raises(AssertionError, match="something leaks"):
        check_noise_stays_unpredictable(config.model_copy(update={"mask": "none"}))


def forgot_to_shift(batch: Batch) -> Batch:
    """Every position is asked for the token that it reads."""
    return replace(batch, targets=batch.inputs.ids)


def answer_in_the_source(batch: Batch) -> Batch:
    """The source holds the targets themselves."""
    return replace(batch, source=replace(batch.inputs, ids=batch.targets))


@pytest.mark.parametrize(
    ("config", "change"),
    [
        (LANGUAGE_MODEL, forgot_to_shift),
        (TRANSLATOR, forgot_to_shift),
        (TRANSLATOR, answer_in_the_source),
    ],
)
def test_a_batch_that_holds_its_answers_is_caught(config: AnyConfig, change: Change) -> None:
    with pytest.raises(AssertionError, match="something leaks"):
        check_noise_stays_unpredictable(config, change)
