"""Compiled products against plain ones, for every kind of panels, any number of rows and sizes."""

from __future__ import annotations

import numpy as np
import pytest
from engine.products import encoded, matrices, numbers, product

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
    for matrix in matrices(48, n_columns).values():
        alone = np.concatenate([product(matrix, x[i : i + 1]) for i in range(len(x))])
        np.testing.assert_array_equal(product(matrix, x), alone)


def test_a_product_can_be_added_to_what_is_there() -> None:
    x, before = numbers(5, 64), numbers(5, 32, seed=9)
    for matrix in matrices(32, 64).values():
        added = product(matrix, x, before=before)
        np.testing.assert_allclose(added, product(matrix, x) + before, rtol=1e-6, atol=1e-6)


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


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_not_lost(wrong: float) -> None:
    x = numbers(2, 64)
    x[1, 40] = wrong
    for matrix in matrices(16, 64).values():
        y = product(matrix, x)
        assert np.isfinite(y[0]).all()
        assert not np.isfinite(y[1]).any()
