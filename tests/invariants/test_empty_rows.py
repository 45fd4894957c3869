"""Nothing to see: rows without a visible key give finite numbers and disturb nobody."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from invariants.families import ALL, CAUSAL, TRANSLATORS, make, random_ids, some_source
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, Rows, as_rows
from lookleft.errors import InputError
from lookleft.masks import Mask
from lookleft.models import AnyConfig, AnyModel
from lookleft.nn import attention
from lookleft.nn.attention import KV


def emptied(rows: Rows, row: int) -> Rows:
    """The same rows, one of them all padding."""
    is_token = rows.is_token.clone()
    is_token[row] = False
    return as_rows(rows.ids, is_token)


def batch_with_an_empty_row(config: AnyConfig, which: str) -> Batch:
    """Three rows; the middle one has no text, no source, or neither."""
    rows, source = as_rows(random_ids(3, 6)), None
    if isinstance(config, EncoderDecoderConfig):
        source = some_source(3)
        if which != "text":
            source = emptied(source, 1)
    return Batch(rows if which == "source" else emptied(rows, 1), source=source)


def check_empty_rows(model: AnyModel, batch: Batch) -> None:
    """All logits and gradients are finite, and nothing in the backward pass was not."""
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        logits = model.score(batch)
        assert bool(logits.isfinite().all()), "an empty row gives NaN"
        # Every position is used, also those of the empty row: its gradients must be finite too.
        logits.log_softmax(-1)[..., 3].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or bool(parameter.grad.isfinite().all()), name


@torch.no_grad()
def check_neighbours(model: AnyModel, batch: Batch) -> None:
    """Rows 0 and 2 are equal bit for bit, whether row 1 is empty or not."""
    source = None if batch.source is None else some_source(3)
    with_text = Batch(as_rows(batch.inputs.ids), source=source)
    before, after = model.score(with_text), model.score(batch)
    assert torch.equal(before[[0, 2]], after[[0, 2]]), "an empty row changed its neighbours"


# An anomaly-mode warning would be an error here; it is silenced since the mode itself is meant.
QUIET = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")


@QUIET
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ALL)
def test_a_row_of_padding_gives_finite_numbers(name: str, dtype: torch.dtype) -> None:
    check_empty_rows(make(ALL[name], dtype), batch_with_an_empty_row(ALL[name], "text"))


@pytest.mark.parametrize("name", ALL)
def test_a_row_of_padding_leaves_its_neighbours_alone(name: str) -> None:
    check_neighbours(make(ALL[name]), batch_with_an_empty_row(ALL[name], "text"))


@QUIET
@pytest.mark.parametrize("which", ["source", "both"])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_source_of_padding_gives_finite_numbers(name: str, which: str) -> None:
    batch = batch_with_an_empty_row(TRANSLATORS[name], which)
    check_empty_rows(make(TRANSLATORS[name]), batch)
    check_neighbours(make(TRANSLATORS[name]), batch)


@QUIET
@pytest.mark.parametrize("name", ALL)
def test_a_batch_of_nothing_but_padding_gives_finite_numbers(name: str) -> None:
    batch = batch_with_an_empty_row(ALL[name], "both")
    source = batch.source
    for row in (0, 2):
        source = None if source is None else emptied(source, row)
        batch = replace(batch, inputs=emptied(batch.inputs, row), source=source)
    check_empty_rows(make(ALL[name]), batch)


@QUIET
@pytest.mark.parametrize("name", TRANSLATORS)
def test_sources_of_no_width_at_all_give_finite_numbers(name: str) -> None:
    nothing = as_rows(torch.zeros(3, 0, dtype=torch.long))
    check_empty_rows(make(TRANSLATORS[name]), Batch(as_rows(random_ids(3, 6)), source=nothing))


@pytest.mark.parametrize("name", CAUSAL)
def test_texts_of_no_width_at_all_give_logits_of_no_width(name: str) -> None:
    config = CAUSAL[name]
    source = some_source(3) if isinstance(config, EncoderDecoderConfig) else None
    nothing = as_rows(torch.zeros(3, 0, dtype=torch.long))
    assert make(config).score(Batch(nothing, source=source)).shape == (3, 0, config.vocab_size)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_an_empty_source_row_goes_through_generation(name: str) -> None:
    model = make(TRANSLATORS[name])
    batch = batch_with_an_empty_row(TRANSLATORS[name], "source")
    logits, state = model.prefill(batch, room=3)
    for _ in range(3):
        assert bool(logits.isfinite().all())
        logits = model.step(logits.argmax(-1), state)


@pytest.mark.parametrize("name", CAUSAL)
def test_an_empty_prompt_is_refused_in_words(name: str) -> None:
    batch = batch_with_an_empty_row(CAUSAL[name], "text")
    with pytest.raises(InputError, match="a prompt is empty"):
        make(CAUSAL[name]).prefill(batch, room=3)


# --- the alarms can ring ---------------------------------------------------------------------


def plain_softmax(q: Tensor, kv: KV, mask: Mask, **_: object) -> Tensor:
    """-inf everywhere and then a softmax: a blind row divides zero by zero."""
    keys, values = kv.repeat_to(q.size(1))
    scores = (q @ keys.mT / math.sqrt(q.size(-1))).masked_fill(~mask.allowed, -math.inf)
    return scores.softmax(-1) @ values


def repaired_too_late(q: Tensor, kv: KV, mask: Mask, **_: object) -> Tensor:
    """NaN replaced by zero afterwards: the forward pass looks well, the gradients are not."""
    return plain_softmax(q, kv, mask).nan_to_num()


def share_among_rows(q: Tensor, kv: KV, mask: Mask, **_: object) -> Tensor:
    """Blind rows get the batch average, and others a trace of it."""
    out = attention.attend(q, kv, mask)
    return out + 1e-9 * mask.allowed.to(out.dtype).mean()


@QUIET
def test_a_plain_softmax_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TRANSLATORS["sinusoidal-post"]
    batch = batch_with_an_empty_row(config, "both")
    monkeypatch.setattr(attention, "attend_fast", plain_softmax)
    with pytest.raises(AssertionError, match="an empty row gives NaN"):
        check_empty_rows(make(config), batch)


@QUIET
def test_a_repair_after_the_softmax_is_caught_in_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TRANSLATORS["sinusoidal-post"]
    monkeypatch.setattr(attention, "attend_fast", repaired_too_late)
    with pytest.raises(RuntimeError, match="returned nan values"):
        check_empty_rows(make(config), batch_with_an_empty_row(config, "both"))


def test_an_empty_row_that_disturbs_its_neighbours_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TRANSLATORS["sinusoidal-post"]
    monkeypatch.setattr(attention, "attend_fast", share_among_rows)
    with pytest.raises(AssertionError, match="changed its neighbours"):
        check_neighbours(make(config), batch_with_an_empty_row(config, "both"))
