"""Where a parameter of ours lies among the tensors of a foreign file.

A family gives a table of module names with `{i}` for the layer. Everything else is mechanical:
each of our parameters has a `Place` in the foreign file, reading goes there, writing collects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lookleft.errors import ConfigError, FileError
from lookleft.models import AnyConfig, AnyModel, build
from lookleft.tensors import as_float


@dataclass(frozen=True)
class Place:
    """A foreign tensor, or one of the equal parts stacked in it."""

    name: str
    is_transposed: bool = False  # stored as (in, out)
    part: int = 0
    n_parts: int = 1  # q, k and v stacked in one tensor: 3
    has_row: bool = False  # a vector stored as (1, n)


# module of ours -> module of theirs, or a full Place when the layout differs too
Names = Mapping[str, str | Place]


def find_places(parameters: Iterable[str], names: Names, family: str) -> dict[str, Place]:
    """The place of every one of our parameters, by its name."""
    places = {}
    for parameter in parameters:
        module, _, leaf = parameter.rpartition(".")
        layer = re.search(r"\.(\d+)(?:\.|$)", module)
        template = re.sub(r"\.\d+(?=\.|$)", ".{i}", module)
        entry = names.get(f"{template}.{leaf}", names.get(template))
        if entry is None:
            raise ConfigError(f"{family} models have no {parameter}")
        place = entry if isinstance(entry, Place) else Place(entry)
        is_exact = f"{template}.{leaf}" in names  # names the tensor itself, not its module
        name = place.name.replace("{i}", layer[1] if layer else "")
        places[parameter] = Place(
            name if is_exact else f"{name}.{leaf}",
            # A bias has one axis: nothing to transpose.
            place.is_transposed and leaf == "weight",
            place.part,
            place.n_parts,
            place.has_row,
        )
    return places


def read_place(place: Place, tensors: Mapping[str, Tensor], shape: torch.Size, file: str) -> Tensor:
    """Our tensor out of theirs, of the shape that the config asks for."""
    if place.name not in tensors:
        raise FileError(f"{file}: has no tensor {place.name!r}, which its config asks for")
    tensor = tensors[place.name]
    if place.has_row and tensor.ndim == 2 and tensor.size(0) == 1:
        tensor = tensor[0]
    if place.is_transposed:
        tensor = tensor.mT
    if place.n_parts > 1:
        if tensor.size(0) % place.n_parts:
            raise FileError(
                f"{file}: {place.name!r} of {tensor.size(0)} rows is no stack of {place.n_parts}"
            )
        tensor = tensor.chunk(place.n_parts)[place.part]
    if tensor.shape != shape:
        raise FileError(
            f"{file}: tensor {place.name!r} has shape {tuple(tensors[place.name].shape)}; the "
            f"config asks for {tuple(shape)} here"
        )
    return tensor


def write_places(places: Mapping[str, Place], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors out of ours."""
    stacks: dict[str, list[tuple[Place, Tensor]]] = {}
    for parameter, place in places.items():
        stacks.setdefault(place.name, []).append((place, state[parameter]))
    tensors = {}
    for name, entries in stacks.items():
        entries.sort(key=lambda entry: entry[0].part)
        place = entries[0][0]
        tensor = torch.cat([tensor for _, tensor in entries])
        if place.is_transposed:
            tensor = tensor.mT
        tensors[name] = tensor[None] if place.has_row else tensor
    return tensors


def empty(config: AnyConfig) -> AnyModel:
    """The network without memory for its weights, to be filled."""
    with torch.device("meta"):
        return build(config)


def assemble(
    config: AnyConfig,
    places: Mapping[str, Place],
    tensors: Mapping[str, Tensor],
    *,
    file: str,
    dtype: torch.dtype,
) -> AnyModel:
    """The network of this config with weights from a file, ready to run."""
    model = empty(config)
    weights = {
        name: as_float(read_place(places[name], tensors, wanted.shape, file), dtype).contiguous()
        for name, wanted in model.state_dict().items()
    }
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(True).eval()
