"""A translator whose languages have a vocabulary each: trained, saved, loaded, measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import WORDS, differences, small_settings

import lookleft
from lookleft.errors import ConfigError
from lookleft.evaluate.perplexity import translation_surprise
from lookleft.generate.translate import translate
from lookleft.train.run import Run
from lookleft.train.settings import RunSettings
from lookleft.train.survey import survey


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    """English words and their letters in Devanagari, which share nothing."""
    path = tmp_path / "pairs.tsv"
    hindi = str.maketrans("onetwhrfuivsx", "कखगघङचछजझञटठड")
    path.write_text("".join(f"{w} {v}\t{w.translate(hindi)}\n" for w in WORDS for v in WORDS))
    return small_settings(path, text__joint="false", train__save_every="2")


def test_each_side_has_its_own_pieces(settings: RunSettings, tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", settings)
    assert run.source_tokenizer is not None
    assert run.source_tokenizer.id_of("o") is not None
    assert run.tokenizer.id_of("o") is None
    assert run.tokenizer.id_of("क") is not None
    assert run.model.config.source_vocab_size == len(run.source_tokenizer)
    found = survey(settings, run.tokenizer, run.source_tokenizer)
    assert found.source.tokens_per_word < 6  # characters; in bytes of the other side it were more


def test_a_saved_model_reads_with_one_and_writes_with_the_other(
    settings: RunSettings, tmp_path: Path
) -> None:
    whole = Run.start(tmp_path / "whole", settings)
    *_, last = whole.train()
    bundle = lookleft.load(tmp_path / "whole")
    assert bundle.source_tokenizer is not None
    ids, eos = bundle.source_tokenizer.encode("one"), bundle.source_tokenizer.specials.eos
    assert bundle.encode_source("one") == [*ids, eos]  # as it was trained: sources end
    sources = [f"{w} {v}" for w in WORDS for v in WORDS]
    hindi = str.maketrans("onetwhrfuivsx", "कखगघङचछजझञटठड")
    references = [w.translate(hindi) for w in WORDS for _ in WORDS]
    assert last.dev_loss == pytest.approx(
        translation_surprise(bundle, sources, references).loss, rel=1e-5
    )
    assert len(translate(bundle, sources[:3], 5)) == 3


def test_a_run_with_two_vocabularies_is_taken_up_bit_for_bit(
    settings: RunSettings, tmp_path: Path
) -> None:
    list(Run.start(tmp_path / "whole", settings).train())
    cut = Run.start(tmp_path / "cut", settings)
    list(cut.train(is_stop_asked=lambda: cut.progress.step >= 2))
    list(Run.resume(tmp_path / "cut").train())
    assert differences(tmp_path / "whole", tmp_path / "cut") == []


def test_a_language_model_has_one_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"text\.joint is for translate"):
        small_settings(tmp_path / "text.txt", task="lm", text__joint="false")
