"""`attend_fast` is tied to `attend`: every kind of mask, type, head ratio; values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from biases import as_bias
from torch import Tensor

from lookleft.masks import Mask, causal, everything, real_keys, same_document
from lookleft.nn import attention
from lookleft.nn.attention import KV, attend, attend_fast

BATCH, WIDTH = 2, 8
# How far two right answers may lie apart: a few roundings of the type, on numbers of order 1.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.bfloat16: 6e-2,
    torch.float16: 8e-3,
}


def positions(n_queries: int, n_keys: int) -> tuple[Tensor, Tensor]:
    """The queries are the last of the keys, as on a warm cache. (1, T), (1, S)."""
    k_pos = torch.arange(n_keys)[None]
    return k_pos[:, -n_queries:] if n_queries <= n_keys else torch.arange(n_queries)[None], k_pos


def some_tokens(n_keys: int) -> Tensor:
    """One row with holes, one that is all padding. (B, S)."""
    is_token = torch.ones(BATCH, n_keys, dtype=torch.bool)
    is_token[0, 1::3] = False
    is_token[1] = False
    return is_token


MASKS: dict[str, Callable[[int, int], Mask]] = {
    "everything": everything,
    "triangle": lambda t, s: causal(*positions(t, s)),
    "window": lambda t, s: causal(*positions(t, s), window=3),
    "prefix": lambda t, s: causal(*positions(t, s), prefix=torch.tensor([2, 4])),
    "window and prefix": lambda t, s: causal(*positions(t, s), window=2, prefix=3),
    "padding": lambda t, s: real_keys(some_tokens(s), t),
    "triangle and padding": lambda t, s: causal(*positions(t, s)) & real_keys(some_tokens(s), t),
    "documents": lambda t, s: (
        causal(*positions(t, s)) & same_document(*(p // 3 for p in positions(t, s)))
    ),
    "nothing": lambda t, s: real_keys(torch.zeros(BATCH, s, dtype=torch.bool), t),
}
SIZES = [(7, 7), (3, 7), (1, 7), (7, 3), (1, 1)]


def run(
    how: Callable[..., Tensor],
    mask: Mask,
    dtype: torch.dtype,
    groups: int,
    bias_shape: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> list[Tensor]:
    """The output and the gradients of queries, keys, values and bias, in float64."""
    generator = torch.Generator().manual_seed(3)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype).requires_grad_()

    q = leaf(BATCH, 4, mask.n_queries, WIDTH)
    kv = KV(*(leaf(BATCH, groups, mask.n_keys, WIDTH) for _ in range(2)))
    bias = leaf(*bias_shape) if bias_shape else None
    out = how(q, kv, mask, bias=as_bias(bias, mask.n_queries), scale=scale)
    weights = torch.randn(out.shape, generator=generator).to(dtype)
    (out * weights).sum().backward()
    leaves = [q, *kv] if bias is None else [q, *kv, bias]
    return [out.detach().double(), *(leaf.grad.double() for leaf in leaves)]


def check_twins(mask: Mask, dtype: torch.dtype, groups: int = 2, **options: object) -> None:
    """Both ways give the same output and gradients, within the roundings of the type."""
    fast = run(attention.attend_fast, mask, dtype, groups, **options)
    plain = run(attend, mask, dtype, groups, **options)
    for one, other in zip(fast, plain, strict=True):
        scale = float(other.abs().max().clamp(min=1))
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", MASKS)
def test_the_twins_agree_on_every_mask(
    kind: str, size: tuple[int, int], dtype: torch.dtype
) -> None:
    mask = MASKS[kind](*size)
    check_twins(mask, dtype)
    check_twins(mask, dtype, bias_shape=(BATCH, 4, *size))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("scale", [None, 1.0, 0.05])
@pytest.mark.parametrize("kind", MASKS)
def test_the_twins_agree_on_every_head_ratio_and_scale(
    kind: str, scale: float | None, groups: int
) -> None:
    check_twins(MASKS[kind](7, 7), torch.float64, groups, scale=scale)


@pytest.mark.parametrize("shape", [(BATCH, 4, 7, 7), (1, 4, 7, 7), (BATCH, 1, 7, 7), (1, 4, 1, 7)])
@pytest.mark.parametrize("kind", ["triangle", "padding", "window"])
@pytest.mark.parametrize("piece", [512, 3])
def test_the_twins_agree_on_biases_that_broadcast(
    piece: int, kind: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MASK_ROWS", piece)
    check_twins(MASKS[kind](7, 7), torch.float64, bias_shape=shape)


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", MASKS)
def test_the_twins_agree_when_the_mask_goes_in_pieces(
    kind: str, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MASK_ROWS", piece)
    check_twins(MASKS[kind](7, 7), torch.float64)
    with torch.no_grad():
        q = torch.randn(BATCH, 4, 7, WIDTH, generator=torch.Generator().manual_seed(0))
        kv, mask = KV(q, q + 1), MASKS[kind](7, 7)
        torch.testing.assert_close(attend_fast(q, kv, mask), attend(q, kv, mask))


@pytest.mark.parametrize("n", [513, 1025])
def test_the_twins_agree_beyond_one_piece_of_mask(n: int) -> None:
    check_twins(MASKS["window"](n, n), torch.float64)


# --- the alarm can ring ----------------------------------------------------------------------


def lying(mask: Mask) -> Mask:
    """The same rule under the claim of being a plain triangle."""
    return Mask(mask.rows, mask.n_queries, mask.n_keys, mask.batch, is_triangle=True)


@pytest.mark.parametrize("kind", ["window", "prefix", "padding", "documents", "everything"])
def test_a_mask_that_wrongly_claims_to_be_a_triangle_is_caught(kind: str) -> None:
    with pytest.raises(AssertionError):
        check_twins(lying(MASKS[kind](7, 7)), torch.float64)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_tolerance_is_too_tight_for_a_mask_one_wider(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    pos = torch.arange(7)[None]
    monkeypatch.setattr(
        attention,
        "attend_fast",
        lambda q, kv, mask, **options: attend_fast(q, kv, causal(pos, pos, 4), **options),
    )
    with pytest.raises(AssertionError):
        check_twins(MASKS["window"](7, 7), dtype)
