"""Small parts of the kernels against their plain meaning."""

from __future__ import annotations

import numpy as np
from engine.products import encoded
from numba import njit, types

from lookleft.nn.arithmetic import exponential
from lookleft.quantised import Floats


def all_of(x: Floats) -> Floats:
    array = types.float32[::1]

    def each(x: Floats, y: Floats) -> None:
        for i in range(len(x)):
            y[i] = exponential(x[i])

    y = np.empty_like(x)
    njit(types.void(array, array))(each)(x, y)
    return y


def test_the_exponential_is_right_to_the_last_bits_everywhere() -> None:
    x = np.linspace(-86.5, 88, 20_001, dtype=np.float32)
    np.testing.assert_allclose(all_of(x), np.exp(x.astype(np.float64)), rtol=3e-7)


def test_the_exponential_ends_in_zero_and_infinity() -> None:
    ends = np.array([-np.inf, -1e30, -87, 0, 200, np.inf], np.float32)
    np.testing.assert_array_equal(all_of(ends), [0, 0, 0, 1, np.inf, np.inf])


def test_numbers_too_small_for_an_inverse_are_zeros() -> None:
    rows = np.full((3, 32), 1e-36, np.float32)
    rows[1] = 1e-44
    rows[2, 0] = np.nan
    codes, scales, sums = encoded(rows)
    assert not codes[:2].any()
    assert np.isfinite(scales[:2]).all()
    assert not sums[:2].any()
    assert np.isnan(scales[2])  # what is no number is not lost
