"""Norms, feed-forwards, embeddings and the head against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from lookleft.config import DecoderOnlyConfig
from lookleft.errors import InputError
from lookleft.nn.layers import ACTIVATIONS, Dropout, Embedding, FeedForward, Head, make_norm


def config(**options: object) -> DecoderOnlyConfig:
    return DecoderOnlyConfig(**{"vocab_size": 7, "d_model": 6, "n_heads": 2, "d_ff": 5, **options})


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "relu2": lambda x: max(x, 0.0) ** 2,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name: str) -> None:
    x = torch.linspace(-4, 4, 33, dtype=torch.float64)
    got = ACTIVATIONS[name](x).tolist()
    assert got == pytest.approx([FORMULAS[name](value) for value in x.tolist()], abs=1e-12)


def test_every_activation_that_a_config_may_name_exists() -> None:
    for name in ACTIVATIONS:
        assert config(activation=name).activation == name
    assert set(ACTIVATIONS) == set(FORMULAS)


def test_norms_are_their_formulas() -> None:
    x = draw(2, 3, 6)
    layer = make_norm(config(norm="layer", norm_eps=1e-3)).double()
    centred = x - x.mean(-1, keepdim=True)
    by_hand = centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    torch.testing.assert_close(layer(x), by_hand, rtol=0, atol=1e-12)
    rms = make_norm(config(norm="rms", norm_eps=1e-3)).double()
    by_hand = x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    torch.testing.assert_close(rms(x), by_hand, rtol=0, atol=1e-12)


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_gated_feed_forward_bends_the_gate_and_not_the_hidden(has_bias: bool) -> None:
    layer = FeedForward(config(gated=True, activation="silu", ff_bias=has_bias)).double()
    assert (layer.to_hidden.bias is not None) is has_bias
    x = draw(2, 3, 6)
    hidden = nn.functional.silu(layer.to_gate(x)) * layer.to_hidden(x)
    torch.testing.assert_close(layer(x), layer.to_out(hidden), rtol=0, atol=0)
    plain = FeedForward(config(activation="silu", ff_bias=has_bias)).double()
    assert plain.to_gate is None
    expected = plain.to_out(nn.functional.silu(plain.to_hidden(x)))
    torch.testing.assert_close(plain(x), expected, rtol=0, atol=0)


def test_embeddings_are_scaled_rows_of_their_table() -> None:
    layer = Embedding(config(embed_scale=2.5), 7).double()
    ids = torch.tensor([[3, 0, 6]])
    torch.testing.assert_close(layer(ids), layer.tokens.weight[ids] * 2.5, rtol=0, atol=1e-12)


def test_a_tied_head_is_the_embedding_matrix_and_an_untied_one_is_its_own() -> None:
    embedding, x = Embedding(config(), 7).double(), draw(1, 2, 6)
    tied = Head(config(logit_scale=0.5)).double()
    assert tied.weight(embedding) is embedding.tokens.weight
    assert not list(tied.parameters())
    expected = 0.5 * x @ embedding.tokens.weight.T
    torch.testing.assert_close(tied(x, embedding), expected, rtol=0, atol=1e-12)

    untied = Head(config(tie_embeddings=False, logit_bias=True)).double()
    for parameter in untied.parameters():
        nn.init.normal_(parameter)
    expected = x @ untied.own_weight.T + untied.bias
    torch.testing.assert_close(untied(x, embedding), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.999])
def test_dropout_zeroes_its_share_and_keeps_the_mean(share: float) -> None:
    dropout = Dropout(share)
    dropout.generator = torch.Generator().manual_seed(0)
    out = dropout(torch.ones(400, 1001, dtype=torch.float64))
    rounded = min(round(share * 256), 255) / 256
    assert set(out.unique().tolist()) == {0.0, 1 / (1 - rounded)}
    # Five standard deviations of so many draws; every one of the eight bytes of a word counts.
    spread = 5 * math.sqrt(rounded * (1 - rounded) / out.numel())
    assert float((out == 0).double().mean()) == pytest.approx(rounded, abs=spread)
    for byte in range(8):
        some = out.flatten()[byte::8]
        assert float((some == 0).double().mean()) == pytest.approx(rounded, abs=3 * spread)


def test_dropout_passes_gradients_through_what_it_kept() -> None:
    x = draw(5, 7).requires_grad_()
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, out)
    assert 0 < int((x.grad == 0).sum()) < x.numel()


def test_dropout_repeats_with_its_generator_and_rests_outside_training() -> None:
    dropout, x = Dropout(0.3), draw(3, 4, 6)
    dropout.generator = torch.Generator()
    dropout.generator.manual_seed(5)
    first, second = dropout(x), dropout(x)
    dropout.generator.manual_seed(5)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)
    assert dropout.eval()(x) is x
    with pytest.raises(InputError, match=r"dropout=1\.0"):
        Dropout(1.0)
