"""A run: a folder, and the training that fills it, resumable at any step.

config.toml      the resolved settings          metrics.jsonl   one object per logged step
data.json        fingerprints of the data       checkpoints/    the last ones, to go on from
tokenizer.json   learned from the data          model/          the result, for lookleft.load
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from lookleft.bundle import Bundle
from lookleft.data.batch import Batch
from lookleft.data.bucket import Position
from lookleft.errors import ConfigError, FileError
from lookleft.files import read_json, write_json
from lookleft.models import AnyModel, build
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.checkpoint import Progress, load_checkpoint, newest_sound, save_checkpoint
from lookleft.train.data import (
    dev_batches,
    fingerprint,
    make_batch,
    train_tokenizer,
    training_feed,
)
from lookleft.train.loop import StepRecord, train_steps, validate
from lookleft.train.optim import make_optimizers
from lookleft.train.schedule import make_schedule
from lookleft.train.settings import RunSettings, model_config, read_settings, write_settings


@dataclass(frozen=True)
class Event:
    """Something to tell: a logged step, an evaluation, a save."""

    step: int  # steps done
    loss: float
    lr: float
    tokens: int  # targets learned from since the run began in this sitting
    seconds: float
    dev_loss: float | None = None
    is_best: bool = False
    n_without_gain: int = 0
    best_loss: float | None = None


class Run:
    """One training run in its folder."""

    def __init__(self, folder: Path, settings: RunSettings, tokenizer: Tokenizer) -> None:
        """Prefer `Run.start` and `Run.resume`."""
        self.folder, self.settings, self.tokenizer = folder, settings, tokenizer
        train = settings.train
        torch.manual_seed(train.seed)  # dropout
        draw = torch.Generator().manual_seed(train.seed)
        config = model_config(settings, len(tokenizer), tokenizer.specials.require("bos"))
        self.model: AnyModel = build(config, draw)
        self.optimizers = make_optimizers(
            self.model, lr=train.lr, matrix_lr=train.matrix_lr, weight_decay=train.weight_decay
        )
        self.schedule = make_schedule(train.schedule, warmup=train.warmup, steps=train.steps)
        self.progress = Progress(0, asdict(Position()))
        self.first_step = 0  # of this sitting

    @classmethod
    def start(cls, folder: Path, settings: RunSettings) -> Run:
        """A new run in a new folder; learns the tokenizer first."""
        if folder.exists() and any(folder.iterdir()):
            raise FileError(
                f"{folder}: is not empty. To go on with it: --resume; else give another --out"
            )
        marks = fingerprint(settings)
        run = cls(folder, settings, train_tokenizer(settings))
        folder.mkdir(parents=True, exist_ok=True)  # only now: a wrong setting leaves nothing behind
        run.tokenizer.save(folder)
        write_json(folder / "data.json", marks)
        write_settings(settings, folder / "config.toml")
        return run

    @classmethod
    def resume(cls, folder: Path, overrides: dict[str, str] | None = None) -> Run:
        """The run of a folder, at its newest sound checkpoint."""
        settings = read_settings(folder / "config.toml", overrides)
        before = read_json(folder / "data.json", max_bytes=1_000_000, max_depth=2)
        for name, mark in fingerprint(settings).items():
            if before.get(name) != mark:
                raise ConfigError(
                    f"{name}: has changed since {folder} was begun, so the run cannot go on as it "
                    f"would have. Put the file back, or begin a new run"
                )
        run = cls(folder, settings, Tokenizer.load(folder))
        checkpoint = newest_sound(folder / "checkpoints")
        if checkpoint is not None:
            run.progress = load_checkpoint(checkpoint, run.model, run.optimizers)
        return run

    @property
    def is_finished(self) -> bool:
        """True if no step is left, or patience ran out."""
        train, progress = self.settings.train, self.progress
        is_patient = not train.patience or progress.n_without_gain < train.patience
        return progress.step >= train.steps or not is_patient

    def train(self, is_stop_asked: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        """Train to the end, yielding what is worth telling; saves by itself.

        `is_stop_asked` is looked at between steps: then the step is saved and training ends early.
        """
        train = self.settings.train
        begun, tokens, self.first_step = time.perf_counter(), 0, self.progress.step
        for record in self._steps():
            done, tokens = record.step + 1, tokens + record.n_targets
            seconds, lr = time.perf_counter() - begun, train.lr * record.lr_share
            is_last = done == train.steps
            if done % train.eval_every == 0 or is_last:
                yield self._evaluated(Event(done, record.loss, lr, tokens, seconds))
            elif done % train.log_every == 0:
                yield self._logged(Event(done, record.loss, lr, tokens, seconds))
            if done % train.save_every == 0 or is_last:
                self.save()
            if is_stop_asked():
                self.save()
                return
        self.save()
        self._bundle().save(self.folder / "model")

    def save(self) -> Path:
        """Write a checkpoint of this very step."""
        return save_checkpoint(
            self.folder / "checkpoints", self.model, self.optimizers, self.progress
        )

    def _steps(self) -> Iterator[StepRecord]:
        train = self.settings.train
        feed = training_feed(self.settings, self.tokenizer, Position(**self.progress.position))
        start_id = getattr(self.model.config, "start_id", 0)

        def groups() -> Iterator[list[Batch]]:
            while not self.is_finished:
                yield [make_batch(next(feed), start_id) for _ in range(train.accumulate)]

        for record in train_steps(
            self.model,
            groups(),
            self.optimizers,
            self.schedule,
            first_step=self.progress.step,
            max_norm=train.max_norm,
            smoothing=train.smoothing,
        ):
            self.progress = Progress(
                record.step + 1,
                asdict(feed.position),
                self.progress.best_loss,
                self.progress.n_without_gain,
            )
            yield record

    def _evaluated(self, event: Event) -> Event:
        """The event with the dev loss; keeps the best model and counts evaluations without gain."""
        if self.settings.data.dev is None:
            return self._logged(event)
        start_id = getattr(self.model.config, "start_id", 0)
        loss = validate(self.model, dev_batches(self.settings, self.tokenizer, start_id))
        best = self.progress.best_loss
        is_best = best is None or loss < best
        n_without_gain = 0 if is_best else self.progress.n_without_gain + 1
        best = loss if is_best else best
        self.progress = Progress(self.progress.step, self.progress.position, best, n_without_gain)
        if is_best:
            self._bundle().save(self.folder / "best")
        facts = asdict(event) | {"dev_loss": loss, "is_best": is_best}
        return self._logged(Event(**facts | {"n_without_gain": n_without_gain, "best_loss": best}))

    def _logged(self, event: Event) -> Event:
        facts = {key: value for key, value in asdict(event).items() if value is not None}
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")
        return event

    def _bundle(self) -> Bundle:
        return Bundle(self.model, self.tokenizer, self.tokenizer.specials)
