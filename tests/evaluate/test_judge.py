"""What a judge says of a model while it trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import small_settings, write_pairs, write_texts

from lookleft.errors import ConfigError
from lookleft.evaluate import judge as judges
from lookleft.evaluate.judge import make_judge
from lookleft.train.judge import Opinion, is_better, no_opinion, value_of
from lookleft.train.run import Run


def test_translations_are_scored_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), train__samples="2")
    run = Run.start(tmp_path / "run", settings)
    judge = make_judge(settings)
    answers = {"one one": "one one", "one two": "two one", "one three": "x", "one four": "y"}
    monkeypatch.setattr(judges, "translate", lambda bundle, texts: [answers[t] for t in texts])
    opinion = judge(run.results.bundle(run.model))
    assert [sample.output for sample in opinion.samples] == ["one one", "two one"]
    assert [sample.reference for sample in opinion.samples] == ["one one", "two one"]
    assert opinion.chrf is not None
    assert 0 < opinion.chrf < 100
    assert opinion.signature is not None
    assert "tok:13a" in opinion.signature


def test_a_language_model_is_measured_in_bits_per_byte(tmp_path: Path) -> None:
    settings = small_settings(write_texts(tmp_path / "text.txt"), task="lm")
    run = Run.start(tmp_path / "run", settings)
    opinion = make_judge(settings)(run.results.bundle(run.model.eval()))
    assert opinion.bits_per_byte is not None
    assert 0 < opinion.bits_per_byte < 12
    assert opinion.samples[0].source == "one and "
    assert opinion.bleu is None


def test_what_the_model_has_no_places_for_is_not_judged(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    dev = tmp_path / "dev.tsv"
    dev.write_text(f"{'one ' * 20}\tone\n" + pairs.read_text("utf-8"), "utf-8")
    places = '{kind = "learned", max_len = 40}'
    settings = small_settings(pairs, data__dev=str(dev), model__positions=places)
    run = Run.start(tmp_path / "run", settings)
    run.results.judge = make_judge(settings)
    *_, last = run.train()
    assert last.bleu is not None


def test_a_text_goes_on_only_as_far_as_the_model_has_places(tmp_path: Path) -> None:
    file = write_texts(tmp_path / "text.txt")
    short = {"model__positions": '{kind = "learned", max_len = 6}', "train__length": "6"}
    settings = small_settings(file, task="lm", **short)
    run = Run.start(tmp_path / "run", settings)
    opinion = make_judge(settings)(run.results.bundle(run.model.eval()))
    assert opinion.samples[0].source == "one an"


def test_judging_leaves_training_as_it_was(tmp_path: Path) -> None:
    """Scores are looked at, never learned from: the weights are those of a run without a judge."""
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), model__dropout="0.2")
    plain, judged = Run.start(tmp_path / "a", settings), Run.start(tmp_path / "b", settings)
    judged.results.judge = make_judge(settings)
    list(plain.train())
    events = list(judged.train())
    assert [event.bleu is not None for event in events] == [False, True, False, True]
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, judged.model.state_dict()[name])


def test_nothing_is_judged_without_a_dev_set_or_sentences(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    assert make_judge(small_settings(pairs, data__dev="false")) is no_opinion
    assert make_judge(small_settings(pairs, train__eval_sentences="0")) is no_opinion
    assert make_judge(small_settings(pairs)) is not no_opinion


def test_of_losses_the_smaller_is_better_and_of_scores_the_larger() -> None:
    opinion = Opinion(bleu=10.0, chrf=30.0)
    figures = {"dev_loss": 2.0, **opinion.scores}
    assert value_of("loss", figures) == 2.0
    assert value_of("bleu", figures) == 10.0
    assert value_of("chrf", figures) == 30.0
    assert is_better("loss", 1.0, 2.0)
    assert not is_better("loss", 2.0, 2.0)
    assert is_better("bleu", 11.0, 10.0)
    assert not is_better("bleu", 9.0, 10.0)
    assert is_better("chrf", 0.0, None)


def test_choosing_by_what_nobody_measures_is_refused(tmp_path: Path) -> None:
    settings = small_settings(write_pairs(tmp_path / "pairs.tsv"), train__choose="bleu")
    with pytest.raises(ConfigError, match=r"train\.choose = 'bleu': nobody measures it"):
        list(Run.start(tmp_path / "run", settings).train())
