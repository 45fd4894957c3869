"""Micro-batches side by side give the gradient that they give one after another, to the bit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, translation_batch
from lookleft.models import EncoderDecoder
from lookleft.train.objective import Objective
from lookleft.train.replicas import mixed, n_replicas, twin
from lookleft.train.team import Team

CONFIG = EncoderDecoderConfig(
    vocab_size=20,
    d_model=8,
    n_heads=2,
    d_ff=12,
    n_encoder_layers=1,
    n_decoder_layers=2,
    dropout=0.3,
)


def make_model() -> EncoderDecoder:
    return EncoderDecoder(CONFIG, torch.Generator().manual_seed(0)).train()


def micro_batches(n: int) -> list[Batch]:
    draw = torch.Generator().manual_seed(1)

    def sentence(length: int) -> list[int]:
        return torch.randint(3, 20, (length,), generator=draw).tolist()

    return [
        translation_batch([sentence(3 + i), sentence(5)], [sentence(4), sentence(2 + i)], 1)
        for i in range(n)
    ]


def gradients(
    team: Team, group: Sequence[Batch], step: int = 7
) -> tuple[list[float], list[Tensor]]:
    team.model.zero_grad(set_to_none=True)
    losses = team.gradient(Objective(smoothing=0.1), group, step, n_targets=30)
    return losses, [p.grad.clone() for p in team.model.parameters() if p.grad is not None]


def test_two_side_by_side_equal_two_in_a_row_to_the_bit() -> None:
    group = micro_batches(2)
    losses, alone = gradients(Team(make_model(), seed=3), group)
    also, together = gradients(Team(make_model(), n_replicas=2, seed=3), group)
    assert losses == also
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
    _, elsewhere = gradients(Team(make_model(), n_replicas=2, seed=4), group)
    assert not all(torch.equal(a, b) for a, b in zip(alone, elsewhere, strict=True))


@pytest.mark.parametrize("n", [1, 3, 5])
def test_any_number_of_micro_batches_is_dealt_out(n: int) -> None:
    group = micro_batches(n)
    losses, alone = gradients(Team(make_model()), group)
    also, together = gradients(Team(make_model(), n_replicas=2), group)
    assert losses == also
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)  # added up in another order


def test_chance_changes_from_step_to_step_and_from_batch_to_batch() -> None:
    batch = micro_batches(1)[0]
    team = Team(make_model(), n_replicas=2)
    first, _ = gradients(team, [batch, batch], step=0)
    second, _ = gradients(team, [batch, batch], step=1)
    again, _ = gradients(team, [batch, batch], step=0)
    assert first == again
    assert len({*first, *second}) == 4
    assert len({mixed(0, step, place) for step in range(50) for place in range(50)}) == 2500


def test_a_twin_follows_the_model_and_keeps_its_gradients_to_itself() -> None:
    model = make_model()
    other = twin(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert torch.equal(next(model.parameters()), next(other.parameters()))
    next(other.parameters()).sum().backward()
    assert next(model.parameters()).grad is None


def test_the_number_of_threads_is_put_back() -> None:
    before = torch.get_num_threads()
    gradients(Team(make_model(), n_replicas=2), micro_batches(2))
    assert torch.get_num_threads() == before


def test_only_a_processor_that_nothing_else_fills_gets_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert n_replicas(8, torch.device("cpu")) == 4
    assert n_replicas(3, torch.device("cpu")) == 3
    assert n_replicas(1, torch.device("cpu")) == 1
    assert n_replicas(8, torch.device("cpu"), is_compiled=True) == 1
    assert n_replicas(8, torch.device("meta")) == 1
