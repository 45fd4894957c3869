"""Mechanisms beside those of the museum: found where the switch is on, unsuspected where it is off.

Another set of mutants than the one the audit was written against is what shows whether it
understands. A pair that is missed is a mechanism that is missing.
"""

from __future__ import annotations

import pytest
from leaky import callers, mixers
from leaky.pairs import Pair

from lookleft.audit import Verdict, audit

PAIRS = (*mixers.PAIRS, *callers.PAIRS)
MUST_BE_ASKED = {"K0", "K1", "K2", "K3", "K4", "K5", "K9"}


def test_the_pairs_are_many_and_reach_every_kind_of_check() -> None:
    names = [pair.name for pair in PAIRS]
    assert len(names) == len(set(names)) == 39
    assert {pair.check for pair in PAIRS} == MUST_BE_ASKED


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_broken_model_is_disproved_where_it_is_broken(pair: Pair) -> None:
    report = audit(pair.build(True), checks=pair.check, stop=True, **pair.options)
    assert report.verdict is Verdict.DISPROVED, str(report)
    if pair.module is not None:
        assert (report.violations[0].module or "").startswith(pair.module), str(report)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_same_model_without_its_fault_is_not_accused(pair: Pair) -> None:
    report = audit(pair.build(False), checks=pair.check, **pair.options)
    assert [str(found) for found in report.violations] == []
    assert any(found.verdict is Verdict.VERIFIED for found in report.findings), str(report)
