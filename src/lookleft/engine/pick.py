"""Which of the twins runs a model: the compiled engine, or the PyTorch network itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import torch
from torch import nn

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.models import AnyModel, EncoderOnly
from lookleft.models.base import Runner
from lookleft.quantised import KINDS

Engine = Literal["auto", "torch", "numba"]
WeightKind = Literal["stored", "float32", "int8", "int4"]
Bits = Literal[16, 8]

# Engines that were made, with what the weights were then: packing them takes time.
_MADE: WeakKeyDictionary[nn.Module, tuple[object, Runner[Any]]] = WeakKeyDictionary()


def pick_runner(
    model: Bundle | AnyModel,
    engine: Engine = "auto",
    *,
    weights: WeightKind = "stored",
    activations: Bits = 16,
    n_threads: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Runner[Any]:
    """What is to generate with this model, ready to run.

    engine: "numba" insists on the compiled engine, "torch" on the network; "auto" takes the engine
    where it can. weights: "stored" as the file holds them (float32 unless it holds fewer bits), or
    what to make of them. activations: bits of what weights of 8 bits are multiplied with; 8 is
    faster on processors with AVX-512 VNNI, and keeps keys and values in 16 bits. n_threads: unset,
    as many as torch uses. say: is told, in a sentence, what makes one wait and why the engine is
    not used.
    """
    network = model.network if isinstance(model, Bundle) else model
    if isinstance(network, EncoderOnly):
        raise InputError("this is an encoder-only model: it does not write; score it instead")
    if weights not in ("stored", "float32", *KINDS):
        raise InputError(f"weights={weights!r}: give stored, float32, int8 or int4")
    if activations not in get_args(Bits):
        raise InputError(f"activations={activations!r}: give 16 or 8")
    if engine not in get_args(Engine):
        raise InputError(f"engine={engine!r}: give {', '.join(get_args(Engine))}")
    reason = why_not(network)
    if engine == "torch" or (engine == "auto" and reason is not None):
        if engine == "auto" and say is not None:
            say(f"engine: torch, because {reason}")
        return network
    if reason is not None:
        raise InputError(f"engine='numba' cannot run this model: {reason}; use engine='auto'")

    from lookleft.engine.compiling import is_compiled  # late: they import numba
    from lookleft.engine.runner import Runner as EngineRunner

    given = tuple((p.data_ptr(), p._version) for p in network.parameters())
    has_stored = isinstance(model, Bundle) and weights == "stored"
    stamp = (weights, activations, has_stored, n_threads or torch.get_num_threads(), given)
    if network in _MADE and _MADE[network][0] == stamp:
        return _MADE[network][1]
    if say is not None and not is_compiled():
        say("compiling the engine, once for this machine: some 20 seconds")
    stored = model.quantised() if isinstance(model, Bundle) and has_stored else {}
    kind = weights if weights == "int8" or weights == "int4" else None
    runner = EngineRunner(
        network, stored=stored, kind=kind, activations=activations, n_threads=n_threads
    )
    _MADE[network] = (stamp, runner)
    return runner


def why_not(network: AnyModel) -> str | None:
    """Why the engine cannot run this network; None if it can."""
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed (pip install numba)"
    parameter = next(network.parameters())
    if parameter.device.type != "cpu":
        return f"the model is on {parameter.device}, and the engine runs on the CPU"
    if parameter.dtype != torch.float32:
        return f"the model computes in {parameter.dtype}, and the engine in torch.float32"
    return None
