"""A run: a folder, and the training that fills it, resumable at any step.

config.toml      the resolved settings          metrics.jsonl   one object per logged step
data.json        fingerprints of the data       checkpoints/    the last ones, to go on from
tokenizer.json   learned from the data          model/          the result, for lookleft.load
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import torch

from lookleft.bundle import load_source_tokenizer
from lookleft.data.batch import Batch
from lookleft.data.bucket import Position
from lookleft.data.corpus import Summary
from lookleft.errors import FileError
from lookleft.files import link_atomically, write_json
from lookleft.models import AnyModel, build
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.average import MovingAverage, forget_checkpoints_after
from lookleft.train.budget import Clock, Fit, Stopwatch, decide, held_fit, is_due
from lookleft.train.changes import ORDER, carried_on, check_same_network, led_to, made_by
from lookleft.train.checkpoint import Progress, load_checkpoint, newest_sound, save_checkpoint
from lookleft.train.data import batch_maker, training_feed
from lookleft.train.device import compile_blocks, find_device
from lookleft.train.diverged import DivergedError, way_back
from lookleft.train.event import Event
from lookleft.train.judge import Opinion
from lookleft.train.keys import changed_keys
from lookleft.train.loop import StepRecord, train_steps
from lookleft.train.memory import kept_memory
from lookleft.train.optim import make_optimizers
from lookleft.train.prepare import Tell, check_unchanged, prepare, say_nothing, settled
from lookleft.train.replicas import n_replicas
from lookleft.train.report import read_if_there, write_report
from lookleft.train.results import Results
from lookleft.train.samples import forget_samples_after, samples_text
from lookleft.train.schedule import make_schedule, row_length
from lookleft.train.settings import RunSettings, model_config
from lookleft.train.settings_file import read_settings, write_settings
from lookleft.train.team import Team
from lookleft.train.track import Tracker, check_trackers, forget_after, open_trackers
from lookleft.train.world import ALONE, World


class Run:
    """One training run in its folder."""

    def __init__(
        self, folder: Path, settings: RunSettings, tokenizer: Tokenizer, world: World = ALONE
    ) -> None:
        """Prefer `Run.start` and `Run.resume`."""
        self.folder, self.settings, self.tokenizer = folder, settings, tokenizer
        train, self.world = settings.train, world
        torch.manual_seed(train.seed + world.rank)  # dropout
        draw = torch.Generator().manual_seed(train.seed)
        self.source_tokenizer = load_source_tokenizer(folder)  # None: both sides share one
        n_source = None if self.source_tokenizer is None else len(self.source_tokenizer)
        start_id = tokenizer.specials.require("bos")
        config = model_config(settings, len(tokenizer), start_id, n_source)
        self.model: AnyModel = build(config, draw).to(find_device(train.device))
        if train.compile:
            compile_blocks(self.model)
        self.team = Team(
            self.model,
            world,
            train.parallel,
            n_replicas=n_replicas(train.accumulate, self.model.device, train.compile),
            seed=train.seed,
        )
        self.optimizers = make_optimizers(
            self.model,
            lr=train.lr,
            matrix_lr=train.matrix_lr,
            weight_decay=train.weight_decay,
            is_narrow=train.precision == "bfloat16",
        )
        self.moving_average: MovingAverage | None = None
        if train.ema:
            self.moving_average = MovingAverage(self.model.parameters(), train.ema)
            self.optimizers.append(self.moving_average)  # the last: it follows the others
        self.progress = made_by(settings, Progress(0, asdict(Position())))
        self.first_step = 0  # of this sitting
        self.reordered: list[str] = []  # settings changed since, that decide what data comes when
        self.read = Summary()  # the lines of the training text that this sitting has read
        self.results = Results(folder, settings, tokenizer, self.source_tokenizer, world)
        self.clock: Clock = time.perf_counter
        self.watch = Stopwatch(self.clock)  # of this sitting
        self.trackers: list[Tracker] = []

    @classmethod
    def start(
        cls,
        folder: Path,
        settings: RunSettings,
        world: World = ALONE,
        tell: Tell = say_nothing,
    ) -> Run:
        """A new run in a new folder; learns the tokenizer first, which it tells."""
        settings = settled(settings, world)
        with world.agreed():
            if world.is_main:
                prepare(folder, settings, world.size, tell)
        return cls(folder, settings, Tokenizer.load(folder), world)

    @classmethod
    def resume(
        cls, folder: Path, overrides: dict[str, str] | None = None, world: World = ALONE
    ) -> Run:
        """The run of a folder, at its newest sound checkpoint."""
        with world.agreed():
            kept = read_settings(folder / "config.toml")
            settings = read_settings(folder / "config.toml", overrides)
            check_unchanged(folder, settings)
            check_same_network(kept, settings, folder)
            check_trackers(settings.train.track)
        settings = settled(settings, world)
        run = cls(folder, settings, Tokenizer.load(folder), world)
        checkpoint = newest_sound(folder / "checkpoints", world)
        with world.agreed():
            # The link is made after the first checkpoint: without it there has never been one.
            if checkpoint is None and (folder / "last").is_symlink():
                raise FileError(
                    f"{folder / 'checkpoints'}: no checkpoint is left whole, so there is nothing "
                    f"to go on from, and what was measured is kept. Put one back, or begin a new "
                    f"run"
                )
        if checkpoint is not None:
            run.progress = load_checkpoint(checkpoint, run.model, run.optimizers, world)
        with world.agreed():
            before = led_to(run.progress) or kept
            run.reordered = changed_keys(before, settings, ORDER)
            progress = carried_on(run.progress, before, settings, folder, world.size)
            run.progress = made_by(settings, progress)
        with world.agreed():
            if world.is_main:
                if settings != kept:
                    write_settings(settings, folder / "config.toml")
                forget_after(folder, run.progress.step)
                forget_samples_after(folder, run.progress.step)
                forget_checkpoints_after(folder / "averaging", run.progress.step)
        return run

    @property
    def fit(self) -> Fit | None:
        """What was decided about train.minutes; None: nothing yet, or for other settings."""
        return held_fit(self.settings.train, self.progress)

    @property
    def n_steps(self) -> int:
        """How many steps the run has: those asked for, or those of them that fit."""
        return self.settings.train.steps if self.fit is None else self.fit.n_fit

    @property
    def is_finished(self) -> bool:
        """True if no step is left, or patience ran out."""
        train, progress = self.settings.train, self.progress
        is_patient = not train.patience or progress.n_without_gain < train.patience
        return progress.step >= self.n_steps or not is_patient

    @property
    def facts(self) -> dict[str, object]:
        """What report and card say of model and steps, and of the machine of this sitting."""
        return {
            "parameters": self.model.n_parameters,
            "steps": self.n_steps,
            "device": str(next(self.model.parameters()).device),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }

    def train(self, is_stop_asked: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        """Train to the end, yielding what is worth telling; saves by itself.

        `is_stop_asked` is looked at between steps: then the step is saved and training ends early.
        """
        if self.world.is_main:
            names, step = self.settings.train.track, self.progress.step
            self.trackers = open_trackers(self.folder, names, step)
            self._note_facts()
        try:
            yield from self._train(is_stop_asked)
        except DivergedError as error:
            step, train = self.progress.step, self.settings.train
            advice = way_back(self.folder, step, train.lr, train.matrix_lr, self.world)
            raise DivergedError(f"{error}. {advice}") from None
        finally:
            for tracker in self.trackers:
                tracker.close()

    def _train(self, is_stop_asked: Callable[[], bool]) -> Iterator[Event]:
        train = self.settings.train
        self.watch, before = Stopwatch(self.clock), self.progress.seconds
        tokens, self.first_step = 0, self.progress.step
        for record in self._steps():
            self.watch.count_step(train.objective.n_passes(record.step, record.step + 1))
            done, tokens = record.step + 1, tokens + record.n_targets
            seconds, lr = self.watch.seconds, train.lr * record.lr_share
            epoch, since = self.progress.position["epoch"], self.first_step
            event = Event(done, record.loss, lr, tokens, seconds, epoch, since)
            self.progress = replace(self.progress, seconds=before + seconds)
            is_fitted = is_due(train, self.progress, self.watch, self.world)
            # What an evaluation costs must be known then. Brought forward it is the first one,
            # which counts as a gain: nobody's patience is tried.
            is_early = is_fitted and self.progress.evaluation_seconds is None
            is_evaluated = is_early or done % train.eval_every == 0
            told, opinion = self._evaluated(event) if is_evaluated else (event, None)
            if is_fitted:
                told = self._fitted(told)
            if done == self.n_steps and not is_evaluated:  # asked for, or because no more fit
                is_evaluated = True
                told, opinion = self._evaluated(told)
            if is_evaluated or is_fitted or done % train.log_every == 0:
                yield self._logged(told, opinion)
            if done % train.save_every == 0 or self.is_finished:
                if train.average:  # before the checkpoint: taken up there, it never lacks these
                    self.results.keep_for_mean(self.team.whole_model(), self.progress)
                if self.is_finished and train.average:
                    figures = self.results.mean_measured(self.model, self.progress.step)
                    yield self._logged(replace(event, **figures))
                if self.is_finished:
                    self.save_result()
                self.save()  # the last one comes last: a run found finished has its model
            elif is_fitted:
                self.save()  # so that it is decided once; cut short before, it is decided anew
            if self.world.is_any(is_stop_asked()):  # all processes save this step, or none
                self.save()
                break

    def save(self) -> Path:
        """Write a checkpoint of this very step."""
        folder = self.folder / "checkpoints"
        made = save_checkpoint(folder, self.model, self.optimizers, self.progress, world=self.world)
        if self.world.is_main:
            link_atomically(self.folder / "last", made)
            write_report(self.folder)  # at evaluations too, which a run without a dev set has not
        return made

    @property
    def has_result(self) -> bool:
        """Whether model/ is of this very step, and as the settings ask for it: a run may have gone
        on since, or ended, or be asked for another choice of its models."""
        noted = read_if_there(self.folder / "run.json").get("result")
        is_kept = noted == self._result and (self.folder / "model").exists()
        return bool(self.world.from_main(is_kept)[0])

    def end_here(self) -> None:
        """The result of a run of which fewer steps are asked for than it has done."""
        if self.settings.train.average:
            self.results.keep_for_mean(self.team.whole_model(), self.progress)  # as at any end
            self.results.mean_measured(self.model, self.progress.step)
        self.save_result()

    def save_result(self) -> None:
        """Write model/: what the run is for."""
        with self._averaged() as model:
            if self.world.is_main:
                self.results.save(model, is_measured=self.progress.best is not None)
                self._note_facts(result=self._result)

    @property
    def _result(self) -> dict[str, object]:
        """What decides which weights model/ has now, and how they are used."""
        values = self.settings.model_dump(mode="json")
        chosen = {key: values["train"][key] for key in ("average", "choose", "tune_beam")}
        return {"step": self.progress.step, "dev": values["data"]["dev"], **chosen}

    @contextmanager
    def _averaged(self) -> Iterator[AnyModel]:
        """The network to measure and to keep: whole, with its moving average if the run has one."""
        with self.moving_average.in_place() if self.moving_average else nullcontext():
            yield self.team.whole_model()

    def _steps(self) -> Iterator[StepRecord]:
        train = self.settings.train
        position = Position(**self.progress.position)
        feed = training_feed(
            self.settings, self.tokenizer, position, self.world.share, self.source_tokenizer
        )
        self.read = feed.summary
        start_id = getattr(self.model.config, "start_id", 0)
        make = batch_maker(self.settings, self.tokenizer, start_id)

        # Processes stand at the same position of their shares, and cover up different tokens.
        place = f" {self.world.rank}" if self.world.size > 1 else ""

        def groups() -> Iterator[list[Batch]]:
            while not self.is_finished:
                step, warmup = self.progress.step, train.length_warmup
                length = row_length(step, length=train.length, warmup=warmup)
                group = []
                for _ in range(train.accumulate):
                    epoch, items = feed.position.epoch, next(feed)
                    key = f"{train.seed} {feed.position}{place}"
                    group.append(make(items, key=key, length=length, epoch=epoch))
                yield group

        steps = train_steps(
            self.model,
            groups(),
            self.optimizers,
            self._rate,
            first_step=self.progress.step,
            max_norm=train.max_norm,
            objective=train.objective,
            team=self.team,
        )
        with kept_memory():
            for record in steps:
                here = asdict(feed.position)
                self.progress = replace(self.progress, step=record.step + 1, position=here)
                yield record

    def _rate(self, step: int) -> float:
        """The share of the highest rate at a step, as long as the run has so many steps."""
        train = self.settings.train
        return make_schedule(
            train.schedule, warmup=train.warmup, steps=self.n_steps, decay_share=train.decay_share
        )(step)

    def _fitted(self, event: Event) -> Event:
        """The event with how many steps fit into train.minutes, which holds from now on."""
        fit = decide(self.settings.train, self.progress, self.watch, self.world)
        self.progress = replace(self.progress, fit=asdict(fit))
        if self.world.is_main:
            self._note_facts()
        return replace(event, steps_that_fit=fit.n_fit, seconds_per_step=fit.pace)

    def _evaluated(self, event: Event) -> tuple[Event, Opinion | None]:
        """The event with what the dev set says, and the judge's words; what that takes is noted."""
        if self.settings.data.dev_set is None:
            return event, None
        with self.watch.evaluation(), self._averaged() as model:
            event, opinion, self.progress = self.results.compared(event, model, self.progress)
        took, seconds = self.watch.last_evaluation, self.progress.seconds
        self.progress = replace(self.progress, seconds=seconds + took, evaluation_seconds=took)
        return event, opinion

    def _note_facts(self, **more: object) -> None:
        """Write run.json, which the report reads."""
        write_json(self.folder / "run.json", self.facts | more)

    def _logged(self, event: Event, opinion: Opinion | None = None) -> Event:
        for tracker in self.trackers:
            tracker.log(event.step, event.figures)
            if opinion is not None and opinion.samples:
                tracker.show(event.step, "samples", samples_text(opinion.samples))
        if opinion is not None and self.world.is_main:
            write_report(self.folder)
        return event
