"""Where a parameter of ours lies among the tensors of a foreign file.

A family gives a table of module names with `{i}` for the layer. Everything else is mechanical:
each of our parameters has a `Place` in the foreign file, reading goes there, writing collects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig
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


# How torch fills weights at the start: `torch.nn.init` and the methods below it.
_DRAWS = {"kaiming_uniform_", "normal_", "uniform_", "zero_", "fill_"}


class _NothingDrawn(TorchFunctionMode):
    """Leaves out the start values of weights that are about to be replaced."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") in _DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def unfilled() -> Iterator[None]:
    """Networks made inside have shapes but neither memory nor start values.

    Drawing would mean nothing without memory, and costs seconds: it loads torch's compiler.
    """
    with torch.device("meta"), _NothingDrawn():
        yield


def empty(config: AnyConfig) -> AnyModel:
    """The network without memory for its weights, to be filled."""
    with unfilled():
        return build(config)


def shapes_of(config: AnyConfig) -> dict[str, torch.Size]:
    """The shape of every parameter, by name.

    Layers are alike: one of each stack is built, for a broken file may ask for a thousand.
    """
    one_each: AnyConfig
    if isinstance(config, EncoderDecoderConfig):
        n_layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
        one_each = config.model_copy(update={"n_encoder_layers": 1, "n_decoder_layers": 1})
    else:
        stack = "decoder" if isinstance(config, DecoderOnlyConfig) else "encoder"
        n_layers = {stack: config.n_layers}
        one_each = config.model_copy(update={"n_layers": 1})
    shapes = {}
    for name, tensor in empty(one_each).state_dict().items():
        stack, is_in_layer, rest = name.partition(".layers.0.")
        if not is_in_layer:
            shapes[name] = tensor.shape
            continue
        for i in range(n_layers[stack]):
            shapes[f"{stack}.layers.{i}.{rest}"] = tensor.shape
    return shapes


def assemble(
    config: AnyConfig,
    places: Mapping[str, Place],
    tensors: Mapping[str, Tensor],
    *,
    file: str,
    dtype: torch.dtype,
) -> AnyModel:
    """The network of this config with weights from a file, ready to run."""
    weights = {
        name: as_float(read_place(places[name], tensors, shape, file), dtype).contiguous()
        for name, shape in shapes_of(config).items()
    }
    _refuse_more_layers(places, tensors, file)
    model = empty(config)
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(True).eval()


def _refuse_more_layers(
    places: Mapping[str, Place], tensors: Mapping[str, Tensor], file: str
) -> None:
    """A file with more layers than its config says would run, and compute something else."""

    def without_number(name: str) -> str:
        return re.sub(r"\.\d+(?=\.)", ".#", name)

    used = {place.name for place in places.values()}
    layers = {without_number(name) for name in used}
    for name in sorted(tensors.keys() - used):
        if without_number(name) in layers:
            raise FileError(f"{file}: has tensor {name!r}, of a layer that its config lacks")
