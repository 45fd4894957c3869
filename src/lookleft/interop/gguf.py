"""Language models of the Llama family from GGUF files, weights and tokenizer.

`read_gguf` gives a file as it is stored; `config_of` says what model it is, `parameters_of`
which tensor belongs where, `load_gguf` puts the numbers there. Whoever computes with the blocks
themselves needs only the first three. Dimensions: H heads, K head width, R rows, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookleft.config import (
    MAX_LAYERS,
    MAX_LENGTH,
    MAX_VOCABULARY,
    MAX_WIDTH,
    DecoderOnlyConfig,
    RopeScaling,
    Rotary,
)
from lookleft.errors import ConfigError, FileError, InputError, MissingExtraError
from lookleft.interop.gguf_file import GGUFFile, StoredTensor, read_gguf
from lookleft.interop.places import find_places, shapes_of, unfilled
from lookleft.models import DecoderOnly
from lookleft.nn.positions import RotaryPositions
from lookleft.quantised import Quantised, from_blocks
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials

# Architecture -> whether its query and key rows lie in the order of neighbouring rotary pairs.
ARCHITECTURES = {"llama": True, "qwen2": False, "qwen3": False}

_ROPE_FACTORS = "rope_freqs.weight"  # by how much each rotary frequency is slowed down
_SPECIALS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding", "mask": "mask"}


_LAYER = "decoder.layers.{i}"
_NAMES = {  # our modules -> theirs
    "embedding.tokens": "token_embd",
    f"{_LAYER}.self_norm": "blk.{i}.attn_norm",
    f"{_LAYER}.self_attention.to_q": "blk.{i}.attn_q",
    f"{_LAYER}.self_attention.to_k": "blk.{i}.attn_k",
    f"{_LAYER}.self_attention.to_v": "blk.{i}.attn_v",
    f"{_LAYER}.self_attention.to_out": "blk.{i}.attn_output",
    f"{_LAYER}.self_attention.norm_q": "blk.{i}.attn_q_norm",
    f"{_LAYER}.self_attention.norm_k": "blk.{i}.attn_k_norm",
    f"{_LAYER}.feed_norm": "blk.{i}.ffn_norm",
    f"{_LAYER}.feed_forward.to_gate": "blk.{i}.ffn_gate",
    f"{_LAYER}.feed_forward.to_hidden": "blk.{i}.ffn_up",
    f"{_LAYER}.feed_forward.to_out": "blk.{i}.ffn_down",
    "decoder.norm": "output_norm",
    "head.own_weight": "output.weight",
}


@dataclass(frozen=True)
class StoredParameter:
    """A parameter of ours as it lies in a file."""

    tensor: StoredTensor
    row_order: NDArray[np.int64] | None = None  # our row i is stored row row_order[i]


def load_gguf(path: str | Path | GGUFFile) -> tuple[DecoderOnly, Tokenizer]:
    """The model in float32, and its tokenizer.

    Nothing is allocated for the weights before the file has been found whole: every tensor that
    the model needs is there, has its shape, and lies inside the file.
    """
    file = path if isinstance(path, GGUFFile) else read_gguf(path)
    config = config_of(file)
    stored = parameters_of(file, config)
    tokenizer = tokenizer_of(file)
    if len(tokenizer) != config.vocab_size:
        raise FileError(
            f"{file.path}: its tokenizer has {len(tokenizer):,} ids, its list of pieces "
            f"{config.vocab_size:,}"
        )
    with unfilled():
        model = DecoderOnly(config)
    weights = {name: _numbers(file, parameter) for name, parameter in stored.items()}
    model.load_state_dict(weights, assign=True)
    return model.eval(), tokenizer


def config_of(file: GGUFFile) -> DecoderOnlyConfig:
    """What model the metadata and the names of the tensors describe."""
    kind = _architecture(file)
    d_model = file.integer(f"{kind}.embedding_length", most=MAX_WIDTH)
    n_heads = file.integer(f"{kind}.attention.head_count", most=MAX_WIDTH)
    if not n_heads:
        raise FileError(f"{file.path}: {kind}.attention.head_count is 0")
    head_dim = file.integer(
        f"{kind}.attention.key_length", most=MAX_WIDTH, default=d_model // n_heads
    )
    _refuse_what_differs(file, kind, head_dim)
    window = file.integer(f"{kind}.attention.sliding_window", most=MAX_LENGTH, default=0)
    n_pieces = len(file.strings("tokenizer.ggml.tokens"))
    if n_pieces > MAX_VOCABULARY:
        raise FileError(f"{file.path}: has {n_pieces:,} pieces, the limit is {MAX_VOCABULARY:,}")
    values = {
        "vocab_size": n_pieces,
        "d_model": d_model,
        "n_layers": file.integer(f"{kind}.block_count", most=MAX_LAYERS),
        "n_heads": n_heads,
        "n_kv_heads": file.integer(
            f"{kind}.attention.head_count_kv", most=MAX_WIDTH, default=n_heads
        ),
        "head_width": head_dim,
        "d_ff": file.integer(f"{kind}.feed_forward_length", most=MAX_WIDTH),
        "max_len": file.integer(f"{kind}.context_length", most=MAX_LENGTH),
        "window": window or None,
        "norm": "rms",
        "norm_eps": file.number(f"{kind}.attention.layer_norm_rms_epsilon"),
        "norm_order": "pre",
        "final_norm": True,
        "activation": "silu",
        "gated": True,
        "qkv_bias": "blk.0.attn_q.bias" in file.tensors,
        "out_bias": "blk.0.attn_output.bias" in file.tensors,
        "ff_bias": "blk.0.ffn_up.bias" in file.tensors,
        "qk_norm": "blk.0.attn_q_norm.weight" in file.tensors,
        "tie_embeddings": "output.weight" not in file.tensors,
        "positions": _positions(file, kind, head_dim),
    }
    return DecoderOnlyConfig.parse(values, where=str(file.path))


def parameters_of(file: GGUFFile, config: DecoderOnlyConfig) -> dict[str, StoredParameter]:
    """Every parameter, by our name; a tensor missing, misshapen or left over is refused."""
    kind = _architecture(file)
    shapes = shapes_of(config)
    places = find_places(shapes, _NAMES, kind)
    heads = {"to_q": config.n_heads, "to_k": config.kv_heads} if ARCHITECTURES[kind] else {}
    found = {}
    for name, place in places.items():
        tensor = file.tensors.get(place.name)
        if tensor is None:
            raise FileError(f"{file.path}: has no tensor {place.name!r}")
        if tensor.shape != shapes[name]:
            raise FileError(
                f"{file.path}: tensor {tensor.name!r} has shape {tensor.shape}, its metadata asks "
                f"for {tuple(shapes[name])}"
            )
        n_heads = heads.get(name.split(".")[-2])
        order = None if n_heads is None else neighbours_to_halves(n_heads, config.head_dim)
        found[name] = StoredParameter(tensor, order)
    unused = file.tensors.keys() - {place.name for place in places.values()} - {_ROPE_FACTORS}
    if unused:
        raise ConfigError(
            f"{file.path}: {len(unused)} tensors have no place in this model, {min(unused)!r} first"
        )
    return found


def quantised_of(path: str | Path | GGUFFile) -> dict[str, Quantised]:
    """The matrices that a file holds in few bits, bit for bit, by our name of the parameter."""
    file = path if isinstance(path, GGUFFile) else read_gguf(path)
    found = {}
    for name, parameter in parameters_of(file, config_of(file)).items():
        matrix = from_blocks(file.blocks(parameter.tensor.name), parameter.tensor.type.name)
        if matrix is not None:
            order = parameter.row_order
            found[name] = matrix if order is None else matrix.rows(order)
    return found


def tokenizer_of(file: GGUFFile) -> Tokenizer:
    """The tokenizer that the metadata holds."""
    model = file.text("tokenizer.ggml.model")
    pieces = file.strings("tokenizer.ggml.tokens")
    usual = {"unk": 0, "bos": 1, "eos": 2} if model == "llama" else {}
    roles = {
        role: file.integer(key, most=MAX_VOCABULARY, default=usual.get(role))
        for role, name in _SPECIALS.items()
        if (key := f"tokenizer.ggml.{name}_token_id") in file.metadata or role in usual
    }

    def optional(name: str, get: Any) -> Any:
        key = f"tokenizer.ggml.{name}"
        return get(key) if key in file.metadata else None

    try:
        return Tokenizer.from_parts(
            model=model,
            pieces=pieces,
            specials=Specials(**roles),
            types=optional("token_type", file.numbers),
            scores=optional("scores", file.numbers),
            merges=optional("merges", file.strings),
            pre=optional("pre", file.text),
            add_space_prefix=file.flag("tokenizer.ggml.add_space_prefix", default=True),
            add_bos=optional("add_bos_token", lambda key: file.flag(key, default=False)),
            add_eos=file.flag("tokenizer.ggml.add_eos_token", default=False),
            where=str(file.path),
        )
    except InputError as error:
        raise FileError(f"{file.path}: {error}") from error


def dequantise(blocks: NDArray[np.uint8], tensor: StoredTensor) -> NDArray[np.float32]:
    """The numbers that blocks stand for. (R, bytes of a row) -> (R, C)."""
    try:
        import gguf
    except ImportError as error:
        raise MissingExtraError("reading GGUF weights", "gguf", "gguf") from error
    kind = gguf.GGMLQuantizationType[tensor.type.name]
    with np.errstate(all="ignore"):  # what is not finite is found by the caller
        numbers: NDArray[np.float32] = gguf.quants.dequantize(blocks, kind)
    return numbers


def _numbers(file: GGUFFile, parameter: StoredParameter) -> Tensor:
    tensor, order = parameter.tensor, parameter.row_order
    blocks = file.blocks(tensor.name)
    if order is not None:
        # The numbers of a bias are one row in the file. They are never quantised, so they move.
        blocks = blocks.reshape(order.size, -1)[order].reshape(blocks.shape)
    numbers = torch.from_numpy(dequantise(blocks, tensor)).view(tensor.shape)
    lowest, highest = numbers.aminmax()  # NaN if there is any, and no copy of the weights
    if not bool((highest - lowest).isfinite()):
        raise FileError(f"{file.path}: tensor {tensor.name!r} holds numbers that are not finite")
    return numbers


def neighbours_to_halves(n_heads: int, head_dim: int) -> NDArray[np.int64]:
    """The order in which to take rows whose rotary pairs are neighbours (2i, 2i + 1).

    Taken so, pair i of each head is (i, i + K/2), as `RotaryPositions` turns them. -> (H*K,).
    """
    rows = np.arange(n_heads * head_dim).reshape(n_heads, head_dim // 2, 2)  # (H, K/2, 2)
    return rows.swapaxes(1, 2).reshape(-1)


def _architecture(file: GGUFFile) -> str:
    kind = file.text("general.architecture")
    if kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ConfigError(f"{file.path}: is of architecture {kind!r:.80}, this reads {known}")
    return kind


def _refuse_what_differs(file: GGUFFile, kind: str, head_dim: int) -> None:
    """Models that carry a known name and yet compute something else."""
    wanted = {
        f"{kind}.attention.value_length": head_dim,
        f"{kind}.rope.dimension_count": head_dim,
        f"{kind}.expert_count": 0,
        "split.count": 0,
    }
    for key, value in wanted.items():
        if (found := file.integer(key, most=1 << 31, default=value)) != value:
            raise ConfigError(f"{file.path}: {key} is {found}, this reads only {value}")
    if not file.flag(f"{kind}.attention.causal", default=True):
        raise ConfigError(f"{file.path}: {kind}.attention.causal is false: it sees the future")


def _positions(file: GGUFFile, kind: str, head_dim: int) -> Rotary:
    theta = file.number(f"{kind}.rope.freq_base", default=10_000.0)
    name = file.text(f"{kind}.rope.scaling.type", default="none")
    if name not in ("none", "linear"):
        raise ConfigError(
            f"{file.path}: {kind}.rope.scaling.type is {name!r:.80}, this reads none, linear"
        )
    scaling = None
    if name == "linear":
        factor = file.number(f"{kind}.rope.scaling.factor")
        if factor < 1:
            raise FileError(f"{file.path}: {kind}.rope.scaling.factor is {factor}, at least 1")
        scaling = RopeScaling(kind="linear", factor=factor)
    if _ROPE_FACTORS in file.tensors:
        if scaling is not None:
            raise ConfigError(f"{file.path}: has both linear scaling and {_ROPE_FACTORS}")
        scaling = _llama3_scaling(file, theta, head_dim)
    return Rotary(theta=theta, scaling=scaling)


def _llama3_scaling(file: GGUFFile, theta: float, head_dim: int) -> RopeScaling | None:
    """The scaling that slows each frequency down by the factors stored in the file.

    They were made by Llama 3's rule; its factor is the largest of them, and its other numbers
    have been the same in every release. Factors of another rule are refused.
    """
    tensor = file.tensors[_ROPE_FACTORS]
    if tensor.shape != (head_dim // 2,) or tensor.type.name != "F32":
        raise FileError(
            f"{file.path}: tensor {_ROPE_FACTORS!r} is {tensor.type.name} {tensor.shape}, "
            f"not F32 {(head_dim // 2,)}"
        )
    stored = torch.from_numpy(file.blocks(_ROPE_FACTORS).view("<f4")[0]).double()  # (K/2,)
    largest = float(stored.max())
    if bool((stored == 1).all()):
        return None
    if 1 < largest < float("inf"):
        scaling = RopeScaling(kind="llama3", factor=largest)
        cpu = torch.device("cpu")
        plain = RotaryPositions(Rotary(theta=theta), head_dim).frequencies(cpu)
        slowed = RotaryPositions(Rotary(theta=theta, scaling=scaling), head_dim).frequencies(cpu)
        if torch.allclose(plain / slowed, stored, rtol=1e-4, atol=0):
            return scaling
    raise ConfigError(
        f"{file.path}: {_ROPE_FACTORS} goes up to {largest} and follows no known rule of scaling"
    )
