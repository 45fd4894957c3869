"""Networks with the `forward` that tools for torch modules expect: the names of Hugging Face.

Our networks take a `Batch` and answer by name: score, prefill, step, extend. Tools that know
nothing of them (the audit, profilers, exporters) want one call with tensors. These modules
translate; they decide nothing. Dimensions: B batch, T positions, S source positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lookleft.data.batch import Batch, Rows, as_rows
from lookleft.models.base import DecodeState
from lookleft.models.decoder_only import DecoderOnly
from lookleft.models.encoder_decoder import EncoderDecoder
from lookleft.models.encoder_only import EncoderOnly
from lookleft.nn.attention import capture

ROOM = 1024  # tokens that may follow the first call on one cache


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a forward returns."""

    logits: Tensor  # (B, T, V)
    past_key_values: Warm | None = None  # for the next call, if a cache was used
    attentions: tuple[Tensor, ...] | None = None  # weights per layer, (B, H, T, S), if asked for


@dataclass
class Warm(DecodeState):
    """A decode state that can also be cropped, as caches elsewhere can."""

    def crop(self, length: int) -> None:
        """Keep the first `length` tokens of every row."""
        self.cache.roll_back(length)


class EncoderForward(nn.Module):
    """An encoder: ids and their padding in, logits out."""

    def __init__(self, network: EncoderOnly) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> Outputs:
        batch = Batch(rows_of(input_ids, attention_mask))
        return outputs_of(self.network, lambda: self.network.score(batch), output_attentions)


class DecoderForward(nn.Module):
    """A language model, whole texts or chunk by chunk through its cache."""

    def __init__(self, network: DecoderOnly) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        document_ids: Tensor | None = None,
        past_key_values: Warm | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
    ) -> Outputs:
        """The mask covers what is cached and what is new, (B, past + T); the rest is (B, T)."""
        rows = rows_of(input_ids, attention_mask, document_ids)
        state = past_key_values
        if state is None and use_cache:
            state = Warm(self.network.make_cache(rows, ROOM))

        def logits() -> Tensor:
            if state is None:
                return self.network.score(Batch(rows))
            return self.network.extend(rows, state)

        return outputs_of(self.network, logits, output_attentions, state)


class TranslatorForward(nn.Module):
    """An encoder-decoder; ids and mask without `decoder` in their names are the source's."""

    def __init__(self, network: EncoderDecoder) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        past_key_values: Warm | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
    ) -> Outputs:
        """A warm cache remembers the encoded source: what is passed with it is not read again."""
        rows = rows_of(decoder_input_ids, decoder_attention_mask)
        source = rows_of(input_ids, attention_mask)
        state = past_key_values
        if state is None and use_cache:
            state = self.encoded(rows, source)

        def logits() -> Tensor:
            if state is None:
                return self.network.score(Batch(rows, source=source))
            return self.network.extend(rows, state)

        return outputs_of(self.network, logits, output_attentions, state)

    def encoded(self, rows: Rows, source: Rows) -> Warm:
        """A state that knows the source and no target token yet."""
        # prefill reads at least one token and answers for the last one only; here all are wanted.
        first = Batch(as_rows(rows.ids[:, :1]), source=source)
        _, state = self.network.prefill(first, room=rows.shape[1] + ROOM)
        state.cache.roll_back(0)
        return Warm(state.cache, state.memory)

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The source as cross-attention sees it. -> (B, S, D)."""
        return self.network.encode(rows_of(input_ids, attention_mask))


def as_module(
    network: DecoderOnly | EncoderDecoder | EncoderOnly,
) -> DecoderForward | TranslatorForward | EncoderForward:
    """The network behind a forward that any tool for torch modules can call."""
    if isinstance(network, DecoderOnly):
        return DecoderForward(network)
    if isinstance(network, EncoderDecoder):
        return TranslatorForward(network)
    return EncoderForward(network)


def outputs_of(
    network: nn.Module, logits: Callable[[], Tensor], attentions: bool, state: Warm | None = None
) -> Outputs:
    """Run it, recording the attention weights if they are asked for."""
    if not attentions:
        return Outputs(logits(), state)
    with capture(network) as seen:
        out = logits()
    weights = (calls[-1] for name, calls in seen.items() if name.endswith(".weights"))
    return Outputs(out, state, tuple(weights))


def rows_of(ids: Tensor, mask: Tensor | None, documents: Tensor | None = None) -> Rows:
    """Rows from ids, a mask that may also cover what is cached, and document numbers. (B, T)."""
    is_token = None if mask is None else mask[:, mask.size(1) - ids.size(1) :].bool()
    rows = as_rows(ids, is_token)
    if documents is None:
        return rows
    # Positions start again with every document, as data/batch.py packs them.
    is_first = torch.ones_like(rows.is_token)
    is_first[:, 1:] = documents[:, 1:] != documents[:, :-1]
    start = torch.where(is_first, rows.pos, 0).cummax(1).values
    return replace(rows, pos=rows.pos - start, docs=documents)
