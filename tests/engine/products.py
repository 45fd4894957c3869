"""Compiled tiles and codes called from Python, for tests of each kind of panels and machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numba import njit, types

from lookleft.engine.encode import encode_block, encode_bytes
from lookleft.engine.layout import BLOCK, BLOCK4, BLOCK8, FLOAT32, INT8, WIDTH
from lookleft.engine.panels import fill_up, pack
from lookleft.engine.tiles import N_ARGUMENTS, tiles_code
from lookleft.quantised import Floats, Quantised, quantise

ENCODE = types.void(*[types.int64] * 4)
_encode = njit(ENCODE)(lambda s, t, c, u: encode_block(s, t, c, u))
_encode_bytes = njit(ENCODE)(lambda s, t, c, u: encode_bytes(s, t, c, u))


def numbers(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def matrices(n_rows: int, n_columns: int) -> dict[int, Floats | Quantised]:
    """One matrix of every kind that fits the size."""
    weight = numbers(n_rows, n_columns, seed=n_rows)
    found: dict[int, Floats | Quantised] = {FLOAT32: weight}
    row_scale = np.abs(weight).max(axis=1, keepdims=True) / np.float32(127)
    levels = np.rint(weight / row_scale).astype(np.int8)
    found[INT8] = Quantised(levels, row_scale)
    if n_columns % 32 == 0:
        scale = np.abs(numbers(n_rows, n_columns // 32, seed=1)).astype(np.float16)
        found[BLOCK8] = Quantised(levels, scale)
        by_group = quantise(weight, "int4")
        assert by_group is not None
        found[BLOCK4] = by_group
    return found


def ways(n_rows: int, n_columns: int) -> list[tuple[Floats | Quantised, bool]]:
    """The same matrices, each with whether activations have 8 bits: 8-bit weights meet both."""
    found = matrices(n_rows, n_columns)
    narrow = [(found[BLOCK8], True)] if BLOCK8 in found else []
    return [*((matrix, False) for matrix in found.values()), *narrow]


def encoded(
    x: Floats, encode: Callable[..., None] | None = None, *, is_narrow: bool = False
) -> tuple[np.ndarray, Floats, np.ndarray]:
    """Codes (M, C), scales and sums (M, C / 32) of rows whose width is a multiple of 32.

    encode: other machine code for a block. is_narrow: in 8 bits.
    """
    n_rows, width = x.shape
    x = np.ascontiguousarray(x)
    codes = np.zeros((n_rows, width), np.int8 if is_narrow else np.int16)
    scales = np.zeros((n_rows, width // BLOCK), np.float32)
    sums = np.zeros((n_rows, width // BLOCK), np.int32 if is_narrow else np.float32)
    encode = encode or (_encode_bytes if is_narrow else _encode)
    for row in range(n_rows):
        for block in range(width // BLOCK):
            at = row * width + block * BLOCK
            place = 4 * (row * (width // BLOCK) + block)
            encode(
                x.ctypes.data + 4 * at,
                codes.ctypes.data + codes.itemsize * at,
                scales.ctypes.data + place,
                sums.ctypes.data + place,
            )
    return codes, scales, sums


def product(
    matrix: Floats | Quantised,
    x: Floats,
    bias: Floats | None = None,
    before: Floats | None = None,
    code: int | None = None,
    is_narrow: bool = False,
) -> Floats:
    """x @ matrix.T + bias (+ what was there before), by the tiles. (M, C) -> (M, R).

    code: the address of other machine code for the tiles. is_narrow: activations have 8 bits.
    """
    panels = pack(matrix, is_narrow=is_narrow)
    n_rows, n_columns = x.shape
    width, n_features = fill_up(n_columns, BLOCK), panels.n_tiles * WIDTH
    wide = np.zeros((n_rows, width), np.float32)
    wide[:, :n_columns] = x
    codes, scales, sums = encoded(wide, is_narrow=is_narrow)
    given = wide if panels.kind == FLOAT32 else codes
    biases, row_scales = np.zeros(n_features, np.float32), panels.row_scales
    if bias is not None:
        biases[: len(bias)] = bias
    y = np.zeros((n_rows, n_features), np.float32)
    if before is not None:
        y[:, : before.shape[1]] = before
    data = np.ascontiguousarray(panels.data)
    arguments = (
        panels.kind,
        panels.n_tiles,
        n_rows,
        data.ctypes.data,
        data.shape[1],
        panels.n_blocks,
        given.ctypes.data,
        given.strides[0],
        scales.ctypes.data,
        sums.ctypes.data,
        scales.strides[0],
        biases.ctypes.data if row_scales is None else row_scales.ctypes.data,
        biases.ctypes.data,
        y.ctypes.data,
        y.strides[0],
        int(before is not None),
    )
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * N_ARGUMENTS)(code or tiles_code())(*arguments)
    return y[:, : panels.n_rows]
