"""What the audit can also be told about one of our networks: how it generates, what it costs.

The audit calls strangers; it does not import us, and it need not: these are plain functions of
tensors. They close over the module under audit, so that its copies bring their own along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lookleft.data.batch import Batch, as_rows, next_token_batch
from lookleft.generate.decode import generate_ids
from lookleft.models.forward import DecoderForward, TranslatorForward
from lookleft.train.loss import batch_loss


def capabilities(module: Any) -> dict[str, Any]:
    """Keyword arguments for `lookleft.audit(module, ...)`; none for modules that are not ours."""
    if isinstance(module, DecoderForward):
        return {"generate": _generator(module), "loss": _loss(module)}
    if isinstance(module, TranslatorForward):
        return {
            "encode": module.encode,
            "generate": _translator(module),
            "loss": _translation_loss(module),
        }
    return {}


def _generator(module: DecoderForward) -> Callable[..., Tensor]:
    def generate(ids: Tensor, n: int, is_token: Tensor | None = None) -> Tensor:
        """Prompts and their greedy continuations. (B, T) -> (B, T + n)."""
        kept = torch.ones_like(ids, dtype=torch.bool) if is_token is None else is_token
        prompts = [row[keep].tolist() for row, keep in zip(ids, kept, strict=True)]
        new = generate_ids(module.network, prompts, max_new=n, eos=None)
        return torch.cat([ids, torch.tensor(new, device=ids.device)], 1)

    return generate


def _translator(module: TranslatorForward) -> Callable[..., Tensor]:
    def generate(ids: Tensor, n: int) -> Tensor:
        """Greedy translations with their start token. (B, S) -> (B, 1 + n)."""
        new = generate_ids(module.network, ids.tolist(), max_new=n, eos=None)
        start = ids.new_full((ids.size(0), 1), module.network.config.start_id)
        return torch.cat([start, torch.tensor(new, device=ids.device)], 1)

    return generate


def _loss(module: DecoderForward) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(ids: Tensor, labels: Tensor) -> Tensor:
        """Of labels that stand where their ids stand; data/batch.py shifts them. -> ()."""
        inputs = next_token_batch(ids.tolist()).inputs
        targets = next_token_batch(labels.tolist()).targets
        return batch_loss(module.network, Batch(inputs, targets))

    return loss


def _translation_loss(module: TranslatorForward) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def loss(ids: Tensor, labels: Tensor, source: Tensor) -> Tensor:
        """Of labels that the decoder must say where it reads `ids`. -> ()."""
        return batch_loss(module.network, Batch(as_rows(ids), labels, source=as_rows(source)))

    return loss
