"""The loop: learning happens, and a bad number stops it in time.

That cutting a batch changes nothing is told in tests/invariants/test_accumulation.py.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from lookleft.data.batch import Batch, next_token_batch, translation_batch
from lookleft.models import AnyModel, build, presets
from lookleft.nn.block import Block
from lookleft.train.diverged import DivergedError
from lookleft.train.loop import train_steps, validate
from lookleft.train.loss import batch_loss
from lookleft.train.optim import make_optimizers
from lookleft.train.schedule import make_schedule

PAIRS = [([5, 6, 7], [15, 16, 2]), ([8], [18, 2]), ([9, 10, 11, 12], [19, 20, 21, 22, 2])]


def tiny(dtype: torch.dtype = torch.float64) -> AnyModel:
    config = presets.tiny(30).model_copy(update={"dropout": 0.0, "d_model": 16, "d_ff": 16})
    return build(config, torch.Generator().manual_seed(0)).to(dtype)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return translation_batch([s for s, _ in pairs], [t for _, t in pairs], start_id=0)


@pytest.mark.parametrize("matrix_lr", [None, 0.02])
def test_a_few_sentences_are_learned_by_heart(matrix_lr: float | None) -> None:
    model = tiny(torch.float32)
    steps = 60
    optimizers = make_optimizers(model, lr=0.01, matrix_lr=matrix_lr)
    schedule = make_schedule("cosine", warmup=5, steps=steps)
    groups = [[batch_of(PAIRS)]] * steps
    records = list(train_steps(model, groups, optimizers, schedule))
    assert [record.step for record in records] == list(range(steps))
    assert records[0].loss > 2.0
    assert validate(model, [batch_of(PAIRS)]) < 0.1


def test_validation_is_the_mean_over_targets_not_over_batches() -> None:
    model = tiny()
    apart = validate(model, [batch_of([pair]) for pair in PAIRS])
    assert apart == pytest.approx(validate(model, [batch_of(PAIRS)]), rel=1e-12)
    assert model.training


CASES = {
    "translate": lambda: (tiny(torch.float32), [batch_of([pair]) for pair in PAIRS]),
    "lm": lambda: (
        build(presets.gpt(30, 16, 1, 2, 32), torch.Generator().manual_seed(0)),
        [next_token_batch([[1, 2, 3], [4, 5]]), next_token_batch([[6, 7, 8, 9]])],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_at_once", [1, 2])
def test_validation_by_kernels_is_that_of_plain_operations(
    case: str, n_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batches = CASES[case]()
    model.eval()
    with torch.no_grad():
        costs = [float(batch_loss(model, batch)) for batch in batches]
    plain = sum(costs) / sum(batch.n_targets for batch in batches)
    n_fused = 0
    fused = Block.forward_fused

    def counted(*args: Any) -> torch.Tensor:
        nonlocal n_fused
        n_fused += 1
        return fused(*args)

    monkeypatch.setattr(Block, "forward_fused", counted)
    assert validate(model, batches, n_at_once=n_at_once) == pytest.approx(plain, rel=1e-5)
    assert n_fused
    narrow = validate(model, batches, precision="bfloat16", n_at_once=n_at_once)
    assert narrow == pytest.approx(plain, rel=1e-2)
    assert narrow != pytest.approx(plain, rel=1e-7)  # the precision is heard
    n_fused = 0
    with torch.no_grad():
        assert [float(batch_loss(model, batch)) for batch in batches] == costs
    assert not n_fused, "a model that is neither trained nor measured is plain operations"


def test_a_loss_that_is_no_number_stops_before_the_weights_change() -> None:
    model = build(presets.gpt(30, 16, 1, 2, 32), torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.embedding.tokens.weight[7] = math.nan
    before = copy.deepcopy(model.state_dict())
    good, bad = next_token_batch([[1, 2, 3]]), next_token_batch([[1, 7, 3]])
    schedule = make_schedule("constant", warmup=0, steps=2)
    steps = train_steps(model, [[bad], [good]], make_optimizers(model, lr=0.1), schedule)
    with pytest.raises(DivergedError, match="step 0: the loss is nan"):
        next(steps)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) or name == "embedding.tokens.weight"


def test_of_several_micro_batches_the_one_that_broke_is_named() -> None:
    model = build(presets.gpt(30, 16, 1, 2, 32), torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.embedding.tokens.weight[7] = math.nan
        model.head.own_weight = torch.nn.Parameter(torch.zeros(30, 16))
    good = replace(next_token_batch([[1, 2, 3]]), lines=(4,))
    bad = replace(next_token_batch([[1, 7, 3]] * 12), lines=tuple(range(20, 32)))
    schedule = make_schedule("constant", warmup=0, steps=1)
    with pytest.raises(DivergedError, match=r"on lines 20, 21, .*, 29 and 2 more of data\.train"):
        list(train_steps(model, [[good, bad]], make_optimizers(model, lr=0.1), schedule))
