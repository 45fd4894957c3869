"""`lookleft quantize`: a smaller folder that loads, and an honest word on what it costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from invariants.families import decoder_only, encoder_decoder, make

from lookleft.bundle import Bundle, load
from lookleft.cli.quantize import default_folder, quantize
from lookleft.config import Rotary
from lookleft.data.batch import Batch, as_rows
from lookleft.errors import FileError, InputError
from lookleft.text.tokenizer import Tokenizer

TEXT = "मैं ठीक हूँ\nआप कैसे हैं?\n"


def saved(folder: Path, *, is_translator: bool = False) -> Path:
    """A model of random weights that reads bytes."""
    tokenizer = Tokenizer.train(TEXT.splitlines(), kind="byte")
    size = {"vocab_size": len(tokenizer), "d_model": 64, "d_ff": 128}
    config = encoder_decoder(**size) if is_translator else decoder_only(positions=Rotary(), **size)
    network = make(config, torch.float32)
    Bundle(network, tokenizer, tokenizer.specials).save(folder, layout="lookleft")
    return folder


@pytest.mark.parametrize(("to", "times"), [("int8", 3.0), ("int4", 4.0)])
def test_the_folder_is_smaller_and_says_nearly_the_same(
    to: str, times: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(tmp_path / "model")
    quantize(str(model), to=to)  # type: ignore[arg-type]
    folder = tmp_path / f"model-{to}"
    assert str(folder) in capsys.readouterr().out
    before, after = load(model), load(folder)
    size = [(f / "model.safetensors").stat().st_size for f in (model, folder)]
    assert size[0] > times * size[1]
    assert after.tokenizer is not None
    assert after.encode("हूँ") == before.encode("हूँ")
    few = after.quantised()
    assert {matrix.n_bits for matrix in few.values()} == {8 if to == "int8" else 4}
    assert before.quantised() == {}
    batch = Batch(as_rows(torch.tensor([[5, 6, 7, 8]])))
    with torch.no_grad():
        expected, found = before.network.score(batch), after.network.score(batch)
    error = float((found - expected).pow(2).mean().sqrt() / expected.std())
    assert 0 < error < (0.03 if to == "int8" else 0.3)


def test_the_loss_of_quality_is_measured_on_a_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    model = saved(tmp_path / "model")
    quantize(str(model), to="int4", out=str(tmp_path / "small"), text=str(text), json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"] < facts["bytes_before"]
    assert facts["perplexity"] != facts["perplexity_before"]
    assert facts["perplexity"] == pytest.approx(facts["perplexity_before"], rel=0.5)
    quantize(str(model), to="int8", text=str(text))
    assert "perplexity" in capsys.readouterr().out


def test_a_translator_is_measured_on_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = saved(tmp_path / "model", is_translator=True), tmp_path / "pairs.tsv"
    text.write_text("a\tमैं\nb\tआप\n", encoding="utf-8")
    quantize(str(model), text=str(text), json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["perplexity"] > 1
    assert 0 <= facts["same_translations"] <= 1
    quantize(str(model), to="int4", text=str(text))
    assert "of 2 translations equal" in capsys.readouterr().out
    text.write_text("a\tमैं\nb\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"pairs\.tsv:2: has 1 parts"):
        quantize(str(model), out=str(tmp_path / "other"), text=str(text))
    assert not (tmp_path / "other").exists()  # nothing is written before all is known


def test_a_folder_that_has_files_is_not_written_into(tmp_path: Path) -> None:
    model = saved(tmp_path / "model")
    quantize(str(model))
    with pytest.raises(FileError, match="is not empty; give a new folder with --out"):
        quantize(str(model))
    quantize(str(model), force=True)
    with pytest.raises(FileError, match="is a file"):
        quantize(str(model), out=str(model / "config.json"))


def test_the_new_folder_lies_beside_the_model() -> None:
    assert default_folder(Path("runs/en-hi"), "int8") == Path("runs/en-hi-int8")
    assert default_folder(Path("a/model.gguf"), "int4") == Path("a/model-int4")
    here = Path.cwd()
    assert default_folder(Path(), "int8") == here.with_name(f"{here.name}-int8")


def test_levels_without_their_scales_are_refused(tmp_path: Path) -> None:
    from lookleft.tensors import read_folder, write_tensors

    model = saved(tmp_path / "model")
    quantize(str(model))
    folder = tmp_path / "model-int8"
    tensors = read_folder(folder)
    name = next(name for name in tensors if name.endswith("to_q.weight.scale"))
    write_tensors(folder / "model.safetensors", tensors | {name: tensors[name][:3]})
    with pytest.raises(FileError, match="do not belong together"):
        load(folder)
    del tensors[name]
    write_tensors(folder / "model.safetensors", tensors)
    with pytest.raises(FileError, match="has no tensor"):
        load(folder)
