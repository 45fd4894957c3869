"""Every way to train, as a whole run: it can be stopped anywhere, and says what it measured."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from small_runs import STOPPABLE, WORDS, differences, small_settings, write_pairs
from torch import Tensor
from transformers import BertForMaskedLM

import lookleft
from lookleft.data.batch import Batch, as_rows
from lookleft.errors import ConfigError
from lookleft.models import EncoderOnly
from lookleft.tensors import read_tensors
from lookleft.train import replicas
from lookleft.train.diverged import DivergedError
from lookleft.train.prepare import is_begun_with
from lookleft.train.run import Run
from lookleft.train.settings import RunSettings
from lookleft.train.settings_file import read_settings
from lookleft.train.track import read_metrics

SMALL = STOPPABLE | {"train.save_every": "2", "train.warmup": "2", "train.lr": "0.01"}
WAYS = {
    "sequential": {"train.mode": "sequential"},
    "rdrop": {"train.rdrop": "5.0"},
    "rdrop later": {"train.rdrop": "5.0", "train.rdrop_after": "4"},
    "dropout later": {"model.dropout": "0.5", "train.dropout_warmup": "5"},
    "dropout that fades": {
        "model.dropout": "0.5",
        "train.dropout_fade": "0.9",
        "train.schedule": "cosine",
    },
    "dropout later, side by side": {
        "model.dropout": "0.5",
        "train.dropout_warmup": "5",
        "train.accumulate": "2",
    },
    "own words": {"train.own_words": "0.5", "train.own_words_warmup": "4"},
    "moving average": {"train.ema": "0.9"},
    "moving average, side by side": {"train.ema": "0.9", "train.accumulate": "2"},
    "mean of checkpoints": {"train.average": "3"},
    "bfloat16": {"train.precision": "bfloat16"},
    "bfloat16 side by side": {"train.precision": "bfloat16", "train.accumulate": "2"},
    "masked tokens": {"task": "mlm", "train.length": "32"},
    "growing rows": {"task": "lm", "train.length": "96", "train.length_warmup": "6"},
    "sequential lm": {"task": "lm", "train.length": "12", "train.mode": "sequential"},
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    pairs, texts = write_pairs(tmp_path / "pairs.tsv"), tmp_path / "texts.txt"
    lines = [f"{a} {b} {b} {a} {a} {b} {b} {a}\n" for a in WORDS for b in WORDS]
    texts.write_text("".join(lines), encoding="utf-8")
    return {"translate": pairs, "lm": texts, "mlm": texts}


def settings_for(files: dict[str, Path], changes: dict[str, str]) -> RunSettings:
    return small_settings(files[changes.get("task", "translate")], base=SMALL | changes)


def weights(folder: Path) -> dict[str, Tensor]:
    return lookleft.load(folder).network.state_dict()


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All micro-batches of a step run at once, as on many threads; filled with how many did.

    Tests have one thread, on which they would run one after another.
    """
    ran: list[int] = []
    real = replicas.threads_for

    def noted(n: int) -> AbstractContextManager[None]:
        ran.append(n)
        return real(n)

    monkeypatch.setattr(replicas, "threads_for", noted)
    monkeypatch.setattr("lookleft.train.run.n_replicas", lambda accumulate, *_: accumulate)
    return ran


@pytest.mark.parametrize("way", WAYS)
def test_stopped_and_taken_up_it_ends_bit_for_bit_the_same(
    way: str, files: dict[str, Path], tmp_path: Path, beside: list[int]
) -> None:
    settings = settings_for(files, WAYS[way])
    *_, last = Run.start(tmp_path / "whole", settings).train()
    assert last.dev_loss is not None
    assert math.isfinite(last.dev_loss)
    cut = Run.start(tmp_path / "cut", settings)
    list(cut.train(is_stop_asked=lambda: cut.progress.step == 5))
    again = Run.resume(tmp_path / "cut")
    assert again.progress.step == 5
    *_, last_again = again.train()
    assert last_again.dev_loss == last.dev_loss
    assert differences(tmp_path / "whole", tmp_path / "cut") == []
    assert beside == ([2] * (8 + 5 + 3) if "side by side" in way else [])


def test_micro_batches_side_by_side_train_what_they_train_one_after_another(
    files: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = settings_for(files, {"train.accumulate": "2"})
    list(Run.start(tmp_path / "in a row", settings).train())
    beside = request.getfixturevalue("beside")
    list(Run.start(tmp_path / "beside", settings).train())
    assert beside == [2] * 8
    assert differences(tmp_path / "in a row", tmp_path / "beside") == []


def test_a_run_keeps_the_precision_that_it_found(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a machine without the units: there it is slow, and not another run."""
    asked = settings_for(files, {"train.precision": "auto"})
    explicit = settings_for(files, {"train.precision": "bfloat16"})
    list(Run.start(tmp_path / "explicit", explicit).train())
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    run = Run.start(tmp_path / "found", asked)
    assert read_settings(tmp_path / "found" / "config.toml") == explicit
    list(run.train(is_stop_asked=lambda: run.progress.step == 5))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False})
    list(Run.resume(tmp_path / "found").train())
    assert differences(tmp_path / "explicit", tmp_path / "found") == []
    assert is_begun_with(tmp_path / "found", asked)  # torchrun repeats its command
    assert not is_begun_with(tmp_path / "found", settings_for(files, {}))
    again = Run.resume(tmp_path / "found", {"train.precision": "auto"})
    assert again.settings.train.precision == "float32"
    assert read_settings(tmp_path / "found" / "config.toml") == again.settings


def test_both_precisions_learn_alike(files: dict[str, Path], tmp_path: Path) -> None:
    changes = {"train.steps": "60", "train.eval_every": "60", "model.dropout": "0.0"}
    losses = {}
    for precision in ("float32", "bfloat16"):
        settings = settings_for(files, changes | {"train.precision": precision})
        events = list(Run.start(tmp_path / precision, settings).train())
        losses[precision] = [events[0].loss, events[-1].dev_loss]
    (first, exact), (_, rough) = losses["float32"], losses["bfloat16"]
    assert exact < first / 2
    assert rough != exact
    assert rough == pytest.approx(exact, rel=0.1)


def test_the_mean_of_the_last_checkpoints_becomes_the_model(
    files: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    *_, measured, last = Run.start(folder, settings_for(files, {"train.average": "3"})).train()
    kept = sorted((folder / "averaging").iterdir())
    assert [f.name for f in kept] == ["step-00000004", "step-00000006", "step-00000008"]
    tensors = [read_tensors(f / "model.safetensors") for f in kept]
    for name, tensor in weights(folder).items():
        expected = torch.stack([one[name].double() for one in tensors]).mean(0).float()
        assert torch.equal(tensor, expected), name
    assert (measured.step, last.step) == (8, 8)
    assert (measured.n_averaged, last.n_averaged) == (None, 3)  # each says what it is of
    assert measured.dev_loss != last.dev_loss
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["n_averaged"] == 3


def test_weights_of_an_abandoned_future_are_not_averaged(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """A run taken up at an older checkpoint, with another rate, must not meet its old self."""
    folder = tmp_path / "run"
    list(Run.start(folder, settings_for(files, {"train.average": "3"})).train())
    (folder / "checkpoints" / "step-00000008" / "manifest.json").write_text("{}")
    run = Run.resume(folder, {"train.lr": "0.02"})
    assert run.progress.step == 6
    kept = sorted(path.name for path in (folder / "averaging").iterdir())
    assert kept == ["step-00000004", "step-00000006"]
    *_, last = run.train()
    assert last.n_averaged == 3


def test_the_moving_average_is_what_is_measured_and_kept(
    files: dict[str, Path], tmp_path: Path
) -> None:
    plain, averaged = tmp_path / "plain", tmp_path / "averaged"
    *_, one = Run.start(plain, settings_for(files, {})).train()
    *_, other = Run.start(averaged, settings_for(files, {"train.ema": "0.9"})).train()
    assert one.loss == other.loss  # following the weights changes no step
    assert one.dev_loss != other.dev_loss
    assert (one.ema, other.ema) == (None, 0.9)
    assert json.loads((averaged / "scores.json").read_text())["ema"] == 0.9
    assert any(not torch.equal(t, weights(averaged)[name]) for name, t in weights(plain).items())


def test_a_masked_token_model_is_measured_on_the_same_tokens_each_time(
    files: dict[str, Path], tmp_path: Path
) -> None:
    settings = settings_for(
        files, {"task": "mlm", "train.lr": "1e-12", "train.eval_every": "1", "train.length": "32"}
    )
    losses = [event.dev_loss for event in Run.start(tmp_path / "run", settings).train()]
    assert len(losses) == 8
    assert max(losses) - min(losses) < 1e-5


def test_a_masked_token_model_learns_and_loads_as_bert(
    files: dict[str, Path], tmp_path: Path
) -> None:
    changes = {"task": "mlm", "train.length": "32", "train.steps": "60", "model.dropout": "0.0"}
    changes |= {"train.tokens": "512", "train.eval_every": "30", "train.lr": "0.02"}
    events = list(Run.start(tmp_path / "run", settings_for(files, changes)).train())
    first, last = (event.dev_loss for event in events if event.dev_loss is not None)
    assert first is not None
    assert last is not None
    assert last < first < math.log(300)
    bundle = lookleft.load(tmp_path / "run")
    assert isinstance(bundle.network, EncoderOnly)
    ids = bundle.encode("one two")
    assert ids[0] == bundle.specials.bos  # framed as in training
    assert ids[-1] == bundle.specials.eos
    theirs = BertForMaskedLM.from_pretrained(tmp_path / "run" / "model").eval()
    with torch.no_grad():
        ours = bundle.network.score(Batch(as_rows(torch.tensor([ids]))))
        torch.testing.assert_close(theirs(torch.tensor([ids])).logits, ours, rtol=0, atol=1e-4)


def test_a_loss_that_is_no_number_names_its_lines_and_leaves_the_last_checkpoint(
    files: dict[str, Path], tmp_path: Path
) -> None:
    run = Run.start(tmp_path / "run", settings_for(files, {}))
    events = run.train()
    while next(events).step < 5:
        pass
    with torch.no_grad():
        next(run.model.parameters()).fill_(math.nan)
    with pytest.raises(DivergedError, match=r"step 5: the loss is nan .* on lines \d+.*--resume"):
        next(events)
    assert Run.resume(tmp_path / "run").progress.step == 4


def test_a_loss_that_is_no_number_on_one_long_text_names_rows_and_epoch(tmp_path: Path) -> None:
    text = tmp_path / "play.txt"
    text.write_text("one and two\n" * 20)  # fifteen rows of 16 characters: four batches an epoch
    changes = {"task": "lm", "data.stream": "true", "data.dev": "false", "train.length": "16"}
    run = Run.start(tmp_path / "run", settings_for({"lm": text}, changes))
    events = run.train()
    while next(events).step < 5:
        pass
    epoch = run.progress.position["epoch"]
    assert epoch == 1
    with torch.no_grad():
        next(run.model.parameters()).fill_(math.nan)
    with pytest.raises(DivergedError, match=rf"on rows \d+, .*\d of epoch {epoch} of data\.train"):
        next(events)


def test_weights_without_a_dev_loss_are_neither_kept_nor_saved(
    files: dict[str, Path], tmp_path: Path
) -> None:
    run = Run.start(tmp_path / "run", settings_for(files, {"train.eval_every": "1"}))
    events = run.train()
    while next(events).step < 3:
        pass
    best = (tmp_path / "run" / "scores.json").read_text()
    step = run.optimizers[0].step

    def explode() -> None:
        step()
        with torch.no_grad():
            next(run.model.parameters()).fill_(math.nan)

    run.optimizers[0].step = explode  # type: ignore[method-assign, assignment]
    with pytest.raises(
        DivergedError, match=r"after step 4 the loss on the dev set is nan.*step-0*2 is"
    ):
        list(events)
    assert (tmp_path / "run" / "scores.json").read_text() == best
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2, 3]
    assert Run.resume(tmp_path / "run").progress.step == 2


@pytest.mark.parametrize("save_every", [1, 3])
def test_a_checkpoint_that_leads_nowhere_is_taken_back(
    save_every: int, files: dict[str, Path], tmp_path: Path
) -> None:
    """A step may ruin the weights, and only the next one's loss show it: saved in between, they
    would be what a resumed run goes on from."""
    changes = {"data.dev": "false", "train.save_every": str(save_every), "train.log_every": "1"}
    run = Run.start(tmp_path / "run", settings_for(files, changes))
    ruined = run.optimizers[0]
    step = ruined.step

    def ruin_the_third() -> None:
        step()
        if run.progress.step == 2:
            with torch.no_grad():
                next(run.model.parameters()).fill_(math.nan)

    ruined.step = ruin_the_third  # type: ignore[method-assign, assignment]
    message = "go on from it" if save_every == 1 else "There is no checkpoint from before"
    with pytest.raises(DivergedError, match=message):
        list(run.train())
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    if save_every == 3:
        assert kept == ["step-00000003"]  # for whoever wants to look at it
    else:
        assert kept == ["step-00000002"]
        assert (tmp_path / "run" / "last").resolve().name == "step-00000002"
        again = Run.resume(tmp_path / "run")
        assert again.progress.step == 2
        list(again.train())
        assert again.is_finished


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "mlm", "train.mode": "sequential"}, "has no order"),
        ({"task": "mlm", "train.own_words": "0.1"}, "reads no words of its own"),
        ({"task": "mlm", "model.mask": "none"}, "sees both sides anyway"),
        ({"train.mode": "sequential", "model.mask": "none"}, "cannot peek"),
        ({"train.mode": "sequential", "train.rdrop": "1"}, "needs train.mode"),
        ({"train.mode": "sequential", "train.parallel": "fsdp"}, r"needs train\.parallel"),
        (
            {"model.dropout": "0", "train.dropout_warmup": "9"},
            r"need model\.dropout",
        ),
        ({"train.compile": "true", "train.dropout_fade": "0.1"}, "leave them or it out"),
        ({"train.rdrop_after": "9"}, r"rdrop_after needs train\.rdrop"),
        ({"train.ema": "0.9", "train.average": "2"}, "either train.ema or train.average"),
        ({"train.length_warmup": "9"}, "is for lm"),
        ({"task": "lm", "data.stream": "true", "data.train": "x.jsonl.gz"}, "is not one text"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    changes: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(None, changes)


@pytest.mark.parametrize("task", ["translate", "lm", "mlm"])
def test_without_biases_nothing_is_added_behind_products(
    task: str, files: dict[str, Path], tmp_path: Path
) -> None:
    changes = {"task": task, "model.bias": "false", "train.length": "32", "model.norm": "rms"}
    run = Run.start(tmp_path / "run", settings_for(files, changes))
    assert not [name for name, _ in run.model.named_parameters() if "bias" in name]
    list(run.train())
    assert not [name for name in weights(tmp_path / "run") if "bias" in name]
