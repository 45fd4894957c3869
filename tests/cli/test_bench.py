"""`lookleft bench audit` at a tiny size: it runs, and the audit's cost hardly grows with length."""

from __future__ import annotations

import json

import pytest

from lookleft.cli.bench import bench
from lookleft.errors import InputError

TINY = {"width": 64, "layers": 1}


def test_the_audit_spends_forwards_that_grow_with_the_logarithm_of_the_length_at_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench("audit", lengths="16,32,64", **TINY, json_=True)
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
        bench("audit", lengths=lengths, **TINY)
