"""Losses, summed over real targets and divided once, by whoever knows how many there are.

A mean per micro-batch, averaged again over micro-batches or processes, over-weights the short
ones. So nothing here divides. Dimensions: B batch, T positions, N targets, D width, V vocabulary,
R passes over the same rows (one, or two for R-Drop).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from lookleft.data.batch import NO_TARGET, Batch, repeat_rows
from lookleft.models import AnyModel, EncoderOnly
from lookleft.nn.fused import are_kernels_wanted, can_read, surprise_rows
from lookleft.nn.narrow import narrowed

LOGITS_AT_ONCE = 2**21  # how many exist at one time: 8 MB, which stay near the processor


@dataclass(frozen=True, eq=False)
class Question:
    """What the output projection is asked: these states against all of the vocabulary."""

    states: Tensor  # (N, D)
    weight: Tensor  # (V, D)
    bias: Tensor | None  # (V,)


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
    is_target = batch.targets != NO_TARGET  # padding costs nothing: it is left out here
    asked = question_at(model, batch, is_target)
    return fused_loss(
        asked.states, asked.weight, asked.bias, batch.targets[is_target], smoothing=smoothing
    )


def twin_loss(model: AnyModel, batch: Batch, smoothing: float, rdrop: float) -> Tensor:
    """R-Drop (Liang et al. 2021): two passes with different dropout must agree. -> ().

    Half of what the paper sums, (CE1 + CE2 + rdrop * (KL12 + KL21) / 2) / 2: the loss of a batch
    whose passes agree is then that of one pass. Both passes are one forward of twice the rows.
    """
    assert batch.targets is not None, "a training batch has targets"
    is_target = batch.targets != NO_TARGET
    asked = question_at(model, repeat_rows(batch, 2), torch.cat([is_target] * 2))
    n_targets, width = len(asked.states) // 2, asked.states.size(1)
    states = asked.states.view(2, n_targets, width)  # (R, N, D)
    return fused_loss(
        states, asked.weight, asked.bias, batch.targets[is_target], smoothing=smoothing, rdrop=rdrop
    )


def question_at(model: AnyModel, batch: Batch, wanted: Tensor) -> Question:
    """What the head reads at the wanted positions of a batch. (B, T) -> states (N, D)."""
    states = model.states(batch)  # (B, T, D)
    if isinstance(model, EncoderOnly):
        states = model.head_transform(states)
    picked = states[wanted] * model.head.scale  # (N, D)
    kind = picked.device.type
    if torch.is_autocast_enabled(kind):  # the largest product of all should be a cheap one too
        picked = picked.to(torch.get_autocast_dtype(kind))
    picked = narrowed(picked)
    return Question(picked, model.head.weight(model.embedding), model.head.bias)


@torch.no_grad()
def likeliest(asked: Question) -> Tensor:
    """The id that the model holds for the likeliest at each state. -> (N,)."""
    weight = asked.weight.to(asked.states.dtype)
    bias = None if asked.bias is None else asked.bias.to(asked.states.dtype)
    parts = torch.split(asked.states, n_rows_at_once(weight))
    return torch.cat([F.linear(part, weight, bias).argmax(-1) for part in parts])


def fused_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    smoothing: float = 0.0,
    rdrop: float = 0.0,
) -> Tensor:
    """`summed_loss` of projected states, a chunk at a time. (N, D), (V, D), (V,), (N,) -> ().

    States of two passes, (2, N, D), give the loss of `twin_loss`.
    """
    passes = states if states.ndim == 3 else states[None]  # (R, N, D)
    with torch.autocast(states.device.type, enabled=False):  # it chooses its own types
        loss: Tensor = FusedLoss.apply(  # type: ignore[no-untyped-call]
            passes, weight, bias, targets, smoothing, rdrop, torch.is_grad_enabled()
        )
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
        rdrop: float,
        has_gradient: bool,
    ) -> Tensor:
        wide = torch.promote_types(states.dtype, torch.float32)
        matrix = weight.to(states.dtype)  # (V, D), narrow if the states are
        offset = None if bias is None else bias.to(states.dtype)
        total = states.new_zeros((), dtype=wide)
        d_states = torch.empty_like(states)  # (R, N, D)
        d_weight = torch.zeros_like(weight)  # (V, D)
        d_bias = None if bias is None else torch.zeros_like(bias)  # (V,)
        n_passes = states.size(0)
        size = n_rows_at_once(weight, n_passes)
        for start in range(0, targets.size(0), size):
            part = slice(start, start + size)
            chunk = states[:, part]  # (R, chunk, D)
            logits = F.linear(chunk, matrix, offset)  # (R, chunk, V)
            is_readable = can_read(logits) or can_read(logits, torch.bfloat16)
            if are_kernels_wanted(has_gradient) and is_readable:
                total += surprise_rows(logits, targets[part], smoothing, rdrop)
                error = logits
            else:
                cost, error = surprise(logits.to(wide), targets[part], smoothing, rdrop)
                total += cost
            if not has_gradient:
                continue
            error = error.to(states.dtype).flatten(0, 1)
            d_states[:, part] = (error @ matrix).view_as(chunk)
            if d_weight.dtype == error.dtype:
                d_weight.addmm_(error.mT, chunk.flatten(0, 1))
            else:
                d_weight += error.mT @ chunk.flatten(0, 1)
            if d_bias is not None:
                d_bias += error.sum(0, dtype=d_bias.dtype)
        ctx.n_passes = n_passes
        ctx.save_for_backward(d_states, d_weight, *(() if d_bias is None else (d_bias,)))
        return total / n_passes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scale = grads[0] / ctx.n_passes
        d_states, d_weight, *rest = (d * scale.to(d.dtype) for d in ctx.saved_tensors)
        return d_states, d_weight, *(rest or [None]), None, None, None, None


def n_rows_at_once(weight: Tensor, n_passes: int = 1) -> int:
    """How many targets are projected in one go, with this (V, D) matrix."""
    return max(LOGITS_AT_ONCE // (weight.size(0) * n_passes), 1)


def surprise(
    logits: Tensor, targets: Tensor, smoothing: float, rdrop: float = 0.0
) -> tuple[Tensor, Tensor]:
    """What the targets cost in all passes, and the gradient by the logits.

    Logits (R, N, V), targets (N,) -> (), (R, N, V).
    """
    probs, log_sum = softmax(logits)
    if logits.size(0) == 1:
        return cross_entropy(logits, probs, log_sum, targets, smoothing)
    # Before `cross_entropy` writes over the probabilities.
    both, *pulls = disagreement(logits, probs, log_sum)
    cost, error = cross_entropy(logits, probs, log_sum, targets, smoothing)
    for own_error, pull in zip(error, pulls, strict=True):
        own_error.add_(pull, alpha=rdrop / 2)
    return cost + rdrop / 2 * both, error


def cross_entropy(
    logits: Tensor, probs: Tensor, log_sum: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Cross-entropy, and its gradient by the logits, written over `probs`.

    What `softmax` gives of logits (R, N, V), targets (N,) -> (), (R, N, V).
    """
    picked = targets.expand(logits.shape[:-1])[..., None]  # (R, N, 1)
    costs = (1 - smoothing) * (log_sum - logits.gather(-1, picked))  # (R, N, 1)
    # d loss / d logits = what the model says - what the target says
    error = probs.scatter_add_(-1, picked, probs.new_tensor(smoothing - 1).expand(picked.shape))
    if smoothing:
        costs += smoothing * (log_sum - logits.mean(-1, keepdim=True))
        error -= smoothing / logits.size(-1)
    return costs.sum(), error


def disagreement(logits: Tensor, probs: Tensor, log_sum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """KL(1 || 2) + KL(2 || 1) of two passes, and its gradients by the logits of each.

    What `softmax` gives of logits (2, N, V) -> (), (N, V), (N, V).
    """
    p, q = probs
    gap = (logits[0] - logits[1]).sub_(log_sum[0] - log_sum[1])  # (N, V), log p - log q
    mean_p = torch.linalg.vecdot(p, gap)[:, None]  # (N, 1), KL(1 || 2)
    mean_q = torch.linalg.vecdot(q, gap)[:, None]  # (N, 1), -KL(2 || 1)
    by_first = (gap + (1 - mean_p)).mul_(p).sub_(q)  # p * (gap - its mean) + p - q
    by_second = gap.neg_().add_(1 + mean_q).mul_(q).sub_(p)  # the same with p and q exchanged
    return (mean_p - mean_q).sum(), by_first, by_second


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities, and the logarithm of what they were divided by. -> (R, N, V), (R, N, 1).

    The likeliest id has probability exp(its logit) / sum, which never underflows: so the sum is
    known without a second pass of exponentials.
    """
    probs = logits.softmax(-1)
    return probs, logits.amax(-1, keepdim=True) - probs.amax(-1, keepdim=True).log()
