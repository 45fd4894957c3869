"""Models that never answer twice alike: the verdict is statistical, and says so."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lookleft.audit import Finding, Verdict, audit
from lookleft.audit.chance import ALPHA, CALM, permutation_test

from .subjects import VOCAB, WIDTH


def unseeded(shape: torch.Size) -> Tensor:
    """Noise that no seed reaches."""
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little"))
    return torch.randn(shape, generator=generator)


class Noisy(nn.Module):
    """A running sum with noise on top; leaky, the mean of the row is in it too."""

    def __init__(self, *, leak: float = 0.0, noise: float = 0.05) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.leak, self.noise = leak, noise
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x.cumsum(1) / 3 + self.leak * x.mean(1, keepdim=True)
        return self.head(x + self.noise * unseeded(x.shape).to(x.dtype))


def asked(model: nn.Module, check: str) -> Finding:
    (found,) = audit(model, checks=check, quick=True).findings
    return found


def test_a_leak_is_seen_through_noise_that_no_seed_controls() -> None:
    found = asked(Noisy(leak=0.5), "K1")
    assert found.verdict is Verdict.DISPROVED
    assert "statistical" in found.reason
    assert f"accused below {ALPHA:.0e}" in found.reason


def test_an_honest_noisy_model_passes_with_the_size_of_leak_that_would_have_shown() -> None:
    found = asked(Noisy(), "K1")
    assert found.verdict is Verdict.VERIFIED
    assert "statistical" in found.reason
    assert found.detection_limit is not None


def test_noise_that_drowns_a_planted_leak_leaves_the_question_open() -> None:
    found = asked(Noisy(noise=1e4), "K1")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "drowns" in found.reason or "too weak to accuse" in found.reason


def test_noise_itself_is_reported() -> None:
    found = asked(Noisy(), "K0")
    assert found.verdict is Verdict.DISPROVED
    assert "no seed" in (found.cause or "")


def test_the_test_accuses_no_more_often_than_it_says() -> None:
    """Sixty honest comparisons: their odds spread evenly, and none is below the limit."""
    keep = torch.ones(1, 4, dtype=torch.bool)
    generator = torch.Generator().manual_seed(3)

    def sample(seed: int) -> Tensor:
        del seed
        return torch.randn(1, 4, 5, generator=generator)

    odds = torch.tensor([permutation_test(sample, sample, keep).p_value for _ in range(60)])
    assert float(odds.min()) > ALPHA
    assert 0.3 < float((odds < 0.5).float().mean()) < 0.7
    assert float((odds < CALM).float().mean()) < 0.1


class Dropping(nn.Module):
    """Dropout that is never switched off, in a model that is honest otherwise."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(F.dropout(self.embed(ids), 0.1).cumsum(1))


@pytest.mark.parametrize("check", ["K1", "K2", "K5"])
def test_dropout_left_on_is_no_ground_for_other_accusations(check: str) -> None:
    report = audit(Dropping(), checks=check)
    assert not report.violations, str(report)


def test_dropout_left_on_is_named_where_it_belongs() -> None:
    (found, *_) = audit(Dropping(), checks="K0").findings
    assert found.verdict is Verdict.DISPROVED
    assert "dropout" in (found.cause or "")


class Thinning(nn.Module):
    """Draws one random number for every id above ten, so later ids move earlier draws along."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        chosen = ids > 10
        drawn = torch.zeros(ids.shape, dtype=x.dtype)
        drawn[chosen] = torch.rand(int(chosen.sum()), dtype=x.dtype)
        again = torch.rand(ids.shape, dtype=x.dtype)
        return self.head((x * (1 + 0.1 * (drawn + again))[..., None]).cumsum(1))


def test_a_shifted_stream_of_random_numbers_is_not_taken_for_a_leak() -> None:
    report = audit(Thinning(), checks="K1", quick=True)
    assert not report.violations, str(report)
