"""`lookleft bench` at tiny sizes: every job runs, and says what it should."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path

import pytest

from lookleft.bench import audit as audit_file
from lookleft.bench import scale as scale_file
from lookleft.bench import train as train_file
from lookleft.bench.alternate import Times
from lookleft.bench.scale import (
    Comparison,
    compare_attention,
    compare_generation,
    compare_training,
)
from lookleft.bench.tables import as_table
from lookleft.cli.bench import audit, scale, train
from lookleft.errors import InputError
from lookleft.models import presets

TINY = {"width": 64, "layers": 1}
SPREAD = {"median", "low", "high"}


def test_the_audit_spends_forwards_that_grow_with_the_logarithm_of_the_length_at_most(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one_forward = cycle([0.5, 0.25, 0.75, 0.25, 1.0])  # seconds; the fastest counts
    monkeypatch.setattr(audit_file, "_seconds", lambda call: next(of_one_forward))
    audit(lengths="16,32,64", **TINY, json_=True)
    cells = json.loads(capsys.readouterr().out)["cells"]
    quick = {cell["length"]: cell["forwards"] for cell in cells if cell["job"] == "audit --quick"}
    assert list(quick) == [16, 32, 64]
    steps = [quick[2 * length] - quick[length] for length in (16, 32)]
    assert max(steps) <= 12  # per doubling; one forward per position would add 32 in the last
    full = [cell for cell in cells if cell["job"] == "audit"]
    assert [cell["length"] for cell in full] == [16]
    assert full[0]["forwards"] > quick[16]
    for cell in cells:
        assert set(cell) == {"job", "length", "forwards", "ratio_to_one_forward", "seconds"}
        assert cell["ratio_to_one_forward"] == 4 * cell["seconds"] > 0


@pytest.mark.parametrize("lengths", ["", "64,x", "4"])
def test_lengths_that_make_no_sense_are_refused(lengths: str) -> None:
    with pytest.raises(InputError, match="--lengths"):
        audit(lengths=lengths, **TINY)


def test_training_is_measured_beside_marian_on_the_same_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train(rounds=1, steps=1, tokens=256, threads=1, json_=True)
    found = json.loads(capsys.readouterr().out)
    ratio = found["lookleft"] / found["peers"]["transformers"]
    assert found["ratio"]["transformers"] == pytest.approx(dict.fromkeys(SPREAD, ratio))
    assert found["peak_share"].keys() == SPREAD
    assert 0 <= found["padding"] < 0.3
    train(rounds=1, steps=1, tokens=256, threads=1)
    assert "MarianMTModel" in capsys.readouterr().out
    with pytest.raises(InputError, match="tokens=100"):
        train(tokens=100)


def test_figures_of_training_follow_from_the_times(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def alternate(ways: Mapping[str, Callable[[], object]], *options: object) -> Times:
        assert ways.keys() == {"lookleft", "marian", "peak"}
        return Times({"lookleft": [2.0, 4.0], "marian": [3.0, 12.0], "peak": [0.5, 0.5]})

    monkeypatch.setattr(train_file, "alternate", alternate)
    train(rounds=2, steps=1, tokens=256, threads=1, json_=True)
    found = json.loads(capsys.readouterr().out)
    [[batch]] = train_file.caption_groups(steps=1, tokens=256, n_micro=1)
    assert found["lookleft"] == pytest.approx(batch.n_targets / 3.0)
    assert found["peers"]["transformers"] == pytest.approx(batch.n_targets / 7.5)
    assert found["ratio"]["transformers"] == {"median": 2.25, "low": 1.5, "high": 3.0}
    useful = train_file.useful_operations(presets.tiny(train_file.VOCABULARY), batch)
    of_peak = useful / (train_file.PEAK_REPEATS * 2 * train_file.PEAK_SIZE**3)
    shares = {"median": 0.1875 * of_peak, "low": 0.125 * of_peak, "high": 0.25 * of_peak}
    assert found["peak_share"] == pytest.approx(shares)


def test_lengths_are_compared_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scale(quick=True, out=tmp_path)
    said = capsys.readouterr()
    assert [said.out.count(job) for job in ("training", "attention", "generation")] == [1, 1, 1]
    jobs = json.loads((tmp_path / "scale.json").read_text())["jobs"]
    assert {job["job"] for job in jobs} == {"training", "attention", "generation"}
    for job in jobs:
        assert job["max_difference"] < 1e-5  # the two ways give the same
    memory = {line["name"]: line["exponent"] for line in jobs[1]["lines"]}
    assert memory["written out"] == pytest.approx(2.0, abs=0.05)
    assert memory["fused"] < 1.5
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert drawn == [
        "scale-attention-bytes.svg",
        "scale-generation-seconds.svg",
        "scale-training-bytes.svg",
        "scale-training-seconds.svg",
    ]


def test_lengths_that_take_too_long_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_file, "TOO_SLOW", 0.0)
    for compare in (compare_training, compare_attention, compare_generation):
        found = compare((4, 8, 16))
        assert [length for length, _ in found.lines[0].points] == [4]
        assert found.left_out == (8, 16)
        assert as_table(found).endswith("8, 16\n")


def test_a_comparison_survives_being_written_and_read() -> None:
    found = compare_generation((4, 8))
    assert Comparison.from_json(json.loads(json.dumps(found.as_json()))) == found
