"""Perplexity and bits per byte, held against log-probabilities counted token by token."""

from __future__ import annotations

import math

import pytest
import torch

from lookleft.bundle import Bundle
from lookleft.errors import InputError
from lookleft.evaluate.perplexity import text_surprise, translation_surprise
from lookleft.evaluate.score import score_ids
from lookleft.models import DecoderOnly, EncoderDecoder, presets
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.vocab import Specials

TEXTS = ["the cat sat", "a dog", "घर में बच्चे हैं", "x"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="char", vocab_size=300)


@pytest.fixture(scope="module")
def speaker(tokenizer: Tokenizer) -> Bundle:
    torch.manual_seed(0)
    config = presets.llama(len(tokenizer), d_model=16, n_layers=1, n_heads=2, n_kv_heads=2)
    return Bundle(DecoderOnly(config).eval(), tokenizer, tokenizer.specials)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Bundle:
    torch.manual_seed(0)
    config = presets.tiny(len(tokenizer))
    return Bundle(EncoderDecoder(config).eval(), tokenizer, tokenizer.specials)


def test_a_language_model_is_as_surprised_as_its_log_probabilities_say(
    speaker: Bundle, tokenizer: Tokenizer
) -> None:
    found = text_surprise(speaker, TEXTS)
    scored = [score_ids(speaker.network, tokenizer.encode(t, eos=True))[1:] for t in TEXTS]
    log_probs = [value for row in scored for value in row if value is not None]
    assert found.n_tokens == len(log_probs)
    assert found.loss == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.loss))
    # The first character of each text is given; the end token stands for one byte.
    n_bytes = sum(len(text[1:].encode()) + 1 for text in TEXTS)
    assert found.n_bytes == n_bytes
    assert found.bits_per_byte == pytest.approx(-sum(log_probs) / math.log(2) / n_bytes, rel=1e-5)


def test_of_a_character_of_several_tokens_one_byte_is_given() -> None:
    tokenizer = Tokenizer.train(TEXTS, kind="byte", vocab_size=300)
    config = presets.llama(len(tokenizer), d_model=16, n_layers=1, n_heads=2, n_kv_heads=2)
    bundle = Bundle(DecoderOnly(config).eval(), tokenizer, tokenizer.specials)
    for text in ("मैं", "ab", "x", "é"):
        found = text_surprise(bundle, [text])
        assert found.n_bytes == found.n_tokens == len(text.encode())  # the end token is one more


def test_pieces_of_several_bytes_are_given_whole() -> None:
    tokenizer = Tokenizer.from_parts(
        model="gpt2",
        pre="gpt-2",
        pieces=["<end>", "à", "¤", "®", "à¤", "x"],  # म is E0 A4 AE, and so is a letter for each
        merges=["à ¤"],
        specials=Specials(eos=0),
    )
    config = presets.llama(len(tokenizer), d_model=16, n_layers=1, n_heads=2, n_kv_heads=2)
    bundle = Bundle(DecoderOnly(config).eval(), tokenizer, tokenizer.specials)
    assert text_surprise(bundle, ["म"]).n_bytes == 2  # its last byte, and the end token
    assert text_surprise(bundle, ["xम"]).n_bytes == 4


def test_a_long_text_is_read_in_parts_that_predict_every_token_once(speaker: Bundle) -> None:
    whole, parts = text_surprise(speaker, TEXTS), text_surprise(speaker, TEXTS, length=4)
    assert parts.n_tokens == whole.n_tokens
    assert parts.loss != whole.loss  # a part does not see the one before it


def test_a_translator_is_as_surprised_as_its_log_probabilities_say(
    translator: Bundle, tokenizer: Tokenizer
) -> None:
    sources = TEXTS[::-1]
    found = translation_surprise(translator, sources, TEXTS)
    total, count = 0.0, 0
    for source, target in zip(sources, TEXTS, strict=True):
        ids = tokenizer.encode(target, eos=True)
        scored = score_ids(translator.network, ids, tokenizer.encode(source, eos=True))
        total += sum(value for value in scored if value is not None)
        count += len(ids)
    assert found.n_tokens == count
    assert found.loss == pytest.approx(-total / count, rel=1e-5)
    assert found.n_bytes == sum(len(text.encode()) + 1 for text in TEXTS)


def test_models_of_the_other_kind_are_refused(speaker: Bundle, translator: Bundle) -> None:
    with pytest.raises(InputError, match="does not translate"):
        translation_surprise(speaker, ["a"], ["b"])
    with pytest.raises(InputError, match="predicts no next token"):
        text_surprise(translator, ["a"])
    with pytest.raises(InputError, match="every line is empty"):
        text_surprise(speaker, [])
    with pytest.raises(InputError, match="without a tokenizer"):
        text_surprise(Bundle(speaker.network), ["a"])
