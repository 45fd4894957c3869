"""The bench of the training kernels measures every kernel, each both ways."""

from __future__ import annotations

import re
from itertools import islice

import pytest

from lookleft.bench import kernels
from lookleft.nn import branch, fused


def test_every_kernel_has_a_line_with_both_times() -> None:
    lines = list(kernels.measure(1, n_tokens=128))
    assert len(lines) == 12
    assert all(re.fullmatch(r".{28} +[\d.]+ -> +[\d.]+ ms   [\d.]+ times", line) for line in lines)


@pytest.mark.parametrize("number", range(2, 10))
def test_the_plain_side_uses_no_kernel_and_the_other_does(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []
    doors = [(fused, "_RmsNorm"), (fused, "_Attend"), (branch, "_Enter"), (branch, "_Leave")]
    for module, name in doors:
        real = getattr(module, name).forward

        def noted(*arguments: object, name: str = name, real: object = real) -> object:
            used.append(name)
            return real(*arguments)

        monkeypatch.setattr(getattr(module, name), "forward", staticmethod(noted))
    _, kernel, plain = next(islice(kernels.works(128), number, None))
    used.clear()
    plain()
    assert used == []
    kernel()
    assert used != []
