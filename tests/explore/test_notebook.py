"""`lookleft.explain` from Python: models in any form, and nothing of them is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from explore.speakers import ENGLISH, HINDI, guesser, tokenizer, translator, writer
from weights import SMOLLM2, packaged

import lookleft
from lookleft import bundled
from lookleft.bundle import Bundle
from lookleft.config import EncoderDecoderConfig
from lookleft.errors import ConfigError, FileError
from lookleft.models import DecoderOnly, EncoderDecoder, presets


def test_a_path_a_bundle_and_a_network_are_all_models(tmp_path: Path) -> None:
    speaker = translator()
    speaker.save(tmp_path / "model")
    from_path = lookleft.explain(tmp_path / "model", ENGLISH, HINDI)
    from_bundle = lookleft.explain(speaker, ENGLISH, HINDI)
    assert from_path.trace.card.hash == from_bundle.trace.card.hash
    assert from_path.explorer.command == f"lookleft explain {tmp_path / 'model'}"
    network = DecoderOnly(presets.gpt(20, d_model=8, n_layers=1, n_heads=2)).eval()
    assert lookleft.explain(network, "3 1 4").trace.card.family == "decoder-only"


def test_one_text_may_be_called_either_way() -> None:
    for asked in ({"src": "the cat"}, {"tgt": "the cat"}):
        assert lookleft.explain(writer(), **asked).trace.lesson.target.text == "the cat"


@pytest.mark.parametrize("speaker", [translator(), writer(), guesser()])
def test_without_a_text_an_example_is_taken(speaker: Bundle) -> None:
    assert lookleft.explain(speaker).text()


def test_a_model_in_training_is_left_in_training() -> None:
    config = EncoderDecoderConfig(
        vocab_size=len(tokenizer()), d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1,
        n_decoder_layers=1, dropout=0.5,
    )  # fmt: skip
    network = EncoderDecoder(config).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    shown = lookleft.explain(Bundle(network, tokenizer(), tokenizer().specials), ENGLISH, HINDI)
    assert network.training
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert shown.to_json()["sameness"]["is_same"]  # no dropout in what is shown
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(ConfigError, match="max_new"):
        lookleft.explain(writer(), "the cat", write=True, max_new=0)


def test_without_a_model_the_bundled_one_is_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    with pytest.raises(FileError, match="lookleft train"):
        lookleft.explain()
    translator().save(tmp_path / "en-hi")
    shown = lookleft.explain(src=ENGLISH, tgt=HINDI)
    assert shown.trace.card.name == "en-hi"
    assert shown.explorer.command == "lookleft explain"  # and no path of this machine
    assert lookleft.explain("en-hi", src=ENGLISH, tgt=HINDI).trace.id == shown.trace.id


@pytest.mark.slow
def test_a_real_language_model_goes_on_from_a_prompt() -> None:
    model = lookleft.load(packaged(*SMOLLM2))
    shown = lookleft.explain(model, "Once upon a", write=True, max_new=4, layer=3, head=2)
    data = shown.to_json()
    assert data["target"]["text"].startswith("Once upon a time")
    assert data["sameness"]["is_same"]
    assert len(data["heads"]) == 30 * 9
    assert data["head"]["kv_head"] == 0
    proof = shown.explorer.prove(shown.trace.id, "decoder_self", 3, 2, row=1, column=3)
    assert proof["moved"] == 0.0
    assert proof["control_moved"] > 0
