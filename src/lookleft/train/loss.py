"""Losses, summed over real targets and divided once, by whoever knows how many there are.

A mean per micro-batch, averaged again over micro-batches or processes, over-weights the short
ones. So nothing here divides. Dimensions: B batch, T positions, N targets, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lookleft.data.batch import NO_TARGET, Batch
from lookleft.models import AnyModel, EncoderOnly

CHUNK = 1024  # targets whose logits exist at one time


def summed_loss(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy summed over real targets; no target at all gives 0. (B, T, V), (B, T) -> ()."""
    return F.cross_entropy(
        logits.flatten(0, -2),
        targets.flatten(),
        ignore_index=NO_TARGET,
        label_smoothing=smoothing,
        reduction="sum",
    )


def batch_loss(model: AnyModel, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The summed loss of a batch, without ever holding all its logits. -> ()."""
    assert batch.targets is not None, "a training batch has targets"
    states = model.states(batch)  # (B, T, D)
    if isinstance(model, EncoderOnly):
        states = model.head_transform(states)
    is_target = batch.targets != NO_TARGET  # padding costs nothing: it is left out here
    weight, bias = model.head.weight(model.embedding), model.head.bias
    picked = states[is_target] * model.head.scale  # (N, D)
    return fused_loss(picked, weight, bias, batch.targets[is_target], smoothing)


def fused_loss(
    states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float = 0.0
) -> Tensor:
    """`summed_loss` of projected states, a chunk at a time. (N, D), (V, D), (V,), (N,) -> ()."""
    loss: Tensor = FusedLoss.apply(states, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return loss


class FusedLoss(torch.autograd.Function):
    """Projection and cross-entropy in one, a chunk of targets at a time.

    The logits of a batch, (N, V), are its largest tensor by far, and training needs them only to
    make one number and two gradients. Both gradients are made in the forward pass, while a chunk's
    logits are still there; the backward pass only scales them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
    ) -> Tensor:
        n_ids = weight.size(0)
        wide = torch.promote_types(states.dtype, torch.float32)
        total = states.new_zeros((), dtype=wide)
        d_states = torch.empty_like(states)  # (N, D)
        d_weight = torch.zeros_like(weight)  # (V, D)
        d_bias = None if bias is None else torch.zeros_like(bias)  # (V,)
        for start in range(0, states.size(0), CHUNK):
            part = slice(start, start + CHUNK)
            logits = F.linear(states[part], weight, bias).to(wide)  # (chunk, V)
            log_probs = logits.log_softmax(-1)
            picked = targets[part, None]
            total -= (1 - smoothing) * log_probs.gather(1, picked).sum()
            if smoothing:
                total -= smoothing / n_ids * log_probs.sum()
            # d loss / d logits = what the model says - what the target says
            error = log_probs.exp_().sub_(smoothing / n_ids)
            error.scatter_add_(1, picked, error.new_full(picked.shape, smoothing - 1))
            error = error.to(states.dtype)
            torch.mm(error, weight, out=d_states[part])
            d_weight.addmm_(error.mT, states[part])
            if d_bias is not None:
                d_bias += error.sum(0)
        ctx.save_for_backward(d_states, d_weight, *(() if d_bias is None else (d_bias,)))
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_states, d_weight, *rest = ctx.saved_tensors
        scale = grads[0].to(d_states.dtype)
        d_bias = rest[0] * scale if rest else None
        return d_states * scale, d_weight * scale, d_bias, None, None
