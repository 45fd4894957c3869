"""What can be read off a Hugging Face model without importing its library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from torch import Tensor, nn

_BACKENDS = ("eager", "sdpa", "flex_attention")
_SPECIAL = ("pad_token_id", "eos_token_id", "bos_token_id", "decoder_start_token_id")
_MEDIA = ("image_token_id", "video_token_id", "audio_token_id", "image_token_index")


def is_huggingface(target: Any) -> bool:
    """True for a model with a config and the usual way to choose an attention backend."""
    config = getattr(target, "config", None)
    return (
        isinstance(target, nn.Module)
        and hasattr(config, "to_dict")
        and hasattr(config, "_attn_implementation")
    )


def is_from_library(target: Any) -> bool:
    """True for a model class of the transformers library, or a child of one."""
    return any(kind.__module__.startswith("transformers.models.") for kind in type(target).__mro__)


def text_config(config: Any) -> Any:
    """The part of a config that describes the language model."""
    getter = getattr(config, "get_text_config", None)
    return getter() if callable(getter) else config


def vocabulary(config: Any) -> int | None:
    size = getattr(text_config(config), "vocab_size", None)
    return int(size) if isinstance(size, int) else None


def special_ids(config: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids to avoid in random inputs, and those of them worth planting in a suffix."""
    plain = _ids_of(text_config(config), _SPECIAL) | _ids_of(config, _SPECIAL)
    media = _ids_of(config, _MEDIA)
    return tuple(sorted(plain | media)), tuple(sorted(plain))


def _ids_of(config: Any, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for name in names:
        value = getattr(config, name, None)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int) and not isinstance(one, bool) and one >= 0:
                found.add(one)
    return found


def constants(config: Any) -> set[int]:
    """Integers in a config at whose multiples a boundary may lie (windows, chunks, kernels)."""
    values = text_config(config).to_dict().values() if config is not None else ()
    return {v for v in values if isinstance(v, int) and not isinstance(v, bool) and 2 <= v <= 4096}


def declared_window(config: Any) -> int | None:
    """The attention window of a model with a single, windowed layer; else None."""
    if config is None:
        return None
    text = text_config(config)
    window = getattr(text, "sliding_window", None)
    kinds = getattr(text, "layer_types", None)
    is_windowed = kinds is None or all(kind == "sliding_attention" for kind in kinds)
    is_off = getattr(text, "use_sliding_window", True) is False
    if getattr(text, "num_hidden_layers", None) != 1 or not is_windowed or is_off:
        return None
    return window if isinstance(window, int) and window > 0 else None


def backends(module: nn.Module) -> tuple[str, ...]:
    """Attention backends this model can run with here, the current one first."""
    current = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if current is None:
        return ()
    usable = [current] if current in _BACKENDS else []
    for name, flag in (("eager", True), ("sdpa", getattr(module, "_supports_sdpa", True))):
        if flag and name not in usable:
            usable.append(name)
    return tuple(usable)


def set_backend(module: nn.Module, backend: str) -> None:
    """Switch a (copied) model to another attention backend."""
    setter = getattr(module, "set_attn_implementation", None)
    if callable(setter):
        setter(backend)
        return
    for part in module.modules():
        config: Any = getattr(part, "config", None)
        if hasattr(config, "_attn_implementation"):
            config._attn_implementation = backend


def plain_experts(module: nn.Module) -> None:
    """Let a (copied) mixture of experts loop: its grouped product refuses float64."""
    setter = getattr(module, "set_experts_implementation", None)
    if callable(setter):
        with suppress(Exception):  # a model without experts may refuse
            setter("eager")


_ENDS = ("bos_token_id", "eos_token_id", "decoder_start_token_id")


@contextmanager
def plain_greedy(model: Any) -> Iterator[None]:
    """Inside, `generate` obeys no rule of the model's own generation settings.

    A forced last token, a penalty on repetition or a least length change what greedy search takes,
    and are meant to.
    """
    kept = model.generation_config
    model.generation_config = type(kept)(**{name: getattr(kept, name, None) for name in _ENDS})
    try:
        yield
    finally:
        model.generation_config = kept


def crop_cache(cache: Any, length: int) -> Any:
    """The cache rolled back to its first `length` positions, or None when it cannot be."""
    crop = getattr(cache, "crop", None)
    if not callable(crop) or getattr(cache, "is_croppable", True) is False:
        return None
    crop(length)
    return cache


def reorder_cache(model: Any, cache: Any, order: Tensor) -> Any:
    """The cache with its rows reordered as beam search would, or None."""
    for owner in (cache, model):
        for name in ("reorder_cache", "_reorder_cache", "reorder"):
            method = getattr(owner, name, None)
            if not callable(method):
                continue
            moved = method(order) if owner is cache else method(cache, order)
            return cache if moved is None else moved
    return None
