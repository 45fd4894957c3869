"""The choice between two steps of beams, compiled, against the one that numpy makes."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from lookleft.engine.beams import follow_beams
from lookleft.engine.records import JOB, job_at
from lookleft.engine.search import BeamSearch
from lookleft.generate.best import Best
from lookleft.generate.paths import Candidates, Paths

B, W, N = 4, 3, 6  # requests, beam, candidates


@njit
def _follow(address: int) -> None:
    follow_beams(job_at(address), 0)


def chosen(best: Best, sums: np.ndarray, end: int = -1) -> Candidates | None:
    """What compiled code goes on with; None if it leaves the choice to others."""
    search = BeamSearch(N, np.zeros((B * W, 0)), np.full((B * W, 1), end), sums, n_steps=2)
    search.logits[0], search.ids[0], search.norms[0] = best
    ids, position = np.zeros(B * W, np.int64), np.full(B * W, 4)
    table = np.arange(B * W * 8, dtype=np.int32).reshape(B * W, 8)
    before, job = table.copy(), np.zeros(1, JOB)
    job["n_rows"], job["table_width"], job["table"] = B * W, 8, table.ctypes.data
    job["ids"], job["position"] = ids.ctypes.data, position.ctypes.data
    search.fill(job)
    _follow(job.ctypes.data)
    if search.n_done == 1:
        assert not ids.any()  # nobody has moved
        np.testing.assert_array_equal(table, before)
        return None
    found = Candidates(*search.went_on(0))
    rows = (found.parents + np.arange(B)[:, None] * W).reshape(-1)
    np.testing.assert_array_equal(ids, found.ids.reshape(-1))
    assert (position == 5).all()
    np.testing.assert_array_equal(table[:, :5], before[rows, :5])  # what was read goes along
    np.testing.assert_array_equal(table[:, 5:], before[:, 5:])  # what will be stays
    return found


def expected(best: Best, sums: np.ndarray) -> Candidates:
    nothing = np.zeros((B, W, 0))
    paths = Paths(sums, nothing.astype(np.int64), nothing, np.zeros(B, np.int64))
    return paths.continued(best, N).first(W)


def some(seed: int, kind: str = "plain") -> tuple[Best, np.ndarray]:
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(B * W, N)).astype(np.float32)
    norms = (draw.normal(size=B * W) + 4).astype(np.float32)
    sums = -draw.random((B, W))
    if kind == "ties":
        logits, norms, sums = np.rint(logits), np.rint(norms), np.rint(sums)
    if kind == "odd":  # what one hypothesis of a request may bring, while others are fine
        row = int(draw.integers(B)) * W
        logits[row, int(draw.integers(N))] = draw.choice([np.inf, -np.inf, np.nan])
        norms[row] = draw.choice([np.inf, np.nan, 4.0])
    if kind == "dead":
        sums[:, 1] = -np.inf
    logits = -np.sort(-logits, axis=1)  # NaN goes to the end, as the least
    ids = draw.permuted(np.tile(np.arange(50), (B * W, 1)), axis=1)[:, :N]
    return Best(logits, ids, norms), sums


@pytest.mark.parametrize("kind", ["plain", "ties", "odd", "dead"])
def test_compiled_code_goes_on_as_numpy_does(kind: str) -> None:
    n_made = 0
    for seed in range(60):
        best, sums = some(seed, kind)
        found, wanted = chosen(best, sums), expected(best, sums)
        if found is None:
            assert not np.isfinite(wanted.totals).all()
            continue
        n_made += 1
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, two)
    assert n_made > 40


def test_where_an_end_is_among_the_candidates_nobody_moves() -> None:
    for seed in range(20):
        best, sums = some(seed)
        ids = expected(best, sums).ids
        assert chosen(best, sums, end=99) is not None
        assert chosen(best, sums, end=int(ids[-1, -1])) is None
