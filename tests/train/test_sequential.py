"""Fed whole behind the mask, or one position at a time: one loss, one gradient."""

from __future__ import annotations

import pytest
import torch
from invariants.families import CAUSAL, ENCODERS_ONLY, as_batch, make, random_ids
from torch import Tensor

from lookleft.data.batch import Batch, as_rows, next_token_batch, pack_documents
from lookleft.errors import InputError
from lookleft.models import AnyConfig, AnyModel
from lookleft.nn.attention import KV
from lookleft.nn.cache import KVCache, Slots
from lookleft.train.loss import batch_loss
from lookleft.train.sequential import sequential_loss

LENGTHS = (6, 3, 5)


def training_batch(config: AnyConfig) -> Batch:
    """Three texts of unequal length; a translator gets a source as well."""
    rows = [random_ids(length + 1, seed=length).tolist() for length in LENGTHS]
    made = next_token_batch(rows)
    source = as_batch(config, made.inputs).source
    return Batch(made.inputs, made.targets, source)


def loss_and_gradients(loss: Tensor, model: AnyModel) -> list[Tensor]:
    """The loss, then its gradient by every parameter, zeros where it does not matter."""
    parameters = list(model.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return [loss.detach(), *found]


def largest_difference(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("family", CAUSAL)
def test_position_by_position_gives_the_loss_and_gradients_of_the_parallel_pass(
    family: str, smoothing: float
) -> None:
    config = CAUSAL[family]
    model, batch = make(config).train(), training_batch(config)
    parallel = loss_and_gradients(batch_loss(model, batch, smoothing), model)
    sequential = loss_and_gradients(sequential_loss(model, batch, smoothing), model)
    assert largest_difference(parallel, sequential) < 1e-10
    assert all(float(gradient.abs().max()) > 0 for gradient in parallel[:2])


def test_packed_documents_are_fed_each_from_its_own_start() -> None:
    model = make(CAUSAL["decoder-only rotary-grouped"])
    texts = [random_ids(length, seed=length).tolist() for length in (4, 7, 5)]
    packed = pack_documents([texts[:2], [], texts[2:]])
    parallel = loss_and_gradients(batch_loss(model, packed), model)
    sequential = loss_and_gradients(sequential_loss(model, packed), model)
    assert largest_difference(parallel, sequential) < 1e-10


@pytest.mark.parametrize("family", ["decoder-only learned-pre", "encoder-decoder none"])
def test_a_cache_that_stops_gradients_is_noticed(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss stays the same, so only the comparison of gradients can tell."""
    write = KVCache.write

    def write_and_forget(cache: KVCache, layer: int, slots: Slots, new: KV) -> KV:
        all_of_it = write(cache, layer, slots, new)
        cache.keys[layer] = cache.keys[layer].detach()
        cache.values[layer] = cache.values[layer].detach()
        return all_of_it

    config = CAUSAL[family]
    model, batch = make(config), training_batch(config)
    parallel = loss_and_gradients(batch_loss(model, batch), model)
    monkeypatch.setattr(KVCache, "write", write_and_forget)
    broken = loss_and_gradients(sequential_loss(model, batch), model)
    assert largest_difference(parallel[:1], broken[:1]) < 1e-10
    assert largest_difference(parallel, broken) > 1e-3


def test_what_has_no_order_or_no_first_token_is_refused() -> None:
    config = ENCODERS_ONLY["rotary-pre"]
    with pytest.raises(InputError, match="no order in which to feed"):
        sequential_loss(make(config), training_batch(config))
    rows = as_rows(random_ids(1, 3), torch.tensor([[False, True, True]]))
    with pytest.raises(InputError, match="padded on the right"):
        sequential_loss(make(CAUSAL["decoder-only learned-pre"]), Batch(rows, rows.ids))
