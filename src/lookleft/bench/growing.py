"""What generation costs as things grow: the text, the batch, the beam; cached and recomputed.

Both ways run on the same compiled engine in float32. `bench scale` has the plots of small networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from lookleft.bench.contest import OURS, Cell, Say, Way, contest
from lookleft.bench.translating import Shape, in_batches, translate
from lookleft.data.batch import Batch, pad_rows
from lookleft.engine import pick_runner
from lookleft.generate.recompute import Recompute
from lookleft.models import DecoderOnly, presets
from lookleft.models.base import Runner

TWIN = "recomputed"
LENGTHS = (64, 128, 256, 512, 1024)
BATCHES = (1, 8, 32)
BEAMS = (1, 2, 5, 10)
N_MORE = 4  # tokens behind a text; so few that its length hardly changes


def by_length(
    shape: Shape, lengths: Sequence[int], *, n_threads: int, rounds: int, say: Say
) -> Iterator[Cell]:
    """One more token behind longer and longer texts. Reading the text is not counted."""
    config = presets.llama(
        shape.vocabulary, shape.width, shape.layers, shape.heads, shape.heads, 4 * shape.width
    )
    network = DecoderOnly(config, torch.Generator().manual_seed(0)).eval()
    runner = pick_runner(network, "numba", n_threads=n_threads)
    draw = torch.Generator().manual_seed(1)
    for length in lengths:
        text = torch.randint(0, shape.vocabulary, (length,), generator=draw).tolist()
        ways = {OURS: more_tokens(runner, text), TWIN: more_tokens(Recompute(runner), text)}
        job = f"text of {length}, one more token"
        yield _cell(job, N_MORE, ways, rounds, say)


def by_batch(
    shape: Shape, batches: Sequence[int], *, n_threads: int, rounds: int, say: Say
) -> Iterator[Cell]:
    """Translations, more and more sentences at a time."""
    runner = pick_runner(shape.network(), "numba", n_threads=n_threads)
    for batch in batches:
        yield _translation(shape, runner, batch, 1, rounds, say)


def by_beam(
    shape: Shape, beams: Sequence[int], *, n_threads: int, rounds: int, say: Say
) -> Iterator[Cell]:
    """Translations one by one, with wider and wider beams."""
    runner = pick_runner(shape.network(), "numba", n_threads=n_threads)
    for beam in beams:
        yield _translation(shape, runner, 1, beam, rounds, say)


def more_tokens(runner: Runner[Any], text: Sequence[int]) -> Way:
    """A way that steps on behind a text, which is read now, and then goes back to its end."""
    _, state = runner.prefill(Batch(pad_rows([text])), room=N_MORE)

    def run() -> None:
        for id in text[:N_MORE]:
            runner.step(torch.tensor([id]), state)
        state.roll_back(torch.tensor([len(text)]))

    return run


def _translation(
    shape: Shape, runner: Runner[Any], batch: int, beam: int, rounds: int, say: Say
) -> Cell:
    sources = shape.sources(1)[:1] * batch if batch > 1 else shape.sources(1)[:1]
    ways: dict[str, Way] = {}
    for name, each in ((OURS, runner), (TWIN, Recompute(runner))):
        do = partial(
            translate, each, beam=beam, n_new=shape.length, forbidden=shape.forbidden
        )
        ways[name] = partial(in_batches, do, sources, batch)
    job = f"translation, batch {batch}, beam {beam}"
    return _cell(job, len(sources) * shape.length, ways, rounds, say)


def _cell(job: str, n_tokens: int, ways: dict[str, Way], rounds: int, say: Say) -> Cell:
    named = {name: {"float32": way} for name, way in ways.items()}
    return contest(job, n_tokens, named, rounds=rounds, say=say)
