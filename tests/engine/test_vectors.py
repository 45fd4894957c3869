"""What is written for one processor computes what it does on every other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine.products import ENCODE, encoded, numbers, product, ways
from llvmlite import binding
from numba import cfunc, njit, types

from lookleft.engine import tiles, vectors
from lookleft.engine.encode import encode_block, encode_bytes
from lookleft.engine.heads import (
    FOUR_ADDRESSES,
    FOUR_FLOATS,
    add_four,
    add_four_narrow,
    copy_narrow,
    four_dots,
    four_narrow_dots,
)
from lookleft.engine.vectors import Machine

# Each can do what those before it can.
MACHINES = list(Machine)[: list(Machine).index(vectors.machine()) + 1]
Compile = Callable[[Callable[[], Any]], Any]


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def compile_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """What a function returns that compiles at once, for one machine after the other."""

    def compile_it(make: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(vectors, "machine", lambda: request.param)
            return make()

    return compile_it


def test_products_are_the_same_to_the_last_bit(compile_for: Compile) -> None:
    signature = types.void(*[types.int64] * tiles.N_ARGUMENTS)
    code = compile_for(lambda: cfunc(signature, nopython=True)(tiles.tiles).address)
    for n_rows in (1, 7, 12, 50):
        x = numbers(n_rows, 96)
        for matrix, is_narrow in ways(40, 96):
            here = product(matrix, x, is_narrow=is_narrow)
            there = product(matrix, x, code=code, is_narrow=is_narrow)
            np.testing.assert_array_equal(there, here)


def test_codes_are_the_same_to_the_last_bit(compile_for: Compile) -> None:
    wide = compile_for(lambda: njit(ENCODE)(lambda s, t, c, u: encode_block(s, t, c, u)))
    narrow = compile_for(lambda: njit(ENCODE)(lambda s, t, c, u: encode_bytes(s, t, c, u)))
    x = numbers(5, 96)
    x[1, 3], x[2, 40] = np.nan, -np.inf
    for encode, is_narrow in ((wide, False), (narrow, True)):
        here, there = (encoded(x, code, is_narrow=is_narrow) for code in (None, encode))
        is_number = np.isfinite(here[1])  # what stands beside a scale of NaN is never used
        for mine, other in zip(here, there, strict=True):
            per_block = mine.reshape(5, 3, -1)[is_number]
            np.testing.assert_array_equal(per_block, other.reshape(5, 3, -1)[is_number])
        np.testing.assert_array_equal(here[1], there[1])


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("width", [5, 16, 24, 64])
def test_heads_are_what_plain_loops_make_of_them(
    compile_for: Compile, width: int, is_narrow: bool
) -> None:
    i64 = types.int64
    multiply = four_narrow_dots if is_narrow else four_dots
    add = add_four_narrow if is_narrow else add_four
    dots = compile_for(
        lambda: njit(FOUR_FLOATS(i64, FOUR_ADDRESSES, i64))(lambda q, k, n: multiply(q, k, n))
    )
    mix = compile_for(
        lambda: njit(types.void(i64, FOUR_FLOATS, FOUR_ADDRESSES, i64))(
            lambda o, w, v, n: add(o, w, v, n)
        )
    )
    query, rows, weights = numbers(width), numbers(4, width, seed=1), numbers(4, seed=2)
    if is_narrow:
        narrow = compile_for(
            lambda: njit(types.void(i64, i64, i64))(lambda s, t, n: copy_narrow(s, t, n))
        )
        wide, rows = rows, np.zeros((4, width), np.float16)
        for row, target in zip(wide, rows, strict=True):
            narrow(row.ctypes.data, target.ctypes.data, width)
        np.testing.assert_array_equal(rows, wide.astype(np.float16))
    places = tuple(row.ctypes.data for row in rows)
    found = dots(query.ctypes.data, places, width)
    meant = rows.astype(np.float32)
    np.testing.assert_allclose(found, meant @ query, rtol=1e-5, atol=1e-5)
    out, before = numbers(width, seed=3), numbers(width, seed=3)
    mix(out.ctypes.data, tuple(weights), places, width)
    np.testing.assert_allclose(out, before + weights @ meant, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(
    Machine.AVX512 not in MACHINES,
    reason="runs on a CPU with AVX-512 and VNNI; elsewhere all tests run without",
)
def test_the_engine_passes_its_tests_as_if_it_had_no_wide_registers() -> None:
    features = binding.get_host_cpu_features()
    kept = {name: has and not name.startswith("avx512") for name, has in features.items()}
    flags = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(kept.items()))
    environment = {**os.environ, "NUMBA_CPU_FEATURES": flags, "NUMBA_CPU_NAME": "x86-64-v3"}
    run = "from lookleft.engine.vectors import machine; print(machine().name)"
    found = subprocess.check_output([sys.executable, "-c", run], env=environment, text=True)
    assert found.strip() == "AVX2"
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    subprocess.run([*tests, "tests/engine/test_runner.py"], env=environment, check=True)
