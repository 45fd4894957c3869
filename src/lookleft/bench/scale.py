"""What the length of a text costs: three jobs, each beside its slow twin, with fitted exponents.

training     one parallel pass against one position at a time: time, memory, the same loss
attention    scores written out against the fused kernel: memory
generation   with a cache against reading everything again: time per token, the same tokens
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from lookleft.bench.memory import peak_bytes
from lookleft.config import DecoderOnlyConfig, Rotary
from lookleft.data.batch import Batch, next_token_batch, pad_rows
from lookleft.generate.recompute import Recompute
from lookleft.masks import causal
from lookleft.models import DecoderOnly
from lookleft.models.base import Runner
from lookleft.nn.attention import KV, attend, attend_fast
from lookleft.train.loss import batch_loss
from lookleft.train.sequential import sequential_loss

Say = Callable[[str], None]
TRAINING_LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
ATTENTION_LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
GENERATION_LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
VOCABULARY, WIDTH = 256, 64
TOO_SLOW = (
    8.0  # seconds of one run; after it longer texts are left out, or nobody waits for the end
)
NEW_TOKENS = 4  # measured at each length; the mean of them counts
FITTED = 4  # an exponent is that of the longest so many lengths: short ones measure overhead


@dataclass(frozen=True)
class Line:
    """One way to do a job, over growing lengths."""

    name: str
    unit: str
    points: tuple[tuple[int, float], ...]  # (length, cost)

    @property
    def exponent(self) -> float:
        """b of cost = a x length^b, fitted where the length matters."""
        return fitted_exponent(self.points[-FITTED:])


@dataclass(frozen=True)
class Comparison:
    """Ways to do one job, and how far their results lie apart."""

    job: str
    lines: tuple[Line, ...]
    max_difference: float
    left_out: tuple[int, ...] = ()  # lengths that would have taken too long

    def as_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "max_difference": self.max_difference,
            "left_out": list(self.left_out),
            "lines": [
                {
                    "name": line.name,
                    "unit": line.unit,
                    "points": [list(point) for point in line.points],
                    "exponent": line.exponent,
                }
                for line in self.lines
            ],
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Comparison:
        """What `as_json` wrote."""
        lines = tuple(
            Line(line["name"], line["unit"], tuple((n, cost) for n, cost in line["points"]))
            for line in record["lines"]
        )
        left_out = tuple(record.get("left_out", ()))
        return cls(record["job"], lines, record["max_difference"], left_out)


def compare_all(*, quick: bool = False, say: Say = lambda line: None) -> Iterator[Comparison]:
    """The three comparisons, one after another; `quick` stops at short lengths."""
    most = 3 if quick else None
    yield compare_training(TRAINING_LENGTHS[:most], say)
    yield compare_attention(ATTENTION_LENGTHS[:most], say)
    yield compare_generation(GENERATION_LENGTHS[:most], say)


def fitted_exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of log cost over log length, by least squares; NaN from a single point."""
    xs = [math.log(length) for length, _ in points]
    ys = [math.log(cost) for _, cost in points]
    if len(points) < 2:
        return math.nan
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - x_mean) ** 2 for x in xs)


def compare_training(
    lengths: Sequence[int] = TRAINING_LENGTHS, say: Say = lambda line: None
) -> Comparison:
    """Loss and gradient of one text, in one pass and position by position."""
    model = small_decoder(max(lengths)).train()
    ways: dict[str, Callable[..., torch.Tensor]] = {
        "parallel": batch_loss,
        "sequential": sequential_loss,
    }
    seconds: dict[str, list[tuple[int, float]]] = {name: [] for name in ways}
    memory: dict[str, list[tuple[int, float]]] = {name: [] for name in ways}
    worst = 0.0
    for length in lengths:
        batch = next_token_batch([random_ids(length + 1)])
        losses = []
        for name, loss_of in ways.items():
            say(f"training, {length} tokens, {name}")
            step = partial(training_step, model, loss_of, batch)
            losses.append(step())  # also warms up
            seconds[name].append((length, fastest(step)))
            memory[name].append((length, float(peak_bytes(step))))
        worst = max(worst, abs(losses[0] - losses[1]))
        if max(points[-1][1] for points in seconds.values()) > TOO_SLOW:
            break
    lines = _lines(seconds, "s") + _lines(memory, "bytes")
    return Comparison("training", lines, worst, _beyond(length, lengths))


def compare_attention(
    lengths: Sequence[int] = ATTENTION_LENGTHS, say: Say = lambda line: None
) -> Comparison:
    """Memory of one head over one text, forward only, scores written out and fused."""
    ways: dict[str, Callable[..., torch.Tensor]] = {"written out": attend, "fused": attend_fast}
    memory: dict[str, list[tuple[int, float]]] = {name: [] for name in ways}
    worst, is_slow = 0.0, False
    draw = torch.Generator().manual_seed(0)
    for length in lengths:
        q, keys, values = (torch.randn(1, 1, length, WIDTH, generator=draw) for _ in range(3))
        pos = torch.arange(length)[None]
        results = []
        for name, way in ways.items():
            say(f"attention, {length} tokens, {name}")
            look = partial(way, q, KV(keys, values), causal(pos, pos))
            memory[name].append((length, float(peak_bytes(look))))
            began = time.perf_counter()
            results.append(look())
            is_slow = is_slow or time.perf_counter() - began > TOO_SLOW
        worst = max(worst, float((results[0] - results[1]).abs().max()))
        if is_slow:
            break
    return Comparison("attention", _lines(memory, "bytes"), worst, _beyond(length, lengths))


def compare_generation(
    lengths: Sequence[int] = GENERATION_LENGTHS, say: Say = lambda line: None
) -> Comparison:
    """Time of one more token behind a text, with its keys and values kept and without."""
    model = small_decoder(max(lengths) + NEW_TOKENS).eval()
    ways: dict[str, Runner[Any]] = {"cached": model, "recomputed": Recompute(model)}
    seconds: dict[str, list[tuple[int, float]]] = {name: [] for name in ways}
    worst = 0.0
    for length in lengths:
        ids = random_ids(length + NEW_TOKENS)
        logits = []
        for name, runner in ways.items():
            say(f"generation, {length} tokens, {name}")
            cost, last = time_per_token(runner, ids[:length], ids[length:])
            seconds[name].append((length, cost))
            logits.append(last)
        worst = max(worst, float((logits[0] - logits[1]).abs().max()))
        if max(points[-1][1] for points in seconds.values()) > TOO_SLOW:
            break
    return Comparison("generation", _lines(seconds, "s per token"), worst, _beyond(length, lengths))


def training_step(
    model: DecoderOnly, loss_of: Callable[[DecoderOnly, Batch], torch.Tensor], batch: Batch
) -> float:
    """Forward and backward of one batch; its loss per target."""
    model.zero_grad(set_to_none=True)
    loss = loss_of(model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item() / batch.n_targets


@torch.no_grad()
def time_per_token(
    runner: Runner[Any], prompt: Sequence[int], new: Sequence[int]
) -> tuple[float, torch.Tensor]:
    """The fastest step behind a prompt, which is read before the clock starts; the last logits."""
    logits, state = runner.prefill(Batch(pad_rows([prompt])), room=len(new))
    seconds = []
    for token in new:
        began = time.perf_counter()
        logits = runner.step(torch.tensor([token]), state)
        seconds.append(time.perf_counter() - began)
    return min(seconds), logits.clone()


def small_decoder(max_len: int) -> DecoderOnly:
    """Two layers of width 64: small enough that the slow ways end."""
    config = DecoderOnlyConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        n_heads=2,
        n_layers=2,
        d_ff=4 * WIDTH,
        positions=Rotary(),
        max_len=max_len,
    )
    return DecoderOnly(config, torch.Generator().manual_seed(0))


def random_ids(length: int) -> list[int]:
    draw = torch.Generator().manual_seed(length)
    return torch.randint(0, VOCABULARY, (length,), generator=draw).tolist()


def fastest(job: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the quickest of some runs: noise only ever adds."""
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - began)
    return best


def _beyond(length: int, lengths: Sequence[int]) -> tuple[int, ...]:
    return tuple(other for other in lengths if other > length)


def _lines(costs: dict[str, list[tuple[int, float]]], unit: str) -> tuple[Line, ...]:
    make = partial(Line, unit=unit)
    return tuple(make(name, points=tuple(points)) for name, points in costs.items())
