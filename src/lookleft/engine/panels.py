"""Matrices laid out for `tiles.py`, in panels as `layout.py` describes them.

The numbers stay what they are; only their order changes. Rows are filled up to panels of 16 and
columns to blocks of 32, with zeros. Dimensions: R rows, C columns, P panels, N blocks in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookleft.engine.layout import (
    BLOCK,
    BLOCK4,
    BLOCK8,
    BLOCK_BYTES,
    FLOAT32,
    INT8,
    QUAD8,
    WIDTH,
)
from lookleft.engine.lines import LINE
from lookleft.quantised import Floats, Quantised

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Panels:
    """A matrix in panels. (P, bytes of a panel)."""

    kind: int
    data: Bytes
    n_rows: int  # as the matrix has them, without the filling
    n_columns: int
    row_scales: Floats | None = None  # (R filled up,), of INT8 only

    @property
    def n_blocks(self) -> int:
        return int(self.data.shape[1]) // BLOCK_BYTES[self.kind]

    @property
    def n_tiles(self) -> int:
        return int(self.data.shape[0])


def fill_up(size: int, unit: int) -> int:
    """The next multiple."""
    return -(-size // unit) * unit


def has_quads(matrix: Floats | Quantised) -> bool:
    """Whether the matrix can meet activations of 8 bits: it has 8 itself, and scales per block."""
    return isinstance(matrix, Quantised) and matrix.n_bits == 8 and matrix.scale.dtype == np.float16


def pack(matrix: Floats | Quantised, *, is_narrow: bool = False) -> Panels:
    """The panels of a matrix; `is_narrow`: for activations of 8 bits."""
    n_rows, n_columns = matrix.shape
    if not isinstance(matrix, Quantised):
        numbers = _filled(matrix, fill_up(n_columns, BLOCK))
        data = numbers.reshape(-1, WIDTH, numbers.shape[1]).swapaxes(1, 2)  # (P, C, 16)
        return Panels(FLOAT32, _as_bytes(data), n_rows, n_columns)
    levels = _filled(matrix.levels, fill_up(n_columns, BLOCK))
    n_blocks = levels.shape[1] // BLOCK
    if is_narrow:
        assert has_quads(matrix)
        fours = levels.reshape(-1, WIDTH, n_blocks, 8, 4).transpose(0, 2, 3, 1, 4)
        blocks = _as_bytes(fours).reshape(-1, n_blocks, 512) ^ np.uint8(128)  # 128 added
        first = _half_lanes(matrix.scale, n_blocks).reshape(len(blocks), -1)
        n_more = fill_up(first.shape[1], LINE) - first.shape[1]
        data = np.concatenate(
            (np.pad(first, ((0, 0), (0, n_more))), blocks.reshape(len(blocks), -1)), axis=1
        )
        return Panels(QUAD8, data, n_rows, n_columns)
    if matrix.n_bits == 8:
        pairs = levels.reshape(-1, WIDTH, n_blocks, 16, 2).transpose(0, 2, 3, 1, 4)
        blocks = _as_bytes(pairs).reshape(-1, n_blocks, 512)  # (P, N, 16 x 16 x 2)
        if matrix.scale.dtype == np.float32:  # one per row
            scales = _filled(matrix.scale, 1)[:, 0]
            return Panels(INT8, blocks.reshape(len(blocks), -1), n_rows, n_columns, scales)
        data = np.concatenate((_half_lanes(matrix.scale, n_blocks), blocks), axis=2)
        return Panels(BLOCK8, data.reshape(len(data), -1), n_rows, n_columns)
    assert matrix.low is not None
    # Four numbers to 16 bits: pair 4j + n of a block lies in bits 4n of vector j.
    parts = levels.view(np.uint8).astype(np.uint16).reshape(-1, WIDTH, n_blocks, 4, 4, 2)
    shifts = np.array([0, 4, 8, 12], np.uint16)[:, None]
    packed = np.bitwise_or.reduce(parts << shifts, axis=4)  # (P, 16, N, 4, 2)
    blocks = _as_bytes(packed.transpose(0, 2, 3, 1, 4)).reshape(-1, n_blocks, 256)
    scales, lows = _half_lanes(matrix.scale, n_blocks), _half_lanes(matrix.low, n_blocks)
    data = np.concatenate((scales, lows, blocks), axis=2)  # (P, N, 320)
    return Panels(BLOCK4, data.reshape(len(data), -1), n_rows, n_columns)


def _filled(array: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """The array with zeros up to whole panels of rows and so many columns."""
    n_rows = fill_up(array.shape[0], WIDTH)
    if array.shape == (n_rows, n_columns):
        return array
    filled = np.zeros((n_rows, n_columns), array.dtype)
    filled[: array.shape[0], : array.shape[1]] = array
    return filled


def _half_lanes(scales: NDArray[Any], n_blocks: int) -> Bytes:
    """Scales of 16 bits as the tiles read them. (R, N) -> (P, N, 16 x 2 bytes)."""
    halves = _filled(scales.astype(np.float16), n_blocks)
    lanes = halves.reshape(-1, WIDTH, n_blocks).swapaxes(1, 2)  # (P, N, 16)
    return _as_bytes(lanes).reshape(-1, n_blocks, 2 * WIDTH)


def _as_bytes(array: NDArray[Any]) -> Bytes:
    """(P, ...) -> (P, bytes)."""
    plain = np.ascontiguousarray(array)
    return plain.reshape(plain.shape[0], -1).view(np.uint8)
