"""Compiled products against plain ones, for every kind of panels, any number of rows and sizes."""

from __future__ import annotations

import numpy as np
import pytest
from engine.products import encoded, matrices, numbers, product, ways

from lookleft.engine import tiles
from lookleft.engine.layout import BLOCK4, BLOCK8, FLOAT32, INT8
from lookleft.engine.panels import pack
from lookleft.quantised import Quantised


@pytest.mark.parametrize("kind", [FLOAT32, INT8, BLOCK8, BLOCK4])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 40])
def test_a_product_is_that_of_the_numbers_the_weights_stand_for(kind: int, n_rows: int) -> None:
    matrix = matrices(40, 96)[kind]
    weight = matrix.numbers() if isinstance(matrix, Quantised) else matrix
    x, bias = numbers(n_rows, 96, seed=2), numbers(40, seed=3)
    expected = x.astype(np.float64) @ weight.astype(np.float64).T + bias
    assert pack(matrix).kind == kind
    size = np.abs(x) @ np.abs(weight).T  # what rounding is measured against
    assert (np.abs(product(matrix, x, bias) - expected) <= 3e-5 * size + 1e-6).all()
    wrong = expected - bias
    assert np.abs(product(matrix, x, bias) - wrong).max() > 0.1  # the bias is in it


@pytest.mark.parametrize(
    ("n_features", "n_columns"), [(1, 1), (5, 6), (16, 31), (17, 33), (50, 64)]
)
def test_sizes_that_fill_no_tile_are_filled_up_with_nothing(
    n_features: int, n_columns: int
) -> None:
    x = numbers(3, n_columns, seed=4)
    for matrix in matrices(n_features, n_columns).values():
        weight = matrix.numbers() if isinstance(matrix, Quantised) else matrix
        size = np.abs(x) @ np.abs(weight).T  # what rounding is measured against
        assert (np.abs(product(matrix, x) - x @ weight.T) <= 3e-5 * size + 1e-6).all()


@pytest.mark.parametrize("n_columns", [96, 32 * tiles.WIDE_BLOCKS + 32])  # the last fits no scratch
def test_a_row_has_the_same_product_among_few_and_among_many(n_columns: int) -> None:
    x = numbers(tiles.WIDE_PARTS * tiles.MAX_ROWS + 1, n_columns)
    for matrix, is_narrow in ways(48, n_columns):
        rows = [product(matrix, x[i : i + 1], is_narrow=is_narrow) for i in range(len(x))]
        together = product(matrix, x, is_narrow=is_narrow)
        np.testing.assert_array_equal(together, np.concatenate(rows))


def test_a_product_can_be_added_to_what_is_there() -> None:
    x, before = numbers(5, 64), numbers(5, 32, seed=9)
    for matrix, is_narrow in ways(32, 64):
        added = product(matrix, x, before=before, is_narrow=is_narrow)
        expected = product(matrix, x, is_narrow=is_narrow) + before
        np.testing.assert_allclose(added, expected, rtol=1e-6, atol=1e-6)


def test_activations_in_sixteen_bits_are_off_by_half_a_step() -> None:
    x = numbers(3, 64) * 100
    x[1, 32:] = 0
    x[2, 5] = 3e4  # an outlier makes its own block coarse, and no other
    codes, scales, sums = encoded(x)
    back = codes * scales.repeat(32, axis=1)
    assert (np.abs(back - x) <= scales.repeat(32, axis=1) * 0.51).all()
    np.testing.assert_allclose(sums, back.reshape(3, 2, 32).sum(2), rtol=1e-5, atol=1e-3)
    assert scales[1, 1] == 0
    assert np.abs(codes).max() == 32767


def test_activations_in_eight_bits_are_off_by_half_a_step() -> None:
    x = numbers(3, 64) * 100
    x[1, 32:] = 0
    codes, scales, surplus = encoded(x, is_narrow=True)
    assert (np.abs(codes * scales.repeat(32, axis=1) - x) <= scales.repeat(32, axis=1) * 0.51).all()
    np.testing.assert_array_equal(surplus, -128 * codes.astype(np.int32).reshape(3, 2, 32).sum(2))
    assert np.abs(codes.astype(np.int32)).max() == 127


@pytest.mark.parametrize("n_rows", [1, 2, 5, 8, 12, 13, 40])
def test_a_product_of_eight_bits_is_that_of_the_numbers_the_codes_stand_for(n_rows: int) -> None:
    matrix = matrices(40, 96)[BLOCK8]
    assert isinstance(matrix, Quantised)
    matrix.levels[3, :5] = -128  # the lowest there is
    x, bias = numbers(n_rows, 96, seed=2), numbers(40, seed=3)
    codes, scales, _ = encoded(x, is_narrow=True)
    meant = codes * scales.repeat(32, axis=1).astype(np.float64)
    expected = meant @ matrix.numbers().astype(np.float64).T + bias
    size = np.abs(x) @ np.abs(matrix.numbers()).T
    found = product(matrix, x, bias, is_narrow=True)
    assert (np.abs(found - expected) <= 1e-6 * size + 1e-6).all()
    assert not np.array_equal(found, product(matrix, x, bias))  # it is not that of 16 bits


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_not_lost(wrong: float) -> None:
    x = numbers(2, 64)
    x[1, 40] = wrong
    for matrix, is_narrow in ways(16, 64):
        y = product(matrix, x, is_narrow=is_narrow)
        assert np.isfinite(y[0]).all()
        assert not np.isfinite(y[1]).any()
