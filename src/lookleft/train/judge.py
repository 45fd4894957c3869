"""What a run asks about quality beyond the loss. Training cannot decode: it is passed a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from lookleft.bundle import Bundle
from lookleft.errors import ConfigError

Choice = Literal["loss", "bleu", "chrf"]


@dataclass(frozen=True)
class Sample:
    """A dev sentence, its reference, and what the model makes of it; for a language model the
    prompt, nothing, and its continuation."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Opinion:
    """What a judge says of a model; what it did not measure is None."""

    bleu: float | None = None
    chrf: float | None = None
    bits_per_byte: float | None = None
    signature: str | None = None  # how bleu was counted
    samples: tuple[Sample, ...] = ()

    @property
    def scores(self) -> dict[str, float | None]:
        """The figures, by name."""
        return {"bleu": self.bleu, "chrf": self.chrf, "bits_per_byte": self.bits_per_byte}


class Judge(Protocol):
    """Anything that looks at a model and says how good it is; it must leave the model alone."""

    def __call__(self, bundle: Bundle) -> Opinion: ...


class Tuner(Protocol):
    """Sets how a trained model will be used: what is written with its weights."""

    def __call__(self, bundle: Bundle) -> None: ...


def no_opinion(bundle: Bundle) -> Opinion:
    """The judge of runs that measure the loss only."""
    return Opinion()


def as_it_is(bundle: Bundle) -> None:
    """The tuner of runs whose models need no tuning."""


def value_of(choice: Choice, figures: Mapping[str, float | None]) -> float:
    """The value that decides which model is best."""
    found = figures["dev_loss" if choice == "loss" else choice]
    if found is None:
        raise ConfigError(f"train.choose = {choice!r}: nobody measures it in this run; use 'loss'")
    return found


def is_better(choice: Choice, new: float, best: float | None) -> bool:
    """Whether a new value beats the best so far: of losses the smaller, of scores the larger."""
    return best is None or (new < best if choice == "loss" else new > best)
