"""Where training computes, and in which precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import nn

from lookleft.errors import ConfigError
from lookleft.nn.block import Block
from lookleft.nn.narrow import narrow_products

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["float32", "bfloat16"]
PrecisionName = Literal["auto", Precision]


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


def find_precision(name: PrecisionName, device: torch.device) -> Precision:
    """The precision of that name; "auto" takes bfloat16 if the device has units for it."""
    if name == "auto":
        return "bfloat16" if has_narrow_units(device) else "float32"
    return name


def has_narrow_units(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster here than in float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    units = torch.cpu.get_capabilities()  # avx512_bf16, amx_bf16, ...
    return device.type == "cpu" and any(units[name] for name in units if name.endswith("bf16"))


def computing_in(name: PrecisionName, device: torch.device) -> AbstractContextManager[object]:
    """Inside, matrix products are made in this precision; weights stay as they are.

    On a CPU what goes from one product into the next stays narrow too; kernels between the two
    compute in float32.
    """
    if find_precision(name, device) == "float32":
        return nullcontext()
    if device.type == "cpu":
        return narrow_products()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def remark_on(name: PrecisionName, device: torch.device) -> str | None:
    """What to know about this precision on this device before waiting for it, if anything."""
    kind = {"cuda": "GPU", "cpu": "CPU"}.get(device.type)
    if kind is None or find_precision(name, device) == "float32" or has_narrow_units(device):
        return None
    return f"this {kind} has no bfloat16 units: train.precision = 'float32' is faster"


def compile_blocks(model: nn.Module, backend: str = "inductor") -> None:
    """Let torch.compile write kernels for every layer; the names of the weights stay.

    Layers, not the whole: they are all alike, so little is compiled, and lengths may change.
    """
    for block in model.modules():
        if isinstance(block, Block):
            block.compile(dynamic=True, backend=backend)
