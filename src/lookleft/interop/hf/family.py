"""A Hugging Face model type: how its config and its tensor names translate to ours and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lookleft.config import (
    MAX_WIDTH,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
)
from lookleft.errors import ConfigError
from lookleft.interop.places import Names
from lookleft.text.vocab import Specials

Json = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """One `model_type`. An option we do not have is refused by name, never ignored."""

    model_type: str
    architecture: str  # the class that transformers loads it with
    config: type[DecoderOnlyConfig] | type[EncoderDecoderConfig] | type[EncoderOnlyConfig]
    read: Callable[[Json, frozenset[str]], Json]  # config.json, tensor names -> our config's values
    write: Callable[[Any, Specials], Json]  # our config -> config.json
    names: Callable[[Any], Names]  # our modules -> their modules
    headless: str = ""  # the class for networks without their head, where there is one
    prefix: str = ""  # what files of the headless model leave out: "bert."
    zero_if_missing: tuple[str, ...] = ()  # (1, V), not in files of the headless model
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # equal tensors, tied


# Their names of activations, and ours. The first of several is the one we write.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu2",
}


def read_activation(theirs: Any) -> str:
    """Our name of an activation."""
    if not isinstance(theirs, str) or theirs not in ACTIVATIONS:
        raise ConfigError(f"activation {theirs!r} is not known; known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[theirs]


def write_activation(ours: str) -> str:
    """Their name of an activation."""
    return next(theirs for theirs, mine in ACTIVATIONS.items() if mine == ours)


def read_width(config: Json, key: str) -> int:
    """A width out of which a scale is computed, so that it must be one before all else."""
    width = config[key]
    if type(width) is not int or not 1 <= width <= MAX_WIDTH:
        raise ConfigError(f"{key}={width!r:.40} is no width from 1 to {MAX_WIDTH:,}")
    return width


def require(config: Json, wanted: Mapping[str, Any]) -> None:
    """Refuse options that would change the numbers in ways our networks do not have."""
    for key, value in wanted.items():
        if config.get(key, value) != value:
            raise ConfigError(f"{key}={config[key]!r} is not supported, only {value!r}")


def special_ids(specials: Specials) -> Json:
    """The ids that generation needs, under their names."""
    ids = {
        "bos_token_id": specials.bos,
        "eos_token_id": specials.eos,
        "pad_token_id": specials.pad,
    }
    return {key: value for key, value in ids.items() if value is not None}


def first_of(config: Json, *keys: str) -> int:
    """The first of these ids that the config has; 0 if none."""
    return next((config[key] for key in keys if config.get(key) is not None), 0)
