"""Tiny GGUF models, written by the format's own writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from lookleft.config import DecoderOnlyConfig, Rotary
from lookleft.models import DecoderOnly

BYTES = [f"<0x{i:02X}>" for i in range(256)]
PIECES = ["<unk>", "<s>", "</s>", *BYTES, "\u2581", "a", "b", "ab", "\u2581ab"]
SCORES = [*[0.0] * 262, -1.0, -2.0]
PIECE_TYPES = [2, 3, 3, *[6] * 256, *[1] * 5]

# Their names for our modules, written down here once more: a slip in the library must show.
NAMES = {
    "embedding.tokens": "token_embd",
    "decoder.norm": "output_norm",
    "head.own_weight": "output.weight",
    "decoder.layers": "blk",
    "self_attention.to_q": "attn_q",
    "self_attention.to_k": "attn_k",
    "self_attention.to_v": "attn_v",
    "self_attention.to_out": "attn_output",
    "self_attention.norm_q": "attn_q_norm",
    "self_attention.norm_k": "attn_k_norm",
    "feed_forward.to_gate": "ffn_gate",
    "feed_forward.to_hidden": "ffn_up",
    "feed_forward.to_out": "ffn_down",
    "self_norm": "attn_norm",
    "feed_norm": "ffn_norm",
}

Metadata = dict[str, Any]
Tensors = dict[str, tuple[np.ndarray, str]]  # name -> numbers or raw blocks, and their type
Change = Callable[[Metadata, Tensors], Any]


def tiny_config(kind: str = "llama", **changes: Any) -> DecoderOnlyConfig:
    values: dict[str, Any] = {
        "vocab_size": len(PIECES),
        "d_model": 64,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "head_width": 32 if kind == "qwen3" else 16,
        "d_ff": 96,
        "positions": Rotary(theta=5_000.0),
        "norm": "rms",
        "norm_order": "pre",
        "final_norm": True,
        "activation": "silu",
        "gated": True,
        "qkv_bias": kind == "qwen2",
        "out_bias": False,
        "ff_bias": False,
        "qk_norm": kind == "qwen3",
        "max_len": 128,
    }
    return DecoderOnlyConfig.model_validate(values | changes)


def tiny_model(config: DecoderOnlyConfig) -> DecoderOnly:
    """Every weight drawn, norms and biases too: one left at its start value hides mistakes."""
    model = DecoderOnly(config)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        mean = 1.0 if parameter.ndim == 1 else 0.0
        torch.nn.init.normal_(parameter, mean, 0.3, generator=generator)
    return model


def metadata_of(config: DecoderOnlyConfig, kind: str) -> Metadata:
    return {
        "general.architecture": kind,
        f"{kind}.context_length": config.max_len,
        f"{kind}.embedding_length": config.d_model,
        f"{kind}.block_count": config.n_layers,
        f"{kind}.feed_forward_length": config.d_ff,
        f"{kind}.attention.head_count": config.n_heads,
        f"{kind}.attention.head_count_kv": config.kv_heads,
        f"{kind}.attention.key_length": config.head_dim,
        f"{kind}.attention.layer_norm_rms_epsilon": config.norm_eps,
        f"{kind}.rope.freq_base": 5_000.0,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.scores": SCORES,
        "tokenizer.ggml.token_type": PIECE_TYPES,
    }


def pair_neighbours(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows as Llama files hold them: rotary pair (i, i + K/2) of a head at (2i, 2i + 1)."""
    stored, half = np.empty_like(weight), len(weight) // n_heads // 2
    for head in range(n_heads):
        first = 2 * half * head
        for i in range(half):
            stored[first + 2 * i] = weight[first + i]
            stored[first + 2 * i + 1] = weight[first + i + half]
    return stored


def their_name(name: str) -> str:
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def tensors_of(model: DecoderOnly, kind: str, type_name: str) -> Tensors:
    tensors: Tensors = {}
    heads = {"attn_q": model.config.n_heads, "attn_k": model.config.kv_heads}
    for name, parameter in model.state_dict().items():
        stored, numbers = their_name(name), parameter.numpy()
        part = stored.split(".")[-2]
        if kind == "llama" and part in heads:
            numbers = pair_neighbours(numbers, heads[part])
        tensors[stored] = (numbers, type_name if numbers.ndim > 1 else "F32")
    return tensors


def save(path: Path, metadata: Metadata, tensors: Tensors) -> Path:
    """A GGUF file by the format's own writer."""
    metadata = dict(metadata)
    writer = gguf.GGUFWriter(path, metadata.pop("general.architecture"))
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for key, value in metadata.items():
        add[type(value)](key, value)
    for name, (numbers, type_name) in tensors.items():
        kind = gguf.GGMLQuantizationType[type_name]
        is_raw = numbers.dtype == np.uint8
        writer.add_tensor(
            name, numbers if is_raw else gguf.quants.quantize(numbers, kind), raw_dtype=kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def save_tiny(
    folder: Path,
    kind: str = "llama",
    type_name: str = "F32",
    change: Change | None = None,
    **config_changes: Any,
) -> tuple[Path, DecoderOnly]:
    model = tiny_model(tiny_config(kind, **config_changes))
    metadata, tensors = metadata_of(model.config, kind), tensors_of(model, kind, type_name)
    if change is not None:
        change(metadata, tensors)
    return save(folder / "tiny.gguf", metadata, tensors), model
