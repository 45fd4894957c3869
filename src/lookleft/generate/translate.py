"""Sentences in, sentences out: tokenizer, model and decode loop together."""

from __future__ import annotations

from collections.abc import Sequence

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.generate.decode import generate_ids
from lookleft.models import EncoderDecoder

ROWS = 32  # sentences decoded together


def translate(bundle: Bundle, sentences: Sequence[str], max_new: int = 128) -> list[str]:
    """Greedy translations, in the order of the sentences; an empty one stays empty."""
    network, tokenizer = bundle.network, bundle.tokenizer
    if not isinstance(network, EncoderDecoder):
        raise InputError(f"this is a {network.config.family} model: it does not translate")
    if tokenizer is None:
        raise InputError("this model came without a tokenizer, so it cannot read text")
    eos = tokenizer.specials.require("eos")
    encoded = tokenizer.encode_batch(list(sentences), eos=True)
    # Neighbours of similar length waste no work on padding; answers go back to their places.
    order = sorted((i for i, s in enumerate(sentences) if s.strip()), key=lambda i: len(encoded[i]))
    answers = [""] * len(sentences)
    for start in range(0, len(order), ROWS):
        rows = order[start : start + ROWS]
        ids = generate_ids(network, [encoded[i] for i in rows], max_new=max_new, eos=eos)
        for i, answer in zip(rows, ids, strict=True):
            answers[i] = tokenizer.decode(answer)
    return answers
