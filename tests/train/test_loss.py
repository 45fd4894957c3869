"""The fused loss is the plain loss: value and gradients, whatever the chunk."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookleft.data.batch import NO_TARGET, Batch, next_token_batch, translation_batch
from lookleft.models import build, presets
from lookleft.train import loss as loss_module
from lookleft.train.loss import batch_loss, fused_loss, likeliest, question_at, summed_loss

MODELS = {
    "decoder": (presets.gpt(30, 16, 2, 2, 32), next_token_batch([[1, 2, 3, 4, 5], [6, 7]])),
    "translator": (
        presets.tiny(30).model_copy(update={"dropout": 0.0}),
        translation_batch([[1, 2], [3, 4, 5]], [[7, 8, 2], [9, 2]], start_id=0),
    ),
    "encoder": (presets.bert(30, 16, 2, 2, 32), next_token_batch([[1, 2, 3, 4, 5], [6, 7]])),
}


def gradients(loss: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, tensors))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("has_bias", [True, False])
def test_fused_equals_plain(
    smoothing: float, chunk: int, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "LOGITS_AT_ONCE", 11 * chunk)
    draw = torch.Generator().manual_seed(0)
    states, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=draw, requires_grad=True)
        for shape in ((7, 5), (11, 5), (11,))
    )
    targets = torch.randint(0, 11, (7,), generator=draw)
    used = [states, weight, bias] if has_bias else [states, weight]
    logits = states @ weight.mT + (bias if has_bias else 0)
    plain = summed_loss(logits, targets, smoothing)
    fused = fused_loss(states, weight, bias if has_bias else None, targets, smoothing=smoothing)
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=0)
    for ours, theirs in zip(gradients(3 * fused, used), gradients(3 * plain, used), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("family", MODELS)
def test_a_batch_costs_what_its_logits_say(family: str) -> None:
    config, batch = MODELS[family]
    model = build(config, torch.Generator().manual_seed(0)).double().eval()
    plain = summed_loss(model.score(batch), batch.targets, 0.1)
    fused = batch_loss(model, batch, 0.1)
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    for ours, theirs in zip(
        gradients(fused, parameters), gradients(plain, parameters), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", MODELS)
def test_without_gradients_the_loss_is_the_same(family: str) -> None:
    config, batch = MODELS[family]
    model = build(config, torch.Generator().manual_seed(0)).double().eval()
    with torch.no_grad():
        measured = batch_loss(model, batch)
    assert not measured.requires_grad
    assert torch.equal(measured, batch_loss(model, batch))


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("family", MODELS)
def test_the_likeliest_ids_are_those_of_the_logits(
    family: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "LOGITS_AT_ONCE", 30 * chunk)
    config, batch = MODELS[family]
    model = build(config, torch.Generator().manual_seed(0)).double().eval()
    wanted = batch.inputs.is_token
    assert torch.equal(
        likeliest(question_at(model, batch, wanted)), model.score(batch).argmax(-1)[wanted]
    )


@pytest.mark.parametrize("family", MODELS)
def test_a_batch_without_targets_costs_nothing_and_has_finite_gradients(family: str) -> None:
    config, batch = MODELS[family]
    model = build(config, torch.Generator().manual_seed(0))
    nothing = Batch(batch.inputs, torch.full_like(batch.targets, NO_TARGET), batch.source)
    loss = batch_loss(model, nothing)
    loss.backward()
    assert loss.item() == 0.0
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
