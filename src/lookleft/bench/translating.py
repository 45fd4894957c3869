"""Translation jobs of the decode table: a Marian-shaped network with random weights.

Everybody gets the same weights, the same sources and the same forced length, so no side ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lookleft.bench.contest import OURS, Cell, Say, contest
from lookleft.bench.peers import version_of
from lookleft.bench.peers.ctranslate2 import CTranslate2, convert_marian, settings
from lookleft.bench.peers.transformers import Transformers
from lookleft.config import EncoderDecoderConfig
from lookleft.engine import pick_runner
from lookleft.engine.pick import Bits, WeightKind
from lookleft.errors import LookleftError
from lookleft.generate.request import GREEDY, Beam, Request
from lookleft.generate.scheduler import answer_all
from lookleft.interop.hf import save_hf
from lookleft.models import EncoderDecoder
from lookleft.models.base import Runner
from lookleft.models.presets import SIDE_BY_SIDE
from lookleft.text.vocab import Specials

EOS = 0
PEERS = ("ctranslate2", "transformers")
# As the peer may choose too; its 8 bits are those of weights and activations.
SETTINGS: dict[str, tuple[WeightKind, Bits]] = {
    "float32": ("float32", 16),
    "int8": ("int8", 16),
    "int8 x int8": ("int8", 8),
}
NEAR_TIES = 0.1  # of many sentences so few may hang on how two equal numbers are rounded
Ids = list[list[int]]
Doer = Callable[[Ids], Ids]


@dataclass(frozen=True)
class Shape:
    """The network, and how much it is asked to write. Sources are as long as the answers."""

    vocabulary: int = 8_000  # without the token that starts the decoder and pads
    width: int = 256
    layers: int = 6
    heads: int = 4
    length: int = 24
    n_alone: int = 8  # sentences of a run that takes them one by one
    n_together: int = 64  # at least so many, if they come in batches

    @property
    def forbidden(self) -> tuple[int, int]:
        """The end and the start token: with neither, every answer has its full length."""
        return EOS, self.vocabulary

    def network(self) -> EncoderDecoder:
        """Random weights, the same at every call."""
        config = EncoderDecoderConfig(
            vocab_size=self.vocabulary + 1,
            d_model=self.width,
            n_heads=self.heads,
            d_ff=4 * self.width,
            n_encoder_layers=self.layers,
            n_decoder_layers=self.layers,
            positions=SIDE_BY_SIDE,
            activation="silu",
            embed_scale=self.width**0.5,
            logit_bias=True,
            start_id=self.vocabulary,
            max_len=1024,
        )
        network = EncoderDecoder(config, torch.Generator().manual_seed(0)).eval()
        with torch.no_grad():
            network.embedding.tokens.weight[config.start_id] = 0.0  # Marian starts from nothing
        return network

    def sources(self, batch: int) -> Ids:
        n_sources = self.n_alone if batch == 1 else -(-self.n_together // batch) * batch
        draw = torch.Generator().manual_seed(1)
        shape = (n_sources, self.length)
        ids: Ids = torch.randint(1, self.vocabulary, shape, generator=draw).tolist()
        return ids


def translate(
    runner: Runner[Any], sources: Ids, *, beam: int, n_new: int, forbidden: Sequence[int]
) -> Ids:
    """Exactly n_new tokens for each source, all sources in one batch."""
    method = GREEDY if beam == 1 else Beam(beam)
    requests = [
        Request(source=tuple(ids), max_new=n_new, method=method, forbidden=tuple(forbidden))
        for ids in sources
    ]
    answers: Ids = [[] for _ in requests]
    for done in answer_all(runner, requests, max_rows=len(requests) * beam):
        answers[done.ticket] = done.answers[0].ids
    return answers


class Translating:
    """The network in every form that is measured, made once for all jobs."""

    def __init__(self, shape: Shape, folder: Path | None, n_threads: int) -> None:
        """folder: an empty one for what peers read; None: no peers."""
        self.shape, self.n_threads, self._folder = shape, n_threads, folder
        self.network = shape.network()
        self._ours = {
            name: pick_runner(
                self.network, "numba", weights=kind, activations=bits, n_threads=n_threads
            )
            for name, (kind, bits) in SETTINGS.items()
        }
        self._missing: tuple[str, ...] = ()
        self._transformers: Transformers | None = None
        if folder is None:
            return
        self._missing = tuple(name for name in PEERS if version_of(name) is None)
        if "transformers" in self._missing:
            self._missing = PEERS  # the other's converter reads the folder with it
        marian = folder / "marian"
        save_hf(self.network, marian, Specials(pad=shape.vocabulary, eos=EOS))
        if "transformers" not in self._missing:
            self._transformers = Transformers(marian, shape.forbidden)
        if "ctranslate2" not in self._missing:
            convert_marian(marian, folder / "converted", eos_id=EOS)

    def measure(self, batch: int, beam: int, *, rounds: int, say: Say) -> Cell:
        """So many sentences at a time, with beams of this width."""
        sources = self.shape.sources(batch)
        doers = self._doers(batch, beam)
        ways = {
            name: {key: partial(in_batches, do, sources, batch) for key, do in each.items()}
            for name, each in doers.items()
        }
        return contest(
            f"marian, batch {batch}, beam {beam}",
            len(sources) * self.shape.length,
            ways,
            rounds=rounds,
            say=say,
            missing=self._missing,
            checks={"same_answers": agreement(ways, is_greedy=beam == 1)},
        )

    def _doers(self, batch: int, beam: int) -> dict[str, dict[str, Doer]]:
        """Functions from sources to answers, by name and setting."""
        n_new, forbidden = self.shape.length, self.shape.forbidden
        doers: dict[str, dict[str, Doer]] = {OURS: {}}
        for name, runner in self._ours.items():
            ours = partial(translate, runner, beam=beam, n_new=n_new, forbidden=forbidden)
            doers[OURS][name] = ours
        if self._folder is not None and "ctranslate2" not in self._missing:
            converted = self._folder / "converted"
            doers["ctranslate2"] = {
                str(each): partial(CTranslate2(converted, each).translate, beam=beam, n_new=n_new)
                for each in settings(self.n_threads, batch)
            }
        if self._transformers is not None:
            theirs = partial(self._transformers.translate, beam=beam, n_new=n_new)
            doers["transformers"] = {"float32": theirs}
        return doers


def in_batches(do: Doer, sources: Ids, batch: int) -> Ids:
    """All answers, so many sources at a time."""
    return [
        answer
        for start in range(0, len(sources), batch)
        for answer in do(sources[start : start + batch])
    ]


def agreement(
    ways: Mapping[str, Mapping[str, Callable[[], Ids]]], *, is_greedy: bool
) -> dict[str, float]:
    """The share of sentences to which each way answers as our float32 engine does.

    Greedy answers in float32 have to be the same: else somebody computes something else, and its
    time means nothing.
    """
    expected = ways[OURS]["float32"]()
    shares = {}
    for name, each in ways.items():
        for setting, way in each.items():
            pairs = list(zip(expected, way(), strict=True))
            share = sum(mine == other for mine, other in pairs) / len(pairs)
            shares[f"{name}, {setting}"] = share
            if is_greedy and setting.startswith("float32") and share < 1 - NEAR_TIES:
                raise LookleftError(
                    f"{name}, {setting} answers {1 - share:.0%} of the sentences differently, so "
                    "its speed cannot be compared; leave it out by leaving out --peers"
                )
    return shares


@contextmanager
def translating(shape: Shape, *, n_threads: int, has_peers: bool) -> Iterator[Translating]:
    """The jobs, with a folder for the peers that is gone afterwards."""
    if not has_peers:
        yield Translating(shape, None, n_threads)
        return
    with TemporaryDirectory() as folder:
        yield Translating(shape, Path(folder), n_threads)
