"""Products in bfloat16: near float32, the same by both ways, and nothing else is narrow."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lookleft.nn.fused import narrow_rows, plain_operations, surprise_rows, widen_rows
from lookleft.nn.narrow import Linear, linear, narrow_products, narrowed
from lookleft.train.loss import surprise

ROUNDING = 2**-8  # the largest relative error of one number with 8 bits


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def there_and_back(x: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    """What `linear` gives, and its gradients by all that it is given."""
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias) if each is not None]
    out = linear(*leaves) if bias is not None else linear(*leaves, None)
    out.backward(draw(*out.shape, seed=9))
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


CASES = {
    "rows": (draw(40, 24), draw(16, 24, seed=1), draw(16, seed=2)),
    "a batch without bias": (draw(3, 7, 24), draw(16, 24, seed=1), None),
    "columns that lie apart": (draw(24, 40).mT, draw(24, 16, seed=1).mT, draw(16, seed=2)),
    "one row": (draw(1, 8), draw(1, 8, seed=1), draw(1, seed=2)),
    "no rows": (draw(0, 8), draw(4, 8, seed=1), draw(4, seed=2)),
}


@pytest.mark.parametrize("case", CASES)
def test_narrow_products_are_near_wide_ones(case: str) -> None:
    wide = there_and_back(*CASES[case])
    with narrow_products():
        narrow = there_and_back(*CASES[case])
    for one, other in zip(wide, narrow, strict=True):
        assert other.dtype == torch.float32
        assert (one - other).norm() <= ROUNDING * one.norm()


@pytest.mark.parametrize("case", CASES)
def test_the_plain_twin_rounds_where_the_fast_one_does(case: str) -> None:
    with narrow_products():
        fast = there_and_back(*CASES[case])
        with plain_operations():
            plain = there_and_back(*CASES[case])
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_the_bias_and_its_gradient_are_not_rounded() -> None:
    x, weight, bias = torch.zeros(2, 8), torch.zeros(4, 8), torch.tensor([1.001, 2.003, 3.0, 4.0])
    bias.requires_grad_()
    with narrow_products():
        out = linear(x, weight, bias)
    assert torch.equal(out, bias.expand(2, 4))
    out.backward(torch.full((2, 4), 1.001))
    assert torch.equal(bias.grad, torch.full((4,), 2.002))


def test_other_precisions_and_other_places_are_left_alone() -> None:
    x, weight, bias = draw(5, 8), draw(4, 8, seed=1), draw(4, seed=2)
    layer = Linear(8, 4)
    with narrow_products():
        assert narrowed(x).dtype == torch.bfloat16
        assert narrowed(x.double()).dtype == torch.float64
        wide = linear(x.double(), weight.double(), bias.double())
        assert torch.equal(wide, F.linear(x.double(), weight.double(), bias.double()))
        rough = layer(x)
        with ThreadPoolExecutor(1) as pool:  # another thread is another place
            elsewhere = pool.submit(layer, x).result()
    assert torch.equal(elsewhere, F.linear(x, layer.weight, layer.bias))
    assert torch.equal(layer(x), elsewhere)
    assert not torch.equal(rough, elsewhere)
    assert narrowed(x) is x


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    x, weight = draw(5, 8), draw(4, 8, seed=1).requires_grad_()
    with narrow_products():
        linear(x, weight, None).sum().backward()
        assert not linear(x, weight.detach(), None).requires_grad
    assert x.grad is None
    assert weight.grad is not None


def test_derivatives_of_transforms_are_those_of_the_plain_twin() -> None:
    x, weight = draw(5, 8), draw(4, 8, seed=1)

    def total(matrix: Tensor) -> Tensor:
        return linear(x, matrix, None).square().sum()

    leaf = weight.clone().requires_grad_()
    with narrow_products():
        total(leaf).backward()
        torch.testing.assert_close(torch.func.grad(total)(weight), leaf.grad, rtol=1e-6, atol=1e-6)


def test_rows_are_narrowed_as_torch_does_it_and_widened_exactly() -> None:
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 3.4e38, -3.4e38, 1e-40]
    halfway = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8]  # of two equally near ones, the even one
    exponents = torch.linspace(-37, 37, 500)
    numbers = [*special, *halfway, *(draw(500) * 10**exponents).tolist()]
    rows = torch.tensor(numbers)[None]
    narrow, total = narrow_rows(rows)
    expected = rows.to(torch.bfloat16)
    assert total is None
    torch.testing.assert_close(narrow[:1], expected, rtol=0, atol=0, equal_nan=True)
    assert narrow[0, :2].signbit().tolist() == [False, True]  # also of zeros
    assert not narrow[1:].any()
    wide = widen_rows(narrow, 1)
    torch.testing.assert_close(wide, expected.float(), rtol=0, atol=0, equal_nan=True)


def test_sums_of_rows_are_made_before_they_are_narrowed() -> None:
    rows, bias = draw(100, 24), draw(24, seed=1)
    narrow, total = narrow_rows(rows, is_summed=True)
    assert len(narrow) == 128
    torch.testing.assert_close(total, rows.sum(0))
    assert torch.equal(widen_rows(narrow, 100, bias), rows.to(torch.bfloat16).float() + bias)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_passes", [1, 2])
def test_cross_entropy_of_narrow_logits_is_that_of_the_same_numbers(
    smoothing: float, n_passes: int
) -> None:
    logits, targets = (3 * draw(n_passes, 20, 50)).to(torch.bfloat16), torch.arange(20)
    cost, error = surprise(logits.double(), targets, smoothing, rdrop=3.0)
    found = logits.clone()
    made = surprise_rows(found, targets, smoothing, rdrop=3.0)
    assert made == pytest.approx(cost.item(), rel=1e-6)
    assert (found.double() - error).abs().max() <= ROUNDING * error.abs().max()
    found = logits.clone()
    found[-1, 3, 4] = math.nan
    assert math.isnan(surprise_rows(found, targets, smoothing, rdrop=3.0))
