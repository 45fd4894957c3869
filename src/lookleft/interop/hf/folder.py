"""A Hugging Face model folder, read into one of our networks or written from one."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from lookleft.config import EncoderOnlyConfig, Sinusoidal
from lookleft.errors import ConfigError, FileError
from lookleft.files import read_json, write_json
from lookleft.interop.hf.bart import BART, M2M100, MARIAN, MBART, sinusoidal_tables
from lookleft.interop.hf.bert import BERT
from lookleft.interop.hf.family import Family, Json
from lookleft.interop.hf.gpt2 import GPT2
from lookleft.interop.hf.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from lookleft.interop.hf.t5 import T5
from lookleft.interop.places import Place, assemble, find_places, shapes_of, write_places
from lookleft.models import AnyConfig, AnyModel
from lookleft.tensors import FILE_NAME, read_folder, write_folder
from lookleft.text.vocab import Specials

FAMILIES = (GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, BERT, MARIAN, BART, MBART, M2M100, T5)

MAX_CONFIG_BYTES = 1_000_000
MAX_CONFIG_DEPTH = 32

# What does not change the function that a trained network computes.
_TRAINING_ONLY = {"dropout", "attention_dropout"}

_OLD_NORM_NAMES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}


def load_hf(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> AnyModel:
    """The network in a folder with config.json and model.safetensors, ready to run."""
    folder = Path(folder)
    theirs = read_config(folder)
    family = _family_named(theirs.get("model_type"), folder)
    tensors = _with_aliases(family, read_folder(folder))
    config = _read(family, theirs, frozenset(tensors), f"{folder / 'config.json'}")
    places = _places(family, config)
    for name in family.zero_if_missing:
        tensors.setdefault(name, torch.zeros(1, config.vocab_size))
    return assemble(config, places, tensors, file=str(folder / FILE_NAME), dtype=dtype)


def save_hf(model: AnyModel, folder: str | Path, specials: Specials | None = None) -> Family:
    """Write config.json and model.safetensors as the family that this network fits."""
    specials = specials or Specials()
    family = family_of(model.config)
    theirs = family.write(model.config, specials)
    config = _read_back(family, model.config, specials)
    state = dict(model.state_dict())
    if config.logit_bias and not model.config.logit_bias:
        state["head.bias"] = torch.zeros(config.vocab_size)
    tensors = write_places(_places(family, config), state)
    if family is MARIAN and isinstance(config.positions, Sinusoidal):
        length = theirs["max_position_embeddings"]
        tensors |= sinusoidal_tables(config.positions, config.d_model, length)
    folder = Path(folder)
    write_folder(folder, tensors)
    dtype = str(state["embedding.tokens.weight"].dtype).removeprefix("torch.")
    is_headless = isinstance(config, EncoderOnlyConfig) and not config.head_transform
    head = {
        "architectures": [family.headless if is_headless else family.architecture],
        "model_type": family.model_type,
        "dtype": dtype,
    }
    write_json(folder / "config.json", head | theirs)
    return family


def family_of(config: AnyConfig, specials: Specials | None = None) -> Family:
    """The family whose networks compute the same as one of this config.

    A config fits if it survives being written and read back: nothing is lost on the way.
    """
    reasons = []
    for family in FAMILIES:
        if not isinstance(config, family.config):
            continue
        try:
            back = _read_back(family, config, specials or Specials())
        except ConfigError as error:
            reasons.append(f"{family.model_type}: {error}")
            continue
        differences = _differences(config, back)
        if not differences:
            return family
        reasons.append(f"{family.model_type}: {', '.join(differences)}")
    raise ConfigError(
        "no Hugging Face model type computes what this network does. " + "; ".join(reasons)
    )


def read_config(folder: Path) -> Json:
    """config.json of a model folder."""
    path = folder / "config.json"
    if not path.exists():
        raise FileError(f"{folder}: has no config.json; is it a model folder?")
    return read_json(path, max_bytes=MAX_CONFIG_BYTES, max_depth=MAX_CONFIG_DEPTH)


def _family_named(model_type: object, folder: Path) -> Family:
    for family in FAMILIES:
        if family.model_type == model_type:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise ConfigError(f"{folder / 'config.json'}: model_type={model_type!r} is not known: {known}")


def _read(family: Family, theirs: Json, tensors: frozenset[str], where: str) -> AnyConfig:
    try:
        values = family.read(theirs, tensors)
    except KeyError as error:
        raise ConfigError(f"{where}: has no {error.args[0]!r}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ConfigError(f"{where}: a value is of the wrong kind: {error}") from None
    return family.config.parse(values, where)


def _read_back(family: Family, config: AnyConfig, specials: Specials) -> AnyConfig:
    """What reading would make of this config after writing it."""
    theirs = family.write(config, specials) | {"model_type": family.model_type}
    tensors = frozenset(place.name for place in _places(family, config).values())
    return _read(family, theirs, tensors, "config.json")


def _places(family: Family, config: AnyConfig) -> dict[str, Place]:
    return find_places(shapes_of(config), family.names(config), family.model_type)


def _differences(ours: AnyConfig, back: AnyConfig) -> list[str]:
    """Fields in which the written model would compute something else."""
    found = [
        f"{key}={mine!r} would become {getattr(back, key)!r}"
        for key, mine in ours
        if key not in _TRAINING_ONLY | {"n_kv_heads", "head_width", "max_len", "logit_bias"}
        and getattr(back, key) != mine
    ]
    if (ours.kv_heads, ours.head_dim) != (back.kv_heads, back.head_dim):
        found.append(f"heads of {ours.kv_heads} x {ours.head_dim}")
    if ours.logit_bias and not back.logit_bias:
        found.append("logit_bias would be lost")
    return found


def _with_aliases(family: Family, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under their full names: headless files lack a prefix, tied ones are stored once.

    Norms that were first trained with TensorFlow call their weight gamma and their bias beta.
    """
    for old, new in _OLD_NORM_NAMES.items():
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    prefix = family.prefix
    if prefix and not any(name.startswith(prefix) for name in tensors):
        tensors = {prefix + name: tensor for name, tensor in tensors.items()}
    for name, others in family.aliases.items():
        stored = next((other for other in others if other in tensors), None)
        if name not in tensors and stored is not None:
            tensors[name] = tensors[stored]
    return tensors
