"""What a run makes of its weights: the best model so far, a mean of the last ones, and model/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lookleft.bundle import Bundle, load
from lookleft.data.corpus import Summary
from lookleft.files import make_folder, remove, write_json
from lookleft.models import AnyModel
from lookleft.text.tokenizer import Tokenizer
from lookleft.train.average import mean_model
from lookleft.train.checkpoint import Progress, save_checkpoint
from lookleft.train.event import Event
from lookleft.train.judge import Judge, Opinion, Tuner, as_it_is, is_better, no_opinion, value_of
from lookleft.train.measure import Figures, measured, write_scores
from lookleft.train.report import read_if_there
from lookleft.train.samples import write_samples
from lookleft.train.settings import RunSettings
from lookleft.train.world import World


class Results:
    """The models that a run keeps in its folder, and who says how good they are."""

    def __init__(
        self,
        folder: Path,
        settings: RunSettings,
        tokenizer: Tokenizer,
        source_tokenizer: Tokenizer | None,
        world: World,
    ) -> None:
        self.folder, self.settings, self.world = folder, settings, world
        self.tokenizer, self.source_tokenizer = tokenizer, source_tokenizer
        self.judge: Judge = no_opinion
        self.tuner: Tuner = as_it_is
        self.read = Summary()  # the lines of the dev set

    def bundle(self, model: AnyModel) -> Bundle:
        """A network with what is needed to use it."""
        return Bundle(
            model,
            self.tokenizer,
            self.tokenizer.specials,
            self.settings.data.languages,
            source_tokenizer=self.source_tokenizer,
        )

    def compared(
        self, event: Event, model: AnyModel, progress: Progress
    ) -> tuple[Event, Opinion, Progress]:
        """The event with what the dev set says; keeps the best model, counts those without gain."""
        choice, ema = self.settings.train.choose, self.settings.train.ema or None
        figures, opinion = self._measured(progress.step, model)
        figures["ema"] = ema
        value = value_of(choice, figures) if self.world.is_main else 0.0
        value = self.world.from_main(value)[0]
        is_best = is_better(choice, value, progress.best)
        if is_best:
            progress = replace(progress, best=value, best_step=progress.step, n_without_gain=0)
        else:
            progress = replace(progress, n_without_gain=progress.n_without_gain + 1)
        if self.world.is_main:
            write_samples(self.folder, progress.step, opinion.samples)
            if is_best:  # scores first: cut short here, a step that is not kept is made again
                make_folder(self.folder / "best")
                for folder in (self.folder, self.folder / "best"):
                    write_scores(folder, progress.step, figures, opinion)
                self.bundle(model).save(self.folder / "best")
        event = replace(
            event,
            **figures,
            is_best=is_best,
            n_without_gain=progress.n_without_gain,
            best=progress.best,
            best_step=progress.best_step,
        )
        return event, opinion, progress

    def keep_for_mean(self, model: AnyModel, progress: Progress) -> None:
        """Keep the weights of this step: they may be among the last ones, to be averaged."""
        folder, n_kept = self.folder / "averaging", self.settings.train.average
        save_checkpoint(folder, model, [], progress, keep=n_kept, world=self.world)

    def mean_measured(self, model: AnyModel, step: int) -> Figures:
        """What the dev set says of the mean of the last checkpoints."""
        mean, n_averaged = self._mean(model)
        if self.settings.data.dev_set is None:
            if self.world.is_main:
                remove(self.folder / "scores.json")
            return {"n_averaged": n_averaged}
        figures, opinion = self._measured(step, mean)
        figures["n_averaged"] = n_averaged
        if self.world.is_main:
            write_scores(self.folder, step, figures, opinion)
        return figures

    def save(self, model: AnyModel, *, is_measured: bool) -> None:
        """Write model/: the mean of the last checkpoints if that was asked for, else the best model
        if a dev set told which that is, else this one.

        scores.json is then about that very model, or gone: one before it may have been measured.
        """
        if self.settings.train.average:
            result = self.bundle(self._mean(model)[0])
        elif is_measured:
            result = load(self.folder / "best")
            if scores := read_if_there(self.folder / "best" / "scores.json"):
                write_json(self.folder / "scores.json", scores)
        else:
            result = self.bundle(model)
            remove(self.folder / "scores.json")
        result.save(self.folder / "model")
        if self.tuner is not as_it_is:  # after it is safe: tuning may take minutes
            result.network.to(model.device)
            self.tuner(result)
            result.save(self.folder / "model")

    def _mean(self, model: AnyModel) -> tuple[AnyModel, int]:
        """A network with the mean weights of the last checkpoints, and of how many."""
        return mean_model(self.folder / "averaging", model, self.settings.train.average)

    def _measured(self, step: int, model: AnyModel) -> tuple[Figures, Opinion]:
        """What the dev set and the judge say of a network."""
        bundle = self.bundle(model)
        return measured(step, bundle, self.settings, self.judge, self.world, self.read)
