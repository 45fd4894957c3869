"""Which twin runs a model, and what is said about it."""

from __future__ import annotations

import gc
import importlib.util
import weakref

import pytest
import torch
from invariants.families import decoder_only, encoder_only, make

from lookleft.bundle import Bundle
from lookleft.engine import pick_runner
from lookleft.engine.pick import why_not
from lookleft.engine.runner import Runner
from lookleft.errors import InputError
from lookleft.models import AnyModel
from lookleft.quantised import quantise


def network(dtype: torch.dtype = torch.float32) -> AnyModel:
    return make(decoder_only(), dtype)


def test_the_engine_is_picked_where_it_can_run_and_made_once() -> None:
    model = network()
    runner = pick_runner(model)
    assert isinstance(runner, Runner)
    assert pick_runner(model) is runner
    with torch.no_grad():
        next(model.parameters()).add_(1)
    assert pick_runner(model) is not runner  # the weights are others now
    assert pick_runner(model, "torch") is model


def test_an_engine_is_forgotten_with_its_network() -> None:
    model = network()
    runner = weakref.ref(pick_runner(model))
    assert runner() is not None
    del model
    gc.collect()
    assert runner() is None


def test_matrices_of_few_bits_are_used_as_they_are_stored() -> None:
    model = network()
    name = "embedding.tokens.weight"
    few = quantise(model.state_dict()[name].numpy(), "int8")
    assert few is not None
    sizes = {}
    for weights in ("stored", "float32", "int8"):
        runner = pick_runner(Bundle(model, quantised=lambda: {name: few}), weights=weights)
        assert isinstance(runner, Runner)
        sizes[weights] = runner.weights.n_bytes
    assert sizes["int8"] < sizes["stored"] < sizes["float32"]
    plain = pick_runner(model)  # the network by itself, after its bundle
    assert isinstance(plain, Runner)
    assert plain.weights.n_bytes == sizes["float32"]


def test_a_network_in_other_numbers_stays_with_torch_and_the_reason_is_said() -> None:
    model, said = network(torch.float64), []
    assert pick_runner(model, say=said.append) is model
    reason = "the model computes in torch.float64, and the engine in torch.float32"
    assert said == [f"engine: torch, because {reason}"]
    with pytest.raises(InputError, match=r"torch\.float64"):
        pick_runner(model, "numba")


def test_without_numba_torch_runs_and_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba" else found(name)
    )
    model = network()
    assert "pip install numba" in str(why_not(model))
    assert pick_runner(model) is model
    with pytest.raises(InputError, match="pip install numba"):
        pick_runner(model, "numba")


def test_compiling_is_announced_before_it_makes_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("lookleft.engine.compiling.is_compiled", lambda: False)
    pick_runner(network(), say=said.append)
    assert said == ["compiling the engine, once for this machine: some 20 seconds"]


def test_what_cannot_be_picked_is_refused() -> None:
    with pytest.raises(InputError, match="encoder-only"):
        pick_runner(make(encoder_only(), torch.float32))
    with pytest.raises(InputError, match="weights='int2'"):
        pick_runner(network(), weights="int2")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="engine='cuda': give auto, torch, numba"):
        pick_runner(network(), "cuda")  # type: ignore[arg-type]
