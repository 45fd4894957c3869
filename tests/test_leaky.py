"""The museum is what it says: every mutant misbehaves, every twin does not. No audit involved."""

from __future__ import annotations

import pytest
import torch
from leaky import EXHIBITS, Exhibit
from leaky.brute_force import PROBES, coarseness

ROUNDING = 1e-9  # float64, other shapes
HALF = 0.03  # half precision: less is rounding


def what_is_built(exhibit: Exhibit) -> str:
    twin = exhibit.twin
    spec = exhibit.options(twin()).get("spec", "causal")
    return f"{twin.args[0].__name__} {twin.keywords} {spec} {exhibit.check == 'K11'}"


TWINS = {what_is_built(exhibit): exhibit for exhibit in EXHIBITS}.values()  # many share a twin


def name_of(exhibit: Exhibit) -> str:
    return exhibit.name


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=name_of)
def test_a_mutant_misbehaves_in_the_way_it_is_known_for(exhibit: Exhibit) -> None:
    if exhibit.check == "K11":
        assert coarseness(exhibit.mutant()) > 3 * coarseness(exhibit.twin())
        return
    assert PROBES[exhibit.check](exhibit, exhibit.mutant().double()) > ROUNDING


@pytest.mark.parametrize("exhibit", TWINS, ids=name_of)
def test_a_twin_behaves_in_every_way_that_can_be_probed(exhibit: Exhibit) -> None:
    if exhibit.check == "K11":
        assert coarseness(exhibit.twin()) < HALF
    for check, probe in PROBES.items():
        assert probe(exhibit, exhibit.twin().double()) <= ROUNDING, check


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=name_of)
def test_mutant_and_twin_have_the_same_weights_where_they_share_parts(exhibit: Exhibit) -> None:
    mutant, twin = exhibit.mutant().state_dict(), exhibit.twin().state_dict()
    if mutant.keys() == twin.keys():
        assert all(torch.equal(mutant[name], twin[name]) for name in mutant)
    else:
        assert mutant.keys() & twin.keys()  # the fault is a part of its own


def test_every_exhibit_has_a_name_of_its_own_and_a_public_thread() -> None:
    assert len({exhibit.name for exhibit in EXHIBITS}) == len(EXHIBITS) >= 60
    for exhibit in EXHIBITS:
        assert exhibit.threads, exhibit.name
        assert all(t.startswith("https://github.com/") for t in exhibit.threads), exhibit.name
