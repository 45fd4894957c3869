"""What the page says about a model, and the sentences it begins with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from explore.speakers import guesser, translator, writer

from lookleft.bundle import Bundle
from lookleft.explore.card import make_card, weights_hash
from lookleft.explore.examples import MAX_WORDS, first_example, held_out_examples
from lookleft.models import DecoderOnly, presets
from lookleft.train.settings_file import read_settings, write_settings


def test_a_card_says_what_cannot_be_done_and_why() -> None:
    for speaker, cannot in (
        (translator(), {"cover"}),
        (writer(), {"cover", "beam"}),
        (guesser(), {"inference", "mask_off", "audit", "beam"}),
    ):
        card = make_card(speaker, "main", "tiny").to_json()
        assert {name for name, can in card["can"].items() if not can} == cannot
        assert set(card["why_not"]) == cannot
        assert all(reason.endswith(".") for reason in card["why_not"].values())


def test_the_hash_knows_every_weight() -> None:
    one, same, other = translator().network, translator().network, translator().network
    with torch.no_grad():
        other.encoder.layers[1].feed_forward.to_out.bias[3] += 1e-6
    assert weights_hash(one) == weights_hash(same) != weights_hash(other)


def test_a_model_trained_without_a_mask_is_called_a_cheater() -> None:
    assert make_card(translator(mask="none"), "cheater", "x").is_cheater
    assert not make_card(translator(), "main", "x").is_cheater


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with a dev set of its own."""
    lines = [f"{'word ' * n}\tशब्द {n}\n" for n in range(30, 0, -1)]
    (tmp_path / "dev.tsv").write_text("".join(lines), encoding="utf-8")
    named = {"data.train": str(tmp_path / "dev.tsv"), "data.dev": str(tmp_path / "dev.tsv")}
    languages = {"data.source": "en", "data.target": "hi"}
    write_settings(read_settings(None, named | languages), tmp_path / "config.toml")
    (tmp_path / "metrics.jsonl").write_text('{"step": 50}\n{"step": 100}\n', encoding="utf-8")
    return tmp_path


def test_a_run_tells_its_step_its_data_and_its_languages(run: Path) -> None:
    card = make_card(translator(), "main", "tiny", run)
    assert card.training is not None
    assert card.training.step == 100
    assert card.training.data == str(run / "dev.tsv")
    assert (card.source_lang, card.target_lang) == ("en", "hi")
    assert first_example(card).target == "मैं घर जा रहा हूँ।"


def test_a_log_that_ends_in_the_middle_of_a_line_costs_only_the_step(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"step": 50}\n{"ste', encoding="utf-8")
    card = make_card(translator(), "main", "tiny", run)
    assert card.training is not None
    assert card.training.step is None


def test_examples_come_from_the_held_out_set_easy_ones_first(run: Path) -> None:
    card = make_card(translator(), "main", "tiny", run)
    found = held_out_examples(card, read_settings(run / "config.toml"))
    lengths = [len((example.source or "").split()) for example in found[1:]]
    assert len(found) == 9
    assert lengths == sorted(lengths)
    assert lengths[-1] <= MAX_WORDS
    assert [example.difficulty for example in found] == list(range(9))


def test_a_run_whose_files_have_gone_still_has_one_example(run: Path) -> None:
    card = make_card(translator(), "main", "tiny", run)
    (run / "dev.tsv").unlink()
    assert held_out_examples(card, read_settings(run / "config.toml")) == [first_example(card)]


def test_a_translator_to_hindi_without_a_run_takes_sentences_of_the_grammar() -> None:
    card = replace(make_card(translator(), "main", "tiny"), source_lang="en", target_lang="hi")
    found = held_out_examples(card, None)
    assert len(found) == 9
    assert all(example.source and example.target for example in found)
    assert held_out_examples(replace(card, source_lang="de"), None)[1:] == []


def test_a_model_without_a_tokenizer_begins_with_ids_it_knows() -> None:
    network = DecoderOnly(presets.gpt(6, d_model=8, n_layers=1, n_heads=2)).eval()
    card = make_card(Bundle(network), "main", "bare")
    assert first_example(card).target == "5 0 1 2"
    assert first_example(replace(card, family="encoder-decoder")).source == "5 0 1 2"
