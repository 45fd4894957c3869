"""Our blocks against PyTorch's own layers, on shared weights, to 1e-12."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lookleft.config import DecoderOnlyConfig, Relative, Rotary
from lookleft.masks import causal, everything, real_keys
from lookleft.nn.attention import Attention
from lookleft.nn.block import Block, Source, Stack, View, keep

WIDTH, HEADS, FEED = 16, 4, 24
EXACT: dict[str, Any] = {"rtol": 0, "atol": 1e-12}


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def config(**options: object) -> DecoderOnlyConfig:
    values = {"vocab_size": 9, "d_model": WIDTH, "n_heads": HEADS, "d_ff": FEED, **options}
    return DecoderOnlyConfig(**values)


def shuffled(module: nn.Module) -> nn.Module:
    """The module in float64 with every weight drawn, norms and biases too."""
    generator = torch.Generator().manual_seed(7)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    return module.eval()


@torch.no_grad()
def share_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    weights = theirs.in_proj_weight.chunk(3)
    biases = theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip(
        (ours.to_q, ours.to_k, ours.to_v), weights, biases, strict=True
    ):
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    ours.to_out.load_state_dict(theirs.out_proj.state_dict())


def share_block(theirs: nn.Module, norm_order: str, activation: str, has_cross: bool) -> Block:
    """A block of ours with the weights of a layer of theirs."""
    block = Block(config(norm_order=norm_order, activation=activation), has_cross).double().eval()
    share_attention(block.self_attention, theirs.self_attn)
    block.feed_forward.to_hidden.load_state_dict(theirs.linear1.state_dict())
    block.feed_forward.to_out.load_state_dict(theirs.linear2.state_dict())
    norms = [block.self_norm, block.feed_norm]
    if has_cross:
        share_attention(block.cross_attention, theirs.multihead_attn)
        norms.insert(1, block.cross_norm)
    for i, norm in enumerate(norms, start=1):
        norm.load_state_dict(getattr(theirs, f"norm{i}").state_dict())
    return block


def hidden_keys() -> Tensor:
    """Which source words are padding, in PyTorch's polarity: True = hidden. (B, S)."""
    return torch.tensor([[False, False, False, True, True], [False] * 5])


def test_attention_agrees_with_multihead_attention() -> None:
    theirs = shuffled(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    ours = Attention(WIDTH, HEADS, HEADS, WIDTH // HEADS).double()
    share_attention(ours, theirs)
    x, source, pos = draw(2, 4, WIDTH), draw(2, 5, WIDTH, seed=1), torch.arange(4)[None]

    expected, _ = theirs(x, source, source, key_padding_mask=hidden_keys())
    got = ours(x, ours.keys_values(source), real_keys(~hidden_keys(), 4))
    torch.testing.assert_close(got, expected, **EXACT)

    ahead = torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=ahead)
    got = ours(x, ours.keys_values(x), causal(pos, pos))
    torch.testing.assert_close(got, expected, **EXACT)
    blind = ours(x, ours.keys_values(x), everything(4, 4))
    assert not torch.allclose(blind, expected)  # the mask matters


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_order", ["pre", "post"])
def test_a_block_agrees_with_the_decoder_layer(norm_order: str, activation: str) -> None:
    theirs = shuffled(
        nn.TransformerDecoderLayer(
            WIDTH,
            HEADS,
            FEED,
            dropout=0.0,
            activation=activation,
            batch_first=True,
            norm_first=norm_order == "pre",
        )
    )
    block = share_block(theirs, norm_order, activation, has_cross=True)
    x, source, pos = draw(2, 4, WIDTH), draw(2, 5, WIDTH, seed=1), torch.arange(4)[None]
    expected = theirs(
        x,
        source,
        tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1),
        memory_key_padding_mask=hidden_keys(),
    )
    memory = Source(block.cross_attention.keys_values(source), real_keys(~hidden_keys(), 4))
    got = block(x, View(causal(pos, pos)), keep, memory)
    torch.testing.assert_close(got, expected, **EXACT)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_order", ["pre", "post"])
def test_a_block_agrees_with_the_encoder_layer(norm_order: str, activation: str) -> None:
    theirs = shuffled(
        nn.TransformerEncoderLayer(
            WIDTH,
            HEADS,
            FEED,
            dropout=0.0,
            activation=activation,
            batch_first=True,
            norm_first=norm_order == "pre",
        )
    ).train()  # dropout is 0; only eval mode takes their fused path, which pads its output with 0
    block = share_block(theirs, norm_order, activation, has_cross=False)
    x = draw(2, 5, WIDTH)
    expected = theirs(x, src_key_padding_mask=hidden_keys())
    got = block(x, View(real_keys(~hidden_keys(), 5)), keep)
    torch.testing.assert_close(got, expected, **EXACT)


def test_the_two_norm_orders_are_two_different_networks() -> None:
    theirs = shuffled(nn.TransformerEncoderLayer(WIDTH, HEADS, FEED, 0.0, batch_first=True))
    x, view = draw(1, 3, WIDTH), View(everything(3, 3))
    pre, post = (
        share_block(theirs, order, "relu", False)(x, view, keep) for order in ("pre", "post")
    )
    assert not torch.allclose(pre, post)


def test_a_stack_has_only_the_positions_that_its_config_asks_for() -> None:
    pos = torch.arange(3)[None]
    for positions, has_turn, has_bias in (
        (Rotary(), True, False),
        (Relative(), False, True),
        (config().positions, False, False),
    ):
        stack = Stack(config(positions=positions), 1, is_bidirectional=False)
        view = stack.view(everything(3, 3), pos, pos)
        heads = torch.ones(1, HEADS, 3, 4)
        assert torch.equal(view.turn(heads), heads) is not has_turn
        assert (view.bias is not None) is has_bias
        assert (stack.positions is not None) is (not has_turn and not has_bias)


def test_dropout_works_on_what_is_added_to_the_stream_and_in_training_alone() -> None:
    block = Block(config(dropout=0.5)).double()
    x, view = draw(1, 3, WIDTH), View(everything(3, 3))
    torch.manual_seed(0)
    assert not torch.equal(block.train()(x, view, keep), block(x, view, keep))
    assert torch.equal(block.eval()(x, view, keep), block(x, view, keep))
