"""Which output uses which input, read off one backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lookleft.audit.checks.base import SkipCheckError, lookup_of
from lookleft.audit.session import Session, Setting
from lookleft.audit.subject import cast


class CatchEmbeddings(TorchFunctionMode):
    """Makes every embedding of exactly these ids a leaf whose gradient can be read."""

    def __init__(self, ids: Tensor) -> None:
        super().__init__()
        self.ids = ids
        self.leaves: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if lookup_of(func, args, kwargs or {}, result, self.ids):
            leaf = result.detach().clone().requires_grad_()
            self.leaves.append(leaf)
            return leaf.clone()
        return result


def gradient_map(session: Session, setting: Setting, rows: list[int]) -> Tensor:
    """Norm of d output_i / d input_j for the outputs asked for. (R, T)"""
    setting = replace(setting, grad=True)
    length = setting.length or session.length
    x = session.draw(12).x(1, length, setting.magnitude)
    x = x.expand(len(rows), *x.shape[1:]).contiguous()
    call, _ = session.dress(setting, x)
    call = cast(call, setting.dtype)
    live = session.live(setting)
    for module in live.modules:
        module.requires_grad_(False)  # the variant's own parameters, never the user's
    session.forwards += 1
    with session.running(setting):
        if x.is_floating_point():
            leaf = call.x.detach().clone().requires_grad_()
            out = live.forward(replace(call, x=leaf * 1.0)).out
            leaves = [leaf]
        else:
            if not session.subject.is_batched:
                raise SkipCheckError(
                    "rows of ids are run one by one, so one backward is not enough"
                )
            native = session.subject.native(call.x, session.subject.time[0])
            with CatchEmbeddings(native) as catch:
                out = live.forward(call).out
            leaves = catch.leaves  # laid out as the model wants its ids
        if not leaves:
            raise SkipCheckError("no embedding of the input ids was found to differentiate")
        if not out.requires_grad:
            raise SkipCheckError("no gradient reaches the outputs")
        generator = torch.Generator().manual_seed(session.seed)
        cotangent = torch.zeros_like(out)
        for row, position in enumerate(rows):
            noise = torch.randn(out.shape[2:], generator=generator, dtype=torch.float64)
            cotangent[row, position] = noise.to(out.dtype)
        grads = torch.autograd.grad(out, leaves, cotangent, allow_unused=True)
    if not x.is_floating_point() and session.subject.time[0] == 0:
        grads = tuple(None if g is None else g.transpose(0, 1) for g in grads)
    norms = [
        g.detach().double().flatten(2).norm(dim=-1) if g.dim() > 2 else g.detach().double().abs()
        for g in grads
        if g is not None
    ]
    if not norms:
        raise SkipCheckError("no gradient reaches the inputs")
    return torch.stack(norms).sum(0)  # (R, T)
