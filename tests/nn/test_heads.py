"""Products become heads as `Attention` makes them, at any positions, there and back."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from lookleft.nn.attention import split_heads
from lookleft.nn.heads import Part, make_heads
from lookleft.nn.layers import RMSNorm
from lookleft.nn.positions import Rotation

EPS = 1e-5
SIZES = {"as vectors": 16, "too narrow for vectors": 4, "one vector and a half": 24}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rotation(positions: Sequence[Sequence[int]], width: int) -> Rotation:
    frequencies = 100.0 ** -(torch.arange(width // 2, dtype=torch.float64) / width)
    return Rotation(torch.tensor(positions), frequencies)


def by_kernel(
    rows: Tensor, bias: Tensor, norm_q: Tensor, norm_k: Tensor, turn: Rotation, shape: Any
) -> list[Tensor]:
    """Two heads of queries, one of keys, one of values."""

    def norm(weight: Tensor) -> Any:
        return SimpleNamespace(weight=weight, eps=EPS)

    parts = [Part(2, norm(norm_q), turn.tables), Part(1, norm(norm_k), turn.tables), Part(1)]
    linears: Any = [SimpleNamespace(bias=bias, weight=rows)]
    return make_heads(rows, shape, parts, linears)


def plainly(
    rows: Tensor, bias: Tensor, norm_q: Tensor, norm_k: Tensor, turn: Rotation, shape: Any
) -> list[Tensor]:
    width = rows.size(1) // 4
    q, keys, values = (rows + bias).view(*shape, -1).split([2 * width, width, width], -1)

    def normed(x: Tensor, n_heads: int, weight: Tensor) -> Tensor:
        norm = RMSNorm(width, eps=EPS).double()
        heads = split_heads(x, n_heads)
        return heads * (heads.square().mean(-1, keepdim=True) + norm.eps).rsqrt() * weight

    return [
        turn(normed(q, 2, norm_q)),
        turn(normed(keys, 1, norm_k)),
        split_heads(values, 1),
    ]


@pytest.mark.parametrize("positions", [[[3, 1, 0], [90, 4, 4]], [[5, 0, 7]]], ids=["each", "all"])
@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_heads_are_the_heads_of_plain_operations(
    width: int, positions: Sequence[Sequence[int]]
) -> None:
    """Documents that lie behind one another in a row begin to count anew: no two rows are alike."""
    turn = rotation(positions, width)
    leaves = [draw(6, 4 * width), *(draw(n, seed=n) for n in (4 * width, width, width))]
    narrow = [leaf.clone().requires_grad_() for leaf in leaves]
    wide = [leaf.double().requires_grad_() for leaf in leaves]
    ours = by_kernel(*narrow, turn, (2, 3))
    theirs = plainly(*wide, turn, (2, 3))
    assert [each.shape for each in ours] == [(2, 2, 3, width), (2, 1, 3, width), (2, 1, 3, width)]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-6, atol=1e-6)
    # Gradients of heads come as attention lays them, with time and heads swapped.
    above = [draw(*each.shape, seed=50 + i) for i, each in enumerate(ours)]
    torch.autograd.backward(ours, above)
    torch.autograd.backward(theirs, [each.double() for each in above])
    for mine, its in zip(narrow, wide, strict=True):
        assert mine.grad is not None
        assert its.grad is not None
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=1e-5, atol=1e-5)


def test_another_rows_angles_would_be_noticed() -> None:
    leaves = [draw(6, 64), draw(64), draw(16), draw(16)]
    turned = [
        by_kernel(*leaves, rotation(positions, 16), (2, 3))[0]
        for positions in ([[3, 1, 0], [90, 4, 4]], [[3, 1, 0], [3, 1, 0]])
    ]
    torch.testing.assert_close(turned[0][0], turned[1][0])
    assert not torch.allclose(turned[0][1], turned[1][1], atol=1e-2)
