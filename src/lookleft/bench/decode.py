"""How fast text is written, beside other programs that write it: the jobs, by name.

smollm2-*             real weights in 4 bits, beside llama.cpp (`continuing`)
marian-BATCHxBEAM     a random translator, beside CTranslate2 and transformers (`translating`)
length, batch, beam   what growing costs, with a cache and without one (`growing`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lookleft.bench.contest import Cell, Say
from lookleft.bench.continuing import Continuing, weights_file
from lookleft.bench.growing import BATCHES, BEAMS, LENGTHS, by_batch, by_beam, by_length
from lookleft.bench.translating import Shape, translating
from lookleft.engine.pick import WeightKind
from lookleft.errors import FileError, InputError

WRITING: dict[str, WeightKind] = {"smollm2-int8": "int8", "smollm2-4bit": "stored"}
READING: dict[str, WeightKind] = {"smollm2-prompt-int8": "int8", "smollm2-prompt-4bit": "stored"}
TRANSLATING = {f"marian-{n}x{beam}": (n, beam) for n in (1, 32) for beam in (1, 5)}
GROWING: dict[str, tuple[Callable[..., Iterator[Cell]], Sequence[int]]] = {
    "length": (by_length, LENGTHS),
    "batch": (by_batch, BATCHES),
    "beam": (by_beam, BEAMS),
}
JOBS = (*WRITING, *READING, *TRANSLATING, *GROWING)


@dataclass(frozen=True)
class Skipped:
    """A job that cannot run here."""

    job: str
    why: str

    def __str__(self) -> str:
        return f"{self.job}\n  not measured: {self.why}"


@dataclass(frozen=True)
class Plan:
    """How to measure, whatever the job."""

    rounds: int
    n_threads: int
    has_peers: bool
    say: Say = lambda line: None
    shape: Shape = field(default_factory=Shape)  # of the random networks

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.n_threads < 1:
            raise InputError(
                f"{self.rounds} rounds with {self.n_threads} threads: give 1 or more of both"
            )

    @property
    def turns(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "say": self.say}


def named_jobs(text: str) -> list[str]:
    """The jobs that "smollm2-int8,length" names; "all" names all."""
    names = list(JOBS) if text == "all" else text.split(",")
    for name in names:
        if name not in JOBS:
            raise InputError(f"--jobs {text!r:.80}: there is no {name!r}; give {','.join(JOBS)}")
    return names


def measure(jobs: Sequence[str], plan: Plan) -> Iterator[Cell | Skipped]:
    """A cell for every size of every job, as soon as it is measured.

    What several jobs need, as weights or a converted folder, is made once and then let go.
    """
    yield from _smollm2([job for job in jobs if job in WRITING or job in READING], plan)
    yield from _marian([job for job in jobs if job in TRANSLATING], plan)
    for job in jobs:
        if job in GROWING:
            by_size, sizes = GROWING[job]
            yield from by_size(plan.shape, sizes, n_threads=plan.n_threads, **plan.turns)


def _smollm2(jobs: Sequence[str], plan: Plan) -> Iterator[Cell | Skipped]:
    if not jobs:
        return
    try:
        path = weights_file()
    except FileError as error:
        yield from (Skipped(job, str(error)) for job in jobs)
        return
    plan.say(f"reading {path.name}")
    texts = Continuing(path, n_threads=plan.n_threads, has_peers=plan.has_peers)
    try:
        for job in jobs:
            if job in WRITING:
                yield texts.write(WRITING[job], **plan.turns)
            else:
                yield texts.read(READING[job], **plan.turns)
    finally:
        texts.close()


def _marian(jobs: Sequence[str], plan: Plan) -> Iterator[Cell]:
    if not jobs:
        return
    plan.say("making a translator")
    with translating(plan.shape, n_threads=plan.n_threads, has_peers=plan.has_peers) as translators:
        for job in jobs:
            batch, beam = TRANSLATING[job]
            yield translators.measure(batch, beam, **plan.turns)
