"""The named configurations have the sizes that their papers give."""

from __future__ import annotations

import pytest
import torch

from lookleft.models import AnyConfig, build, presets


def count(config: AnyConfig) -> int:
    """Parameters, counted on a device without memory: big models cost nothing here."""
    with torch.device("meta"):
        return build(config).n_parameters


def by_hand(vocab: int, d: int, f: int, encoders: int, decoders: int) -> int:
    """A post-norm translator with biases and one shared embedding matrix."""
    attention, feed, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder = attention + feed + 2 * norm
    decoder = 2 * attention + feed + 3 * norm
    return vocab * d + encoders * encoder + decoders * decoder


def test_the_paper_s_base_model_has_about_65_million_parameters() -> None:
    n = count(presets.paper_base(37_000))
    assert n == by_hand(37_000, 512, 2048, 6, 6)
    assert n == pytest.approx(65e6, rel=0.05)  # table 3 of the paper


def test_the_tiny_translator_is_counted_by_hand() -> None:
    assert count(presets.tiny(8_000)) == by_hand(8_000, 128, 256, 4, 4)


def test_gpt_has_the_size_of_gpt2() -> None:
    assert count(presets.gpt(50_257)) == 124_439_808


def test_llama_has_the_size_of_smollm() -> None:
    assert count(presets.llama(49_152)) == 134_515_008


def test_bert_has_the_size_of_bert_base_with_its_masked_token_head() -> None:
    # 109,514,298 in the usual count of BertForMaskedLM with tied embeddings.
    assert count(presets.bert(30_522)) == 109_514_298
