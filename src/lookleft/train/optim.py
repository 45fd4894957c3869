"""Optimisers: AdamW for everything, or Muon for the matrices inside the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.train.team import share_of, whole

# Odd quintics a s + b s^3 + c s^5 that drive singular values towards 1, one after another. Each is
# the one that stays nearest to 1 over the values that the one before it leaves, beginning with
# [0.003, 1], which end within 0.2 of 1. Five rounds of one quintic (Jordan 2024) reach 0.32.
_QUINTICS = (
    (8.3837, -24.7659, 18.3571),
    (4.0434, -3.0114, 0.5695),
    (3.5056, -2.6267, 0.5257),
    (2.4901, -1.8343, 0.4368),
)


# Rounded to 8 bits, the largest singular value can come out above 1, where the first quintics are
# steep enough to blow it up. So all of them are made for values up to this.
_SLACK = 1.02


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal: every direction of a matrix learns equally fast."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        is_narrow: bool = False,  # products in bfloat16
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.is_narrow = is_narrow

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "Muon looks at the gradients it is given"
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in moving:
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for alike in by_shape.values():
                self._update(alike, group)

    def _update(self, alike: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Matrices of one shape go through the products together: alone they are too small."""
        ahead = torch.stack([whole(self._look_ahead(p, group["momentum"])) for p in alike])
        # Wide and tall matrices alike move by about lr per entry, as under Adam.
        size = 0.2 * max(ahead.shape[1:]) ** 0.5
        directions = orthogonal(ahead.to(torch.bfloat16) if self.is_narrow else ahead)
        directions = directions.to(ahead.dtype)
        for parameter, direction in zip(alike, directions, strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(share_of(direction, parameter), alpha=-group["lr"] * size)

    def _look_ahead(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """Where the gradients have been pointing, leaning towards the newest, as Nesterov does."""
        grad, state = parameter.grad, self.state[parameter]
        assert grad is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(grad)
        state["momentum"].lerp_(grad, 1 - momentum)
        return grad.lerp(state["momentum"], momentum)


def orthogonal(matrices: Tensor) -> Tensor:
    """Roughly U V^T of each matrix's singular value decomposition, by products. (N, R, C), same."""
    is_tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    square = x @ x.mT  # (N, R, R)
    # No singular value is larger than the fourth root of the sum of their fourth powers, which
    # leaves the small ones larger than a division by the norm does: a round less is needed.
    largest = square.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-12)  # squared
    x, square = x / largest.sqrt(), square / largest
    slack = _SLACK if x.dtype == torch.bfloat16 else 1.0
    for number, quintic in enumerate(_QUINTICS):
        a, b, c = (factor / slack**power for factor, power in zip(quintic, (1, 3, 5), strict=True))
        if number:
            square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


def make_optimizers(
    model: nn.Module,
    *,
    lr: float,
    matrix_lr: float | None = None,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
    is_narrow: bool = False,
) -> list[torch.optim.Optimizer]:
    """AdamW for all parameters, or with `matrix_lr` Muon for the matrices of the blocks.

    `is_narrow` lets Muon make its products in bfloat16, as its author does.

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
        Muon([inside], lr=matrix_lr, is_narrow=is_narrow),
        torch.optim.AdamW([others], lr=lr, betas=betas, eps=eps, fused=True),
    ]
