"""GGUF models: what was written comes back, transformers agrees, broken ones are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from interop.gguf_reference import load_with_transformers
from interop.gguf_samples import PIECES, Change, Metadata, Tensors, pair_neighbours, save_tiny

from lookleft.config import RopeScaling, Rotary
from lookleft.data.batch import Batch, pad_rows
from lookleft.errors import ConfigError, FileError, LookleftError, MissingExtraError
from lookleft.interop import gguf as interop
from lookleft.interop.gguf import config_of, load_gguf
from lookleft.interop.gguf_file import read_gguf
from lookleft.models import DecoderOnly


@torch.no_grad()
def logits_of(model: DecoderOnly) -> torch.Tensor:
    return model.score(Batch(pad_rows([[1, 5, 200, 17, 258, 3, 99, 42]])))


# --- what was written comes back ---


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize(
    "type_name", ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"]
)
def test_weights_come_back_as_they_were_stored(tmp_path: Path, kind: str, type_name: str) -> None:
    path, model = save_tiny(tmp_path, kind, type_name)
    loaded, _ = load_gguf(path)
    assert loaded.config == model.config.model_copy(
        update={"norm_eps": float(np.float32(model.config.norm_eps))}
    )
    stored_type = gguf.GGMLQuantizationType[type_name]
    for name, weight in model.state_dict().items():
        numbers = weight.numpy()
        if weight.ndim > 1:
            numbers = gguf.quants.dequantize(
                gguf.quants.quantize(numbers, stored_type), stored_type
            )
        assert np.array_equal(loaded.state_dict()[name].numpy(), numbers), name


@pytest.mark.parametrize("type_name", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_are_read_in_the_right_row_order(tmp_path: Path, type_name: str) -> None:
    block_type = gguf.GGMLQuantizationType[type_name]
    n_bytes = gguf.GGML_QUANT_SIZES[block_type][1]
    generator = np.random.default_rng(0)
    blocks = generator.integers(0, 64, (256, n_bytes), dtype=np.uint8)  # 16-bit scales below 2

    def store_blocks(metadata: Metadata, tensors: Tensors) -> None:
        tensors["blk.0.attn_q.weight"] = (pair_neighbours(blocks, 4), type_name)
        tensors["blk.0.attn_v.weight"] = (blocks[:128], type_name)

    path, _ = save_tiny(
        tmp_path, change=store_blocks, d_model=256, head_width=64, d_ff=32, n_layers=1
    )
    attention = load_gguf(path)[0].decoder.layers[0].self_attention
    expected = gguf.quants.dequantize(blocks, block_type)
    assert np.array_equal(attention.to_q.weight.detach().numpy(), expected)
    assert np.array_equal(attention.to_v.weight.detach().numpy(), expected[:128])


def test_an_untied_head_and_biases_are_found(tmp_path: Path) -> None:
    path, model = save_tiny(tmp_path, tie_embeddings=False, qkv_bias=True, out_bias=True)
    torch.testing.assert_close(logits_of(load_gguf(path)[0]), logits_of(model), rtol=0, atol=0)


def test_a_loaded_model_can_be_trained(tmp_path: Path) -> None:
    model, _ = load_gguf(save_tiny(tmp_path)[0])
    model.score(Batch(pad_rows([[1, 2, 3]]))).sum().backward()
    assert all(p.grad is not None and p.device.type == "cpu" for p in model.parameters())


def test_blocks_are_given_as_stored(tmp_path: Path) -> None:
    path, model = save_tiny(tmp_path, type_name="Q4_1")
    file = read_gguf(path)
    numbers = model.state_dict()["decoder.layers.1.feed_forward.to_out.weight"].numpy()
    stored = gguf.quants.quantize(numbers, gguf.GGMLQuantizationType.Q4_1)
    assert file.tensors["blk.1.ffn_down.weight"].type.name == "Q4_1"
    assert file.tensors["blk.1.ffn_down.weight"].shape == (64, 96)
    assert np.array_equal(file.blocks("blk.1.ffn_down.weight"), stored)


def test_reading_needs_no_extra_package_and_loading_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = save_tiny(tmp_path)
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert config_of(read_gguf(path)).d_model == model.config.d_model
    with pytest.raises(MissingExtraError, match=r"lookleft\[gguf\]"):
        load_gguf(path)


# --- transformers agrees ---


@pytest.mark.filterwarnings("ignore")  # what transformers says while it loads is not ours
@pytest.mark.parametrize(
    ("kind", "type_name"),
    [("llama", "F32"), ("llama", "Q4_1"), ("llama", "Q8_0"), ("qwen2", "F16"), ("qwen3", "F32")],
)
def test_logits_equal_those_of_transformers(tmp_path: Path, kind: str, type_name: str) -> None:
    def keys_transformers_needs(metadata: Metadata, tensors: Tensors) -> None:
        metadata[f"{kind}.rope.dimension_count"] = metadata[f"{kind}.attention.key_length"]

    # Its qwen3 reads no width of heads and takes 128.
    changes = {"head_width": 128} if kind == "qwen3" else {}
    path, _ = save_tiny(tmp_path, kind, type_name, keys_transformers_needs, **changes)
    ours, _ = load_gguf(path)
    theirs = load_with_transformers(path)
    ids = torch.tensor([[1, 5, 200, 17, 258, 3, 99, 42]])
    with torch.no_grad():
        expected = theirs(ids).logits
    torch.testing.assert_close(logits_of(ours), expected, rtol=1e-5, atol=1e-4)


def test_rows_in_the_wrong_order_change_the_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = save_tiny(tmp_path)
    monkeypatch.setitem(interop.ARCHITECTURES, "llama", False)
    assert not torch.allclose(logits_of(load_gguf(path)[0]), logits_of(model), atol=1e-2)


# --- metadata ---


def test_the_tokenizer_comes_along(tmp_path: Path) -> None:
    _, tokenizer = load_gguf(save_tiny(tmp_path)[0])
    assert tokenizer.encode("ab ab", template=True) == [1, 263, 263]
    assert tokenizer.decode(tokenizer.encode("ab é")) == "ab é"
    assert (tokenizer.specials.bos, tokenizer.specials.eos, tokenizer.specials.unk) == (1, 2, 0)


def test_a_byte_level_tokenizer_comes_along(tmp_path: Path) -> None:
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256))]
    letters += [chr(256 + i) for i in range(68)]  # how GPT-2 spells the bytes without a letter
    pieces = [*letters, "th", "the", "<|end|>", *[f"<|{i}|>" for i in range(5)]]

    def byte_level(metadata: Metadata, tensors: Tensors) -> None:
        metadata |= {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.token_type": [*[1] * 258, *[3] * 6],
            "tokenizer.ggml.merges": ["t h", "th e"],
            "tokenizer.ggml.eos_token_id": 258,
        }

    _, tokenizer = load_gguf(save_tiny(tmp_path, change=byte_level)[0])
    assert tokenizer.encode("the", eos=True) == [257, 258]
    assert tokenizer.decode(tokenizer.encode("the é")) == "the é"
    assert tokenizer.specials.bos is None


def llama3_factors(factor: float, head_dim: int) -> np.ndarray:
    """Llama 3's rule by wavelengths, as its authors state it."""
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * np.pi * 5_000.0 ** (i / head_dim)
        if wavelength < 8192 / 4:
            factors.append(1.0)
        elif wavelength > 8192:
            factors.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


def test_the_scaling_of_llama_3_is_recovered_from_its_factors(tmp_path: Path) -> None:
    def add_factors(metadata: Metadata, tensors: Tensors) -> None:
        tensors["rope_freqs.weight"] = (llama3_factors(32.0, 16), "F32")

    model, _ = load_gguf(save_tiny(tmp_path, change=add_factors)[0])
    assert model.config.positions == Rotary(
        theta=5_000.0, scaling=RopeScaling(kind="llama3", factor=32.0)
    )


def test_factors_of_another_rule_are_refused(tmp_path: Path) -> None:
    def add_factors(metadata: Metadata, tensors: Tensors) -> None:
        tensors["rope_freqs.weight"] = (np.linspace(1, 32, 8, dtype=np.float32), "F32")

    with pytest.raises(ConfigError, match=r"rope_freqs\.weight goes up to 32\.0"):
        load_gguf(save_tiny(tmp_path, change=add_factors)[0])


def test_linear_scaling_and_a_window_are_read(tmp_path: Path) -> None:
    def add_keys(metadata: Metadata, tensors: Tensors) -> None:
        metadata["llama.rope.scaling.type"] = "linear"
        metadata["llama.rope.scaling.factor"] = 4.0
        metadata["llama.attention.sliding_window"] = 12

    config = config_of(read_gguf(save_tiny(tmp_path, change=add_keys)[0]))
    assert config.positions == Rotary(theta=5_000.0, scaling=RopeScaling(kind="linear", factor=4.0))
    assert config.window == 12


# --- models that are not as they should be ---


def set_key(key: str, value: Any) -> Change:
    return lambda metadata, tensors: metadata.__setitem__(key, value)


def drop_key(key: str) -> Change:
    return lambda metadata, tensors: metadata.pop(key)


def set_tensor(name: str, shape: tuple[int, ...], value: float = 0.0) -> Change:
    numbers = np.full(shape, value, dtype=np.float32)
    return lambda metadata, tensors: tensors.__setitem__(name, (numbers, "F32"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_key("general.architecture", "mamba"), r"architecture 'mamba', this reads llama, qwen"),
        (set_key("llama.block_count", 5_000), r"llama\.block_count is 5,000, the limit is 1,024"),
        (set_key("llama.block_count", 3), r"has no tensor 'blk\.2\.attn_q\.weight'"),
        (set_key("llama.block_count", 1), r"8|9 tensors have no place .*'blk\.1\.attn_k"),
        (set_key("llama.block_count", "two"), r"llama\.block_count is 'two', not a whole number"),
        (set_key("llama.embedding_length", 70_000), r"is 70,000, the limit is 65,536"),
        (set_key("llama.embedding_length", 32), r"'token_embd\.weight' has shape \(264, 64\), its"),
        (set_key("llama.attention.head_count", 0), r"llama\.attention\.head_count is 0"),
        (set_key("llama.attention.head_count", [4, 4]), r"is an array, not a whole number"),
        (set_key("llama.attention.head_count_kv", 3), r"n_heads=4 is no multiple of n_kv_heads=3"),
        (set_key("llama.attention.key_length", 15), r"head width 15 is odd"),
        (set_key("llama.attention.layer_norm_rms_epsilon", float("nan")), r"epsilon is nan, not a"),
        (set_key("llama.attention.causal", False), r"causal is false: it sees the future"),
        (set_key("llama.expert_count", 8), r"llama\.expert_count is 8, this reads only 0"),
        (set_key("llama.rope.dimension_count", 8), r"dimension_count is 8, this reads only 16"),
        (set_key("llama.rope.freq_base", float("inf")), r"freq_base is inf, not a finite number"),
        (set_key("llama.rope.scaling.type", "yarn"), r"type is 'yarn', this reads none, linear"),
        (set_key("split.count", 3), r"split\.count is 3, this reads only 0"),
        (set_key("tokenizer.ggml.tokens", PIECES[:-1]), r"shape \(264, 64\), its .* \(263, 64\)"),
        (set_key("tokenizer.ggml.bos_token_id", 264), r"bos token is 264, of 264"),
        (set_key("tokenizer.ggml.model", "t5"), r"unknown vocabulary 't5'"),
        (drop_key("llama.feed_forward_length"), r"has no llama\.feed_forward_length"),
        (drop_key("tokenizer.ggml.tokens"), r"has no tokenizer\.ggml\.tokens"),
        (drop_key("tokenizer.ggml.scores"), r"needs scores"),
        (
            set_tensor("blk.1.attn_v.weight", (32, 32)),
            r"'blk\.1\.attn_v\.weight' has shape \(32, 32",
        ),
        (set_tensor("blk.0.ffn_gate_inp.weight", (8, 64)), r"no place .*'blk\.0\.ffn_gate_inp\.w"),
        (set_tensor("output_norm.weight", (64,), float("nan")), r"'output_norm\.weight' .* finite"),
        (set_tensor("output_norm.weight", (64,), float("inf")), r"'output_norm\.weight' .* finite"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_by_name(
    tmp_path: Path, change: Change, message: str
) -> None:
    path, _ = save_tiny(tmp_path, change=change)
    with pytest.raises(LookleftError, match=message) as caught:
        load_gguf(path)
    assert isinstance(caught.value, FileError | ConfigError)
    assert str(path) in str(caught.value)
