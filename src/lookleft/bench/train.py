"""Training throughput on caption-sized sentences: this package beside MarianMTModel.

Both get the same rows of random ids, with lengths spread as in image captions, and take the same
number of optimiser steps. Counting useful arithmetic leaves out padding: products of real tokens
with weights, and of queries with the keys they may see.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lookleft.bench.alternate import Ratio, alternate
from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import NO_TARGET, Batch, translation_batch
from lookleft.data.bucket import ByLength
from lookleft.data.examples import Example
from lookleft.errors import MissingExtraError
from lookleft.models import EncoderDecoder, presets
from lookleft.train.device import Precision, PrecisionName, find_precision
from lookleft.train.loop import train_steps
from lookleft.train.memory import kept_memory
from lookleft.train.objective import Objective
from lookleft.train.optim import make_optimizers
from lookleft.train.team import Team

Say = Callable[[str], None]
VOCABULARY = 10_000
CORPUS = 29_000  # pairs, as many as Multi30k has
MEAN, SPREAD, DRIFT = 15.0, 4.5, 2.5  # pieces a side; how far a translation's length lies off
PEAK_SIZE, PEAK_REPEATS = 1024, 20  # of the matrix product that stands for the machine's limit
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Throughput:
    """What training reached, and beside what."""

    tokens_per_second: float  # targets
    marian_tokens_per_second: float
    ratio: Ratio
    peak_share: Ratio  # of useful arithmetic in torch.mm's rate
    padding: float  # share of all places in the batches
    precision: Precision  # of lookleft's products; all else is float32
    versions: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        return {
            "job": "train",
            "lookleft": self.tokens_per_second,
            "peers": {"transformers": self.marian_tokens_per_second},
            "ratio": {"transformers": vars(self.ratio)},
            "peak_share": vars(self.peak_share),
            "padding": self.padding,
            "precision": self.precision,
            "versions": self.versions,
        }

    def __str__(self) -> str:
        share = self.peak_share
        return (
            f"lookleft        {self.tokens_per_second:8,.0f} target tokens/s   {self.precision}\n"
            f"MarianMTModel   {self.marian_tokens_per_second:8,.0f} target tokens/s   "
            f"lookleft is {self.ratio} faster\n"
            f"torch.mm peak   {share.median:8.0%} of it is useful work here "
            f"({share.low:.0%} to {share.high:.0%}); padding {self.padding:.1%}\n"
            + "   ".join(f"{name} {version}" for name, version in self.versions.items())
        )


def measure(
    *,
    rounds: int,
    steps: int,
    tokens: int,
    n_micro: int,
    precision: PrecisionName = "float32",
    say: Say = lambda line: None,
) -> Throughput:
    """Alternate the two trainers and a bare matrix product."""
    groups = caption_groups(steps, tokens, n_micro)
    config = presets.tiny(VOCABULARY)
    model = EncoderDecoder(config, torch.Generator().manual_seed(0))
    square = torch.ones(PEAK_SIZE, PEAK_SIZE)

    def peak() -> None:
        for _ in range(PEAK_REPEATS):
            torch.mm(square, square)

    found = find_precision(precision, model.device)
    jobs = {"lookleft": ours(model, groups, found), "marian": theirs(config, groups), "peak": peak}
    with kept_memory():  # for both
        times = alternate(jobs, rounds, say)
    n_targets = sum(batch.n_targets for group in groups for batch in group)
    useful = sum(useful_operations(config, batch) for group in groups for batch in group)
    shares = times.ratio("lookleft", "peak")  # seconds of the product / seconds of training
    scale = useful / (PEAK_REPEATS * 2 * PEAK_SIZE**3)
    return Throughput(
        times.rate("lookleft", n_targets),
        times.rate("marian", n_targets),
        times.ratio("lookleft", "marian"),
        Ratio(shares.median * scale, shares.low * scale, shares.high * scale),
        padding_share([batch for group in groups for batch in group]),
        found,
        {"torch": str(torch.__version__), "transformers": _transformers().__version__},
    )


def caption_groups(steps: int, tokens: int, n_micro: int) -> list[list[Batch]]:
    """One group of micro-batches per step, cut by the budget as in training."""
    draw = random.Random(0)

    def ids(length: float) -> list[int]:
        return [draw.randrange(3, VOCABULARY) for _ in range(max(4, round(length)))]

    window = []
    for line in range(CORPUS):  # a whole corpus: in a small one no two pairs are equally long
        length = draw.gauss(MEAN, SPREAD)
        window.append(Example(ids(length), ids(length + draw.gauss(0, DRIFT)), line))
    need = steps * n_micro
    batches = ByLength(tokens=tokens).cut(window, draw, n_micro)
    draw.shuffle(batches)
    made = [
        translation_batch([e.source for e in batch], [e.target for e in batch], 0)
        for batch in batches[:need]
    ]
    return [made[i : i + n_micro] for i in range(0, need, n_micro)]


def ours(
    model: EncoderDecoder, groups: Sequence[Sequence[Batch]], precision: Precision
) -> Callable[[], None]:
    """The training loop of this package."""
    objective = Objective(precision=precision)
    optimizers = make_optimizers(model, lr=LEARNING_RATE)
    team = Team(model, n_replicas=len(groups[0]))

    def run() -> None:
        steps = train_steps(
            model, groups, optimizers, lambda step: 1.0, objective=objective, team=team
        )
        for _ in steps:
            pass

    return run


def theirs(config: EncoderDecoderConfig, groups: Sequence[Sequence[Batch]]) -> Callable[[], None]:
    """MarianMTModel of the same sizes in a plain loop, a step's rows in one batch."""
    transformers = _transformers()
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.n_encoder_layers,
            decoder_layers=config.n_decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function=config.activation,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=0.0,
            pad_token_id=0,
            decoder_start_token_id=config.start_id,
            eos_token_id=2,
            forced_eos_token_id=None,
            bos_token_id=None,
        )
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    # Micro-batch by micro-batch, as our loop has them: one padded batch of all would cost more.
    inputs = [[as_marian(batch) for batch in group] for group in groups]

    def run() -> None:
        for group in inputs:
            optimizer.zero_grad()
            for batch in group:
                (model(**batch).loss / len(group)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run


def as_marian(batch: Batch) -> dict[str, torch.Tensor]:
    """The same rows under the names of transformers."""
    assert batch.source is not None
    assert batch.targets is not None
    return {
        "input_ids": batch.source.ids,
        "attention_mask": batch.source.is_token.long(),
        "decoder_input_ids": batch.inputs.ids,
        "labels": batch.targets.masked_fill(batch.targets == NO_TARGET, -100),
    }


def useful_operations(config: EncoderDecoderConfig, batch: Batch) -> int:
    """Additions and multiplications that a step cannot do without; backward costs twice forward."""
    assert batch.source is not None
    d, ff = config.d_model, config.d_ff
    sources = batch.source.is_token.sum(1)  # (B,)
    targets = batch.inputs.is_token.sum(1)  # (B,)
    n_source, n_target = int(sources.sum()), int(targets.sum())
    encoder = config.n_encoder_layers * (4 * d * d + 2 * d * ff) * n_source
    cross = config.n_decoder_layers * 2 * d * d * n_source  # keys and values of the source
    decoder = config.n_decoder_layers * (6 * d * d + 2 * d * ff) * n_target
    output = config.vocab_size * d * n_target
    # Scores and their weighted sum: every pair of positions that may see each other, twice.
    pairs = config.n_encoder_layers * int((sources**2).sum()) + config.n_decoder_layers * int(
        (targets * (targets + 1) // 2 + targets * sources).sum()
    )
    return 3 * 2 * (encoder + cross + decoder + output + 2 * d * pairs)


def padding_share(batches: Sequence[Batch]) -> float:
    """Places of the batches that hold no token."""
    rows = [rows for batch in batches for rows in (batch.inputs, batch.source) if rows is not None]
    n_places = sum(each.ids.numel() for each in rows)
    return 1 - sum(int(each.is_token.sum()) for each in rows) / n_places


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("bench train", "hf", "transformers") from error
    return transformers
