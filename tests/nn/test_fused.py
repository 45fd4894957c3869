"""The kernels of training equal the plain operations: values, gradients, and exact zeros."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lookleft.config import Rotary
from lookleft.data.batch import translation_batch
from lookleft.errors import InputError
from lookleft.masks import Mask, causal, everything, real_keys
from lookleft.models import build, presets
from lookleft.nn import arithmetic, attention, block, fused, layers
from lookleft.nn.attention import KV, attend, capture
from lookleft.nn.fused import (
    LONGEST,
    attend_short,
    is_fusable,
    is_short,
    plain_operations,
    rms_norm,
    surprise_rows,
)
from lookleft.nn.layers import RMSNorm
from lookleft.train.loss import batch_loss, surprise


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_twins(
    kernel: Callable[..., Tensor], plain: Callable[..., Tensor], leaves: list[Tensor]
) -> None:
    """The kernel on float32 gives what the plain way gives on float64, there and back."""
    narrow = [leaf.clone().requires_grad_() for leaf in leaves]
    wide = [leaf.double().requires_grad_() for leaf in leaves]
    ours, theirs = kernel(*narrow), plain(*wide)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)
    above = draw(*ours.shape, seed=99)
    ours.backward(above)
    theirs.backward(above.double())
    for mine, its in zip(narrow, wide, strict=True):
        assert mine.grad is not None
        assert its.grad is not None
        size = float(its.grad.abs().max())
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=0, atol=2e-6 * max(size, 1))


def padded(n_queries: int, n_keys: int) -> Mask:
    """Row 0 has holes, row 1 sees nothing at all, row 2 everything."""
    is_token = torch.ones(3, n_keys, dtype=torch.bool)
    is_token[0, 1::2] = False
    is_token[1] = False
    return real_keys(is_token, n_queries)


def window(n_queries: int, n_keys: int) -> Mask:
    return causal(torch.arange(n_queries)[None], torch.arange(n_keys)[None] + 1, window=3)


MASKS = {
    "everything": everything,
    "triangle": lambda t, s: causal(torch.arange(t)[None], torch.arange(s)[None]),
    "padding": padded,
    "window, first query blind": window,
    "triangle in padding": lambda t, s: (
        causal(torch.arange(t)[None], torch.arange(s)[None]) & padded(t, s)
    ),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("n_queries", "n_keys", "width"),
    [(1, 1, 8), (5, 5, 16), (8, 3, 24), (13, 17, 32), (16, 16, 40), (64, 33, 8)],
)
def test_short_attention_is_attention(mask: str, n_queries: int, n_keys: int, width: int) -> None:
    rule = MASKS[mask](n_queries, n_keys)
    leaves = [draw(3, 2, n, width, seed=i) for i, n in enumerate((n_queries, n_keys, n_keys))]
    for scale in (None, 0.3):
        assert_twins(
            lambda q, k, v, scale=scale: attend_short(q, k, v, rule, scale),
            lambda q, k, v, scale=scale: attend(q, KV(k, v), rule, scale=scale),
            leaves,
        )


def test_what_is_hidden_weighs_exactly_nothing_also_in_gradients() -> None:
    rule = MASKS["triangle in padding"](9, 9)
    q, keys, values = (draw(3, 2, 9, 16, seed=i).requires_grad_() for i in range(3))
    out = attend_short(q, keys, values, rule)
    out[:, :, :5].square().sum().backward()
    is_seen = rule.allowed[:, 0, :5].any(1)  # (B, S)
    for leaf in (keys, values):
        assert leaf.grad is not None
        grad = leaf.grad.transpose(1, 2)  # (B, S, H, K)
        assert bool((grad[~is_seen] == 0).all())
        assert bool((grad[is_seen] != 0).any())  # the alarm can ring
    assert bool((out.transpose(1, 2)[~rule.allowed[:, 0].any(-1).expand(3, 9)] == 0).all())
    # Another future, by far the best match of every query, moves no bit of the past.
    other_keys, other_values = keys.detach().clone(), values.detach().clone()
    other_keys[:, :, 6:], other_values[:, :, 6:] = 1e30, 1e30
    moved = attend_short(q, other_keys.requires_grad_(), other_values.requires_grad_(), rule)
    assert torch.equal(moved[:, :, :6], out[:, :, :6])
    assert not torch.equal(moved[:, :, 6:], out[:, :, 6:])


def test_the_lowest_scores_still_beat_what_is_hidden() -> None:
    q = torch.full((1, 1, 5, 8), math.sqrt(3e38 / 8))
    keys = -q
    keys[:, :, 4] *= -1  # hidden from all but the last query
    values = draw(1, 1, 5, 8)
    pos = torch.arange(5)[None]
    out = attend_short(
        q.requires_grad_(), keys.requires_grad_(), values.requires_grad_(), causal(pos, pos), 1.0
    )
    torch.testing.assert_close(out[0, 0, 0], values[0, 0, 0], rtol=1e-6, atol=0)
    assert bool(out.isfinite().all())


def test_a_score_that_is_no_number_is_not_lost() -> None:
    heads = [draw(1, 1, 5, 8, seed=i) for i in range(3)]
    heads[1][0, 0, 2, 3] = math.nan
    pos = torch.arange(5)[None]
    out = attend_short(*(x.requires_grad_() for x in heads), causal(pos, pos))
    assert bool(out[:, :, :2].isfinite().all())  # it is hidden from these
    assert bool(out[:, :, 2:].isnan().all())


@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 128), (2, 9, 4, 32), (1, 1)])
@pytest.mark.parametrize("is_strided", [False, True])
def test_the_norm_is_the_norm(shape: tuple[int, ...], is_strided: bool) -> None:
    x, weight = draw(*shape), draw(shape[-1], seed=1)
    if is_strided:
        x = x.transpose(0, -2)
    assert_twins(
        lambda x, w: rms_norm(x, w, 1e-5),
        lambda x, w: nn.functional.rms_norm(x, (x.size(-1),), w, 1e-5),
        [x, weight],
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("size", [1, 7, 300])
@pytest.mark.parametrize("n_passes", [1, 2])
def test_the_surprise_is_the_surprise(smoothing: float, size: int, n_passes: int) -> None:
    logits = 20 * draw(n_passes, 5, size) + 100
    targets = torch.arange(5) % size
    cost, error = surprise(logits.double(), targets, smoothing, rdrop=3.0)
    distance = float((logits[0] - logits[-1]).abs().max())  # which float32 rounds
    # Sums may be reordered, so that differences of two logits round as the logits do.
    rounding = 3.0 * 1.2e-7 * float(logits.abs().max()) if n_passes == 2 else 0.0
    made = surprise_rows(logits, targets, smoothing, rdrop=3.0)
    assert made == pytest.approx(float(cost), rel=1e-6, abs=1e-5 + rounding)
    torch.testing.assert_close(logits.double(), error, rtol=0, atol=1e-6 + 1.2e-7 * distance)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("n_passes", [1, 2])
def test_a_logit_that_is_no_number_is_not_lost(
    smoothing: float, place: int, value: float, n_passes: int
) -> None:
    logits = draw(n_passes, 2, 9)
    logits[-1, 1, place] = value
    assert not math.isfinite(surprise_rows(logits, torch.tensor([1, 2]), smoothing, rdrop=1.0))


@pytest.mark.parametrize("target", [-1, 9])
def test_targets_beyond_the_vocabulary_are_refused(target: int) -> None:
    with pytest.raises(InputError, match=f"{min(target, 0)}..{max(target, 0)} .* the 9 ids"):
        surprise_rows(draw(1, 2, 9), torch.tensor([0, target]), 0.0)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"over 9 numbers was given \(2, 8\)"):
        rms_norm(draw(2, 8), torch.ones(9), 1e-5)


def test_a_second_derivative_is_refused() -> None:
    x, weight = draw(2, 8).requires_grad_(), torch.ones(8, requires_grad=True)
    (first,) = torch.autograd.grad(rms_norm(x, weight, 1e-5).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_threads_do_not_disturb_each_other() -> None:
    def work(seed: int) -> list[Tensor]:
        leaves = [draw(8, 4, 20, 16, seed=seed + i).requires_grad_() for i in range(3)]
        attend_short(*leaves, everything(20, 20)).square().sum().backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    alone = [work(seed) for seed in range(8)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, range(8)))
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# --- who takes which way ----------------------------------------------------------------------


def test_only_float32_on_its_way_to_a_gradient_is_fused() -> None:
    x = draw(1, 2, 4, 8).requires_grad_() * 1
    assert is_fusable(x)
    assert not is_fusable(x.double())
    assert not is_fusable(x.detach())
    assert not is_fusable(x.to("meta"))
    with torch.no_grad():
        assert not is_fusable(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_fusable(x)
    assert is_short(x, x)
    assert not is_short(x, x[:, :1])  # shared key heads
    assert not is_short(x[..., :5], x[..., :5])  # no whole vectors
    long = x.repeat(1, 1, LONGEST // 4 + 1, 1)
    assert not is_short(long, long)
    with plain_operations():
        assert not is_fusable(x)
    inside = torch.func.vmap(lambda row: row * is_fusable(row))(x)
    assert bool((inside == 0).all())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels' doors that have been used, in order."""
    seen: list[str] = []

    def watch(module: object, name: str) -> None:
        real = getattr(module, name)

        def noted(*arguments: object) -> object:
            seen.append(name)
            return real(*arguments)

        monkeypatch.setattr(module, name, noted)

    watch(attention, "attend_short")
    watch(layers, "rms_norm")
    for name in ("enter", "make_heads", "bend", "leave"):
        watch(block, name)
    return seen


def small_translator() -> tuple[nn.Module, object]:
    update = {
        "dropout": 0.0,
        "norm": "rms",
        "norm_order": "pre",
        "final_norm": True,
        "activation": "relu2",
        "qk_norm": True,
        "positions": Rotary(),
    }
    config = presets.tiny(30).model_copy(update=update)
    batch = translation_batch([[1, 2], [3, 4, 5]], [[7, 8, 2], [9, 2]], start_id=0)
    return build(config, torch.Generator().manual_seed(0)), batch


def test_training_takes_the_kernels_and_all_else_the_plain_way(calls: list[str]) -> None:
    model, batch = small_translator()
    trained = model.train().score(batch)
    assert calls.count("attend_short") == 12
    assert calls.count("rms_norm") == 2  # behind the last layers; the others are entered
    assert calls.count("enter") == 24  # of them 4 for the source
    assert calls.count("leave") == 20
    assert calls.count("make_heads") == 16
    assert calls.count("bend") == 8
    calls.clear()
    with torch.no_grad():
        model.score(batch)
    with capture(model):
        model.score(batch)
    assert "attend_short" not in calls
    calls.clear()
    measured = model.eval().score(batch)
    model.double().train().score(batch)
    assert calls == []
    torch.testing.assert_close(trained, measured, rtol=1e-4, atol=1e-5)


def test_a_whole_step_has_the_gradients_of_the_plain_operations() -> None:
    model, batch = small_translator()
    batch_loss(model, batch, 0.1).backward()
    ours = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    with plain_operations():
        batch_loss(model, batch, 0.1).backward()
    for mine, parameter in zip(ours, model.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-5)


def test_heads_are_whole_vectors_of_the_kernels() -> None:
    assert fused.LANES == arithmetic.LANES


def test_importing_the_training_loop_does_not_import_numba() -> None:
    code = "import sys, lookleft.train.loop; print('torch' in sys.modules, 'numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True False\n"


def test_kernels_are_compiled_once_for_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rms_norm(draw(1, 8).requires_grad_(), torch.ones(8), 1e-5)
    assert fused.are_kernels_compiled()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not fused.are_kernels_compiled()


def test_norms_keep_their_name_and_weights() -> None:
    ours, theirs = RMSNorm(8, eps=1e-5), nn.RMSNorm(8, eps=1e-5)
    assert repr(ours) == repr(theirs)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = draw(2, 8)
    assert torch.equal(ours(x), theirs(x))
