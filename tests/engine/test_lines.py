"""Arrays of the engine begin on whole cache lines."""

from __future__ import annotations

import numpy as np
import pytest

from lookleft.engine.lines import LINE, empty_lines, zero_lines


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 4, 7), (0, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16])
def test_an_array_begins_with_a_line_and_has_its_shape(shape: tuple[int, ...], dtype: type) -> None:
    for made in (empty_lines(shape, dtype), zero_lines(shape, dtype)):
        assert made.shape == shape
        assert made.dtype == dtype
        assert made.ctypes.data % LINE == 0 or not made.size
    assert not zero_lines(shape, dtype).any()
