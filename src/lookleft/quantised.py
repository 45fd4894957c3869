"""Weights of few bits: whole numbers ("levels"), and for each group of neighbours what they mean.

    number = scale * level + low          low = 0 where a kind has none

Kinds: 8 bits with a scale per 32 neighbours, or per row where rows make no such groups; 4 bits
with a scale and a lowest number per 32 neighbours. GGUF's Q8_0, Q4_0 and Q4_1 are such kinds and
come through bit for bit. Dimensions: R rows, C columns, N groups in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lookleft.errors import InputError

GROUP = 32  # neighbours that share a scale

Kind = Literal["int8", "int4"]
KINDS: tuple[Kind, ...] = ("int8", "int4")
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Quantised:
    """A matrix of few bits. A scale of shape (R, 1) serves the whole row."""

    levels: NDArray[np.int8]  # (R, C): -128..127, or 0..15 if 4 bits
    scale: NDArray[np.float16] | Floats  # (R, N) or (R, 1)
    low: NDArray[np.float16] | None = None  # (R, N); only 4 bits have it

    @property
    def shape(self) -> tuple[int, int]:
        return self.levels.shape[0], self.levels.shape[1]

    @property
    def n_bits(self) -> int:
        return 8 if self.low is None else 4

    @property
    def n_bytes(self) -> int:
        """What it takes to store it."""
        others = self.scale.nbytes + (0 if self.low is None else self.low.nbytes)
        return self.levels.size * self.n_bits // 8 + others

    def rows(self, order: NDArray[np.int64]) -> Quantised:
        """The same with row i taken from row order[i]."""
        low = None if self.low is None else self.low[order]
        return Quantised(self.levels[order], self.scale[order], low)

    def numbers(self) -> Floats:
        """What the levels stand for. -> (R, C) float32."""
        n_groups = self.scale.shape[1]
        levels = self.levels.reshape(self.shape[0], n_groups, -1).astype(np.float32)  # (R, N, C/N)
        numbers = levels * self.scale.astype(np.float32)[:, :, None]
        if self.low is not None:
            numbers += self.low.astype(np.float32)[:, :, None]
        return numbers.reshape(self.shape)


def quantise(weight: Floats, kind: Kind) -> Quantised | None:
    """The matrix in few bits; None if 4 bits are asked for and rows make no groups of 32, or if
    its numbers are too large for scales of 16 bits."""
    if weight.ndim != 2:
        raise InputError(f"only matrices are quantised, got shape {weight.shape}")
    if not bool(np.isfinite(weight).all()):
        raise InputError("a matrix with numbers that are not finite cannot be quantised")
    if kind == "int4" and weight.shape[1] % GROUP:
        return None
    if float(np.abs(weight).max(initial=0.0)) > float(np.finfo(np.float16).max):
        return None
    return _to_int8(weight) if kind == "int8" else _to_int4(weight)


def _to_int8(weight: Floats) -> Quantised:
    """Per 32 neighbours the largest number becomes 127; per row, where rows make no groups."""
    if weight.shape[1] % GROUP:
        scale = np.abs(weight).max(axis=1, keepdims=True) / np.float32(127)  # (R, 1)
        levels = np.rint(weight / np.where(scale > 0, scale, 1)).astype(np.int8)
        return Quantised(levels, scale.astype(np.float32))
    groups = weight.reshape(weight.shape[0], -1, GROUP)  # (R, N, 32)
    # Rounded to 16 bits first: the levels are chosen for the numbers that will be stored.
    halves = (np.abs(groups).max(axis=2) / np.float32(127)).astype(np.float16)  # (R, N)
    step = halves.astype(np.float32)[:, :, None]
    levels = np.rint(groups / np.where(step > 0, step, 1)).clip(-127, 127).astype(np.int8)
    return Quantised(levels.reshape(weight.shape), halves)


# Shares of a group's span that are tried: cutting off its ends makes the steps finer for the rest.
_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8)


def _to_int4(weight: Floats) -> Quantised:
    """Per 32 neighbours the span, of those tried, whose squared error is the smallest."""
    groups = weight.reshape(weight.shape[0], -1, GROUP)  # (R, N, 32)
    lowest, highest = groups.min(axis=2), groups.max(axis=2)  # (R, N)
    middle, half = (lowest + highest) / 2, (highest - lowest) / 2
    best = np.full(lowest.shape, np.inf, np.float32)
    kept_levels = np.zeros(groups.shape, np.int8)
    kept_scale, kept_low = (np.zeros(lowest.shape, np.float16) for _ in range(2))
    for share in _SHARES:
        # Rounded to 16 bits first: the levels are chosen for the numbers that will be stored.
        low = (middle - half * share).astype(np.float16)
        scale = (half * share * 2 / 15).astype(np.float16)
        step, start = scale.astype(np.float32)[:, :, None], low.astype(np.float32)[:, :, None]
        levels = np.rint((groups - start) / np.where(step > 0, step, 1)).clip(0, 15)
        error = np.square(levels * step + start - groups).sum(axis=2)  # (R, N)
        is_better = error < best
        best = np.where(is_better, error, best)
        kept_levels[is_better] = levels.astype(np.int8)[is_better]
        kept_scale[is_better], kept_low[is_better] = scale[is_better], low[is_better]
    return Quantised(kept_levels.reshape(weight.shape), kept_scale, kept_low)


def from_blocks(blocks: NDArray[np.uint8], type_name: str) -> Quantised | None:
    """GGUF blocks, bit for bit; None for types that are not of these kinds. (R, bytes)."""
    sizes = {"Q8_0": 34, "Q4_0": 18, "Q4_1": 20}
    if type_name not in sizes:
        return None
    n_rows = blocks.shape[0]
    parts = blocks.reshape(n_rows, -1, sizes[type_name])  # (R, N, bytes of a block)
    scale = _halves(parts[:, :, :2])
    if type_name == "Q8_0":
        levels = np.ascontiguousarray(parts[:, :, 2:]).view(np.int8)
        return Quantised(levels.reshape(n_rows, -1), scale)
    # Levels 0..15; Q4_0 means them from -8 on, which is exact in 16 bits as well.
    low = _halves(parts[:, :, 2:4]) if type_name == "Q4_1" else scale * np.float16(-8)
    packed = parts[:, :, -16:]  # two levels a byte: the first 16 of a block, and the last 16
    levels = np.concatenate((packed & 15, packed >> 4), axis=2).view(np.int8)
    return Quantised(levels.reshape(n_rows, -1), scale, low)


def _halves(parts: NDArray[np.uint8]) -> NDArray[np.float16]:
    """Two bytes each as a 16-bit float. (R, N, 2) -> (R, N)."""
    return np.ascontiguousarray(parts).view("<f2")[:, :, 0].astype(np.float16)


PART = "weight."  # in the names of the parts of a quantised matrix, as in "to_q.weight.scale"


def is_matrix(name: str, n_axes: int) -> bool:
    """Whether a parameter is multiplied with; tables of positions and segments are looked up."""
    return n_axes == 2 and not name.endswith((".table.weight", ".types.weight"))


def as_arrays(name: str, matrix: Quantised) -> dict[str, NDArray[Any]]:
    """What to write for it into a file, by name."""
    levels: NDArray[Any] = matrix.levels
    if matrix.n_bits == 4:
        halves = matrix.levels.reshape(matrix.shape[0], -1, 2).view(np.uint8)
        levels = halves[:, :, 0] | halves[:, :, 1] << 4  # (R, C/2), neighbours in one byte
    arrays = {f"{name}.levels": levels, f"{name}.scale": matrix.scale}
    if matrix.low is not None:
        arrays[f"{name}.low"] = matrix.low
    return arrays


def from_arrays(name: str, arrays: Mapping[str, NDArray[Any]]) -> Quantised | None:
    """The matrix that `as_arrays` took apart; None if the file has none of this name."""
    levels, scale = arrays.get(f"{name}.levels"), arrays.get(f"{name}.scale")
    if levels is None or scale is None:
        return None
    low = arrays.get(f"{name}.low")
    if low is not None:
        packed = levels.astype(np.uint8)
        levels = np.stack((packed & 15, packed >> 4), axis=2).reshape(len(packed), -1)
    matrix = Quantised(
        levels.astype(np.int8, copy=False),
        scale if scale.dtype == np.float16 else scale.astype(np.float32),
        None if low is None else low.astype(np.float16),
    )
    _check(name, matrix)
    return matrix


def _check(name: str, matrix: Quantised) -> None:
    """Refuse parts that do not belong together: a scale per row, or one of 16 bits per group."""
    n_rows, n_columns = matrix.levels.shape if matrix.levels.ndim == 2 else (0, 0)
    if matrix.scale.dtype == np.float32:
        fits = matrix.scale.shape == (n_rows, 1) and matrix.low is None
    else:
        fits = matrix.scale.shape == (n_rows, n_columns // GROUP) and n_columns % GROUP == 0
        fits = fits and (matrix.low is None or matrix.low.shape == matrix.scale.shape)
    if not fits or not n_rows:
        raise InputError(
            f"{name!r} has levels of {matrix.levels.shape} and scales of {matrix.scale.shape}: "
            f"they do not belong together"
        )
