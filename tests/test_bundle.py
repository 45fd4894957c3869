"""A model folder: what is saved is loaded, and what is missing is named."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lookleft
from lookleft.bundle import Bundle, Layout
from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, Relative
from lookleft.data.batch import Batch, pad_rows
from lookleft.errors import ConfigError, FileError, LookleftError
from lookleft.interop.hf.folder import MAX_CONFIG_BYTES, MAX_CONFIG_DEPTH
from lookleft.models import AnyConfig, build, presets
from lookleft.tensors import FILE_NAME, INDEX_NAME, read_tensors
from lookleft.text.tokenizer import Tokenizer

CONFIG = DecoderOnlyConfig(vocab_size=300, d_model=16, n_heads=2, n_layers=1, d_ff=16)
BATCH = Batch(pad_rows([[3, 4, 5], [6]]))


def make(tokenizer: Tokenizer | None = None) -> Bundle:
    network = build(CONFIG, torch.Generator().manual_seed(0)).eval()
    return (
        Bundle(network, tokenizer)
        if tokenizer is None
        else Bundle(network, tokenizer, tokenizer.specials)
    )


def test_a_saved_bundle_comes_back_with_its_tokenizer(tmp_path: Path) -> None:
    bundle = make(Tokenizer.train(["मैं ठीक हूँ"], kind="byte"))
    bundle.save(tmp_path)
    again = lookleft.load(tmp_path)
    assert again.tokenizer is not None
    assert again.encode("मैं") == bundle.encode("मैं")
    assert again.specials == bundle.specials
    assert torch.equal(again.network.score(BATCH), bundle.network.score(BATCH))


def test_a_run_folder_is_its_model(tmp_path: Path) -> None:
    make().save(tmp_path / "model")
    assert lookleft.load(tmp_path).network.config == CONFIG


def test_weights_are_loaded_in_the_type_asked_for(tmp_path: Path) -> None:
    make().save(tmp_path)
    assert lookleft.load(tmp_path, dtype=torch.float64).network.score(BATCH).dtype == torch.float64


def test_a_loaded_network_can_be_trained_further(tmp_path: Path) -> None:
    make().save(tmp_path)
    network = lookleft.load(tmp_path).network
    network.score(BATCH).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_saving_over_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("precious")
    with pytest.raises(FileError, match="is a file"):
        make().save(tmp_path / "x")
    assert (tmp_path / "x").read_text() == "precious"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "decoder"}, "family='decoder' is not known"),
        ({"d_modle": 16}, "unknown option d_modle; did you mean d_model"),
        ({"n_layers": 2000}, "n_layers=2000: .*1024"),
        ({"n_layers": 2}, r"has no tensor 'decoder\.layers\.1"),
        ({"d_ff": 32}, r"shape \(16, 16\)"),
        ({"n_heads": 3}, "no multiple"),
        ({"positions": {"kind": "astral"}}, "positions"),
        ({"norm_eps": "NaN"}, "norm_eps"),
    ],
)
def test_a_config_that_lies_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    make().save(tmp_path, layout="lookleft")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(LookleftError, match=message):
        lookleft.load(tmp_path)


@pytest.mark.parametrize("layout", ["llama", "lookleft"])
def test_a_config_is_read_up_to_the_limit_and_refused_beyond_it(
    layout: str, tmp_path: Path
) -> None:
    assert (MAX_CONFIG_BYTES, MAX_CONFIG_DEPTH) == (1_000_000, 32)  # as promised
    config, kind = WRITTEN[layout]
    Bundle(build(config)).save(tmp_path, layout=kind)
    path = tmp_path / "config.json"
    good = path.read_bytes()
    path.write_bytes(good.ljust(MAX_CONFIG_BYTES))
    assert lookleft.load(tmp_path).network.config.d_model == config.d_model
    path.write_bytes(good.ljust(MAX_CONFIG_BYTES + 1))
    with pytest.raises(FileError, match="has 1,000,001 bytes, the limit is 1,000,000"):
        lookleft.load(tmp_path)


@pytest.mark.parametrize("layout", ["llama", "lookleft"])
def test_a_config_that_is_nested_too_deep_is_refused(layout: str, tmp_path: Path) -> None:
    config, kind = WRITTEN[layout]
    Bundle(build(config)).save(tmp_path, layout=kind)
    path = tmp_path / "config.json"
    good = json.loads(path.read_text())

    def load_with(depth: int) -> None:
        nested = json.loads("[" * (depth - 1) + "]" * (depth - 1))  # in the object around it
        path.write_text(json.dumps(good | {"positions": nested, "rope_parameters": nested}))
        lookleft.load(tmp_path)

    with pytest.raises(FileError, match=r"config\.json: is nested deeper than 32"):
        load_with(MAX_CONFIG_DEPTH + 1)
    with pytest.raises(LookleftError) as caught:  # what stands there is wrong at any depth
        load_with(MAX_CONFIG_DEPTH)
    assert "nested deeper" not in str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="has no config"):
        lookleft.load(tmp_path)
    make().save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileError, match=r"has no model\.safetensors"):
        lookleft.load(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_of_a_model_is_no_model(name: str, tmp_path: Path) -> None:
    make().save(tmp_path)
    with pytest.raises(FileError, match="is one file of a model; give its folder"):
        lookleft.load(tmp_path / name)


def test_a_path_that_cannot_be_looked_at_is_named() -> None:
    with pytest.raises(FileError, match="xxx: cannot be read: File name too long"):
        lookleft.load("x" * 300)


@given(data=st.binary(max_size=200))
def test_a_config_of_random_bytes_is_refused(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "random"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(data)
    with pytest.raises(LookleftError):
        lookleft.load(folder)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


SMALL = {"vocab_size": 40, "d_model": 16, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
T5_LIKE = {
    **SMALL,
    "positions": Relative(),
    "norm": "rms",
    "norm_eps": 1e-6,
    "norm_order": "pre",
    "final_norm": True,
    "qkv_bias": False,
    "out_bias": False,
    "ff_bias": False,
    "attention_scale": 1.0,
    "logit_scale": 0.25,
}
WRITTEN: dict[str, tuple[AnyConfig, Layout]] = {
    "lookleft": (presets.llama(40, 16, 1, 2, 1, 16), "lookleft"),
    "llama": (presets.llama(40, 16, 1, 2, 1, 16), "hf"),
    "gpt2": (presets.gpt(40, 16, 1, 2, 16), "hf"),
    "bert": (presets.bert(40, 16, 1, 2, 16), "hf"),
    "marian": (presets.tiny(40).model_copy(update={**SMALL, "embed_scale": 4.0}), "hf"),
    "t5": (EncoderDecoderConfig.model_validate(T5_LIKE), "hf"),
}


@pytest.mark.parametrize("family", WRITTEN)
@given(data=st.data())
def test_a_config_with_a_random_value_is_refused_or_loads(
    family: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / f"value-{family}"
    if not folder.exists():
        config, layout = WRITTEN[family]
        assert Bundle(build(config).eval()).save(folder, layout=layout) == family
        (folder / "kept.json").write_bytes((folder / "config.json").read_bytes())
    config = json.loads((folder / "kept.json").read_text())
    config[data.draw(st.sampled_from(sorted(config)))] = data.draw(json_values)
    (folder / "config.json").write_text(json.dumps(config))
    with contextlib.suppress(LookleftError):  # anything else is a crash
        lookleft.load(folder)


@pytest.mark.parametrize(("family", "width"), [("t5", 0), ("marian", -1), ("t5", 10**400)])
def test_a_width_of_which_no_scale_can_be_made_is_refused(
    family: str, width: int, tmp_path: Path
) -> None:
    config, layout = WRITTEN[family]
    Bundle(build(config)).save(tmp_path, layout=layout)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"d_model": width}))
    with pytest.raises(ConfigError, match=r"config\.json: d_model=.* is no width from 1 to 65,536"):
        lookleft.load(tmp_path)


def test_a_network_that_fits_no_class_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no Hugging Face model type computes"):
        make().save(tmp_path, layout="hf")


def test_what_an_older_model_left_in_the_folder_is_not_taken_for_this_one(tmp_path: Path) -> None:
    make(Tokenizer.train([], kind="byte", vocab_size=261)).save(tmp_path)
    (tmp_path / FILE_NAME).rename(tmp_path / "part-1.safetensors")
    names = dict.fromkeys(read_tensors(tmp_path / "part-1.safetensors"), "part-1.safetensors")
    (tmp_path / INDEX_NAME).write_text(json.dumps({"weight_map": names}))
    (tmp_path / "chat_template.jinja").write_text("old")
    bundle = lookleft.load(tmp_path)
    assert bundle.chat_template == "old"
    with torch.no_grad():
        next(bundle.network.parameters()).add_(1)
    bundle.chat_template = None
    bundle.save(tmp_path)
    again = lookleft.load(tmp_path)
    assert again.chat_template is None
    assert torch.equal(again.network.score(BATCH), bundle.network.score(BATCH))
