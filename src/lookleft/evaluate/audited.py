"""What the audit can also be told about one of our networks: how it generates, what it costs.

The audit calls strangers; it does not import us, and it need not: these are plain functions of
tensors. They close over the module under audit, so that its copies bring their own along.
A runner (the engine, or a network driven as one) is no module: `audited_runner` dresses it as a
function, and what generation calls is what is audited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, as_rows, next_token_batch
from lookleft.generate.decode import generate_ids
from lookleft.models.base import Runner, Scorer, last_places
from lookleft.models.forward import ROOM, DecoderForward, TranslatorForward, rows_of
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
        return _continued(module.network, ids, n, is_token)

    return generate


def _translator(module: TranslatorForward) -> Callable[..., Tensor]:
    def generate(ids: Tensor, n: int) -> Tensor:
        return _translated(module.network, ids, n)

    return generate


class WholeRunner(Runner[Any], Scorer, Protocol):
    """A runner that also scores whole texts, as the engine does."""


def audited_runner(runner: WholeRunner) -> dict[str, Any]:
    """Arguments for `lookleft.audit(**...)` that put a runner to the test as it generates."""
    held, config = _Held(runner), runner.config
    if not isinstance(config, EncoderDecoderConfig):
        return {"target": held.read, "generate": held.continued, "vocab": config.vocab_size}
    shared = min(config.vocab_size, config.source_vocab_size or config.vocab_size)
    return {"target": held.translate, "generate": held.translated, "vocab": shared}


class RunnerCache:
    """A runner's state with the names that caches have elsewhere."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def reorder(self, rows: Tensor) -> None:
        self.state.reorder(rows)

    def crop(self, length: int) -> None:
        """Keep the first `length` tokens of every row."""
        self.state.roll_back(torch.full_like(self.state.lengths, length))


class _Held:
    """Calls of a runner as functions of tensors.

    The runner lies in a slot, out of sight of the audit, which copies every module it can find:
    a copy of the network that the engine was made from would say nothing about the engine.
    """

    __slots__ = ("runner",)

    def __init__(self, runner: WholeRunner) -> None:
        self.runner = runner

    def __deepcopy__(self, memo: dict[int, Any]) -> _Held:
        return self  # compiled code holds addresses, which a copy would not have

    def read(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: RunnerCache | None = None,
        use_cache: bool = False,
    ) -> dict[str, Any]:
        """Logits (B, T, V) of a language model, and its cache."""
        rows = rows_of(input_ids, attention_mask)
        return self._answer(Batch(rows), past_key_values, use_cache)

    def translate(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        past_key_values: RunnerCache | None = None,
        use_cache: bool = False,
    ) -> dict[str, Any]:
        """Logits (B, T, V) over the target, and the cache, which remembers the source."""
        rows = rows_of(decoder_input_ids, decoder_attention_mask)
        batch = Batch(rows, source=rows_of(input_ids, attention_mask))
        return self._answer(batch, past_key_values, use_cache)

    def _answer(self, batch: Batch, cache: RunnerCache | None, use_cache: bool) -> dict[str, Any]:
        rows = batch.inputs
        if cache is not None:
            is_step = rows.shape[1] == 1 and bool(rows.is_token.all())
            logits = (
                self.runner.step(rows.ids[:, 0], cache.state)[:, None]
                if is_step
                else self.runner.extend(rows, cache.state)
            )
            return {"logits": logits.clone(), "past_key_values": cache}
        logits = self.runner.score(batch)
        if not use_cache:
            return {"logits": logits}
        last, state = self.runner.prefill(batch, room=ROOM)
        logits = logits.clone()
        logits[torch.arange(len(last)), last_places(rows.is_token)] = last
        return {"logits": logits, "past_key_values": RunnerCache(state)}

    def continued(self, ids: Tensor, n: int, is_token: Tensor | None = None) -> Tensor:
        return _continued(self.runner, ids, n, is_token)

    def translated(self, ids: Tensor, n: int) -> Tensor:
        return _translated(self.runner, ids, n)


def _continued(runner: Any, ids: Tensor, n: int, is_token: Tensor | None = None) -> Tensor:
    """Prompts and their greedy continuations. (B, T) -> (B, T + n)."""
    kept = torch.ones_like(ids, dtype=torch.bool) if is_token is None else is_token
    prompts = [row[keep].tolist() for row, keep in zip(ids, kept, strict=True)]
    new = generate_ids(runner, prompts, max_new=n, eos=None)
    return torch.cat([ids, torch.tensor(new, device=ids.device)], 1)


def _translated(runner: Any, ids: Tensor, n: int) -> Tensor:
    """Greedy translations with their start token. (B, S) -> (B, 1 + n)."""
    new = generate_ids(runner, ids.tolist(), max_new=n, eos=None)
    start = ids.new_full((ids.size(0), 1), runner.config.start_id)
    return torch.cat([start, torch.tensor(new, device=ids.device)], 1)


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
