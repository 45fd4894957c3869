"""Every form of a report says the same thing, and survives whatever a model's names contain."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lookleft.audit.html import to_html
from lookleft.audit.junit import to_junit
from lookleft.audit.report import (
    Cell,
    cells,
    json_text,
    to_json,
    to_text,
    write_text,
)
from lookleft.audit.verdict import Culprit, DependencyMap, Finding, Report, Verdict
from lookleft.errors import FileError, LookleftError

NASTY = "<b onload='x'>&\"]]>\x00\x1b[31m\ud800\ufffe--><!--table-->\n${x}"
CULPRIT = Culprit(
    module="blocks.0.attn",
    kind="Attention",
    op="softmax",
    place="model.py:41",
    others=("blocks.0.attn", "blocks.1.attn"),
    depth=(("embed", 0.0), ("blocks.0.attn", 0.5), ("blocks.0", 0.25)),
)


def triangle(n: int, *leaks: tuple[int, int]) -> DependencyMap:
    used = tuple(tuple(float(j <= i or (i, j) in leaks) for j in range(n)) for i in range(n))
    return DependencyMap(used, tuple(tuple(j <= i for j in range(n)) for i in range(n)))


def finding(
    verdict: Verdict, check: str = "K1", configuration: str = "eval", **more: object
) -> Finding:
    return Finding(check, "future-swap", configuration, verdict, f"because {check}", **more)  # type: ignore[arg-type]


def leaky(**more: object) -> Finding:
    values: dict[str, object] = {
        "worst": 0.5,
        "pair": (3, 4),
        "detection_limit": 1e-12,
        "cause": "one super-diagonal: off by one",
        "culprit": CULPRIT,
        "snippet": "import torch\nassert leak == 0",
        "dependencies": triangle(6, (3, 4)),
    }
    return finding(Verdict.DISPROVED, **{**values, **more})


def report(
    *findings: Finding, target: str = "pkg.mod:build", notes: tuple[str, ...] = ()
) -> Report:
    return Report(target, findings, 1.5, 20, notes)


MIXED = report(
    leaky(),
    finding(Verdict.VERIFIED, "K2", worst=0.0),
    finding(Verdict.INCONCLUSIVE, "K3", worst=math.nan),
    finding(Verdict.SKIPPED, "K6"),
    notes=("left padding needs positions",),
)


def test_text_shows_the_evidence_for_a_violation() -> None:
    text = to_text(MIXED)
    assert text.startswith("DISPROVED  pkg.mod:build\n")
    for evidence in ("blocks.0.attn (Attention)", "softmax at model.py:41", "off by one", "3<-4"):
        assert evidence in text
    assert "    assert leak == 0" in text
    assert "because K3" in text
    assert "because K6" in text
    assert "note: left padding needs positions" in text


def test_text_draws_the_leak_at_its_place() -> None:
    rows = re.findall(r"^ {2,5}(\d+) ([#o. ]+)$", to_text(report(leaky())), re.MULTILINE)
    assert [row[::2] for _, row in rows] == ["o", "oo", "ooo", "oooo#", "ooooo", "oooooo"]


def test_text_never_claims_a_proof_and_says_that_inconclusive_is_no_pass() -> None:
    text = to_text(report(finding(Verdict.VERIFIED), finding(Verdict.INCONCLUSIVE, "K2")))
    assert "PROVED" not in text.replace("DISPROVED", "")
    assert "not a proof for all inputs" in " ".join(text.split())
    assert "It is not a pass" in text


def test_text_tells_one_story_once_for_many_configurations() -> None:
    text = to_text(report(leaky(), leaky(configuration="train")))
    assert text.count("FAILED") == 1
    assert text.count("import torch") == 1
    assert re.search(r"also in +train", text)


def test_text_repeats_a_map_or_snippet_of_another_check_not_even_once() -> None:
    text = to_text(report(leaky(), leaky(check="K2")))
    assert text.count("FAILED") == 2
    assert text.count("reads input j") == 1
    assert text.count("import torch") == 1


def test_text_says_what_was_probed_where_nothing_was_found() -> None:
    assert "VERIFIED  K2 future-swap: because K2" in to_text(MIXED)


def test_text_cannot_steer_the_terminal() -> None:
    text = to_text(report(leaky(cause=NASTY), target=NASTY, notes=(NASTY,)))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    text.encode("utf-8")


def test_a_single_leak_stays_visible_when_cells_cover_several_positions() -> None:
    grid, step = cells(triangle(100, (10, 90)), limit=20)
    assert step == 5
    assert [len(row) for row in grid] == [20] * 20
    assert [
        (i, j) for i, row in enumerate(grid) for j, cell in enumerate(row) if cell is Cell.LEAK
    ] == [(2, 18)]


def test_cells_tell_four_cases_apart_and_count_nan_as_used() -> None:
    grid, _ = cells(DependencyMap(((1.0, 0.0), (math.nan, 0.0)), ((True, True), (False, False))), 9)
    assert grid == [[Cell.USED, Cell.UNUSED], [Cell.LEAK, Cell.HIDDEN]]


def test_an_empty_map_and_an_empty_report_can_be_shown() -> None:
    for subject in (report(), report(leaky(dependencies=DependencyMap((), ())))):
        assert to_text(subject)
        assert to_html(subject)
        assert to_junit(subject)


def test_json_has_the_promised_keys_and_is_strictly_valid() -> None:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(json_text(MIXED), parse_constant=refuse)
    assert {"target", "verdict", "checks", "seconds", "schema"} <= set(found)
    assert found["verdict"] == "DISPROVED"
    first = found["checks"][0]
    assert {"check", "configuration", "verdict", "worst", "pair", "module", "reason"} <= set(first)
    assert first["detection_limit"] == 1e-12
    assert first["pair"] == [3, 4]
    assert first["module"] == "blocks.0.attn"
    assert found["checks"][2]["worst"] is None
    assert found["checks"][2]["worst_text"] == "nan"


def test_json_survives_infinite_numbers_everywhere() -> None:
    worst = leaky(
        worst=math.inf,
        detection_limit=math.nan,
        culprit=Culprit("m", "M", depth=(("m", math.inf),)),
    )
    json.dumps(to_json(Report("t", [worst], math.inf)), allow_nan=False)


def test_junit_marks_failure_error_and_skip() -> None:
    suite = ET.fromstring(to_junit(MIXED))[0]
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "because K1"
    assert "model.py:41" in (failure.text or "")


@pytest.mark.parametrize("findings", [(), (finding(Verdict.SKIPPED),)])
def test_junit_is_not_green_when_nothing_was_examined(findings: tuple[Finding, ...]) -> None:
    assert ET.fromstring(to_junit(report(*findings)))[0].get("errors") == "1"


def test_junit_is_well_formed_for_any_text() -> None:
    nasty = leaky(configuration=NASTY, snippet=NASTY, cause=NASTY)
    root = ET.fromstring(to_junit(report(nasty, target=NASTY, notes=(NASTY,))).encode("utf-8"))
    assert "<b onload='x'>&" in (root.find(".//failure").text or "")  # type: ignore[union-attr]


class Page(HTMLParser):
    """Collects tags, and everything that could make a browser fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetches: list[str] = []
        self.headings: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetches += [f"{tag} {k}={v}" for k, v in attrs if k in ("src", "href", "srcset")]
        if tag == "th":
            self.headings.append(dict(attrs))
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_needs_no_network_and_closes_every_tag() -> None:
    text = to_html(MIXED)
    page = Page(text)
    assert page.open == []
    assert page.fetches == []
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_html_escapes_every_text() -> None:
    nasty = Finding(
        NASTY,
        NASTY,
        NASTY,
        Verdict.DISPROVED,
        NASTY,
        cause=NASTY,
        culprit=Culprit(NASTY, NASTY, NASTY, NASTY, (NASTY,), ((NASTY, 1.0),)),
        snippet=NASTY,
        dependencies=triangle(3, (0, 2)),
    )
    quiet = Finding("K2", NASTY, NASTY, Verdict.VERIFIED, NASTY, dependencies=triangle(3))
    text = to_html(report(nasty, quiet, target=NASTY, notes=(NASTY,)))
    text.encode("utf-8")
    assert "b" not in Page(text).tags
    assert Page(text).open == []
    assert text.count('<table class="findings">') == 1


def test_html_tables_say_what_their_headings_head() -> None:
    headings = Page(to_html(MIXED)).headings
    assert headings
    assert all(heading.get("scope") in ("col", "row") for heading in headings)


def test_html_map_differs_without_colour_and_marks_the_worst_pair() -> None:
    text = to_html(report(leaky()))
    assert 'fill="url(#pattern-leak)" d="M40 30h10v10h-10z"' in text
    assert '<rect class="worst" x="40" y="30"' in text
    patterns = re.findall(r'<pattern id="pattern-(\w+)".*?</pattern>', text, re.DOTALL)
    assert patterns == ["leak", "used", "unused"]
    assert "1 forbidden pairs are used" in text


def test_html_shows_maps_that_look_alike_once() -> None:
    louder = DependencyMap(
        tuple(tuple(2 * use for use in row) for row in triangle(6, (3, 4)).used),
        triangle(6).allowed,
    )
    alike = to_html(report(leaky(), leaky(configuration="train", dependencies=louder)))
    other = to_html(report(leaky(), leaky(configuration="train", dependencies=triangle(6, (0, 5)))))
    assert alike.count('class="map"') == 1
    assert other.count('class="map"') == 2


def test_html_layer_bar_points_at_the_culprit() -> None:
    assert '<span class="first" title="blocks.0.attn: 0.5">' in to_html(MIXED)


def test_html_layer_bar_survives_a_culprit_that_was_not_recorded() -> None:
    lost = Culprit("elsewhere", "M", depth=(("a", 0.0), ("b", 0.0)))
    assert Page(to_html(report(leaky(culprit=lost)))).open == []


def test_report_writes_each_form_to_a_file(tmp_path: Path) -> None:
    MIXED.to_json(tmp_path / "r.json")
    MIXED.to_junit(tmp_path / "r.xml")
    MIXED.to_html(str(tmp_path / "r.html"))
    assert json.loads((tmp_path / "r.json").read_text())["target"] == "pkg.mod:build"
    assert ET.parse(tmp_path / "r.xml").getroot().tag == "testsuites"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json", "r.xml"]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_scrap(tmp_path: Path) -> None:
    old = tmp_path / "r.txt"
    old.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_text(old, "\ud800")
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.txt"]


def test_writing_where_no_file_can_be_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="missing"):
        write_text(tmp_path / "missing" / "r.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="folder"):
        write_text(tmp_path / "folder", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_violations_raise_an_assertion_that_carries_the_evidence() -> None:
    with pytest.raises(AssertionError, match=r"model\.py:41") as caught:
        MIXED.raise_for_violations()
    assert isinstance(caught.value, LookleftError)
    assert caught.value.__notes__ == [str(MIXED)]
    report(finding(Verdict.VERIFIED)).raise_for_violations()


def test_str_of_a_report_is_its_text() -> None:
    assert str(MIXED) == to_text(MIXED)
