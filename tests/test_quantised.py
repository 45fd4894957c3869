"""Weights of few bits: what they stand for, how far that is from the original, GGUF bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookleft.errors import InputError
from lookleft.quantised import (
    KINDS,
    Floats,
    Kind,
    Quantised,
    as_arrays,
    from_arrays,
    from_blocks,
    is_matrix,
    quantise,
)


def numbers(n_rows: int, n_columns: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)


def few(weight: Floats, kind: Kind) -> Quantised:
    found = quantise(weight, kind)
    assert found is not None
    return found


def test_eight_bits_are_off_by_half_a_step_at_most() -> None:
    weight = numbers(5, 64)
    matrix = few(weight, "int8")
    error = np.abs(matrix.numbers() - weight)
    # The scale is rounded to 16 bits: the largest of a group may lie a little beyond 127 steps.
    assert (error <= 0.6 * matrix.scale.astype(np.float32).repeat(32, axis=1)).all()
    assert error.max() > 0  # something was rounded
    assert matrix.n_bytes == 5 * 64 + 2 * 5 * 2


def test_rows_that_make_no_groups_share_one_scale_of_eight_bits() -> None:
    weight = numbers(5, 50)
    matrix = few(weight, "int8")
    assert matrix.scale.shape == (5, 1)
    assert (np.abs(matrix.numbers() - weight) <= 0.501 * matrix.scale).all()


def test_four_bits_are_off_by_a_step_at_most_and_take_five_bits_each() -> None:
    weight = numbers(3, 96)
    matrix = few(weight, "int4")
    step = matrix.scale.astype(np.float32).repeat(32, axis=1)
    span = 15 * step
    is_inside = np.abs(weight - weight.reshape(3, 3, 32).mean(2).repeat(32, axis=1)) < span / 3
    assert (np.abs(matrix.numbers() - weight)[is_inside] <= 0.51 * step[is_inside]).all()
    assert set(np.unique(matrix.levels)) <= set(range(16))
    assert matrix.n_bytes * 8 == 5 * weight.size


def test_cutting_off_the_ends_of_a_group_pays() -> None:
    """A search over spans must never be worse than the plain span from least to largest."""
    weight = numbers(40, 256)
    groups = weight.reshape(40, 8, 32)
    low = groups.min(2, keepdims=True).astype(np.float16).astype(np.float32)
    step = ((groups.max(2, keepdims=True) - low) / 15).astype(np.float16).astype(np.float32)
    plain = np.rint((groups - low) / step).clip(0, 15) * step + low
    found = few(weight, "int4").numbers().reshape(groups.shape)
    assert np.square(found - groups).sum() < 0.97 * np.square(plain - groups).sum()


def test_rows_of_zeros_and_of_one_number_stay_so() -> None:
    weight = np.zeros((2, 32), np.float32)
    weight[1] = 0.5
    for kind in KINDS:
        np.testing.assert_allclose(few(weight, kind).numbers(), weight, rtol=1e-3, atol=0)


def test_rows_that_make_no_groups_are_left_alone_by_four_bits() -> None:
    assert quantise(numbers(2, 33), "int4") is None
    assert quantise(numbers(2, 33), "int8") is not None


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(wrong: float) -> None:
    weight = numbers(2, 32)
    weight[1, 3] = wrong
    with pytest.raises(InputError, match="not finite"):
        quantise(weight, "int8")
    with pytest.raises(InputError, match=r"\(32,\)"):
        quantise(weight[0], "int8")


@given(st.integers(1, 5), st.integers(1, 4), st.sampled_from(KINDS), st.integers(0, 1000))
def test_what_is_written_is_read_again(n_rows: int, n_groups: int, kind: Kind, seed: int) -> None:
    matrix = few(numbers(n_rows, 32 * n_groups, seed), kind)
    again = from_arrays("m", as_arrays("m", matrix))
    assert again is not None
    np.testing.assert_array_equal(again.levels, matrix.levels)
    np.testing.assert_array_equal(again.numbers(), matrix.numbers())


def test_parts_that_do_not_belong_together_are_refused() -> None:
    arrays = as_arrays("m", few(numbers(4, 64), "int4"))
    assert from_arrays("other", arrays) is None
    with pytest.raises(InputError, match="belong together"):
        from_arrays("m", arrays | {"m.scale": arrays["m.scale"][:2]})
    with pytest.raises(InputError, match="belong together"):
        from_arrays("m", arrays | {"m.low": arrays["m.low"][:, :1]})
    eight = as_arrays("m", few(numbers(4, 64), "int8"))
    for scale in (eight["m.scale"][:, :1], eight["m.scale"].astype(np.float32)):
        with pytest.raises(InputError, match="belong together"):
            from_arrays("m", eight | {"m.scale": scale})
    with pytest.raises(InputError, match="belong together"):
        from_arrays("m", eight | {"m.levels": eight["m.levels"][0]})


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_numbers_too_large_for_short_scales_are_left_alone(kind: Kind) -> None:
    weight = numbers(4, 64)
    weight[1, 1] = 1e5
    assert quantise(weight, kind) is None


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1"])
def test_gguf_blocks_stand_for_what_the_reference_says(name: str) -> None:
    gguf = pytest.importorskip("gguf", reason="ends with pip install lookleft[gguf]")
    kind = gguf.GGMLQuantizationType[name]
    blocks = gguf.quants.quantize(numbers(6, 96), kind)
    matrix = from_blocks(blocks, name)
    assert matrix is not None
    np.testing.assert_array_equal(matrix.numbers(), gguf.quants.dequantize(blocks, kind))
    order = np.array([3, 0, 5])
    np.testing.assert_array_equal(matrix.rows(order).numbers(), matrix.numbers()[order])


def test_other_gguf_types_are_left_to_the_reader() -> None:
    assert from_blocks(np.zeros((1, 210), np.uint8), "Q6_K") is None


def test_tables_that_are_looked_up_are_no_matrices() -> None:
    assert is_matrix("decoder.layers.0.self_attention.to_q.weight", 2)
    assert is_matrix("head.own_weight", 2)
    assert not is_matrix("decoder.positions.table.weight", 2)
    assert not is_matrix("decoder.norm.weight", 1)
