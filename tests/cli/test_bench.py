"""`lookleft bench` at tiny sizes: every job runs, and says what it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
