"""Twin paths: the fused kernel and the attention in full view, the pass and the steps, agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from invariants.families import ALL, CAUSAL, DECODERS_ONLY, as_batch, make, random_ids
from torch import Tensor

from lookleft.data.batch import Batch, as_rows
from lookleft.masks import Mask, everything
from lookleft.models import AnyModel
from lookleft.nn import attention
from lookleft.nn.attention import KV, capture


def some_padding() -> Tensor:
    is_token = torch.ones(2, 7, dtype=torch.bool)
    is_token[0, 5:] = False
    is_token[1, [0, 3]] = False
    return is_token


def gradients_of(model: AnyModel, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits, and the gradient of every parameter for a loss that uses all of them."""
    model.zero_grad()
    logits = model.score(batch)
    logits.square().mean().backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), grads


def check_fast_equals_plain(model: AnyModel, batch: Batch) -> None:
    """With and without capture (which takes `attend`): logits and gradients, to 1e-12."""
    fast, fast_grads = gradients_of(model, batch)
    with capture(model) as seen:
        plain, plain_grads = gradients_of(model, batch)
    assert seen, "nothing was captured: both ways were the same one"
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)
    assert fast_grads.keys() == plain_grads.keys()
    for name, gradient in fast_grads.items():
        torch.testing.assert_close(gradient, plain_grads[name], rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_the_fused_kernel_agrees_with_attention_in_full_view(name: str, is_padded: bool) -> None:
    config = ALL[name]
    rows = as_rows(random_ids(2, 7), some_padding() if is_padded else None)
    check_fast_equals_plain(make(config), as_batch(config, rows))


@pytest.mark.parametrize("name", ["window-rotary", "relative-one-kv-head", "rotary-grouped"])
def test_masks_in_pieces_agree_with_masks_in_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MASK_ROWS", 3)
    check_fast_equals_plain(
        make(DECODERS_ONLY[name]), Batch(as_rows(random_ids(2, 7), some_padding()))
    )


@torch.no_grad()
def check_steps_repeat_the_pass(model: AnyModel, n_new: int = 8) -> None:
    """What was generated greedily, step by step, is what one parallel pass would have chosen."""
    prompt = as_batch(model.config, as_rows(random_ids(3, 4)))
    logits, state = model.prefill(prompt, room=n_new)
    chosen, said = [], []
    for _ in range(n_new):
        said.append(logits)
        chosen.append(logits.argmax(-1))
        logits = model.step(chosen[-1], state)
    ids = torch.cat((prompt.inputs.ids, torch.stack(chosen, 1)), 1)
    full = model.score(Batch(as_rows(ids), source=prompt.source))[:, 3:-1]
    torch.testing.assert_close(torch.stack(said, 1), full, rtol=0, atol=1e-12)
    assert torch.equal(full.argmax(-1), torch.stack(chosen, 1))


@pytest.mark.parametrize("name", CAUSAL)
def test_greedy_steps_repeat_the_parallel_pass(name: str) -> None:
    check_steps_repeat_the_pass(make(CAUSAL[name]))


@pytest.mark.parametrize("name", CAUSAL)
def test_capturing_a_cached_step_changes_nothing(name: str) -> None:
    model = make(CAUSAL[name])
    prompt = as_batch(model.config, as_rows(random_ids(2, 4)))
    ids = random_ids(2, seed=1)
    _, state = model.prefill(prompt, room=1)
    plain = model.step(ids, state)
    state.cache.roll_back(4)
    with capture(model) as seen:
        watched = model.step(ids, state)
    torch.testing.assert_close(plain, watched, rtol=0, atol=1e-12)
    n_layers = len(model.decoder.layers)
    weights = [key for key in seen if key.endswith("self_attention.weights")]
    assert len(weights) == n_layers
    assert all(len(seen[key]) == 1 and seen[key][0].shape[-2] == 1 for key in weights)


# --- the alarms can ring ---------------------------------------------------------------------

HONEST = attention.attend_fast


def blind_to_the_mask(q: Tensor, kv: KV, mask: Mask, **options: object) -> Tensor:
    """A fast path that forgets the mask."""
    return HONEST(q, kv, everything(mask.n_queries, mask.n_keys), **options)


def always_a_triangle(q: Tensor, kv: KV, mask: Mask, **options: object) -> Tensor:
    """A fast path that takes every square mask for a plain triangle: windows and padding go."""
    square = mask.n_queries == mask.n_keys
    return HONEST(q, kv, Mask(mask.rows, mask.n_queries, mask.n_keys, is_triangle=square))


def another_scale(q: Tensor, kv: KV, mask: Mask, **options: object) -> Tensor:
    """A fast path whose scores are a millionth too large."""
    return HONEST(q * (1 + 1e-6), kv, mask, **options)


@pytest.mark.parametrize("broken", [blind_to_the_mask, always_a_triangle, another_scale])
def test_a_fast_path_that_drifts_is_caught(
    broken: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "attend_fast", broken)
    model = make(DECODERS_ONLY["window-rotary"])
    with pytest.raises(AssertionError):
        check_fast_equals_plain(model, Batch(as_rows(random_ids(2, 7), some_padding())))


def test_steps_that_drift_from_the_pass_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(DECODERS_ONLY["rotary-grouped"])
    honest = model.step
    monkeypatch.setattr(
        model, "step", lambda ids, state: honest((ids + 1) % model.config.vocab_size, state)
    )
    with pytest.raises(AssertionError):
        check_steps_repeat_the_pass(model)
