"""Mean of means: however a batch is cut into micro-batches, its gradient stays what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from invariants.families import ALL, make, random_ids
from torch import Tensor

from lookleft.config import EncoderDecoderConfig, EncoderOnlyConfig
from lookleft.data.batch import NO_TARGET, Batch, next_token_batch, pad_rows, translation_batch
from lookleft.models import AnyConfig, AnyModel
from lookleft.train.loop import train_steps
from lookleft.train.loss import batch_loss
from lookleft.train.optim import make_optimizers
from lookleft.train.team import Team

LENGTHS = (3, 11, 2, 7, 5, 9)  # of the rows; what counts is that their targets differ in number
CUTS = {"two unlike halves": (1, 5), "three": (1, 3, 2), "one row each": (1,) * 6}
LIMITS = {torch.float64: 1e-13, torch.float32: 1e-6}  # of the error, as a share of the gradient
WORST = 1e-5  # where single precision itself is less exact than that, and never more
Gradient = Callable[[AnyModel, Sequence[Batch]], Tensor]


def batch_of(config: AnyConfig, numbers: Sequence[int]) -> Batch:
    """The rows of these numbers as the family is trained on them."""
    rows = [random_ids(LENGTHS[n], seed=n).tolist() for n in numbers]
    if isinstance(config, EncoderDecoderConfig):
        sources = [random_ids(2 + n, seed=50 + n).tolist() for n in numbers]
        return translation_batch(sources, rows, config.start_id)
    if isinstance(config, EncoderOnlyConfig):  # every other token is to be told
        inputs = pad_rows(rows)
        is_asked = inputs.is_token & (torch.arange(inputs.shape[1]) % 2 == 0)
        return Batch(inputs, inputs.ids.masked_fill(~is_asked, NO_TARGET))
    return next_token_batch(rows)


def cut_up(config: AnyConfig, sizes: Sequence[int]) -> list[Batch]:
    """The same rows in micro-batches of so many each."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    assert ends[-1] == len(LENGTHS)
    return [batch_of(config, range(end - n, end)) for n, end in zip(sizes, ends, strict=True)]


def gradient_of(model: AnyModel) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def by_the_loop(model: AnyModel, group: Sequence[Batch], n_replicas: int = 1) -> Tensor:
    """As the training loop computes it; nothing is clipped, which would hide a wrong length."""
    team = Team(model, n_replicas=n_replicas)
    optimizers = make_optimizers(model, lr=1e-9)
    list(train_steps(model, [group], optimizers, lambda step: 1.0, max_norm=1e30, team=team))
    return gradient_of(model)


def apart(found: Tensor, expected: Tensor) -> float:
    """How far one gradient is from another, as a share of it."""
    return float((found - expected).double().norm() / expected.double().norm())


def of_the_whole(model: AnyModel, whole: Batch) -> Tensor:
    """The gradient of one batch, written out without the loop."""
    model.zero_grad()
    (batch_loss(model, whole) / whole.n_targets).backward()
    return gradient_of(model)


def check_accumulation(
    config: AnyConfig, sizes: Sequence[int], dtype: torch.dtype, accumulate: Gradient = by_the_loop
) -> None:
    """The gradient of micro-batches is that of the whole."""
    whole, group = batch_of(config, range(len(LENGTHS))), cut_up(config, sizes)
    counts = [batch.n_targets for batch in group]
    assert sum(counts) == whole.n_targets
    assert len(set(counts)) > 1, "of equal counts a mean of means is right"
    expected = of_the_whole(make(config, dtype), whole)
    # Of two results neither of which is more exact than this, no more can be asked.
    rounding = apart(expected, of_the_whole(make(config, dtype).double(), whole))
    limit = min(max(LIMITS[dtype], 2 * rounding), WORST)
    error = apart(accumulate(make(config, dtype), group), expected)
    assert error <= limit, f"{error:.1e} of the gradient"


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", ALL)
def test_micro_batches_give_the_gradient_of_the_whole(
    name: str, cut: str, dtype: torch.dtype
) -> None:
    check_accumulation(ALL[name], CUTS[cut], dtype)


@pytest.mark.parametrize("name", ALL)
def test_micro_batches_side_by_side_do_too(name: str) -> None:
    check_accumulation(
        ALL[name],
        CUTS["three"],
        torch.float64,
        lambda model, group: by_the_loop(model, group, n_replicas=2),
    )


# --- the alarms can ring ---------------------------------------------------------------------


def mean_of_means(model: AnyModel, group: Sequence[Batch]) -> Tensor:
    """Each micro-batch divided by its own targets: those of short ones weigh too much."""
    for batch in group:
        (batch_loss(model, batch) / batch.n_targets / len(group)).backward()
    return gradient_of(model)


def undivided_by_their_number(model: AnyModel, group: Sequence[Batch]) -> Tensor:
    """A mean for each micro-batch, and the means added up."""
    return mean_of_means(model, group) * len(group)


@pytest.mark.parametrize("broken", [mean_of_means, undivided_by_their_number])
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_a_mean_of_means_is_caught(name: str, dtype: torch.dtype, broken: Gradient) -> None:
    with pytest.raises(AssertionError, match="of the gradient"):
        check_accumulation(ALL[name], CUTS["three"], dtype, broken)
