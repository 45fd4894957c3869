"""The length penalty that a dev set chooses, and who uses it then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_runs import small_settings, write_pairs
from transformers import GenerationConfig

import lookleft
from lookleft.bundle import Bundle, load
from lookleft.data.corpus import Pair
from lookleft.errors import ConfigError
from lookleft.evaluate import tune
from lookleft.evaluate.tune import make_tuner, tune_penalty
from lookleft.generate.request import GREEDY, Beam, Method, Power
from lookleft.generate.translate import beam_for
from lookleft.train.judge import as_it_is
from lookleft.train.run import Run
from lookleft.train.settings_file import read_settings

PAIRS = [Pair("a", " ".join("abcdefgh"), 1)]


def trained(folder: Path, **changes: str) -> Run:
    settings = small_settings(write_pairs(folder / "pairs.tsv"), **changes)
    run = Run.start(folder / "run", settings)
    run.results.tuner = make_tuner(settings, lambda line: None)
    list(run.train())
    return run


@pytest.mark.parametrize(
    ("right", "tried"),
    [
        (1.0, [0.8, 1.0, 1.2]),
        (1.4, [1.0, 1.2, 1.4, 1.6]),
        (0.6, [0.4, 0.6, 0.8, 1.0, 1.2]),
        (9.0, [1.0, 1.2, 1.4, 1.6, 1.8, 2.0]),
    ],
)
def test_the_top_of_the_hill_is_found(
    right: float, tried: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer has more of the words that it should have, the nearer the penalty is."""

    def fake(bundle: Bundle, sources: Sequence[str], *, method: Method) -> list[str]:
        assert isinstance(method, Beam)
        assert method.width == 3
        n_wrong = round(abs(method.length_penalty.a - right) * 5)
        return [" ".join([*"abcdefgh"][: max(8 - n_wrong, 4)] + ["x"] * n_wrong)]

    bundle = load(trained(tmp_path).folder)
    monkeypatch.setattr(tune, "translate", fake)
    found = tune_penalty(bundle, PAIRS, beam=3, tokenize="none")
    assert sorted(found) == tried
    assert (bundle.length_penalty, bundle.penalty_beam) == (min(right, 2.0), 3)
    assert found[bundle.length_penalty] == max(found.values())


def test_asked_to_stop_it_takes_the_best_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def fake(bundle: Bundle, sources: Sequence[str], *, method: Method) -> list[str]:
        assert isinstance(method, Beam)
        tried.append(method.length_penalty.a)
        return [" ".join([*"abcdefgh"][: 4 + len(tried)])]  # better each time

    bundle = load(trained(tmp_path).folder)
    monkeypatch.setattr(tune, "translate", fake)

    def is_stop_asked() -> bool:
        return len(tried) >= 2

    found = tune_penalty(bundle, PAIRS, beam=3, tokenize="none", is_stop_asked=is_stop_asked)
    assert tried == [*found] == [1.2, 1.0]
    assert bundle.length_penalty == 1.0
    tried.clear()
    assert tune_penalty(bundle, PAIRS, beam=3, tokenize="none", is_stop_asked=lambda: True) == {}
    assert (bundle.length_penalty, bundle.penalty_beam) == (1.0, 3)


def test_a_run_writes_it_and_everybody_takes_it_up(tmp_path: Path) -> None:
    run = trained(tmp_path, train__tune_beam="3")
    folder = run.folder / "model"
    written = json.loads((folder / "generation_config.json").read_text())
    assert written["num_beams"] == 3
    written["length_penalty"] = 1.7
    (folder / "generation_config.json").write_text(json.dumps(written))
    bundle = load(folder)
    assert (bundle.length_penalty, bundle.penalty_beam) == (1.7, 3)
    assert beam_for(bundle, 4) == Beam(4, Power(1.7), stop="estimate")
    assert beam_for(bundle, 1) == GREEDY
    theirs = GenerationConfig.from_pretrained(folder)
    assert (theirs.length_penalty, theirs.num_beams) == (1.7, 3)
    bundle.save(tmp_path / "again")
    assert load(tmp_path / "again").length_penalty == 1.7


def test_sentences_that_the_model_cannot_read_do_not_stop_it(tmp_path: Path) -> None:
    """Evaluations translate the first few only, so nobody may have met them before."""
    pairs = write_pairs(tmp_path / "dev.tsv")
    long = " ".join(["one"] * 40)
    pairs.write_text(f"{pairs.read_text(encoding='utf-8')}{long}\t{long}\n", encoding="utf-8")
    places = '{ kind = "learned", max_len = 40 }'
    run = trained(
        tmp_path, train__tune_beam="2", model__positions=places, data__dev=str(tmp_path / "dev.tsv")
    )
    assert load(run.folder).penalty_beam == 2


def test_answers_follow_the_model_s_penalty_unless_told_another() -> None:
    model = lookleft.load(engine="torch")  # the one in the box

    def score(**ways: Power) -> float | None:
        return model.translations(["I am going home."], beam=3, **ways)[0][0].answer.score

    default = score()
    model.length_penalty = 2.0
    assert score() == score(length_penalty=Power(2.0)) != default
    assert score(length_penalty=Power(1.0)) == default


def test_nothing_is_tuned_unless_asked(tmp_path: Path) -> None:
    run = trained(tmp_path)
    assert run.results.tuner is as_it_is
    written = json.loads((run.folder / "model" / "generation_config.json").read_text())
    assert "length_penalty" not in written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.tune_beam": "1"}, "is greedy"),
        ({"train.tune_beam": "4", "data.train": "x.tsv"}, "needs task = .* a dev set"),
        ({"train.tune_beam": "4", "task": "lm"}, "needs task"),
    ],
)
def test_a_tuner_needs_a_beam_and_something_to_tune_on(
    changes: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(None, changes)


@pytest.mark.parametrize(
    "values",
    [
        {"length_penalty": "long", "num_beams": 4},
        {"length_penalty": 1e9, "num_beams": 4},
        {"length_penalty": True, "num_beams": 4},
        {"length_penalty": 1.2, "num_beams": -4},
        {"length_penalty": 1.2, "num_beams": 10**9},
    ],
)
def test_a_penalty_that_is_none_is_refused(values: dict[str, object], tmp_path: Path) -> None:
    folder = trained(tmp_path).folder / "model"
    (folder / "generation_config.json").write_text(json.dumps(values))
    with pytest.raises(ConfigError, match="length_penalty="):
        load(folder)
