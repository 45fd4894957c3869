"""A run that goes on with other settings, or after another future than the one it now gets."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from small_runs import STOPPABLE, small_settings, write_pairs, write_texts

import lookleft
from lookleft.data.bucket import Position
from lookleft.errors import ConfigError
from lookleft.files import read_json, write_json
from lookleft.models import AnyModel, build, presets
from lookleft.train.changes import carried_on
from lookleft.train.checkpoint import (
    Progress,
    find_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from lookleft.train.optim import make_optimizers
from lookleft.train.run import Run
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    changes = {"train__eval_every": "2", "train__save_every": "4"}
    return small_settings(write_pairs(tmp_path / "pairs.tsv"), base=STOPPABLE, **changes)


def stopped_at(step: int, folder: Path, settings: RunSettings) -> Run:
    run = Run.start(folder, settings)
    list(run.train(is_stop_asked=lambda: run.progress.step >= step))
    return run


def with_choice(settings: RunSettings, choice: str) -> RunSettings:
    train = settings.train.model_copy(update={"choose": choice})
    return settings.model_copy(update={"train": train})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.n_heads", "2"),
        ("model.mask", "none"),
        ("text.vocab_size", "400"),
        ("train.matrix_lr", "0.02"),
    ],
)
def test_weights_are_not_put_into_another_network(
    name: str, value: str, settings: RunSettings, tmp_path: Path
) -> None:
    stopped_at(2, tmp_path / "run", settings)
    with pytest.raises(ConfigError, match=f"{name}: cannot be changed"):
        Run.resume(tmp_path / "run", {name: value})
    assert read_settings(tmp_path / "run" / "config.toml") == settings


def test_a_tracker_that_is_not_there_is_noticed_before_the_settings_are_kept(
    settings: RunSettings, tmp_path: Path
) -> None:
    stopped_at(2, tmp_path / "run", settings)
    with pytest.raises(ConfigError, match="there is no tracker 'nope'"):
        Run.resume(tmp_path / "run", {"train.track": '["nope"]'})
    assert read_settings(tmp_path / "run" / "config.toml") == settings


def test_another_dev_set_is_not_called_a_changed_file(
    settings: RunSettings, tmp_path: Path
) -> None:
    stopped_at(2, tmp_path / "run", settings)
    other = write_pairs(tmp_path / "other.tsv")
    with pytest.raises(ConfigError, match=r"other\.tsv: is not what .* was begun with \(.*pairs"):
        Run.resume(tmp_path / "run", {"data.dev": str(other)})


def test_files_do_not_change_their_part_in_a_run(tmp_path: Path) -> None:
    """Each is one that the run knows: who looks at names and contents alone sees no difference."""
    train, dev = write_pairs(tmp_path / "train.tsv"), write_pairs(tmp_path / "dev.tsv")
    settings = small_settings(train, base=STOPPABLE, data__dev=str(dev))
    stopped_at(2, tmp_path / "run", settings)
    for key, file in (("data.train", dev), ("data.dev", train)):
        with pytest.raises(ConfigError, match=f"{key}: cannot be changed in a run"):
            Run.resume(tmp_path / "run", {key: str(file)})
    assert read_settings(tmp_path / "run" / "config.toml") == settings


def test_a_run_is_not_turned_around(settings: RunSettings, tmp_path: Path) -> None:
    for language in ("en", "hi"):
        (tmp_path / f"pairs.{language}").write_text("".join(f"{language} {n}\n" for n in range(40)))
    names = {"data__source": "en", "data__target": "hi", "data__dev": "false"}
    stem = small_settings(tmp_path / "pairs", base=STOPPABLE, **names)
    stopped_at(2, tmp_path / "stem", stem)
    stopped_at(2, tmp_path / "files", settings)
    other = {"data.source": "hi", "data.target": "en"}
    with pytest.raises(ConfigError, match=r"data\.source, data\.target: cannot be changed"):
        Run.resume(tmp_path / "stem", other)
    assert Run.resume(tmp_path / "files", other).settings.data.languages == ("hi", "en")  # names


def test_dropout_may_change(settings: RunSettings, tmp_path: Path) -> None:
    stopped_at(2, tmp_path / "run", settings)
    assert Run.resume(tmp_path / "run", {"model.dropout": "0.1"}).settings.model.dropout == 0.1


@pytest.mark.parametrize("changes", [{"train.tokens": "4096"}, {"data.max_tokens": "30"}])
def test_other_batches_begin_where_their_window_does(
    changes: dict[str, str], settings: RunSettings, tmp_path: Path
) -> None:
    stopped_at(5, tmp_path / "run", settings)
    run = Run.resume(tmp_path / "run", changes)
    assert run.reordered == list(changes)
    assert run.progress.position["batch"] == 0
    list(run.train())
    assert run.is_finished


@pytest.mark.parametrize("changes", [{"train.tokens": "4096"}, {"train.seed": "3"}])
def test_other_batches_begin_there_too_if_the_first_try_was_cut_short(
    changes: dict[str, str], settings: RunSettings, tmp_path: Path
) -> None:
    """config.toml has the new settings then, and the newest checkpoint was made with the old."""
    stopped_at(5, tmp_path / "run", settings)
    Run.resume(tmp_path / "run", changes)  # and killed before it saved anything
    run = Run.resume(tmp_path / "run")
    assert run.reordered == list(changes)
    assert run.progress.position["batch"] == 0
    list(run.train())
    assert run.is_finished


def test_a_best_in_another_unit_is_not_taken_up_again_after_a_try_that_was_cut_short(
    settings: RunSettings, tmp_path: Path
) -> None:
    stopped_at(5, tmp_path / "run", settings)
    assert Run.resume(tmp_path / "run").progress.best is not None
    Run.resume(tmp_path / "run", {"train.choose": "bleu"})
    assert Run.resume(tmp_path / "run").progress.best is None


def test_rows_of_a_stream_are_counted_anew_from_the_beginning_of_the_epoch() -> None:
    before = read_settings(None, {"task": "lm", "data.stream": "true", "data.train": "a.txt"})
    now = before.model_copy(update={"train": before.train.model_copy(update={"length": 16})})
    position = Position(epoch=3, line=70_000, window=1, batch=9)
    found = carried_on(Progress(5, asdict(position)), before, now, Path())
    assert found.position == asdict(Position(epoch=3))


def test_a_best_in_another_unit_is_no_longer_the_one_to_beat(settings: RunSettings) -> None:
    progress = Progress(5, asdict(Position()), best=50.0, best_step=4, n_without_gain=1)
    before, now = with_choice(settings, "chrf"), with_choice(settings, "bleu")
    assert carried_on(progress, before, before, Path()) == progress
    assert carried_on(progress, before, now, Path()).best is None
    assert carried_on(progress, before, now, Path()).n_without_gain == 0
    for choice in ("bleu", "loss"):  # of pairs that fit: of others, with another limit
        before = with_choice(settings, choice)
        data = before.data.model_copy(update={"max_tokens": 9})
        now = before.model_copy(update={"data": data})
        assert carried_on(progress, before, now, Path()).best is None
    for choice, is_kept in (("bleu", False), ("loss", True)):  # the loss is always of all
        before = with_choice(settings, choice)
        train = before.train.model_copy(update={"eval_sentences": 9})
        now = before.model_copy(update={"train": train})
        assert (carried_on(progress, before, now, Path()).best == 50.0) == is_kept


def test_the_best_of_an_abandoned_future_is_forgotten_unless_it_comes_again(
    settings: RunSettings, tmp_path: Path
) -> None:
    progress = Progress(5, asdict(Position()), best=1.5, best_step=4)
    write_json(tmp_path / "scores.json", {"step": 8})
    slower = settings.model_copy(update={"train": settings.train.model_copy(update={"lr": 1e-4})})
    assert carried_on(progress, settings, settings, tmp_path) == progress
    assert carried_on(progress, settings, slower, tmp_path).best is None
    assert carried_on(progress, settings, settings, tmp_path, n_processes=2).best is None
    write_json(tmp_path / "scores.json", {"step": 4})
    assert carried_on(progress, settings, slower, tmp_path) == progress


def test_samples_of_an_abandoned_future_are_removed(settings: RunSettings, tmp_path: Path) -> None:
    run = stopped_at(2, tmp_path / "run", settings)
    later = run.folder / "samples" / "step-00000004.tsv"
    later.parent.mkdir(exist_ok=True)
    later.write_text("source\treference\toutput\n")
    Run.resume(run.folder)
    assert not later.exists()


def test_minutes_that_are_used_up_give_no_more_steps(settings: RunSettings) -> None:
    train = settings.train.model_copy(update={"minutes": 1.0, "steps": 500})
    now = settings.model_copy(update={"train": train})
    progress = Progress(20, asdict(Position()), seconds=59.0)
    assert carried_on(progress, now, now, Path()).fit == {
        "steps": 500,
        "minutes": 1.0,
        "n_fit": 20,
        "pace": 59.0 / 20,
    }
    early = replace(progress, seconds=30.0)
    assert carried_on(early, now, now, Path()) == early


def test_the_mean_of_a_run_ended_where_it_stands_is_measured(
    settings: RunSettings, tmp_path: Path
) -> None:
    train = settings.train.model_copy(update={"average": 2, "save_every": 1})
    settings = settings.model_copy(update={"train": train})
    stopped_at(5, tmp_path / "run", settings)
    ended = Run.resume(tmp_path / "run", {"train.steps": "5"})
    ended.end_here()
    scores = read_json(tmp_path / "run" / "scores.json", max_bytes=10_000, max_depth=2)
    assert (scores["step"], scores["n_averaged"]) == (5, 2)


@pytest.mark.parametrize(("stop", "n_averaged"), [(2, 1), (6, 2)])
def test_the_mean_has_the_step_where_the_run_was_ended(
    stop: int, n_averaged: int, settings: RunSettings, tmp_path: Path
) -> None:
    train = settings.train.model_copy(update={"average": 2, "save_every": 4})
    stopped_at(stop, tmp_path / "run", settings.model_copy(update={"train": train}))
    Run.resume(tmp_path / "run", {"train.steps": str(stop)}).end_here()
    scores = read_json(tmp_path / "run" / "scores.json", max_bytes=10_000, max_depth=2)
    assert (scores["step"], scores["n_averaged"]) == (stop, n_averaged)
    kept = [found.name for found in find_checkpoints(tmp_path / "run" / "averaging")]
    assert kept[0] == f"step-{stop:08d}"


@pytest.mark.parametrize(
    "change",
    [
        {"train.tune_beam": "2"},
        {"train.average": "2"},
        {"train.choose": "chrf"},
        {"data.dev": "false"},
    ],
)
def test_a_result_that_is_asked_for_otherwise_is_made_again(
    change: dict[str, str], settings: RunSettings, tmp_path: Path
) -> None:
    list(Run.start(tmp_path / "run", settings).train())
    assert Run.resume(tmp_path / "run").has_result
    changed = Run.resume(tmp_path / "run", change)
    assert not changed.has_result
    changed.end_here()
    assert Run.resume(tmp_path / "run").has_result


def test_a_masked_token_model_keeps_its_places(tmp_path: Path) -> None:
    mlm = {"task": "mlm", "train__length": "32"}
    settings = small_settings(write_texts(tmp_path / "texts.txt"), **mlm)
    stopped_at(2, tmp_path / "run", settings)
    with pytest.raises(ConfigError, match=r"train\.length: cannot be changed"):
        Run.resume(tmp_path / "run", {"train.length": "16"})


@pytest.mark.parametrize(
    ("tokens", "n_processes", "best"), [(128, 1, 3.0), (256, 1, None), (128, 2, None)]
)
def test_what_is_covered_up_otherwise_does_not_compare(
    tokens: int, n_processes: int, best: float | None, tmp_path: Path
) -> None:
    before = small_settings(write_texts(tmp_path / "texts.txt"), task="mlm")
    now = small_settings(tmp_path / "texts.txt", task="mlm", train__tokens=str(tokens))
    progress = Progress(20, asdict(Position()), best=3.0, best_step=10)
    assert carried_on(progress, before, now, Path(), n_processes).best == best


@pytest.mark.parametrize("average", ["0", "2"])
def test_a_run_ended_where_it_stands_has_the_model_of_that_step(
    average: str, settings: RunSettings, tmp_path: Path
) -> None:
    data = {"dev": False}
    train = {"average": int(average), "save_every": 1}
    settings = settings.model_copy(
        update={
            "data": settings.data.model_copy(update=data),
            "train": settings.train.model_copy(update=train),
        }
    )
    list(Run.start(tmp_path / "run", settings).train())
    first = lookleft.load(tmp_path / "run").network.state_dict()
    more = Run.resume(tmp_path / "run", {"train.steps": "20"})
    assert not more.is_finished
    list(more.train(is_stop_asked=lambda: more.progress.step >= 12))
    ended = Run.resume(tmp_path / "run", {"train.steps": "12"})
    assert ended.is_finished
    assert not ended.has_result
    ended.end_here()
    assert Run.resume(tmp_path / "run").has_result
    last = lookleft.load(tmp_path / "run").network.state_dict()
    assert any(not torch.equal(first[name], last[name]) for name in first)
    own = ended.model.state_dict()
    is_own = all(torch.equal(own[name], last[name]) for name in own)
    assert is_own == (average == "0")


def test_a_reserve_is_kept_although_a_later_checkpoint_is_damaged(tmp_path: Path) -> None:
    model = network()
    for step in (500, 1000, 1500):
        save_checkpoint(tmp_path, model, [], Progress(step, {}), keep=3)
    (tmp_path / "step-00001500" / "model.safetensors").write_bytes(b"damaged")
    save_checkpoint(tmp_path, model, [], Progress(1200, {}))
    left = [found.name for found in find_checkpoints(tmp_path)]
    assert left == ["step-00001500", "step-00001200", "step-00001000"]


def test_what_optimisers_remember_goes_where_the_weights_are(tmp_path: Path) -> None:
    model = network()
    optimizers = make_optimizers(model, lr=0.01, matrix_lr=0.02)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for optimizer in optimizers:
        optimizer.step()
    made = save_checkpoint(tmp_path, model, optimizers, Progress(1, {}))
    elsewhere = network().to("meta")
    others = make_optimizers(elsewhere, lr=0.01, matrix_lr=0.02)
    load_checkpoint(made, elsewhere, others)
    states = [state for optimizer in others for state in optimizer.state.values()]
    assert {value.device.type for state in states for value in state.values()} == {"meta"}


def network() -> AnyModel:
    return build(presets.gpt(30, 16, 1, 2, 32), torch.Generator().manual_seed(0))


def kept_weights(folder: Path) -> dict[str, torch.Tensor]:
    return lookleft.load(folder).network.state_dict()


def test_without_a_dev_set_from_here_on_the_last_weights_are_the_result(
    settings: RunSettings, tmp_path: Path
) -> None:
    stopped_at(5, tmp_path / "run", settings)
    more = Run.resume(tmp_path / "run", {"data.dev": "false", "train.steps": "9"})
    assert more.progress.best is None
    list(more.train())
    last = more.model.state_dict()
    kept = kept_weights(tmp_path / "run" / "model")
    assert all(torch.equal(tensor, last[name]) for name, tensor in kept.items())
    assert not (tmp_path / "run" / "scores.json").exists()  # they were of other weights


def test_scores_are_of_the_model_that_is_kept(settings: RunSettings, tmp_path: Path) -> None:
    train = settings.train.model_copy(update={"average": 2, "save_every": 1, "eval_every": 1})
    settings = settings.model_copy(update={"train": train})
    list(Run.start(tmp_path / "run", settings).train())
    scores = tmp_path / "run" / "scores.json"
    assert read_json(scores, max_bytes=10_000, max_depth=2)["n_averaged"] == 2
    best = Run.resume(tmp_path / "run", {"train.average": "0"})
    best.end_here()
    found = read_json(scores, max_bytes=10_000, max_depth=2)
    assert (found["step"], found["dev_loss"]) == (best.progress.best_step, best.progress.best)
    assert "n_averaged" not in found


def test_bleu_of_words_cut_otherwise_does_not_compare(settings: RunSettings) -> None:
    train = settings.train.model_copy(update={"choose": "bleu"})
    before = settings.model_copy(update={"train": train})
    data = before.data.model_copy(update={"source": "en", "target": "hi"})
    now = before.model_copy(update={"data": data})
    progress = Progress(20, asdict(Position()), best=30.0, best_step=10)
    assert carried_on(progress, before, before, Path()).best == 30.0
    assert carried_on(progress, before, now, Path()).best is None
