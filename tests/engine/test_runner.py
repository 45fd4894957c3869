"""The engine is the network: same logits for every kind of model, step by step and at once."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from invariants.families import (
    CAUSAL,
    as_batch,
    decoder_only,
    encoder_decoder,
    make,
    random_ids,
    row_of,
)
from torch import Tensor

from lookleft.config import Rotary
from lookleft.data.batch import Batch, as_rows
from lookleft.engine.records import ACTIVATIONS
from lookleft.engine.runner import Runner
from lookleft.errors import InputError
from lookleft.models import AnyConfig, DecoderOnly, EncoderDecoder
from lookleft.quantised import Kind

LENGTHS = torch.tensor([9, 6, 2])
EXACT = 1e-5  # logits are about 3: this is float32 in another order of sums


@cache
def twins(name: str) -> tuple[Any, Runner]:
    return pair(CAUSAL[name])


def pair(config: AnyConfig, **options: Any) -> tuple[Any, Runner]:
    network = make(config, torch.float32)
    assert isinstance(network, DecoderOnly | EncoderDecoder)
    return network, Runner(network, **options)


def some_batch(config: AnyConfig, seed: int = 0) -> Batch:
    """Three rows of unequal length, padded on the right."""
    is_token = torch.arange(9)[None] < LENGTHS[:, None]
    return as_batch(config, as_rows(random_ids(3, 9, seed=seed), is_token))


def same(found: Tensor, expected: Tensor, within: float = EXACT) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=within)


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_prompt_steps_and_whole_texts_give_the_logits_of_the_network(name: str) -> None:
    network, runner = twins(name)
    batch = some_batch(network.config)
    expected, theirs = network.prefill(batch, room=6)
    found, ours = runner.prefill(batch, room=2)  # and grows when that is not enough
    same(found, expected)
    for i in range(5):
        ids = random_ids(3, seed=i)
        expected = network.step(ids, theirs)
        found = runner.step(ids, ours)
        same(found, expected)
    assert ours.lengths.tolist() == theirs.lengths.tolist()
    is_token = batch.inputs.is_token
    same(runner.score(batch)[is_token], network.score(batch)[is_token])
    other = runner.step(random_ids(3, seed=77), ours)
    assert (other - found).abs().max() > 0.01  # logits do depend on what is fed


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_several_tokens_at_once_are_the_same_as_one_by_one(name: str) -> None:
    network, runner = twins(name)
    batch = some_batch(network.config, seed=3)
    _, state = runner.prefill(batch, room=8)
    _, theirs = network.prefill(batch, room=8)
    is_token = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    rows = as_rows(random_ids(3, 3, seed=8), is_token)
    found, expected = runner.extend(rows, state), network.extend(rows, theirs)
    same(found[is_token], expected[is_token])
    assert state.lengths.tolist() == theirs.lengths.tolist()


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_a_row_in_a_batch_is_the_row_alone(name: str) -> None:
    network, runner = twins(name)
    batch = some_batch(network.config)
    together, states = runner.prefill(batch, room=2)
    next_ones = runner.step(random_ids(3), states)
    for b in range(3):
        alone, state = runner.prefill(row_of(batch, b), room=2)
        same(alone[0], together[b], within=1e-6)
        same(runner.step(random_ids(3)[b : b + 1], state)[0], next_ones[b], within=1e-6)


@pytest.mark.parametrize("is_gated", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@torch.no_grad()
def test_every_activation_is_the_network_s(activation: str, is_gated: bool) -> None:
    network, runner = pair(decoder_only(activation=activation, gated=is_gated, n_layers=1))
    batch = some_batch(network.config)
    is_token = batch.inputs.is_token
    same(runner.score(batch)[is_token], network.score(batch)[is_token])


@pytest.mark.parametrize("options", [{"mask": "none"}, {"window": 3}, {"positions": Rotary()}])
@torch.no_grad()
def test_who_sees_whom_is_the_network_s_also_with_a_prefix(options: dict[str, Any]) -> None:
    network, runner = pair(decoder_only(**options))
    batch = some_batch(network.config)
    is_token = batch.inputs.is_token
    for prefix in (None, torch.tensor([4, 0, 2])):
        given = replace(batch, prefix=prefix)
        expected, theirs = network.prefill(given, room=4)
        found, ours = runner.prefill(given, room=4)
        same(found, expected)
        for i in range(4):
            ids = random_ids(3, seed=i)
            same(runner.step(ids, ours), network.step(ids, theirs))
        same(runner.score(given)[is_token], network.score(given)[is_token])


@pytest.mark.parametrize("config", [decoder_only(mask="none"), encoder_decoder(mask="none")])
@torch.no_grad()
def test_a_model_trained_without_a_mask_peeks_in_the_engine_too(config: AnyConfig) -> None:
    network, runner = pair(config)
    batch = some_batch(config)
    is_token = batch.inputs.is_token
    same(runner.score(batch)[is_token], network.score(batch)[is_token])


@pytest.mark.parametrize("kind", [None, "int8"])
@pytest.mark.parametrize("name", ["decoder-only window-rotary", "encoder-decoder rotary-grouped"])
@torch.no_grad()
def test_threads_change_nothing(name: str, kind: Kind | None) -> None:
    """Shared rows (a prompt), rows of their own (many sequences), and wake-ups in between."""
    network, _ = twins(name)
    alone, runner = (Runner(network, kind=kind, n_threads=n) for n in (1, 2))
    lengths = 3 + torch.arange(40) % 5
    is_token = torch.arange(7)[None] < lengths[:, None]
    for rows in (as_rows(random_ids(1, 40)), as_rows(random_ids(40, 7), is_token)):
        batch = as_batch(network.config, rows)
        expected, one = alone.prefill(batch, room=3)
        found, two = runner.prefill(batch, room=3)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        for i in range(3):
            ids = random_ids(rows.shape[0], seed=i)
            torch.testing.assert_close(runner.step(ids, two), alone.step(ids, one), rtol=0, atol=0)


@torch.no_grad()
def test_long_prompts_go_through_in_pieces() -> None:
    network, runner = pair(decoder_only(positions=Rotary(), max_len=400))
    batch = Batch(as_rows(random_ids(2, 300)))
    expected, theirs = network.prefill(batch, room=1)
    found, ours = runner.prefill(batch, room=1)
    same(found, expected)
    same(runner.step(random_ids(2), ours), network.step(random_ids(2), theirs))


@pytest.mark.parametrize("kind", ["int8", "int4"])
@torch.no_grad()
def test_quantised_weights_stay_near_the_network(kind: Any) -> None:
    config = decoder_only(d_model=64, d_ff=128, positions=Rotary(), n_layers=2)
    network, runner = pair(config, kind=kind)
    batch = some_batch(config)
    is_token = batch.inputs.is_token
    expected = network.score(batch)[is_token]
    error = (runner.score(batch)[is_token] - expected).pow(2).mean().sqrt() / expected.std()
    assert error < (0.02 if kind == "int8" else 0.2)
    assert error > 1e-4  # they are other weights
    assert runner.weights.n_bytes < 0.5 * sum(p.numel() * 4 for p in network.parameters())


@torch.no_grad()
def test_quantised_weights_are_the_numbers_they_stand_for() -> None:
    """A network that holds those numbers and the engine on the few bits say the same."""
    from lookleft.quantised import is_matrix, quantise

    config = encoder_decoder(d_model=64, d_ff=96, tie_embeddings=False)
    network, _ = pair(config)
    stored = {}
    for name, parameter in network.named_parameters():
        few = (
            quantise(parameter.numpy(force=True), "int4")
            if is_matrix(name, parameter.ndim)
            else None
        )
        if few is not None:
            stored[name] = few
            parameter.copy_(torch.from_numpy(few.numbers()))
    assert len(stored) > 20
    runner, batch = Runner(network, stored=stored), some_batch(config)
    is_token = batch.inputs.is_token
    same(runner.score(batch)[is_token], network.score(batch)[is_token], within=1e-3)


@torch.no_grad()
def test_a_runner_serves_several_python_threads_at_once() -> None:
    network, runner = twins("encoder-decoder rotary-grouped")
    batches = [some_batch(network.config, seed=seed) for seed in range(4)]
    expected = [runner.score(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for found, wanted in zip(pool.map(runner.score, batches), expected, strict=True):
                assert torch.equal(found, wanted)


def test_what_cannot_be_fed_is_refused_with_its_value() -> None:
    network, runner = pair(decoder_only(max_len=12))
    batch = some_batch(network.config)
    _, state = runner.prefill(batch, room=3)
    with pytest.raises(InputError, match=r"id 50 is outside the vocabulary 0\.\.49"):
        runner.step(torch.tensor([1, 50, 2]), state)
    assert state.lengths.tolist() == LENGTHS.tolist()  # nothing was fed
    with pytest.raises(InputError, match=r"shape \(3,\), got \(2,\)"):
        runner.step(torch.tensor([1, 2]), state)
    with pytest.raises(InputError, match="at most 12"):
        runner.prefill(Batch(as_rows(random_ids(1, 13))), room=0)
    with pytest.raises(InputError, match="a prompt is empty"):
        runner.prefill(Batch(as_rows(random_ids(2, 3), torch.zeros(2, 3) > 0)), room=0)
    with pytest.raises(InputError, match="n_threads=0"):
        Runner(network, n_threads=0)
    translator, translates = pair(encoder_decoder())
    with pytest.raises(InputError, match="needs a source"):
        translates.prefill(Batch(as_rows(random_ids(1, 3))), room=0)
    assert isinstance(translator, EncoderDecoder)


@torch.no_grad()
def test_rows_that_are_all_padding_add_nothing() -> None:
    network, runner = pair(decoder_only(positions=Rotary()))
    _, state = runner.prefill(some_batch(network.config), room=3)
    nothing = as_rows(random_ids(3, 2), torch.zeros(3, 2, dtype=torch.bool))
    before = state.lengths
    assert not runner.extend(nothing, state).any()
    assert torch.equal(state.lengths, before)


@torch.no_grad()
def test_a_forked_process_has_threads_of_its_own() -> None:
    """Those of its parent are not in it: it would wait for them for ever."""
    network, _ = pair(decoder_only(positions=Rotary()))
    runner = Runner(network, n_threads=2)
    expected = runner.score(some_batch(network.config))
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends the child if it hangs
        found = runner.score(some_batch(network.config))
        os._exit(0 if torch.equal(found, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(runner.score(some_batch(network.config)), expected)


def test_a_fork_in_the_middle_of_a_forward_leaves_a_runner_that_runs() -> None:
    """The lock that another thread held is copied, and that thread is not."""
    network, _ = pair(decoder_only(positions=Rotary()))
    runner = Runner(network, n_threads=2)
    batch = some_batch(network.config)
    expected = runner.score(batch)
    with runner._order:
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # ends the child if it hangs
            os._exit(0 if torch.equal(runner.score(batch), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
