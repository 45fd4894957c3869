"""How surprised a model is by a text: perplexity per token, bits per byte."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from lookleft.bundle import Bundle
from lookleft.data.batch import Batch, next_token_batch, translation_batch
from lookleft.errors import InputError
from lookleft.models import DecoderOnly, EncoderDecoder
from lookleft.text.tokenizer import Encoded, Tokenizer
from lookleft.text.vocab import BYTE_PIECE
from lookleft.train.loss import batch_loss

TOKENS = 4_096  # of one batch
LENGTH = 512  # the longest part of a text that is read at once


@dataclass(frozen=True)
class Surprise:
    """Of a text; tokens depend on the tokenizer, bytes do not, so bits per byte compare models."""

    loss: float  # nats per token
    n_tokens: int
    n_bytes: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))  # what a float can hold

    @property
    def bits_per_byte(self) -> float:
        return self.loss * self.n_tokens / math.log(2) / max(self.n_bytes, 1)


def translation_surprise(
    bundle: Bundle, sources: Sequence[str], references: Sequence[str]
) -> Surprise:
    """How surprised a translator is by the references; an end token counts, as one byte."""
    network, tokenizer = bundle.network, _tokenizer(bundle)
    if not isinstance(network, EncoderDecoder):
        raise InputError(f"this is a {network.config.family} model: it does not translate")
    start_id = network.config.start_id
    pairs = list(
        zip(
            (bundle.source_tokenizer or tokenizer).encode_batch(list(sources), eos=True),
            tokenizer.encode_batch(list(references), eos=True),
            strict=True,
        )
    )
    groups = _grouped(sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1])))
    batches = (translation_batch([s for s, _ in g], [t for _, t in g], start_id) for g in groups)
    n_bytes = sum(len(text.encode("utf-8")) + 1 for text in references)
    return _surprise(network, batches, n_bytes)


def text_surprise(
    bundle: Bundle, texts: Iterable[str], length: int = LENGTH, *, eos: bool = True
) -> Surprise:
    """How surprised a language model is by texts, each with its end token unless `eos` is False.

    The first token of a text is given, not predicted, so its bytes are not counted either. A text
    longer than `length` tokens is read in parts, each of which sees itself only.
    """
    network, tokenizer = bundle.network, _tokenizer(bundle)
    if not isinstance(network, DecoderOnly):
        raise InputError(f"this is a {network.config.family} model: it predicts no next token")
    length = min(length, network.config.context)
    parts: list[list[int]] = []
    n_bytes = 0
    for text in texts:
        encoded = tokenizer.encode_with_offsets(text, eos=eos)
        n_bytes += len(text.encode("utf-8")) - _n_given(text, encoded, tokenizer) + eos
        # The last token of a part is the first of the next: there it is context.
        starts = range(0, len(encoded.ids) - 1, length)
        parts += [encoded.ids[start : start + length + 1] for start in starts]
    if not parts:
        raise InputError("there is no text to read: every line is empty")
    groups = _grouped([(part, part[:0]) for part in sorted(parts, key=len)])
    return _surprise(
        network, (next_token_batch([p for p, _ in group]) for group in groups), n_bytes
    )


def _n_given(text: str, encoded: Encoded, tokenizer: Tokenizer) -> int:
    """How many bytes of a text its first token has."""
    if len(encoded.offsets) < 2:
        return len(text.encode("utf-8"))
    (_, end), (second, _) = encoded.offsets[:2]
    if second < end:  # the cut is inside of a character
        piece = tokenizer.piece(encoded.ids[0])
        return 1 if BYTE_PIECE.fullmatch(piece) else len(piece)  # of a letter for each byte
    return len(text[:second].encode("utf-8"))


@torch.no_grad()
def _surprise(
    network: DecoderOnly | EncoderDecoder, batches: Iterable[Batch], n_bytes: int
) -> Surprise:
    total, n_tokens = 0.0, 0
    for batch in batches:
        total += batch_loss(network, batch.to(network.device)).item()
        n_tokens += batch.n_targets
    return Surprise(total / max(n_tokens, 1), n_tokens, n_bytes)


Pair = tuple[list[int], list[int]]


def _grouped(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Neighbours in batches of about `TOKENS` ids."""
    group: list[Pair] = []
    longest = 0
    for pair in pairs:
        longest = max(longest, len(pair[0]) + len(pair[1]))
        if group and longest * (len(group) + 1) > TOKENS:
            yield group
            group, longest = [], len(pair[0]) + len(pair[1])
        group.append(pair)
    if group:
        yield group


def _tokenizer(bundle: Bundle) -> Tokenizer:
    if bundle.tokenizer is None:
        raise InputError("this model came without a tokenizer, so it cannot read text")
    return bundle.tokenizer
