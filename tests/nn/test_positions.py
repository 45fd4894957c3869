"""Positions against their papers' formulas, written plainly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lookleft.config import Learned, NoPositions, Relative, RopeScaling, Rotary, Sinusoidal
from lookleft.errors import InputError
from lookleft.nn.positions import (
    LearnedPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
    added_positions,
)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("spacing", ["paper", "tensor2tensor"])
@pytest.mark.parametrize("offset", [0, 3])
def test_sinusoidal_waves_are_those_of_the_formula(layout: str, spacing: str, offset: int) -> None:
    width = 10
    module = SinusoidalPositions(Sinusoidal(layout=layout, spacing=spacing, offset=offset), width)
    pos = torch.tensor([[0, 1, 2, 77, 5000]])
    got = module(pos, torch.float64)[0]
    for row, p in zip(got, pos[0].tolist(), strict=True):
        for i in range(width // 2):
            exponent = 2 * i / width if spacing == "paper" else i / (width // 2 - 1)
            angle = (p + offset) / 10_000**exponent
            at_sin, at_cos = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + width // 2)
            assert row[at_sin].item() == pytest.approx(math.sin(angle), abs=1e-11)
            assert row[at_cos].item() == pytest.approx(math.cos(angle), abs=1e-11)


def test_learned_positions_start_after_their_offset_and_end_in_words() -> None:
    module = LearnedPositions(Learned(max_len=4, offset=2), 3)
    assert module.table.weight.shape == (6, 3)
    got = module(torch.tensor([[0, 3]]), torch.float32)
    assert torch.equal(got[0], module.table.weight[[2, 5]])
    with pytest.raises(InputError, match=r"position 4 is beyond the 4 learned positions"):
        module(torch.tensor([[4]]), torch.float32)


SCALINGS = [
    None,
    RopeScaling(kind="linear", factor=4.0),
    RopeScaling(kind="llama3", factor=8.0, original_max_len=64),
]


def rotate_by_hand(x: list[float], position: int, frequencies: list[float]) -> list[float]:
    """Each pair (x[i], x[i + K/2]) as a complex number, times e^(i angle)."""
    half = len(x) // 2
    turned = [
        complex(x[i], x[i + half]) * complex(math.cos(position * f), math.sin(position * f))
        for i, f in enumerate(frequencies)
    ]
    return [z.real for z in turned] + [z.imag for z in turned]


def frequencies_by_hand(width: int, theta: float, scaling: RopeScaling | None) -> list[float]:
    frequencies = []
    for i in range(width // 2):
        plain = 1 / theta ** (2 * i / width)
        if scaling is None:
            frequencies.append(plain)
        elif scaling.kind == "linear":
            frequencies.append(plain / scaling.factor)
        else:
            wavelength = 2 * math.pi / plain
            longest = scaling.original_max_len / scaling.low_freq_factor
            shortest = scaling.original_max_len / scaling.high_freq_factor
            if wavelength < shortest:
                frequencies.append(plain)
            elif wavelength > longest:
                frequencies.append(plain / scaling.factor)
            else:
                share = scaling.original_max_len / wavelength - scaling.low_freq_factor
                share /= scaling.high_freq_factor - scaling.low_freq_factor
                frequencies.append((1 - share) * plain / scaling.factor + share * plain)
    return frequencies


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0, 100.0])
def test_rotary_turns_are_those_of_the_formula(theta: float, scaling: RopeScaling | None) -> None:
    width = 16
    module = RotaryPositions(Rotary(theta=theta, scaling=scaling), width)
    expected = frequencies_by_hand(width, theta, scaling)
    got = module.frequencies(torch.device("cpu"))
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)
    pos = torch.tensor([[0, 1, 9, 300]])
    x = torch.randn(1, 2, 4, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = module.turn(pos)(x)
    for h in range(2):
        for t, position in enumerate(pos[0].tolist()):
            by_hand = rotate_by_hand(x[0, h, t].tolist(), position, expected)
            assert turned[0, h, t].tolist() == pytest.approx(by_hand, abs=1e-12)


def test_llama3_scaling_has_all_three_bands_in_this_test() -> None:
    """The comparison above would be idle if every wave fell into one band."""
    scaling = SCALINGS[2]
    plain = frequencies_by_hand(16, 100.0, None)
    ratios = {
        round(a / b, 6) for a, b in zip(plain, frequencies_by_hand(16, 100.0, scaling), strict=True)
    }
    assert {1.0, 8.0} < ratios


@given(q_pos=st.integers(0, 50_000), gap=st.integers(0, 3_000), move=st.integers(0, 50_000))
def test_rotary_products_depend_on_the_distance_alone(q_pos: int, gap: int, move: int) -> None:
    generator = torch.Generator().manual_seed(q_pos)
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64, generator=generator)
    for scaling in SCALINGS:
        module = RotaryPositions(Rotary(scaling=scaling), 8)

        def product(a: int, b: int, module: RotaryPositions = module) -> Tensor:
            at_a, at_b = module.turn(torch.tensor([[a]])), module.turn(torch.tensor([[b]]))
            return (at_a(q) * at_b(k)).sum()

        here, there = product(q_pos + gap, q_pos), product(q_pos + gap + move, q_pos + move)
        torch.testing.assert_close(here, there, rtol=0, atol=1e-9)


def test_rotary_angles_stay_true_far_out_in_half_precision() -> None:
    """The turn at position 100,000 is that of float64, rounded once."""
    module = RotaryPositions(Rotary(), 8)
    x, pos = torch.ones(1, 1, 1, 8), torch.tensor([[100_000]])
    exact = module.turn(pos)(x.double())
    torch.testing.assert_close(module.turn(pos)(x.bfloat16()).double(), exact, rtol=0, atol=2e-2)


# T5's buckets for 8 buckets up to distance 20, worked out on paper. Causal: 4 exact, then
# 4 + floor(log(d / 4) / log(20 / 4) * 4): borders at 4, 5.98, 8.94, 13.4. Both ways: 4 for each
# direction, 2 exact, then 2 + floor(log(d / 2) / log(20 / 2) * 2): borders at 2 and 6.3.
CAUSAL_TABLE = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 4, 6: 5, 8: 5, 9: 6, 13: 6, 14: 7, 20: 7, 999: 7}
BOTH_WAYS_TABLE = {0: 0, 1: 1, 2: 2, 3: 2, 6: 2, 7: 3, 20: 3, 999: 3}


def test_distance_buckets_are_those_of_the_table() -> None:
    relative = Relative(n_buckets=8, max_distance=20)
    one_way = RelativeBias(relative, 2, is_bidirectional=False)
    both_ways = RelativeBias(relative, 2, is_bidirectional=True)
    for distance, bucket in CAUSAL_TABLE.items():
        assert one_way.bucket(torch.tensor([-distance])).item() == bucket, distance
        assert one_way.bucket(torch.tensor([distance])).item() == (0 if distance else bucket)
    for distance, bucket in BOTH_WAYS_TABLE.items():
        assert both_ways.bucket(torch.tensor([-distance])).item() == bucket, distance
        ahead = bucket + 4 if distance else 0
        assert both_ways.bucket(torch.tensor([distance])).item() == ahead, distance


@given(n_buckets=st.integers(4, 64), more=st.integers(1, 300), is_bidirectional=st.booleans())
def test_buckets_stay_in_the_table_and_never_fall_with_distance(
    n_buckets: int, more: int, is_bidirectional: bool
) -> None:
    relative = Relative(n_buckets=n_buckets, max_distance=n_buckets // 2 + more)
    module = RelativeBias(relative, 1, is_bidirectional)
    behind = module.bucket(-torch.arange(500))
    ahead = module.bucket(torch.arange(500))
    for buckets in (behind, ahead):
        assert int(buckets.min()) >= 0
        assert int(buckets.max()) < n_buckets
    assert bool((behind.diff() >= 0).all())
    assert bool((ahead[1:].diff() >= 0).all())


def test_a_relative_bias_is_looked_up_by_who_asks_and_who_is_asked() -> None:
    module = RelativeBias(Relative(n_buckets=8, max_distance=20), 3, is_bidirectional=False)
    q_pos, k_pos = torch.tensor([[5, 6]]), torch.tensor([[4, 5, 6]])
    bias = module(q_pos, k_pos)
    assert bias.shape == (1, 3, 2, 3)
    for t, s, distance in ((0, 0, 1), (0, 1, 0), (1, 0, 2), (1, 1, 1), (1, 2, 0)):
        assert torch.equal(bias[0, :, t, s], module.table.weight[distance])


def test_only_sinusoidal_and_learned_positions_are_added_to_the_embeddings() -> None:
    assert isinstance(added_positions(Sinusoidal(), 4), SinusoidalPositions)
    assert isinstance(added_positions(Learned(max_len=3), 4), LearnedPositions)
    for other in (NoPositions(), Rotary(), Relative()):
        assert added_positions(other, 4) is None
