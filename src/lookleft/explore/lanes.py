"""The two lanes, recorded: all rows in one pass, and one row per step.

Both run the network itself, watched through `capture`; nothing is computed here a second time.
Dimensions: H heads, G key/value heads, T rows, N steps, S columns, K head width, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lookleft.data.batch import Batch, as_rows
from lookleft.explore.lesson import PLACES, Kind, Lesson
from lookleft.models import AnyModel, DecoderOnly, EncoderDecoder
from lookleft.nn.attention import capture

Seen = dict[str, list[Tensor]]  # what `capture` records
ABSENT = {"scores": torch.nan, "weights": 0.0}  # of a key that is not there (yet)


@dataclass(frozen=True, eq=False)
class Attention:
    """One attention layer of one lane; columns that did not exist yet have weight 0, score NaN."""

    q: Tensor  # (H, T, K), after the rotary turn
    k: Tensor  # (G, S, K)
    v: Tensor  # (G, S, K)
    scores: Tensor  # (H, T, S), scaled, before the mask
    weights: Tensor  # (H, T, S)
    out: Tensor  # (H, T, K), before the heads are mixed


@dataclass(frozen=True, eq=False)
class Training:
    """All rows at once."""

    layers: dict[tuple[Kind, int], Attention]
    logits: Tensor  # (T, V)
    ms: float


@dataclass(frozen=True)
class Step:
    """What one step of inference cost."""

    cache_length: int
    cache_bytes: int
    ms: float


@dataclass(frozen=True, eq=False)
class Inference:
    """One row after another."""

    layers: dict[tuple[Kind, int], Attention]
    logits: Tensor  # (N, V)
    reads: list[int]  # what each step read. N
    said: list[int]  # what each step was taken to say: its likeliest token, or a forced one. N
    steps: list[Step]


def kinds_of(network: AnyModel) -> dict[Kind, int]:
    """The kinds of attention a network has, with their number of layers; the masked one first."""
    if isinstance(network, EncoderDecoder):
        n_decoder, n_encoder = network.config.n_decoder_layers, network.config.n_encoder_layers
        return {"decoder_self": n_decoder, "cross": n_decoder, "encoder_self": n_encoder}
    if isinstance(network, DecoderOnly):
        return {"decoder_self": network.config.n_layers}
    return {"encoder_self": network.config.n_layers}


@torch.no_grad()
def train_pass(lesson: Lesson) -> Training:
    """The teacher-forced pass, every attention layer recorded."""
    began = time.perf_counter()
    with capture(lesson.network) as seen:
        logits = lesson.network.score(lesson.batch)[0, : lesson.n_rows]  # (T, V)
    ms = 1000 * (time.perf_counter() - began)
    layers = {}
    for kind, n_layers in kinds_of(lesson.network).items():
        source = lesson.batch.source if kind == "encoder_self" else None
        n_rows = lesson.n_rows if source is None else source.shape[1]  # without the padding
        for layer in range(n_layers):
            got = {name: calls[0][0] for name, calls in _calls(seen, kind, layer).items()}
            layers[kind, layer] = Attention(
                q=got["q"][:, :n_rows],
                k=got["k"],
                v=got["v"],
                scores=got["scores"][:, :n_rows],
                weights=got["weights"][:, :n_rows],
                out=got["out"][:, :n_rows],
            )
    return Training(layers, logits, ms)


@torch.no_grad()
def infer_steps(lesson: Lesson, *, is_own: bool, is_cached: bool) -> Inference:
    """The decoder's rows one at a time, each recorded; `is_own`: it reads what it wrote.

    Its first words are the forced ones, if there are any. Ends after as many rows as training has,
    or when its own words end.
    """
    network, forced = lesson.network, lesson.forced
    assert isinstance(network, DecoderOnly | EncoderDecoder)
    reads = [lesson.columns[0].id]
    rows: list[dict[tuple[Kind, int], dict[str, Tensor]]] = []
    said: list[int] = []
    logits, steps = [], []
    with capture(network) as seen:
        lane = _cached(lesson, network, reads) if is_cached else _recomputed(lesson, network, reads)
        for answer, step, places in lane:
            rows.append(_last_rows(network, seen, places))
            seen.clear()
            logits.append(answer.clone())
            steps.append(step)
            is_forced = len(said) < len(forced)
            said.append(forced[len(said)] if is_forced else int(answer.argmax()))
            is_given = not is_forced and (not is_own or len(reads) < lesson.n_given)
            if len(reads) == lesson.n_rows or (not is_given and said[-1] == lesson.eos):
                break
            reads.append(lesson.columns[len(reads)].id if is_given else said[-1])
    layers = {at: _stacked([row[at] for row in rows]) for at in rows[0]}
    return Inference(layers, torch.stack(logits), reads, said, steps)


Lane = Iterator[tuple[Tensor, Step, Tensor]]  # logits (V,), cost, position of each key seen (S,)


def _cached(lesson: Lesson, network: DecoderOnly | EncoderDecoder, reads: list[int]) -> Lane:
    """Keys and values of earlier rows are kept; `reads` grows while the lane is asked for more."""
    began = time.perf_counter()
    first = Batch(as_rows(torch.tensor([reads])), source=lesson.batch.source)
    logits, state = network.prefill(first, room=lesson.n_rows)
    while True:
        ms, cache = 1000 * (time.perf_counter() - began), state.cache
        used = cache.n_used
        n_bytes = cache.bytes * used // cache.capacity
        yield logits[0], Step(used, n_bytes, ms), cache.pos[0, :used].clone()
        began = time.perf_counter()
        logits = network.step(torch.tensor(reads[-1:]), state)


def _recomputed(lesson: Lesson, network: DecoderOnly | EncoderDecoder, reads: list[int]) -> Lane:
    """Nothing is kept: every step reads all rows again."""
    while True:
        began = time.perf_counter()
        rows = as_rows(torch.tensor([reads]))
        logits = network.score(Batch(rows, source=lesson.batch.source))
        step = Step(0, 0, 1000 * (time.perf_counter() - began))
        yield logits[0, -1], step, torch.arange(len(reads))


def _calls(seen: Seen, kind: Kind, layer: int) -> Seen:
    """What one layer recorded, by name: q, k, v, scores, weights, out."""
    place = PLACES[kind].format(layer) + "."
    return {
        name.removeprefix(place): calls for name, calls in seen.items() if name.startswith(place)
    }


def _last_rows(
    network: AnyModel, seen: Seen, places: Tensor
) -> dict[tuple[Kind, int], dict[str, Tensor]]:
    """Of every decoder layer the newest row, its columns in the order of positions.

    A cache with a window is a ring: there the slots stand in another order, and old keys are gone.
    """
    rows: dict[tuple[Kind, int], dict[str, Tensor]] = {}
    newest = int(places.argmax())
    for kind, n_layers in kinds_of(network).items():
        if kind == "encoder_self":
            continue
        for layer in range(n_layers):
            got = {name: calls[-1][0] for name, calls in _calls(seen, kind, layer).items()}
            row = {name: got[name][:, -1].clone() for name in ("q", "out")}
            if kind == "cross":
                row |= {name: got[name][:, -1].clone() for name in ("scores", "weights")}
                row |= {name: got[name] for name in ("k", "v")}
            else:
                row |= {name: got[name][:, newest].clone() for name in ("k", "v")}  # (G, K)
                for name, absent in ABSENT.items():
                    values = got[name][:, -1]  # (H, slots)
                    row[name] = values.new_full((values.size(0), int(places.max()) + 1), absent)
                    row[name][:, places] = values
            rows[kind, layer] = row
    return rows


def _stacked(rows: list[dict[str, Tensor]]) -> Attention:
    """The rows of one layer as matrices."""
    width = max(row["scores"].size(-1) for row in rows)

    def ragged(name: str) -> Tensor:
        full = rows[0][name].new_full((len(rows), rows[0][name].size(0), width), ABSENT[name])
        for t, row in enumerate(rows):
            full[t, :, : row[name].size(-1)] = row[name]
        return full.transpose(0, 1)  # (H, N, S)

    def column(name: str) -> Tensor:
        if rows[0][name].ndim == 3:  # keys and values of a source are the same at every step
            return rows[0][name]
        return torch.stack([row[name] for row in rows], 1)  # (G, N, K)

    return Attention(
        q=torch.stack([row["q"] for row in rows], 1),
        k=column("k"),
        v=column("v"),
        scores=ragged("scores"),
        weights=ragged("weights"),
        out=torch.stack([row["out"] for row in rows], 1),
    )
