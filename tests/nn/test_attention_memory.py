"""The fused twin needs memory linear in the length: no matrix of queries x keys ever exists."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from lookleft.config import Relative
from lookleft.masks import Mask, causal, real_keys
from lookleft.nn.attention import KV, attend, attend_fast
from lookleft.nn.positions import RelativeBias

SHORT, LONG = 2048, 4096
WIDTH = 4


def triangle(n: int) -> Mask:
    pos = torch.arange(n)[None]
    return causal(pos, pos)


def window(n: int) -> Mask:
    pos = torch.arange(n)[None]
    return causal(pos, pos, window=64)


def padded(n: int) -> Mask:
    return triangle(n) & real_keys(torch.arange(n)[None] % 5 > 0, n)


def with_relative_bias(q: Tensor, kv: KV, mask: Mask) -> Tensor:
    pos = torch.arange(q.size(2))[None]
    module = RelativeBias(Relative(), n_heads=1, is_bidirectional=False)
    return attend_fast(q, kv, mask, bias=module.between(pos, pos))


def peak_bytes(
    how: Callable[..., Tensor], make_mask: Callable[[int], Mask], n: int, to: Path
) -> int:
    """The most that tensors took at one time, above the start, forward and backward."""
    q, keys, values = (torch.randn(1, 1, n, WIDTH, requires_grad=True) for _ in range(3))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        how(q, KV(keys, values), make_mask(n)).sum().backward()
    watched.export_chrome_trace(str(to))
    events = json.loads(to.read_text())["traceEvents"]
    held = sorted(
        (event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]"
    )
    now = peak = 0
    for _, size in held:
        now += size
        peak = max(peak, now)
    return peak


def check_linear(how: Callable[..., Tensor], make_mask: Callable[[int], Mask], to: Path) -> None:
    """Twice the length, twice the memory (four times would be quadratic)."""
    short, long = (peak_bytes(how, make_mask, n, to) for n in (SHORT, LONG))
    assert short > SHORT * WIDTH * 4, "the measurement misses even the output"
    assert long < 2.5 * short, f"{short:,} bytes for {SHORT} positions, {long:,} for {LONG}"


@pytest.mark.slow
@pytest.mark.parametrize("make_mask", [triangle, window, padded])
def test_memory_grows_in_line_with_the_length(
    make_mask: Callable[[int], Mask], tmp_path: Path
) -> None:
    check_linear(attend_fast, make_mask, tmp_path / "trace.json")


@pytest.mark.slow
def test_a_relative_bias_is_never_written_out_whole(tmp_path: Path) -> None:
    check_linear(with_relative_bias, triangle, tmp_path / "trace.json")


@pytest.mark.slow
@pytest.mark.parametrize("make_mask", [triangle, window])
def test_attention_in_full_view_is_quadratic_and_the_check_says_so(
    make_mask: Callable[[int], Mask], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=f"bytes for {SHORT} positions"):
        check_linear(attend, make_mask, tmp_path / "trace.json")


@pytest.mark.slow
def test_a_long_triangle_needs_a_small_part_of_its_matrix(tmp_path: Path) -> None:
    used = peak_bytes(attend_fast, triangle, LONG, tmp_path / "trace.json")
    assert used < LONG * LONG * 4 / 40
