"""Arrays that begin where a line of the processor's cache does.

A register of 64 bytes then takes one line to load or store; NumPy's own arrays begin 16 bytes
behind, and every such access takes two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 64  # bytes


def empty_lines(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of any numbers."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(n_bytes + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + n_bytes].view(dtype).reshape(shape)


def zero_lines(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros."""
    made = empty_lines(shape, dtype)
    made.fill(0)
    return made
