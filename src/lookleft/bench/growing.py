"""What generation costs as things grow: the text, the batch, the beam; cached and recomputed.

Both ways run on the same compiled engine in float32. `bench scale` has the plots of small networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lookleft.bench.contest import OURS, Cell, Say, contest
from lookleft.bench.translating import Shape, agreement, translate
from lookleft.data.batch import Batch, pad_rows
from lookleft.engine import pick_runner
from lookleft.generate.recompute import Recompute
from lookleft.models import DecoderOnly, presets
from lookleft.models.base import Runner

TWIN = "recomputed"
LENGTHS = (64, 128, 256, 512, 1024)
BATCHES = (1, 8, 32)
BEAMS = (1, 2, 5, 10)
N_MORE = 8  # tokens behind a text; so few that its length hardly changes


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
        apart = float((ways[OURS]() - ways[TWIN]()).abs().max())
        yield contest(
            f"text of {length}, one more token",
            N_MORE,
            {name: {"float32": way} for name, way in ways.items()},
            rounds=rounds,
            say=say,
            checks={"logits_apart": apart},
        )


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


def more_tokens(runner: Runner[Any], text: Sequence[int]) -> Callable[[], Tensor]:
    """A way that steps on behind a text, which is read now, gives its last logits (1, V), and goes
    back to the end of the text."""
    _, state = runner.prefill(Batch(pad_rows([text])), room=N_MORE)

    @torch.no_grad()
    def run() -> Tensor:
        logits = torch.empty(0)
        for id in text[:N_MORE]:
            logits = runner.step(torch.tensor([id]), state)
        state.roll_back(torch.tensor([len(text)]))
        return logits.clone()

    return run


def _translation(
    shape: Shape, runner: Runner[Any], batch: int, beam: int, rounds: int, say: Say
) -> Cell:
    sources = shape.sources(batch)[:batch]
    twins = {OURS: runner, TWIN: Recompute(runner)}
    ways = {}
    for name, twin in twins.items():
        do = partial(translate, twin, beam=beam, n_new=shape.length, forbidden=shape.forbidden)
        ways[name] = {"float32": partial(do, sources)}
    return contest(
        f"translation, batch {batch}, beam {beam}",
        len(sources) * shape.length,
        ways,
        rounds=rounds,
        say=say,
        checks={"same_answers": agreement(ways, is_greedy=beam == 1)},
    )
