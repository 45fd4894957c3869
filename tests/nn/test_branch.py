"""A block in few passes gives what its modules give, there and back; whoever listens is heard."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from lookleft.config import Relative, Rotary
from lookleft.data.batch import Batch, pack_documents, translation_batch
from lookleft.errors import InputError
from lookleft.models import EncoderDecoder, build, presets
from lookleft.nn import branch
from lookleft.nn.attention import capture
from lookleft.nn.block import Block
from lookleft.nn.branch import enter, leave
from lookleft.nn.fused import plain_operations
from lookleft.nn.heads import Part, make_heads
from lookleft.nn.layers import Dropout, RMSNorm
from lookleft.nn.narrow import Linear, narrow_products
from lookleft.train.loss import batch_loss
from lookleft.train.replicas import own_chance
from lookleft.train.sequential import sequential_loss

FIRST = {"norm_order": "pre", "final_norm": True}
LAST = {"norm_order": "post", "final_norm": False}
NEW = {"positions": Rotary(), "norm": "rms", "qk_norm": True, "activation": "relu2"} | FIRST
NO_BIAS = {"qkv_bias": False, "out_bias": False, "ff_bias": False}
NETWORKS: dict[str, dict[str, Any]] = {
    "paper": LAST,
    "paper, norm first": FIRST,
    "new": NEW,
    "new, no biases": NEW | NO_BIAS,
    "new, norm last": NEW | LAST,
    "new, heads too narrow for vectors": NEW | {"n_heads": 16},
    "llama": {"norm": "rms", "gated": True, "activation": "silu", "n_kv_heads": 2}
    | NO_BIAS
    | FIRST,
    "gelu, biased scores": {"activation": "gelu", "positions": Relative()},
}


def network(**update: Any) -> EncoderDecoder:
    """A translator with every weight drawn, also those of norms and biases."""
    config = presets.tiny(60).model_copy(update={"dropout": 0.0, **update})
    model = build(config, torch.Generator().manual_seed(0)).train()
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=chance))
    assert isinstance(model, EncoderDecoder)
    return model


def captions() -> Batch:
    draw = torch.Generator().manual_seed(3)
    rows = [torch.randint(5, 60, (n,), generator=draw).tolist() for n in (1, 3, 9, 14, 14)]
    return translation_batch(rows, rows[::-1], 1)


def gradients(model: EncoderDecoder, batch: Batch) -> list[Tensor]:
    """The loss and the gradient by every weight; dropout is drawn alike every time."""
    own_chance(model).manual_seed(5)
    model.zero_grad(set_to_none=True)
    loss = batch_loss(model, batch, 0.1)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(grads) == len(list(model.parameters()))
    return [loss.detach(), *(grad.clone() for grad in grads)]


def assert_near(ours: list[Tensor], theirs: list[Tensor], share: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype == torch.float32
        assert float((one - other).norm()) <= share * float(other.norm()) + 1e-5


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many branches went the short way, one number each."""
    seen: list[int] = []
    real = branch._Enter.forward

    def noted(ctx: Any, x: Tensor, *rest: Any) -> Any:
        seen.append(len(seen))
        return real(ctx, x, *rest)

    monkeypatch.setattr(branch._Enter, "forward", staticmethod(noted))
    return seen


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_a_block_in_few_passes_is_the_block(name: str, dropout: float, entered: list[int]) -> None:
    model, batch = network(**NETWORKS[name] | {"dropout": dropout}), captions()
    ours = gradients(model, batch)
    assert (
        len(entered) == 4 * 2 + 4 * 4
    )  # of a layer's branches, and of what it looks up in the source
    theirs = [each.float() for each in gradients(model.double(), batch)]
    assert len(entered) == 24
    assert_near(ours, theirs, 1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_narrow_rows_lose_hardly_more_than_narrow_products_alone(name: str) -> None:
    model, batch = network(**NETWORKS[name]), captions()
    wide = gradients(model, batch)

    def lost() -> float:
        """How far a gradient, all weights together, is off, as a share of it."""
        narrow = gradients(model, batch)
        gap = sum(float((a - b).square().sum()) for a, b in zip(narrow, wide, strict=True))
        return math.sqrt(gap / sum(float(each.square().sum()) for each in wide))

    with narrow_products():
        ours = lost()
        with plain_operations():
            plain = lost()
    assert 0 < ours < 1.5 * plain < 0.1


def test_dropout_draws_the_same_bytes_both_ways() -> None:
    model, batch = network(dropout=0.5, **NEW), captions()
    ours = gradients(model, batch)
    own_chance(model).manual_seed(6)
    loss = batch_loss(model, batch, 0.1)
    assert not torch.equal(loss.detach(), ours[0])  # other bytes, another loss
    with plain_operations():
        assert_near(gradients(model, batch), ours, 2e-5)


def test_sequential_training_goes_the_short_way_too(entered: list[int]) -> None:
    model, batch = network(**NEW), captions()

    def learned() -> list[Tensor]:
        model.zero_grad(set_to_none=True)
        loss = sequential_loss(model, batch, 0.1)
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    ours = learned()
    assert entered
    assert len(ours) == 1 + len(list(model.parameters()))
    with plain_operations():
        assert_near(learned(), ours, 1e-4)


def test_packed_documents_with_a_window_and_shared_keys_go_the_short_way(
    entered: list[int],
) -> None:
    config = presets.llama(60, d_model=64, n_layers=2, n_heads=4, n_kv_heads=2)
    config = config.model_copy(update={"window": 4, "qk_norm": True})
    model = build(config, torch.Generator().manual_seed(0)).train()
    draw = torch.Generator().manual_seed(3)
    rows = [
        [torch.randint(5, 60, (n,), generator=draw).tolist() for n in lengths]
        for lengths in ((3, 9, 2), (7, 7))
    ]

    def learned() -> list[Tensor]:
        model.zero_grad(set_to_none=True)
        loss = batch_loss(model, pack_documents(rows))
        loss.backward()
        return [
            each.float().clone() for each in (loss.detach(), *(p.grad for p in model.parameters()))
        ]

    ours = learned()
    assert len(entered) == 2 * 2
    model.double()
    assert_near(ours, learned(), 1e-4)
    assert len(entered) == 2 * 2


def test_rows_behind_the_last_do_not_disturb() -> None:
    """Narrow products end with rows that stand for nothing: many here, fewer in larger batches."""
    model = network(**NEW)
    batch = translation_batch([[7, 8, 9]], [[10, 11]], 1)
    twice = translation_batch([[7, 8, 9]] * 40, [[10, 11]] * 40, 1)
    with narrow_products():
        one, many = gradients(model, batch), gradients(model, twice)
    assert_near([each / 40 for each in many], one, 1e-2)


# --- who takes which way ----------------------------------------------------------------------


def block_of(model: EncoderDecoder) -> Block:
    found = model.decoder.layers[1]
    assert isinstance(found, Block)
    return found


def n_entered(model: EncoderDecoder, entered: list[int]) -> int:
    entered.clear()
    batch_loss(model, captions(), 0.1)
    return len(entered)


class OtherLinear(nn.Linear):
    """Not ours: it may do anything."""


class OtherBlock(Block):
    """A block that adds half of what its parts find."""

    def residual(self, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        return x + part(norm(x)) / 2


def test_whoever_listens_to_a_module_is_called(entered: list[int]) -> None:
    model = network(**NEW)
    heard: list[str] = []
    hook = block_of(model).cross_attention.to_out.register_forward_hook(
        lambda *_: heard.append("forward")
    )
    assert n_entered(model, entered) == 21  # all but the branches of that block
    assert heard == ["forward"]
    hook.remove()
    assert n_entered(model, entered) == 24
    with capture(model) as seen:
        assert n_entered(model, entered) == 0
    assert "decoder.layers.1.cross_attention.weights" in seen


def test_who_listens_to_all_modules_is_called(entered: list[int]) -> None:
    model, heard = network(**NEW), []
    hook = register_module_forward_hook(lambda module, *_: heard.append(type(module)))
    try:
        assert n_entered(model, entered) == 0
    finally:
        hook.remove()
    assert Linear in heard


def replace_linear(block: Block) -> None:
    block.feed_forward.to_out = OtherLinear(256, 128)


def replace_norm(block: Block) -> None:
    block.self_norm = nn.LayerNorm(128, elementwise_affine=False)


def replace_norm_of_heads(block: Block) -> None:
    block.self_attention.norm_q = nn.LayerNorm(32)


def replace_forward(block: Block) -> None:
    linear = block.cross_attention.to_q
    linear.forward = lambda x: nn.functional.linear(x, linear.weight) * 2  # type: ignore[method-assign]


def replace_all(block: Block) -> None:
    block.__class__ = OtherBlock


def replace_residual(block: Block) -> None:
    block.residual = lambda x, norm, part: x + part(norm(x)) / 2  # type: ignore[method-assign]


def replace_bent(block: Block) -> None:
    block.feed_forward.bent = torch.tanh  # type: ignore[assignment, method-assign]


@pytest.mark.parametrize(
    "replace",
    [
        replace_linear,
        replace_norm,
        replace_norm_of_heads,
        replace_forward,
        replace_all,
        replace_residual,
        replace_bent,
    ],
)
def test_what_is_replaced_is_called(replace: Callable[[Block], None], entered: list[int]) -> None:
    model = network(**NEW)
    replace(block_of(model))
    assert n_entered(model, entered) == 21
    trained = model.score(captions())
    torch.testing.assert_close(trained, model.eval().score(captions()), rtol=1e-4, atol=1e-4)


def test_one_missing_bias_is_zeros() -> None:
    model, batch = network(**NEW), captions()
    block_of(model).self_attention.to_k.bias = None
    ours = gradients(model, batch)
    with plain_operations():
        assert_near(gradients(model, batch), ours, 1e-4)


def test_frozen_matrices_get_no_gradient_and_the_others_theirs() -> None:
    model, batch = network(**NEW), captions()
    for parameter in block_of(model).parameters():
        parameter.requires_grad_(parameter.ndim == 1)
    batch_loss(model, batch, 0.1).backward()
    ours = [p.grad for p in model.parameters() if p.requires_grad]
    model.zero_grad(set_to_none=True)
    with plain_operations():
        batch_loss(model, batch, 0.1).backward()
    assert_near(ours, [p.grad for p in model.parameters() if p.requires_grad], 1e-4)
    assert block_of(model).feed_forward.to_out.weight.grad is None


def test_another_default_type_changes_nothing() -> None:
    model, batch = network(**NEW), captions()
    ours = gradients(model, batch)
    torch.set_default_dtype(torch.float64)
    try:
        for one, other in zip(gradients(model, batch), ours, strict=True):
            assert torch.equal(one, other)
    finally:
        torch.set_default_dtype(torch.float32)


def test_sizes_that_do_not_fit_are_refused() -> None:
    x, rows = torch.randn(2, 3, 8), torch.randn(6, 24)
    with pytest.raises(InputError, match=r"a norm over 9 numbers was given \(2, 3, 8\)"):
        enter(x, RMSNorm(9, eps=1e-5), [Linear(8, 8)])
    with pytest.raises(InputError, match=r"rows \(6, 24\) are not \[5\] heads"):
        make_heads(rows, (2, 3), [Part(5)], [Linear(8, 24)])
    with pytest.raises(InputError, match=r"rows \(6, 24\) are not \[3\] heads"):
        make_heads(rows, (3, 3), [Part(3)], [Linear(8, 24)])
    with pytest.raises(InputError, match="a norm over 4 numbers, heads of 8"):
        make_heads(rows, (2, 3), [Part(3, RMSNorm(4, eps=1e-5))], [Linear(8, 24)])
    angles = torch.randn(1, 5, 4)
    with pytest.raises(InputError, match=r"angles of \(1, 5, 4\)"):
        make_heads(rows, (2, 3), [Part(3, tables=(angles, angles))], [Linear(8, 24)])
    cut = Linear(24, 8)
    cut.weight = nn.Parameter(cut.weight[:7])  # whatever it says of itself
    for linear, given in (
        (Linear(24, 7), rows),
        (cut, rows),
        (Linear(24, 8), rows.view(2, 3, 24)[:1]),
    ):
        with pytest.raises(InputError, match=r"cannot be added to \(2, 3, 8\)"):
            leave(x, given, linear, Dropout(0.0))
    with pytest.raises(InputError, match=r"cannot be added to \(2, 3, 8\)"):
        leave(x, torch.randn(2, 4, 24), Linear(24, 8), Dropout(0.0))  # rows of another length


def test_numbers_that_are_none_go_through_the_activation() -> None:
    layer = block_of(network(**NEW)).feed_forward
    with torch.no_grad():
        layer.to_hidden.bias.zero_()
    rows = torch.zeros(3, 256)
    rows[0, :4] = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    plain = layer.activation(rows)
    torch.testing.assert_close(branch.bend(rows, layer), plain, equal_nan=True)


def test_a_batch_of_nothing_is_nothing() -> None:
    block = block_of(network(**NEW))
    x = torch.zeros(0, 4, 128, requires_grad=True)
    x_again, rows = enter(x, block.self_norm, [block.self_attention.to_q])
    leave(x_again, rows, Linear(128, 128), Dropout(0.1)).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_other_precisions_take_the_plain_way(kind: torch.dtype, entered: list[int]) -> None:
    model = network(**NEW)
    if kind == torch.float64:
        model.double()
    else:
        with torch.autocast("cpu", dtype=kind):
            batch_loss(model, captions(), 0.1)
    batch_loss(model.eval(), captions(), 0.1)
    assert entered == []


def test_a_second_derivative_is_refused() -> None:
    model = network(**NEW)
    x = model.embedding.tokens.weight
    (first,) = torch.autograd.grad(batch_loss(model, captions()), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        first.square().sum().backward()


def test_what_comes_out_of_a_block_may_be_written_into() -> None:
    model, batch = network(**NEW), captions()

    def shift(module: nn.Module, inputs: object, out: Tensor) -> Tensor:
        return out.add_(1.0)

    hook = block_of(model).register_forward_hook(shift)
    ours = gradients(model, batch)
    with plain_operations():
        assert_near(gradients(model, batch), ours, 1e-4)
    hook.remove()
    assert not torch.allclose(gradients(model, batch)[0], ours[0])  # it did shift


def test_biases_of_another_size_are_refused() -> None:
    """`F.linear` adds one number to every column; kernels would read what lies behind it."""
    x, rows, linear = torch.randn(2, 3, 8), torch.randn(6, 24), Linear(24, 8)
    linear.bias = nn.Parameter(torch.zeros(1))
    with pytest.raises(InputError, match=r"a bias of \(1,\) cannot be added to rows of 8 numbers"):
        leave(x, rows, linear, Dropout(0.0))
    wide = Linear(8, 24)
    wide.bias = nn.Parameter(torch.zeros(1))
    with pytest.raises(InputError, match=r"a bias of \(1,\) cannot be added to rows of 24 numbers"):
        make_heads(rows, (2, 3), [Part(3)], [wide])


def test_dropout_that_is_off_keeps_everything() -> None:
    x, rows, linear = torch.randn(2, 3, 8), torch.randn(2, 3, 8), Linear(8, 8)
    out = leave(x.requires_grad_(), rows, linear, Dropout(0.4).eval())
    torch.testing.assert_close(out, x + linear(rows))
