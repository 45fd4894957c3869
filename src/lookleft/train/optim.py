"""Optimisers: AdamW for everything, or Muon for the matrices inside the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Coefficients of a quintic whose repeated use drives singular values towards 1 (Jordan 2024).
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal: every direction of a matrix learns equally fast."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "Muon looks at the gradients it is given"
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: nn.Parameter, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(grad)
        average = state["momentum"]
        average.lerp_(grad, 1 - group["momentum"])
        direction = orthogonal(grad.lerp(average, group["momentum"]))  # Nesterov's look ahead
        # Wide and tall matrices alike move by about lr per entry, as under Adam.
        size = 0.2 * max(parameter.shape) ** 0.5
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(direction, alpha=-group["lr"] * size)


def orthogonal(matrix: Tensor) -> Tensor:
    """Roughly U V^T of the matrix's singular value decomposition, by products alone. Same shape."""
    is_tall = matrix.size(0) > matrix.size(1)
    x = matrix.mT if is_tall else matrix
    x = x / (x.norm() + 1e-7)
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    out: Tensor = x.mT if is_tall else x
    return out


def make_optimizers(
    model: nn.Module,
    *,
    lr: float,
    matrix_lr: float | None = None,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
) -> list[torch.optim.Optimizer]:
    """AdamW for all parameters, or with `matrix_lr` Muon for the matrices of the blocks.

    Only matrices decay: shrinking norms, biases and embeddings towards 0 has no meaning. Every
    group carries its `peak_lr`; schedules give a share of it.
    """
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_inside = parameter.ndim == 2 and ".layers." in name
        (matrices if is_inside else rest).append(parameter)
    others = {"params": rest, "peak_lr": lr, "weight_decay": 0.0}
    if matrix_lr is None:
        inside = {"params": matrices, "peak_lr": lr, "weight_decay": weight_decay}
        return [torch.optim.AdamW([inside, others], lr=lr, betas=betas, eps=eps, fused=True)]
    inside = {"params": matrices, "peak_lr": matrix_lr, "weight_decay": weight_decay}
    return [
        Muon([inside], lr=matrix_lr),
        torch.optim.AdamW([others], lr=lr, betas=betas, eps=eps, fused=True),
    ]
