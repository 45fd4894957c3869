"""`attend` against plain loops; hidden means exactly zero; wrong sizes are refused by name."""

from __future__ import annotations

import math
import re

import pytest
import reference
import torch
from biases import as_bias
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lookleft.errors import InputError
from lookleft.masks import Mask, causal, everything, real_keys
from lookleft.nn.attention import (
    KV,
    Attention,
    Bias,
    attend,
    attend_fast,
    capture,
    merge_heads,
    split_heads,
)

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@st.composite
def cases(draw_one: st.DrawFn) -> tuple[Tensor, KV, Mask]:
    """Queries, keys and values of any small size, with a mask that may blind whole rows."""
    batch, n_queries, n_keys, width = (draw_one(st.integers(1, 4)) for _ in range(4))
    groups, times = draw_one(st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2)]))
    seed = draw_one(st.integers(0, 1000))
    q = draw(batch, groups * times, n_queries, width, seed=seed)
    kv = KV(
        draw(batch, groups, n_keys, width, seed=seed + 1),
        draw(batch, groups, n_keys, width, seed=seed + 2),
    )
    bits = st.lists(st.booleans(), min_size=n_keys, max_size=n_keys)
    is_token = torch.tensor([draw_one(bits) for _ in range(batch)])
    q_pos = torch.arange(n_queries)[None] + draw_one(st.integers(0, 2))
    mask = causal(q_pos, torch.arange(n_keys)[None]) & real_keys(is_token, n_queries)
    return q, kv, mask


@given(case=cases(), scale=st.sampled_from([None, 1.0, 0.3]), has_bias=st.booleans())
def test_attention_equals_the_plain_loops(
    case: tuple[Tensor, KV, Mask], scale: float | None, has_bias: bool
) -> None:
    q, kv, mask = case
    shape = (q.size(0), q.size(1), q.size(2), kv.keys.size(2))
    bias = draw(*shape, seed=9) if has_bias else None
    expected, expected_weights = reference.attend(q, *kv, mask.allowed, scale, bias)
    tapped: dict[str, Tensor] = {}
    added = as_bias(bias, q.size(2))
    out = attend(q, kv, mask, scale=scale, bias=added, tap=tapped.__setitem__)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(tapped["weights"], expected_weights, rtol=0, atol=1e-12)
    assert bool((tapped["weights"].masked_select(~mask.allowed.expand(shape)) == 0).all())
    fast = attend_fast(q, kv, mask, scale=scale, bias=added)
    torch.testing.assert_close(fast, expected, rtol=0, atol=1e-12)


def scores_of(size: float, dtype: torch.dtype) -> tuple[Tensor, KV, Mask]:
    """Five keys, all of which score -size where visible; hidden ones would score +size."""
    width = 4
    part = math.sqrt(size / width)
    q = torch.full((1, 1, 5, width), part, dtype=dtype)
    keys = torch.full((1, 1, 5, width), -part, dtype=dtype)
    keys[:, :, 4] = part  # hidden from all but the last query, and by far the best match
    pos = torch.arange(5)[None]
    return q, KV(keys, draw(1, 1, 5, width, dtype=dtype)), causal(pos, pos)


LOWEST = {  # the lowest scores that each type can be asked to hide beneath
    torch.float16: [1e4, 60_000.0],
    torch.bfloat16: [1e9, 3e38],
    torch.float32: [1e9, 3e38],
    torch.float64: [1e9, 3e38, 1e300],
}


@pytest.mark.parametrize(
    ("dtype", "size"), [(dtype, size) for dtype, sizes in LOWEST.items() for size in sizes]
)
def test_hidden_keys_weigh_exactly_nothing_however_low_the_visible_scores(
    dtype: torch.dtype, size: float
) -> None:
    q, kv, mask = scores_of(size, dtype)
    tapped: dict[str, Tensor] = {}
    plain = attend(q, kv, mask, scale=1.0, tap=tapped.__setitem__)
    weights = tapped["weights"]
    assert float(tapped["scores"][0, 0, 0, 0]) < -0.9 * size  # the case is as hard as it says
    assert bool((weights[..., :4, :].masked_select(~mask.allowed[..., :4, :]) == 0).all())
    # The first query sees only itself: what comes out is the first value, bit for bit.
    for out in (plain, attend_fast(q, kv, mask, scale=1.0)):
        assert bool(out.isfinite().all())
        assert torch.equal(out[0, 0, 0], kv.values[0, 0, 0])


def test_a_finite_constant_in_place_of_minus_infinity_would_be_caught() -> None:
    """The same case through the mask of many a codebase: -1e9 is not low enough."""
    q, kv, mask = scores_of(3e38, torch.float32)
    scores = q @ kv.keys.mT
    weights = scores.masked_fill(~mask.allowed, -1e9).softmax(-1)
    assert not bool((weights[..., :4, :].masked_select(~mask.allowed[..., :4, :]) == 0).all())


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("how", [attend, attend_fast])
def test_blind_rows_get_zeros_and_finite_gradients(
    how: object, dtype: torch.dtype, has_bias: bool
) -> None:
    q, keys, values = (draw(2, 2, 3, 4, seed=i, dtype=dtype).requires_grad_() for i in range(3))
    bias = draw(2, 2, 3, 3, seed=4, dtype=dtype).requires_grad_() if has_bias else None
    is_token = torch.tensor([[True, True, True], [False, False, False]])
    pos = torch.tensor([[1, 0, 2], [0, 1, 2]])
    mask = causal(pos, pos + 1) & real_keys(is_token, 3)  # row 0: query 1 is blind; row 1: all
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        out = how(q, KV(keys, values), mask, bias=as_bias(bias, 3))
        out.float().square().sum().backward()
    is_blind = ~mask.allowed.any(-1)[:, 0]  # (B, T)
    assert is_blind.tolist() == [[False, True, False], [True, True, True]]
    assert bool((out.transpose(1, 2)[is_blind] == 0).all())
    for leaf in (q, keys, values, bias):
        assert leaf is None or bool(leaf.grad.isfinite().all())
    assert bool((q.grad.transpose(1, 2)[is_blind] == 0).all())
    assert bool((values.grad[1] == 0).all())


NAMES = ["q", "k", "v", "scores", "masked_scores", "weights", "out"]


def make_attention(**options: object) -> Attention:
    torch.manual_seed(0)
    return Attention(12, 4, 2, 3, **options).double()


def test_captured_intermediates_are_those_of_a_hand_computation() -> None:
    module = nn.ModuleDict({"one": make_attention(), "other": make_attention()})
    x, pos = draw(2, 5, 12), torch.arange(5)[None]
    is_token = torch.tensor([[True] * 5, [False] * 5])
    mask = causal(pos, pos) & real_keys(is_token, 5)
    layer = module["one"]
    before = layer(x, layer.keys_values(x), mask)
    with capture(module) as seen:
        after = layer(x, layer.keys_values(x), mask)
    assert sorted(seen) == sorted(f"one.{name}" for name in NAMES)
    got = {name: seen[f"one.{name}"][0] for name in NAMES}

    q = layer.to_q(x).view(2, 5, 4, 3).transpose(1, 2)
    keys = layer.to_k(x).view(2, 5, 2, 3).transpose(1, 2)
    values = layer.to_v(x).view(2, 5, 2, 3).transpose(1, 2)
    scores = torch.einsum("bhtk,bhsk->bhts", q, keys.repeat_interleave(2, 1)) / math.sqrt(3)
    out, weights = reference.attend(q, keys, values, mask.allowed)
    masked = torch.where(mask.allowed, scores, -math.inf)
    by_hand = dict(zip(NAMES, (q, keys, values, scores, masked, weights, out), strict=True))
    for name, expected in by_hand.items():
        torch.testing.assert_close(got[name], expected, rtol=0, atol=1e-12, msg=name)
        assert not got[name].requires_grad
    torch.testing.assert_close(before, after, rtol=0, atol=1e-12)
    torch.testing.assert_close(after, layer.to_out(merge_heads(got["out"])), rtol=0, atol=1e-12)


def test_capture_ends_with_its_block_even_after_an_error() -> None:
    layer = make_attention()
    x, mask = draw(1, 2, 12), everything(2, 2)
    with capture(layer) as seen, pytest.raises(InputError):
        layer(x, layer.keys_values(x), everything(3, 2))
    n_seen = sum(map(len, seen.values()))
    layer(x, layer.keys_values(x), mask)
    assert sum(map(len, seen.values())) == n_seen


def test_heads_split_and_merge_back_to_the_same() -> None:
    x = draw(2, 5, 12)
    heads = split_heads(x, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[:, 1], x[..., 4:8])
    assert torch.equal(merge_heads(heads), x)


def test_attention_dropout_works_in_training_alone() -> None:
    layer = make_attention(dropout=0.5)
    x, pos = draw(1, 6, 12), torch.arange(6)[None]
    kv, mask = layer.keys_values(x), causal(pos, pos)
    torch.manual_seed(0)
    assert not torch.equal(layer.train()(x, kv, mask), layer(x, kv, mask))
    assert torch.equal(layer.eval()(x, kv, mask), layer(x, kv, mask))


# --- wrong sizes -----------------------------------------------------------------------------


@given(st.data())
def test_wrong_sizes_are_refused_with_both_named(data: st.DataObject) -> None:
    size = st.integers(1, 3)
    q_shape = tuple(data.draw(size) for _ in range(4))
    k_shape = tuple(data.draw(size) for _ in range(4))
    n_queries, n_keys, rows = data.draw(size), data.draw(size), data.draw(size)
    q, keys = torch.zeros(q_shape), torch.zeros(k_shape)
    mask = real_keys(torch.ones(rows, n_keys, dtype=torch.bool), n_queries)
    fits = (
        (q_shape[0], q_shape[3]) == (k_shape[0], k_shape[3])
        and q_shape[1] % k_shape[1] == 0
        and (n_queries, n_keys) == (q_shape[2], k_shape[2])
        and rows in (1, q_shape[0])
    )
    for how in (attend, attend_fast):
        if fits:
            assert how(q, KV(keys, keys), mask).shape == q_shape
            continue
        with pytest.raises(InputError) as caught:
            how(q, KV(keys, keys), mask)
        numbers = {int(n) for n in re.findall(r"\d+", str(caught.value))}
        wrong_pairs = [
            {q_shape[0], k_shape[0]} if q_shape[0] != k_shape[0] else set(),
            {q_shape[3], k_shape[3]} if q_shape[3] != k_shape[3] else set(),
            {q_shape[1], k_shape[1]} if q_shape[1] % k_shape[1] else set(),
            {n_queries, q_shape[2]} if n_queries != q_shape[2] else set(),
            {n_keys, k_shape[2]} if n_keys != k_shape[2] else set(),
            {rows, q_shape[0]} if rows not in (1, q_shape[0]) else set(),
        ]
        assert any(pair and pair <= numbers for pair in wrong_pairs), str(caught.value)


def test_keys_and_values_that_differ_are_refused() -> None:
    q, mask = torch.zeros(1, 2, 3, 4), everything(3, 3)
    keys = torch.zeros(1, 2, 3, 4)
    for kv in (
        KV(keys, torch.zeros(1, 2, 3, 5)),
        KV(keys.double(), keys.double()),
        KV(keys, keys.half()),
    ):
        for how in (attend, attend_fast):
            with pytest.raises(InputError, match="differ"):
                how(q, kv, mask)
    with pytest.raises(InputError, match=r"\(3, 4\)"):
        attend(q[0, 0], KV(keys, keys), mask)


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (2, 2, 3, 3), (1, 3, 1, 3), (3, 3), (1, 2, 2, 3)])
def test_a_bias_that_does_not_fit_is_refused_with_both_sizes(shape: tuple[int, ...]) -> None:
    x = torch.zeros(1, 2, 3, 4)
    for how in (attend, attend_fast):
        with pytest.raises(InputError, match=re.escape(f"{shape} cannot be added")) as caught:
            how(x, KV(x, x), everything(3, 3), bias=Bias(lambda *_: torch.zeros(shape), 3))
        assert "(1, 2, 3, 3)" in str(caught.value)
