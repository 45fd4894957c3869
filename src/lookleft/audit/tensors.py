"""Recognising positions inside a stranger's tensors by the length of their axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Float tensors in nested tuples, lists and mappings, in order."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)


def by_position(value: Tensor, rows: int, length: int) -> Tensor | None:
    """The tensor as (B, T, rest), or None when it has no axis, or two, for time."""
    shape = list(value.shape)
    if not shape or rows * length == 0:
        return None
    if shape[:2] == [rows, length] and shape.count(length) - (rows == length) == 1:
        return value.reshape(rows, length, -1)
    if shape[0] == rows * length and (rows > 1 or shape.count(length) == 1):
        return value.reshape(rows, length, -1)
    if shape[0] == length and len(shape) > 1 and shape[1] == rows and rows > 1:
        return value.transpose(0, 1).reshape(rows, length, -1)
    if shape[0] != rows or shape.count(length) - (rows == length) != 1:
        return None
    axis = shape.index(length, 1)
    return value.movedim(axis, 1).reshape(rows, length, -1)


def change_at(before: Tensor, after: Tensor, keep: Tensor) -> float | None:
    """Largest change at the kept positions (B, T), relative to the tensor's size."""
    if before.shape != after.shape:
        return None
    a, b = by_position(before, *keep.shape), by_position(after, *keep.shape)
    if a is None or b is None or not a.numel():
        return None
    apart = (a.detach().double() - b.detach().double()).abs().amax(-1).masked_fill(~keep, 0.0)
    scale = float(before.detach().abs().max())
    worst = float(apart.nan_to_num(0.0).max())
    return worst / scale if scale else worst


def change_between(
    before: Tensor, after: Tensor, chosen: Tensor, chosen_after: Tensor
) -> float | None:
    """Largest relative change between positions chosen in tensors of other lengths."""
    a, b = by_position(before, *chosen.shape), by_position(after, *chosen_after.shape)
    if a is None or b is None or a.size(2) != b.size(2) or not a.numel():
        return None
    one, two = a[chosen].detach().double(), b[chosen_after].detach().double()  # (N, rest)
    if one.shape != two.shape:
        return None
    scale = float(one.abs().max()) if one.numel() else 0.0
    worst = float((one - two).abs().nan_to_num(0.0).max()) if one.numel() else 0.0
    return worst / scale if scale else worst


def with_suffix_of(value: Any, other: Any, keep: Tensor) -> Any:
    """`value` where positions are kept and `other` elsewhere, through nested containers."""
    if isinstance(value, Tensor) and isinstance(other, Tensor) and value.shape == other.shape:
        return _mixed(value, other, keep)
    if isinstance(value, tuple | list) and isinstance(other, tuple | list):
        if hasattr(value, "_fields"):
            return value
        parts = [with_suffix_of(a, b, keep) for a, b in zip(value, other, strict=False)]
        return tuple(parts) if isinstance(value, tuple) else parts
    if type(value) is dict and type(other) is dict:
        return {key: with_suffix_of(value[key], other.get(key), keep) for key in value}
    return value


def _mixed(value: Tensor, other: Tensor, keep: Tensor) -> Tensor:
    marks = torch.arange(value.numel()).reshape(value.shape)
    places = by_position(marks, *keep.shape)
    if places is None:
        return value
    mixed = value.clone().reshape(-1)
    swapped = places[~keep].reshape(-1)
    mixed[swapped] = other.reshape(-1)[swapped]
    return mixed.reshape(value.shape)
