"""Optimisers: who is trained by which, and what Muon does to a matrix."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lookleft.models import build, presets
from lookleft.train.optim import Muon, make_optimizers, orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (4, 16), (16, 4)])
def test_the_update_is_nearly_orthogonal(shape: tuple[int, int]) -> None:
    draw = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, *shape, generator=draw, dtype=torch.float64)
    made = orthogonal(matrices)
    values = torch.linalg.svdvals(made)
    assert values.min() > 0.6
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    for ours, exact in zip(made, u @ v, strict=True):
        assert (ours * exact).sum() / exact.norm() / ours.norm() > 0.97
    alone = torch.cat([orthogonal(matrix[None]) for matrix in matrices])
    torch.testing.assert_close(made, alone)  # neighbours in a stack do not mix


def with_one_quintic(x: Tensor) -> Tensor:
    """Five rounds of one quintic, after a division by the norm (Jordan 2024)."""
    x = x / x.norm(dim=(-2, -1), keepdim=True)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x


@pytest.mark.parametrize("lowest", [0.02, 0.1, 0.5])
def test_four_rounds_come_nearer_to_orthogonal_than_five_of_one_quintic(lowest: float) -> None:
    draw = torch.Generator().manual_seed(0)
    u, v = (
        torch.linalg.qr(torch.randn(32, 32, generator=draw, dtype=torch.float64))[0]
        for _ in range(2)
    )
    values = torch.logspace(math.log10(lowest), 0, 32, dtype=torch.float64)
    matrix = (u * values) @ v.mT
    others = (torch.linalg.svdvals(with_one_quintic(matrix[None])) - 1).abs().max()
    for scale in (1e-3, 1.0, 1e9):
        ours = (torch.linalg.svdvals(orthogonal(scale * matrix[None])) - 1).abs().max()
        assert ours < 0.2
        assert ours < others


SPECTRA = {
    "one value": [1.0],
    "one above many": [1.0] + [0.01] * 31,
    "all alike": [1.0] * 32,
    "falling": [k**-0.5 for k in range(1, 33)],
    "falling fast": [k**-1.0 for k in range(1, 33)],
}


@pytest.mark.parametrize("scale", [1.0, 1e-6])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_rounding_to_8_bits_blows_no_direction_up(spectrum: str, scale: float) -> None:
    draw = torch.Generator().manual_seed(0)
    values = torch.tensor(SPECTRA[spectrum])
    left, right = (
        torch.linalg.qr(torch.randn(20, size, len(values), generator=draw))[0] for size in (32, 64)
    )
    matrices = scale * (left * values) @ right.mT
    narrow = torch.linalg.svdvals(orthogonal(matrices.to(torch.bfloat16)).float())
    assert narrow.max() < 1.3
    if spectrum != "one above many":  # whose small values drown in the rounding of the large one
        assert narrow[:, : len(values)].min() > 0.6


@pytest.mark.parametrize("is_narrow", [False, True])
def test_narrow_products_move_float32_parameters(is_narrow: bool) -> None:
    weight = torch.nn.Parameter(torch.zeros(16, 8))
    weight.grad = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    Muon([weight], lr=0.1, is_narrow=is_narrow).step()
    exact = torch.nn.Parameter(torch.zeros(16, 8))
    exact.grad = weight.grad
    Muon([exact], lr=0.1).step()
    assert weight.dtype == torch.float32
    assert torch.equal(weight, exact) != is_narrow
    assert (weight * exact).sum() > 0.97 * weight.norm() * exact.norm()


def test_no_gradient_gives_no_direction() -> None:
    assert bool((orthogonal(torch.zeros(2, 4, 6)) == 0).all())


@pytest.mark.parametrize("matrix_lr", [None, 0.01])
def test_every_parameter_is_trained_once(matrix_lr: float | None) -> None:
    model = build(presets.tiny(30))
    optimizers = make_optimizers(model, lr=0.001, matrix_lr=matrix_lr, weight_decay=0.1)
    trained = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    assert len(trained) == len({id(p) for p in trained}) == len(list(model.parameters()))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            assert group["weight_decay"] == 0 or all(p.ndim == 2 for p in group["params"])


def test_muon_learns_a_linear_map() -> None:
    draw = torch.Generator().manual_seed(0)
    wanted = torch.randn(6, 4, generator=draw)
    weight = torch.nn.Parameter(torch.zeros(6, 4))
    optimizer = Muon([weight], lr=0.2)
    for step in range(200):
        x = torch.randn(32, 4, generator=draw)
        loss = ((x @ weight.mT - x @ wanted.mT) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = 0.2 * (1 - step / 200)
        optimizer.step()
    assert loss.item() < 0.01
