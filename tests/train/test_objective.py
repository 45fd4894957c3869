"""What a micro-batch costs: two passes that must agree, own words as inputs, low precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lookleft.data.batch import Batch, next_token_batch, pack_documents, translation_batch
from lookleft.models import AnyModel, build, presets
from lookleft.train import loss as loss_module
from lookleft.train import objective as objective_module
from lookleft.train.loss import batch_loss, summed_loss
from lookleft.train.objective import Objective, with_own_words

TRANSLATION = translation_batch([[4, 5], [6, 7, 8]], [[9, 10, 11, 2], [12, 2]], start_id=1)
TEXTS = next_token_batch([[4, 5, 6, 7, 8, 9], [10, 11, 12]])


def tiny(dtype: torch.dtype = torch.float64, dropout: float = 0.0) -> AnyModel:
    changes = {"d_model": 16, "d_ff": 16, "dropout": dropout, "embed_scale": 1.0}
    config = presets.tiny(30).model_copy(update=changes)
    return build(config, torch.Generator().manual_seed(0)).to(dtype)


def decoder(dtype: torch.dtype = torch.float64) -> AnyModel:
    return build(presets.gpt(30, 16, 2, 2, 32), torch.Generator().manual_seed(0)).to(dtype)


def gradients(loss: Tensor, model: AnyModel) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


def two_passes(model: AnyModel, batch: Batch, smoothing: float, rdrop: float) -> Tensor:
    """R-Drop as in the paper, from two sets of logits that exist at once; halved."""
    assert batch.targets is not None
    assert batch.source is not None
    inputs, source, n_rows = batch.inputs, batch.source, batch.targets.size(0)
    rows = [i % n_rows for i in range(2 * n_rows)]
    doubled = Batch(
        type(inputs)(inputs.ids[rows], inputs.is_token[rows], inputs.pos[rows]),
        source=type(source)(source.ids[rows], source.is_token[rows], source.pos[rows]),
    )
    first, second = model.score(doubled).chunk(2)
    is_target = batch.targets >= 0
    p, q = first[is_target].log_softmax(-1), second[is_target].log_softmax(-1)
    both = F.kl_div(p, q, log_target=True, reduction="sum")
    both = both + F.kl_div(q, p, log_target=True, reduction="sum")
    costs = summed_loss(first, batch.targets, smoothing)
    costs = costs + summed_loss(second, batch.targets, smoothing)
    return (costs + rdrop * both / 2) / 2


@pytest.mark.parametrize("chunk", [1, 4, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_rdrop_is_that_of_two_plain_passes(
    chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "LOGITS_AT_ONCE", 30 * chunk)
    model = tiny(dropout=0.3).train()
    objective = Objective(smoothing=smoothing, rdrop=5.0)
    torch.manual_seed(3)
    ours = objective(model, TRANSLATION)
    torch.manual_seed(3)  # the same dropout: both are one forward of twice the rows
    plain = two_passes(model, TRANSLATION, smoothing, 5.0)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=0)
    for one, other in zip(gradients(ours, model), gradients(plain, model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    torch.manual_seed(3)
    assert objective(model, TRANSLATION) > Objective(smoothing=smoothing, rdrop=1.0)(
        model, TRANSLATION
    )


def test_two_passes_without_dropout_cost_as_much_as_one() -> None:
    model = tiny()
    twice = Objective(smoothing=0.1, rdrop=5.0)(model, TRANSLATION)
    torch.testing.assert_close(twice, batch_loss(model, TRANSLATION, 0.1), rtol=1e-12, atol=0)


def test_rdrop_begins_when_it_is_told_to() -> None:
    model = tiny(dropout=0.3).train()
    late, always = Objective(rdrop=5.0, rdrop_after=3), Objective(rdrop=5.0)
    for step, twin in ((2, Objective()), (3, always)):
        torch.manual_seed(3)
        ours = late(model, TRANSLATION, step)
        torch.manual_seed(3)
        assert torch.equal(ours, twin(model, TRANSLATION, step))
    assert [late.n_passes(step, step + 1) for step in range(5)] == [1, 1, 1, 2, 2]
    assert (late.n_passes(1, 5), always.n_passes(1, 5), Objective().n_passes(1, 5)) == (6, 8, 4)


def test_rdrop_of_a_batch_without_targets_costs_nothing() -> None:
    assert TRANSLATION.targets is not None
    nothing = replace(TRANSLATION, targets=torch.full_like(TRANSLATION.targets, -100))
    assert Objective(rdrop=1.0)(tiny(), nothing).item() == 0.0


@pytest.mark.parametrize(
    ("model", "batch"), [(decoder(), TEXTS), (tiny(), TRANSLATION)], ids=["lm", "translate"]
)
def test_own_words_are_what_the_model_would_have_said_one_position_before(
    model: AnyModel, batch: Batch
) -> None:
    said = model.score(batch).argmax(-1)  # (B, T)
    mixed = with_own_words(model, batch, 1.0)
    kept = batch.inputs.is_token
    assert torch.equal(mixed.inputs.ids[:, 1:][kept[:, 1:]], said[:, :-1][kept[:, 1:]])
    assert torch.equal(mixed.inputs.ids[:, 0], batch.inputs.ids[:, 0])  # nobody said the first
    assert torch.equal(mixed.inputs.ids[~kept], batch.inputs.ids[~kept])
    assert mixed.targets is batch.targets
    assert not torch.equal(mixed.inputs.ids, batch.inputs.ids)


@pytest.mark.parametrize(
    ("model", "batch"), [(decoder(), TEXTS), (tiny(), TRANSLATION)], ids=["lm", "translate"]
)
def test_the_model_is_asked_even_if_no_input_is_drawn(
    model: AnyModel, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that share its layers must all go through them, whatever each of them draws."""
    asked = []
    ask = objective_module.question_at
    monkeypatch.setattr(
        objective_module, "question_at", lambda *given: asked.append(given) or ask(*given)
    )
    mixed = with_own_words(model, batch, 1e-30)
    assert torch.equal(mixed.inputs.ids, batch.inputs.ids)
    assert len(asked) == 1


def test_own_words_do_not_cross_from_one_document_into_the_next() -> None:
    model = decoder()
    packed = pack_documents([[[4, 5, 6], [7, 8, 9, 10]]])
    mixed = with_own_words(model, packed, 1.0)
    assert mixed.inputs.ids[0, 0] == 4
    assert mixed.inputs.ids[0, 2] == 7  # the first of the second document
    apart = [with_own_words(model, next_token_batch([t]), 1.0) for t in ([4, 5, 6], [7, 8, 9, 10])]
    assert torch.equal(mixed.inputs.ids, torch.cat([one.inputs.ids for one in apart], 1))


def test_about_the_asked_share_of_inputs_is_replaced() -> None:
    rows = torch.randint(3, 30, (40, 30), generator=torch.Generator().manual_seed(0)).tolist()
    batch = next_token_batch(rows)
    model = decoder(torch.float32)
    torch.manual_seed(0)
    changed = with_own_words(model, batch, 0.25).inputs.ids != batch.inputs.ids
    assert 0.2 < changed[:, 1:].float().mean() < 0.3


def test_the_share_of_own_words_grows_over_the_steps() -> None:
    objective = Objective(own_words=0.4, own_words_warmup=100)
    assert [objective.own_share(step) for step in (0, 50, 100, 1000)] == [0.0, 0.2, 0.4, 0.4]
    assert Objective(own_words=0.4).own_share(0) == 0.4
    model = decoder()
    assert objective(model, TEXTS, 0) == Objective()(model, TEXTS, 0)
    torch.manual_seed(0)
    assert objective(model, TEXTS, 1000) != Objective()(model, TEXTS, 1000)


def test_dropout_grows_over_the_steps() -> None:
    objective, plain = Objective(dropout_warmup=100), Objective()
    model = tiny(dropout=0.5).train()
    assert objective(model, TRANSLATION, 0) == plain(tiny().train(), TRANSLATION)
    for step, share in ((50, 0.25), (100, 0.5), (1000, 0.5)):
        other = tiny(dropout=share).train()
        torch.manual_seed(0)
        ours = objective(model, TRANSLATION, step)
        torch.manual_seed(0)
        assert ours == plain(other, TRANSLATION, step)


def test_dropout_fades_with_the_rate() -> None:
    fading = Objective(dropout_warmup=100, dropout_fade=0.2)
    shares = [fading.at_rate(share).dropout_strength(500) for share in (1.0, 0.2, 0.1, 0.0)]
    assert shares == [1.0, 1.0, 0.5, 0.0]
    assert fading.at_rate(0.1).dropout_strength(20) == 0.2
    assert Objective().at_rate(0.1).dropout_strength(20) == 1.0
    rest = fading.at_rate(0.0)(tiny(dropout=0.5).train(), TRANSLATION, 500)
    assert rest == Objective()(tiny().train(), TRANSLATION)


def test_reading_its_own_words_leaves_the_model_in_training() -> None:
    model = tiny(dropout=0.5).train()
    with_own_words(model, TRANSLATION, 1.0)
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("rdrop", [0.0, 5.0])
def test_low_precision_changes_the_digits_and_not_the_matter(rdrop: float) -> None:
    model = tiny(torch.float32)
    exact = Objective(smoothing=0.1, rdrop=rdrop)(model, TRANSLATION)
    rough = Objective(smoothing=0.1, rdrop=rdrop, precision="bfloat16")(model, TRANSLATION)
    assert rough.dtype == torch.float32
    assert exact != rough
    torch.testing.assert_close(exact, rough, rtol=0.02, atol=0)
    one, other = (
        torch.cat([gradient.flatten() for gradient in gradients(loss, model)])
        for loss in (exact, rough)
    )
    assert other.dtype == torch.float32
    assert (one - other).norm() < 0.05 * one.norm()
