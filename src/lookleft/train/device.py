"""Where training computes, and in which precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import nn

from lookleft.errors import ConfigError
from lookleft.nn.block import Block

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["float32", "bfloat16"]


def find_device(name: DeviceName) -> torch.device:
    """The device of that name; "auto" takes an accelerator if there is one."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next((kind for kind in ("cuda", "mps") if there[kind]), "cpu")
    if not there.get(name, True):
        raise ConfigError(
            f"train.device = {name!r}: this machine, or this build of torch, has none. "
            f'Take train.device = "auto", which finds what there is'
        )
    return torch.device(name)


def computing_in(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Inside, matrix products are made in this precision; weights stay as they are."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def remark_on(precision: Precision, device: torch.device) -> str | None:
    """What to know about this precision on this device before waiting for it, if anything."""
    if precision == "float32":
        return None
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        return "this GPU has no bfloat16 units: train.precision = 'float32' is faster"
    units = torch.cpu.get_capabilities()  # avx512_bf16, amx_bf16, ...
    if device.type == "cpu" and not any(units[name] for name in units if name.endswith("bf16")):
        return "this CPU has no bfloat16 units: train.precision = 'float32' is faster"
    return None


def compile_blocks(model: nn.Module, backend: str = "inductor") -> None:
    """Let torch.compile write kernels for every layer; the names of the weights stay.

    Layers, not the whole: they are all alike, so little is compiled, and lengths may change.
    """
    for block in model.modules():
        if isinstance(block, Block):
            block.compile(dynamic=True, backend=backend)
