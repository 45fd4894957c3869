"""Optimisers: who is trained by which, and what Muon does to a matrix."""

from __future__ import annotations

import pytest
import torch

from lookleft.models import build, presets
from lookleft.train.optim import Muon, make_optimizers, orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (4, 16), (16, 4)])
def test_the_update_is_nearly_orthogonal(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(orthogonal(matrix))
    assert values.min() > 0.6
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    cosine = (orthogonal(matrix) * (u @ v)).sum() / (u @ v).norm() / orthogonal(matrix).norm()
    assert cosine > 0.97


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
