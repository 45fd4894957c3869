"""Ratios of alternating runs, and the useful arithmetic of a batch, counted by hand."""

from __future__ import annotations

import math

import pytest
import torch

from lookleft.bench.alternate import Times, alternate
from lookleft.bench.memory import peak_bytes
from lookleft.bench.scale import fitted_exponent
from lookleft.bench.train import caption_groups, padding_share, useful_operations
from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import translation_batch


def test_every_round_runs_every_way_and_the_first_does_not_count() -> None:
    order: list[str] = []
    ways = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    times = alternate(ways, rounds=3)
    assert order == ["a", "b"] * 4
    assert {name: len(seconds) for name, seconds in times.seconds.items()} == {"a": 3, "b": 3}


def test_a_ratio_is_taken_round_by_round() -> None:
    times = Times({"ours": [1.0, 2.0, 10.0], "theirs": [2.0, 4.0, 30.0]})
    ratio = times.ratio("ours", "theirs")
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 2.0, 3.0)
    assert times.rate("ours", 10) == 5.0


def test_useful_arithmetic_leaves_out_padding() -> None:
    config = EncoderDecoderConfig(
        vocab_size=5, d_model=2, n_heads=1, d_ff=3, n_encoder_layers=1, n_decoder_layers=1
    )
    batch = translation_batch([[1, 2], [3]], [[1, 2, 3], [4]], 0)
    # By hand, multiplications with weights: encoder 3 source tokens x (4 x 4 + 2 x 6), keys and
    # values 3 x 8, decoder 4 target tokens x (6 x 4 + 12), output 4 x 10; scores and sums:
    # pairs 2x2 + 1 of the source, 6 + 1 causal, 3x2 + 1 cross, each 2 x 2 wide.
    weights = 3 * 28 + 3 * 8 + 4 * 36 + 4 * 10
    pairs = (4 + 1) + (6 + 1) + (6 + 1)
    assert useful_operations(config, batch) == 6 * (weights + 4 * pairs)
    longer = translation_batch([[1, 2], [3, 4]], [[1, 2, 3], [4]], 0)
    assert useful_operations(config, longer) > useful_operations(config, batch)
    assert padding_share([batch]) == pytest.approx(3 / 10)


def test_caption_batches_keep_to_their_budget() -> None:
    groups = caption_groups(steps=2, tokens=512, n_micro=2)
    assert [len(group) for group in groups] == [2, 2]
    for batch in (batch for group in groups for batch in group):
        assert batch.source is not None
        assert batch.source.ids.numel() + batch.inputs.ids.numel() <= 512


def test_an_exponent_is_found_again() -> None:
    assert fitted_exponent([(n, 3.0 * n**1.5) for n in (4, 16, 100)]) == pytest.approx(1.5)
    assert math.isnan(fitted_exponent([(4, 1.0)]))


def test_peak_memory_counts_what_lives_at_one_time() -> None:
    def one_after_another() -> None:
        for _ in range(3):
            torch.empty(250_000)

    def together() -> None:
        _ = [torch.empty(250_000) for _ in range(3)]

    assert peak_bytes(one_after_another) == 1_000_000
    assert peak_bytes(together) == 3_000_000
