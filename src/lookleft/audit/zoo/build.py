"""Tiny random models of the causal and sequence-to-sequence classes of transformers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from lookleft.audit.zoo.rules import small_value
from lookleft.audit.zoo.special import NEEDS_MORE, SPECIAL, Special
from lookleft.errors import InputError, MissingExtraError

_MIN_LAYERS = 2
_BY_INDEX = ("moe_layers", "full_attn_idxs")  # lists of layer numbers, not one entry per layer


def class_names() -> tuple[str, ...]:
    """Every class that transformers registers as causal or sequence-to-sequence, sorted."""
    auto = _transformers().models.auto.modeling_auto
    names = {
        *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values(),
        *auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values(),
    }
    return tuple(sorted(names))


def build_tiny(class_name: str, *, seed: int = 0) -> nn.Module:
    """A small model of the named class in eval mode, with random weights that leave none idle."""
    model_class = getattr(_transformers(), class_name, None)
    if model_class is None:
        raise InputError(f"transformers has no class {class_name!r}")
    if class_name in NEEDS_MORE:
        raise InputError(f"{class_name} cannot be built: {NEEDS_MORE[class_name]}")
    config = tiny_config(model_class.config_class)
    if hasattr(config, "is_decoder") and not config.is_encoder_decoder:
        config.is_decoder = True  # BERT and its kin are bidirectional without it
    torch.manual_seed(seed)
    model: nn.Module = model_class(config)
    redraw(model, seed=seed)
    return model.eval()


def tiny_config(config_class: Any) -> Any:
    """The defaults of a configuration class with every size cut down and one layer of each kind."""
    special = SPECIAL.get(config_class.__name__, Special("no exception"))
    full = config_class(**special.plan)
    parts = {name: getattr(full, name, None) for name in full.sub_configs}
    fields = {field.name for field in dataclasses.fields(config_class)} - set(parts)
    # Read past the class's own lookup, which refuses fields that differ from layer to layer.
    held = {name: full.attribute_map.get(name, name) for name in fields}
    old = {name: vars(full)[key] for name, key in held.items() if key in vars(full)}
    new = {name: small_value(name, value) for name, value in old.items()}

    new |= _one_layer_of_each_kind(new, getattr(full, "num_hidden_layers", None))
    if "kv_lora_rank" in new and "num_key_value_heads" in new:
        # Latent attention unpacks keys and values for every head.
        new["num_key_value_heads"] = new["num_attention_heads"]
    # What no rule touched is left to the class, which derives some fields from others.
    values = {name: value for name, value in new.items() if value != old.get(name)}
    values |= {name: tiny_config(type(part)) for name, part in parts.items() if part is not None}
    return config_class(**{**values, **special.plan, **special.values})


def _one_layer_of_each_kind(small: Mapping[str, Any], depth: int | None) -> dict[str, Any]:
    """Lists with one entry per layer, cut to the first layer of every kind, and their length."""
    columns = {
        name: list(value)
        for name, value in small.items()
        if isinstance(value, list) and len(value) == depth and name not in _BY_INDEX
    }
    if depth is None or not columns:
        return {}
    kinds = columns.get("layer_types", [])
    if set(kinds) == {"full_attention"} and "sliding_window" in small:
        columns["layer_types"][0] = "sliding_attention"
    rows = list(zip(*columns.values(), strict=True))
    picked = sorted({row: i for i, row in reversed(list(enumerate(rows)))}.values())
    if len(picked) < _MIN_LAYERS:
        picked = [0, depth - 1]
    return {name: [column[i] for i in picked] for name, column in columns.items()} | {
        "num_hidden_layers": len(picked)
    }


def redraw(model: nn.Module, *, seed: int, spread: float = 0.3) -> None:
    """Give every float parameter a random value: no zeros, no ties, matrices wide enough to matter.

    Embeddings are drawn wider still, or norms after each sub-layer drown the tokens. Vectors
    (gains, biases, decay rates) keep their initial value and are only shaken: around zero a
    gain would switch its layer off, and a decay far from its range would overflow.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_table = not weight.requires_grad and "position" in name  # sinusoids, not learned
            if weight.is_floating_point() and not is_table:
                noise = torch.randn(weight.shape, generator=generator).to(weight.dtype)
                if id(weight) in embeddings:
                    weight.copy_(noise)
                elif weight.ndim >= 2 and not name.endswith("A_log"):
                    weight.copy_(noise * spread)
                else:
                    weight.add_(noise * 0.1)
        for name, buffer in model.named_buffers():
            if name.endswith(("_bias", "_biases")):  # of routers; other buffers stay as computed
                buffer.add_(0.1 * torch.randn(buffer.shape, generator=generator))


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("auditing the zoo", "hf", "transformers") from error
    return transformers
