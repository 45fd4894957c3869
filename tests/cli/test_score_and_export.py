"""`lookleft score` and `lookleft export`, held against transformers on the same folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from lookleft.bundle import Bundle
from lookleft.cli.export import export
from lookleft.cli.score import score
from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, Relative, Sinusoidal
from lookleft.errors import LookleftError
from lookleft.models import AnyConfig, build, presets
from lookleft.text.tokenizer import Tokenizer

CONFIGS = {
    "decoder": presets.gpt(40, 32, 2, 4, 64),
    "translator": presets.tiny(40),
    "encoder": presets.bert(40, 32, 2, 4, 64),
}
CLASSES = {
    "decoder": transformers.GPT2LMHeadModel,
    "translator": transformers.MarianMTModel,
    "encoder": transformers.BertForMaskedLM,
}


@pytest.fixture(params=CONFIGS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def saved(kind: str, folder: Path) -> Path:
    Bundle(build(CONFIGS[kind], torch.Generator().manual_seed(0)).eval()).save(folder)
    return folder


def saved_reader(folder: Path, config: Callable[[int], AnyConfig]) -> Tokenizer:
    """A network of random weights that reads bytes, in the folder; gives its tokenizer."""
    tokenizer = Tokenizer.train(["ab"], kind="byte")
    network = build(config(len(tokenizer)), torch.Generator().manual_seed(0)).eval()
    Bundle(network, tokenizer, tokenizer.specials).save(folder)
    return tokenizer


def language_model(vocab_size: int) -> AnyConfig:
    return presets.gpt(vocab_size, 32, 2, 4, 64)


def scored(capsys: pytest.CaptureFixture[str], *arguments: Any, **options: Any) -> dict[str, Any]:
    score(*arguments, **options, json_=True)
    return json.loads(capsys.readouterr().out)


@torch.no_grad()
def test_log_probabilities_are_those_of_transformers(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(kind, tmp_path)
    theirs = CLASSES[kind].from_pretrained(folder).eval()
    ids, source = [5, 6, 7, 39], [3, 4]
    if kind == "translator":
        shown = scored(capsys, str(folder), ids="5 6 7 39", src_ids="3,4")
        inputs = {"input_ids": [source], "decoder_input_ids": [[0, *ids[:-1]]]}
        logits = theirs(**{key: torch.tensor(value) for key, value in inputs.items()}).logits[0]
        expected = logits.log_softmax(-1)[range(4), ids].tolist()
    else:
        shown = scored(capsys, str(folder), ids="5 6 7 39")
        log_probs = theirs(torch.tensor([ids])).logits[0].log_softmax(-1)
        expected = log_probs[range(4), ids].tolist()
        if kind == "decoder":
            expected = [None, *log_probs[range(3), ids[1:]].tolist()]
    assert shown["ids"] == ids
    assert shown["logprobs"] == pytest.approx(expected, abs=1e-5)


def test_text_is_scored_through_the_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = saved_reader(tmp_path, language_model)
    shown = scored(capsys, str(tmp_path), text="मैं")
    assert shown["ids"] == tokenizer.encode("मैं")
    assert len(shown["logprobs"]) == len(shown["ids"])


def test_candidates_of_a_file_are_scored_as_each_would_be_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["मैं ठीक हूँ", "हूँ", "ठीक"]
    saved_reader(tmp_path, presets.tiny)
    file = tmp_path / "candidates.txt"
    file.write_text("\n".join(texts), encoding="utf-8")
    found = scored(capsys, str(tmp_path), src="fine", tgt_file=file)["candidates"]
    assert [each["text"] for each in found] == texts
    for each in found:
        alone = scored(capsys, str(tmp_path), src="fine", text=each["text"])
        assert each["ids"] == alone["ids"]
        assert each["logprobs"] == alone["logprobs"]
        assert each["total"] == pytest.approx(sum(alone["logprobs"]), abs=1e-12)
    score(str(tmp_path), src="fine", tgt_file=file)
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split(maxsplit=3)[3] for row in rows] == texts
    assert [row.split()[0] for row in rows] == [f"{each['total']:.6f}" for each in found]
    file.write_text("ठीक\n\nहूँ\n", encoding="utf-8")
    with pytest.raises(LookleftError, match=r"candidates\.txt:2: is empty"):
        score(str(tmp_path), src="fine", tgt_file=file)
    file.write_text("")
    with pytest.raises(LookleftError, match="has no line to score"):
        score(str(tmp_path), src="fine", tgt_file=file)
    with pytest.raises(LookleftError, match="give either --tgt-file, or --ids or --text"):
        score(str(tmp_path), src="fine", text="x", tgt_file=file)


def test_a_text_of_one_token_does_not_win_by_having_no_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_reader(tmp_path, language_model)
    file = tmp_path / "candidates.txt"
    file.write_text("a\nab\n")
    one, two = scored(capsys, str(tmp_path), tgt_file=file)["candidates"]
    assert one["total"] is None
    assert two["total"] == two["logprobs"][1] < 0
    score(str(tmp_path), tgt_file=file)
    assert capsys.readouterr().out.splitlines()[1].split() == ["-", "-", "0", "a"]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("decoder", {}, "give either --ids or --text"),
        ("decoder", {"ids": ""}, "nothing to score"),
        ("decoder", {"ids": "5 six"}, "--ids 'six': give whole numbers"),
        ("decoder", {"ids": "5_6"}, "--ids '5_6': give whole numbers"),
        ("decoder", {"ids": "9" * 30}, "whole numbers"),
        ("decoder", {"ids": "5 40"}, r"id 40 is outside the vocabulary 0\.\.39"),
        ("decoder", {"ids": "40"}, "id 40 is outside"),
        ("decoder", {"ids": "5 -1"}, "id -1 is outside"),
        ("decoder", {"ids": " ".join(["5"] * 66)}, "65 tokens, but this model reads at most 64"),
        ("decoder", {"ids": "5", "src_ids": "3"}, "takes no source"),
        ("decoder", {"text": "hello"}, "without a tokenizer"),
        ("translator", {"ids": "5"}, "needs a source"),
        ("translator", {"ids": "5", "src_ids": "99"}, "id 99 is outside"),
    ],
)
def test_bad_input_is_named(
    kind: str, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(LookleftError, match=message):
        score(str(saved(kind, tmp_path)), **options)


def test_a_model_of_broken_numbers_has_no_score(tmp_path: Path) -> None:
    network = build(CONFIGS["decoder"])
    torch.nn.init.constant_(network.embedding.tokens.weight, float("nan"))
    Bundle(network).save(tmp_path)
    with pytest.raises(LookleftError, match="id 6 has log-probability nan"):
        score(str(tmp_path), ids="5 6", json_=True)


def test_an_export_is_checked_with_transformers(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(str(saved(kind, tmp_path / "in")), str(tmp_path / "out"), json_=True)
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["checked_with"] == "transformers"
    assert facts["max_difference"] < 1e-5
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_network_without_its_head_is_compared_by_its_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = {"head_transform": False, "logit_bias": False}
    Bundle(build(CONFIGS["encoder"].model_copy(update=bare)).eval()).save(tmp_path / "in")
    assert json.loads((tmp_path / "in" / "config.json").read_text())["architectures"] == [
        "BertModel"
    ]
    export(str(tmp_path / "in"), str(tmp_path / "out"))
    shown = capsys.readouterr().out
    difference = re.search("with transformers: largest difference of states (.*)", shown)
    assert difference is not None
    assert float(difference[1]) < 1e-5


def test_an_export_is_compared_on_a_text_without_padding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # M2M100 counts positions by which ids are not padding, mask or no mask.
    positions = Sinusoidal(layout="halves", spacing="tensor2tensor", offset=2)
    config = EncoderDecoderConfig(
        vocab_size=6, d_model=32, positions=positions, norm_order="pre", final_norm=True
    )
    assert Bundle(build(config).eval()).save(tmp_path / "in") == "m2m_100"
    export(str(tmp_path / "in"), str(tmp_path / "out"), json_=True)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["max_difference"] < 1e-5


def test_an_export_in_our_own_layout_is_read_back_by_us(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = DecoderOnlyConfig(vocab_size=40, d_model=32, n_layers=1, positions=Relative())
    Bundle(build(config).eval()).save(tmp_path / "in")
    export(str(tmp_path / "in"), str(tmp_path / "out"), to="lookleft", json_=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "folder": str(tmp_path / "out"),
        "model_type": "lookleft",
        "checked_with": "lookleft",
        "max_difference": 0.0,
    }


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("file", "is a file"),
        ("file/below", "cannot be made"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(place: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LookleftError, match=message):
        export(str(saved("decoder", tmp_path / "in")), str(tmp_path / place))


def test_an_export_never_overwrites_unasked(tmp_path: Path) -> None:
    folder = saved("decoder", tmp_path / "in")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(LookleftError, match=r"is not empty; give a new folder, or add --force"):
        export(str(folder), str(tmp_path / "out"))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.txt"]
