"""`lookleft bench` at tiny sizes: every job runs, and says what it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lookleft.bench import scale as scale_file
from lookleft.bench.scale import (
    Comparison,
    compare_attention,
    compare_generation,
    compare_training,
)
from lookleft.bench.tables import as_table
from lookleft.cli.bench import audit, scale, train
from lookleft.errors import InputError

TINY = {"width": 64, "layers": 1}


def test_the_audit_spends_forwards_that_grow_with_the_logarithm_of_the_length_at_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
        assert cell["ratio_to_one_forward"] > cell["forwards"] / 10
        assert cell["seconds"] > 0


@pytest.mark.parametrize("lengths", ["", "64,x", "4"])
def test_lengths_that_make_no_sense_are_refused(lengths: str) -> None:
    with pytest.raises(InputError, match="--lengths"):
        audit(lengths=lengths, **TINY)


def test_training_is_measured_beside_marian_on_the_same_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train(rounds=1, steps=1, tokens=256, threads=1, json_=True)
    found = json.loads(capsys.readouterr().out)
    assert found["lookleft"] > 0
    assert found["peers"]["transformers"] > 0
    assert set(found["ratio"]["transformers"]) == {"median", "low", "high"}
    assert 0 < found["peak_share"]["median"] < 1
    assert 0 <= found["padding"] < 0.3
    train(rounds=1, steps=1, tokens=256, threads=1)
    assert "MarianMTModel" in capsys.readouterr().out
    with pytest.raises(InputError, match="tokens=100"):
        train(tokens=100)


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
