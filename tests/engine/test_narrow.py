"""Activations of 8 bits: coarser than 16, and as independent of batch, threads and cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from invariants.families import as_batch, decoder_only, encoder_decoder, make, random_ids, row_of

from lookleft.config import Rotary
from lookleft.data.batch import Batch, as_rows
from lookleft.engine import pick_runner
from lookleft.engine.runner import Runner
from lookleft.errors import InputError
from lookleft.models import AnyConfig, DecoderOnly, EncoderDecoder

WIDE = {"d_model": 64, "d_ff": 96}  # whole groups of 32
CONFIGS = {
    "decoder-only": decoder_only(positions=Rotary(), qk_norm=True, n_kv_heads=1, **WIDE),
    "encoder-decoder": encoder_decoder(**WIDE),
}


def pair(config: AnyConfig, **options: Any) -> tuple[Any, Runner]:
    network = make(config, torch.float32)
    assert isinstance(network, DecoderOnly | EncoderDecoder)
    return network, Runner(network, kind="int8", activations=8, **options)


def some_batch(config: AnyConfig) -> Batch:
    """Three rows of unequal length, padded on the right."""
    is_token = torch.arange(9)[None] < torch.tensor([9, 6, 2])[:, None]
    return as_batch(config, as_rows(random_ids(3, 9), is_token))


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_logits_stay_near_the_network(name: str) -> None:
    network, runner = pair(CONFIGS[name])
    batch = some_batch(network.config)
    is_token = batch.inputs.is_token
    expected = network.score(batch)[is_token]
    finer = Runner(network, kind="int8").score(batch)[is_token]
    found = runner.score(batch)[is_token]
    error, least = (
        (each - expected).pow(2).mean().sqrt() / expected.std() for each in (found, finer)
    )
    assert error < 0.03
    assert not torch.equal(found, finer)
    assert least < 0.02
    held = runner.prefill(batch, room=2)[1].pool
    assert held.keys.dtype == "float16"


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_a_row_is_the_same_alone_in_a_batch_and_step_by_step(name: str) -> None:
    network, runner = pair(CONFIGS[name])
    batch = some_batch(network.config)
    together, states = runner.prefill(batch, room=2)
    whole = runner.score(batch)
    next_ones = runner.step(random_ids(3), states)
    for b, length in enumerate([9, 6, 2]):
        assert torch.equal(together[b], whole[b, length - 1])
        alone, state = runner.prefill(row_of(batch, b), room=2)
        assert torch.equal(alone[0], together[b])
        assert torch.equal(runner.step(random_ids(3)[b : b + 1], state)[0], next_ones[b])


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_threads_change_nothing(name: str) -> None:
    network, alone = pair(CONFIGS[name], n_threads=1)
    both = Runner(network, kind="int8", activations=8, n_threads=2)
    for rows in (as_rows(random_ids(1, 9)), as_rows(random_ids(40, 7))):
        batch = as_batch(network.config, rows)
        expected, one = alone.prefill(batch, room=3)
        found, two = both.prefill(batch, room=3)
        assert torch.equal(found, expected)
        ids = random_ids(rows.shape[0])
        assert torch.equal(both.step(ids, two), alone.step(ids, one))


def test_what_has_no_weights_for_it_is_refused() -> None:
    network = make(CONFIGS["decoder-only"], torch.float32)
    with pytest.raises(InputError, match="no weights of 8 bits"):
        pick_runner(network, "numba", activations=8)
    with pytest.raises(InputError, match="need weights of 8 bits in groups of 32"):
        pick_runner(network, "numba", weights="int4", activations=8)
    small = make(decoder_only(d_model=48), torch.float32)  # no whole groups
    with pytest.raises(InputError, match="need weights of 8 bits in groups of 32"):
        pick_runner(small, "numba", weights="int8", activations=8)
    with pytest.raises(InputError, match="activations=4: give 16 or 8"):
        pick_runner(network, activations=4)  # type: ignore[arg-type]
