"""Every broken model of the museum is found out, at the right place; no honest twin is accused."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from leaky import EXHIBITS, Exhibit
from leaky.audited import accusations, first_violation

from lookleft.audit import Finding

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import make_museum

# Found, but without the name of a module.
NOT_LOCALISED: tuple[str, ...] = ()
# Not found. Both are empty: what is entered here, with its reason, is asserted to stay missed.
NOT_CAUGHT: tuple[str, ...] = ()

BY_NAME = {exhibit.name: exhibit for exhibit in EXHIBITS}


@cache
def found_in(name: str) -> Finding | None:
    """What the audit says first about a mutant; asked once, used by two tests."""
    return first_violation(BY_NAME[name])


def is_inside(module: str | None, expected: str) -> bool:
    return module is not None and (module == expected or module.startswith(f"{expected}."))


def twins(*, by_check: bool) -> list[Exhibit]:
    """One exhibit for every different twin; with `by_check` one for every check it faces."""
    kinds = {}
    for exhibit in EXHIBITS:
        twin = exhibit.twin
        key = (twin.args, str(twin.keywords), str(exhibit.options(twin()).get("spec")))
        kinds[(*key, exhibit.check) if by_check else key] = exhibit
    return list(kinds.values())


def test_the_museum_counts_seventy_two_exhibits_of_which_none_is_missed() -> None:
    names = [exhibit.name for exhibit in EXHIBITS]
    assert len(names) == len(set(names)) == 72
    assert {*NOT_CAUGHT, *NOT_LOCALISED} <= set(names)
    assert (len(NOT_CAUGHT), len(NOT_LOCALISED)) == (0, 0)
    assert len(twins(by_check=False)) == 36


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_a_mutant_is_disproved_where_its_fault_is(exhibit: Exhibit) -> None:
    finding = found_in(exhibit.name)
    if exhibit.name in NOT_CAUGHT:
        assert finding is None, "caught now: take it off the list"
        return
    assert finding is not None
    if exhibit.name in NOT_LOCALISED:
        assert finding.module is None, "localised now: take it off the list"
    elif exhibit.module:
        assert is_inside(finding.module, exhibit.module)


@pytest.mark.parametrize("exhibit", twins(by_check=True), ids=lambda e: f"{e.check} {e.name}")
def test_a_twin_passes_the_check_its_mutant_fails(exhibit: Exhibit) -> None:
    assert accusations(exhibit, exhibit.check) == []


@pytest.mark.slow
@pytest.mark.parametrize("exhibit", twins(by_check=False), ids=lambda exhibit: exhibit.name)
def test_a_twin_is_accused_of_nothing_by_the_whole_audit(exhibit: Exhibit) -> None:
    assert accusations(exhibit, None) == []


def test_a_mutant_in_the_place_of_its_twin_would_be_noticed() -> None:
    exhibit = EXHIBITS[0]
    swapped = replace(exhibit, mutant=exhibit.twin, twin=exhibit.mutant)
    assert accusations(swapped, swapped.check, quick=True)


def test_the_page_shows_every_exhibit_in_order_and_counts_right() -> None:
    page = make_museum.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^### (.+)$", page, re.MULTILINE) == [*map(make_museum.title, EXHIBITS)]
    placeable = {exhibit.name for exhibit in EXHIBITS if exhibit.module}
    placed = len(placeable - {*NOT_CAUGHT, *NOT_LOCALISED})
    claim = (
        f"**{len(EXHIBITS)} exhibits; the audit finds {len(EXHIBITS) - len(NOT_CAUGHT)}, and names "
        f"the module at fault for {placed} of the {len(placeable)} where there is one to name.**"
    )
    assert claim in page.replace("\n", " ")


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_the_page_prints_the_verdict_of_today(exhibit: Exhibit) -> None:
    page = make_museum.PAGE.read_text(encoding="utf-8")
    section = page.split(f"### {make_museum.title(exhibit)}\n", 1)[1].split("\n#", 1)[0]
    line = make_museum.verdict_line(exhibit, found_in(exhibit.name))
    assert f"```text\n{line}\n" in section, "run: python docs/make_museum.py"
