"""The weights of a network as compiled code reads them: panels, vectors, and records of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, ModelConfig
from lookleft.engine.layout import BLOCK, FLOAT32, QUAD8, WIDTH
from lookleft.engine.lines import LINE, empty_lines
from lookleft.engine.panels import Panels, fill_up, has_quads, pack
from lookleft.engine.records import ACTIVATIONS, JOB, LAYER, MATRIX
from lookleft.engine.tiles import tiles_code
from lookleft.errors import InputError
from lookleft.models import DecoderOnly, EncoderDecoder
from lookleft.quantised import Floats, Kind, Quantised, quantise

Record = np.ndarray[Any, np.dtype[np.void]]
Matrix = Floats | Quantised

# Our fields of a layer -> the modules of `nn.block.Block`
_MATRICES = {
    "to_q": "self_attention.to_q",
    "to_k": "self_attention.to_k",
    "to_v": "self_attention.to_v",
    "to_out": "self_attention.to_out",
    "cross_q": "cross_attention.to_q",
    "cross_k": "cross_attention.to_k",
    "cross_v": "cross_attention.to_v",
    "cross_out": "cross_attention.to_out",
    "to_hidden": "feed_forward.to_hidden",
    "to_gate": "feed_forward.to_gate",
    "from_hidden": "feed_forward.to_out",
}
_VECTORS = {
    "self_norm": "self_norm",
    "norm_q": "self_attention.norm_q",
    "norm_k": "self_attention.norm_k",
    "cross_norm": "cross_norm",
    "feed_norm": "feed_norm",
}


@dataclass(frozen=True, eq=False)
class Weights:
    """All weights in place, and a job for each stack with everything but the work filled in."""

    decoder: Record
    encoder: Record | None
    n_bytes: int
    kept: tuple[NDArray[np.generic], ...]  # what the addresses point to


class _Arena:
    """Collects panels and vectors; `close` gives them their places."""

    def __init__(self, *, is_narrow: bool) -> None:
        self.is_narrow = is_narrow  # quantised matrices meet activations of 8 bits
        self.panels: list[Panels] = []
        self.biases: list[int] = []
        self.numbers: list[Floats] = []
        self.n_numbers = 0
        self.known: dict[str, int] = {}  # a tied matrix is there once

    def matrix(self, name: str, matrix: Matrix, bias: Floats | None = None) -> int:
        """The index of a matrix, which may have been added before."""
        if name not in self.known:
            self.known[name] = len(self.panels)
            is_narrow = self.is_narrow and isinstance(matrix, Quantised)
            if is_narrow and not has_quads(matrix):
                raise InputError(
                    f"{name}: activations of 8 bits need weights of 8 bits in groups of 32, and "
                    "these are others; leave out activations=8"
                )
            self.panels.append(pack(matrix, is_narrow=is_narrow))
            self.biases.append(-1 if bias is None else self.vector(bias, WIDTH))
        return self.known[name]

    def vector(self, numbers: Floats, unit: int = 1) -> int:
        """The place of a vector, filled up with zeros to a multiple of the unit."""
        place = self.n_numbers
        filled = np.zeros(fill_up(len(numbers), unit), np.float32)
        filled[: len(numbers)] = numbers
        self.numbers.append(filled)
        self.n_numbers += len(filled)
        return place

    def close(self) -> tuple[Record, tuple[NDArray[np.generic], ...]]:
        """A record for every matrix, and the arrays that they point into."""
        longest = max(WIDTH * p.n_tiles for p in self.panels)
        nothing = self.vector(np.zeros(longest, np.float32))
        scales = [
            nothing if p.row_scales is None else self.vector(p.row_scales) for p in self.panels
        ]
        vectors = np.concatenate(self.numbers)
        sizes = [fill_up(p.data.nbytes, LINE) for p in self.panels]
        # One piece of memory: the system can give it large pages.
        arena, start = empty_lines((sum(sizes),), np.uint8), 0
        records = np.zeros(len(self.panels), MATRIX)
        for i, panels in enumerate(self.panels):
            arena[start : start + panels.data.nbytes] = panels.data.reshape(-1)
            bias = nothing if self.biases[i] < 0 else self.biases[i]
            records[i] = (
                arena.ctypes.data + start,
                panels.kind,
                panels.n_tiles,
                panels.data.shape[1],
                panels.n_blocks,
                vectors.ctypes.data + 4 * scales[i],
                vectors.ctypes.data + 4 * bias,
                tiles_code(),
            )
            start += sizes[i]
        return records, (arena, vectors, records)


def place_weights(
    network: DecoderOnly | EncoderDecoder,
    stored: Mapping[str, Quantised],
    kind: Kind | None,
    *,
    is_narrow: bool = False,
) -> Weights:
    """The weights of a network in panels.

    stored: matrices that a file holds in few bits, used as they are. kind: what to make of all
    others; None keeps float32. is_narrow: activations have 8 bits.
    """
    arena, state = _Arena(is_narrow=is_narrow), network.state_dict()

    def matrix(name: str) -> Matrix:
        if name in stored:
            return stored[name]
        numbers = as_floats(state[name])
        few = None if kind is None else quantise(numbers, kind)
        return numbers if few is None else few

    def add(module: str) -> int:
        if f"{module}.weight" not in state:
            return -1
        bias = state.get(f"{module}.bias")
        name = f"{module}.weight"
        return arena.matrix(name, matrix(name), None if bias is None else as_floats(bias))

    def vector(module: str) -> int:
        """A norm: its weights, and its biases behind them."""
        if f"{module}.weight" not in state:
            return -1
        parts = [
            state[f"{module}.{part}"] for part in ("weight", "bias") if f"{module}.{part}" in state
        ]
        return arena.vector(as_floats(torch.cat(parts)))

    config = network.config
    decoder, layers = _stack(config, "decoder", _n_layers(config), add, vector)
    decoder["embedding"] = arena.matrix("embedding", matrix("embedding.tokens.weight"))
    decoder["head"] = decoder["embedding"]
    bias = state.get("head.bias")
    if bias is not None or not config.tie_embeddings:
        name = "embedding.tokens.weight" if config.tie_embeddings else "head.own_weight"
        bias = None if bias is None else as_floats(bias)
        decoder["head"] = arena.matrix("head", matrix(name), bias)
    kept: tuple[NDArray[np.generic], ...] = (layers,)
    encoder = None
    if isinstance(config, EncoderDecoderConfig):
        encoder, layers = _stack(config, "encoder", config.n_encoder_layers, add, vector)
        encoder["embedding"] = decoder["embedding"]
        if config.source_vocab_size:
            source = matrix("source_embedding.tokens.weight")
            encoder["embedding"] = arena.matrix("source_embedding", source)
        encoder["head"], encoder["is_causal"] = -1, 0
        encoder["has_cross"] = 0
        kept += (layers,)
    if is_narrow and not any(panels.kind == QUAD8 for panels in arena.panels):
        raise InputError(
            "activations=8: this model has no weights of 8 bits to meet them; make them with "
            "lookleft quantize MODEL --to int8"
        )
    records, arrays = arena.close()
    for job in (decoder, encoder):
        if job is not None:
            job["matrices"], job["vectors"] = records.ctypes.data, arrays[1].ctypes.data
            job["is_quantised"] = bool((records["kind"] != FLOAT32).any())
            job["is_narrow"], job["kept_bytes"] = is_narrow, 2 if is_narrow else 4
    return Weights(decoder, encoder, sum(array.nbytes for array in arrays), kept + arrays)


def _n_layers(config: ModelConfig) -> int:
    if isinstance(config, EncoderDecoderConfig):
        return config.n_decoder_layers
    assert isinstance(config, DecoderOnlyConfig)
    return config.n_layers


def _stack(
    config: ModelConfig,
    stack: str,
    n_layers: int,
    add: Callable[[str], int],
    vector: Callable[[str], int],
) -> tuple[Record, Record]:
    """The job of a stack, and the records of its layers."""
    layers = np.zeros(n_layers, LAYER)
    for i in range(n_layers):
        for field, module in _MATRICES.items():
            layers[field][i] = add(f"{stack}.layers.{i}.{module}")
        for field, module in _VECTORS.items():
            layers[field][i] = vector(f"{stack}.layers.{i}.{module}")
    job = np.zeros(1, JOB)
    width = max(config.d_model, config.n_heads * config.head_dim)
    values = {
        "layers": layers.ctypes.data,
        "n_layers": n_layers,
        "d_model": config.d_model,
        "n_heads": config.n_heads,
        "n_kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "d_ff": config.d_ff,
        "vocab_size": config.vocab_size,
        "is_rms": config.norm == "rms",
        "is_pre": config.norm_order == "pre",
        "activation": ACTIVATIONS.index(config.activation),
        "has_cross": isinstance(config, EncoderDecoderConfig),
        "embed_norm": vector(f"{stack}.embed_norm"),
        "final_norm": vector(f"{stack}.norm"),
        "is_causal": getattr(config, "mask", "causal") == "causal",
        "is_kept": 1,
        "window": getattr(config, "window", None) or 0,
        # One line of cache more than needed: rows a power of 2 apart would all want the same
        # places of the cache.
        "width": fill_up(width, BLOCK) + WIDTH,
        "hidden_width": fill_up(max(config.d_ff, width), BLOCK) + WIDTH,
        "logit_width": fill_up(config.vocab_size, WIDTH),
        "norm_eps": config.norm_eps,
        "attention_scale": config.attention_scale or config.head_dim**-0.5,
        "embed_scale": config.embed_scale,
        "logit_scale": config.logit_scale,
        "n_steps": 1,
    }
    for name, value in values.items():
        job[name] = value
    return job, layers


def as_floats(tensor: Tensor) -> Floats:
    """A tensor as a float32 array."""
    numbers: Floats = tensor.detach().float().cpu().contiguous().numpy()
    return numbers
