"""A head's pattern gets the name that a reader would give it."""

from __future__ import annotations

import base64
import math

import pytest
import torch
from torch import Tensor

from lookleft.explore.heads import entropy, numbers, pattern, thumbnail

N = 6
CAUSAL = torch.tensor([[s <= t for s in range(N)] for t in range(N)])
FULL = torch.ones(N, N, dtype=torch.bool)


def looking_at(columns: list[int]) -> Tensor:
    return torch.eye(N)[columns]


@pytest.mark.parametrize(
    ("weights", "allowed", "is_cross", "name"),
    [
        (looking_at([0, 0, 1, 2, 3, 4]), CAUSAL, False, "previous"),
        (looking_at([0, 1, 2, 3, 4, 5]), CAUSAL, False, "self"),
        (looking_at([0, 0, 0, 0, 0, 0]), CAUSAL, False, "first"),
        (CAUSAL / CAUSAL.sum(-1, keepdim=True), CAUSAL, False, "spread"),
        (looking_at([0, 0, 2, 1, 2, 3]), CAUSAL, False, "mixed"),
        (looking_at([0, 1, 2, 2, 4, 5]), FULL, True, "aligned"),
        (looking_at([3, 3, 3, 3, 3, 3]), FULL, True, "mixed"),
    ],
)
def test_a_pattern_has_a_name(weights: Tensor, allowed: Tensor, is_cross: bool, name: str) -> None:
    assert pattern(weights.float(), allowed, is_cross=is_cross) == name


def test_entropy_is_in_bits() -> None:
    assert entropy(torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])).tolist() == [1.0, 0.0]


def test_a_thumbnail_keeps_the_strongest_of_what_it_joins() -> None:
    weights = torch.zeros(40, 40)
    weights[39, 0] = 1.0
    small = thumbnail(weights)
    data = base64.b64decode(small["data"])
    assert (small["rows"], small["columns"], len(data)) == (16, 16, 256)
    assert data[15 * 16] == 255
    assert sum(data) == 255


def test_nine_digits_bring_every_float_back_and_json_gets_no_infinity() -> None:
    values = torch.rand(200, generator=torch.Generator().manual_seed(0)) * 1e-3
    assert torch.equal(torch.tensor(numbers(values)), values)
    assert numbers(torch.tensor([1.0, -math.inf, math.nan])) == [1.0, None, None]
