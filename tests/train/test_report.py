"""The report, its curves, the samples and the model card: from the run folder, escaped, offline."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from small_runs import small_settings, write_pairs

from lookleft.bundle import Bundle
from lookleft.files import append_line, write_json
from lookleft.pages.charts import Curve, draw_chart, short, ticks
from lookleft.train.card import to_markdown, write_card
from lookleft.train.judge import Opinion, Sample
from lookleft.train.report import clock, sittings, to_html
from lookleft.train.run import Run
from lookleft.train.samples import read_samples, samples_of, write_samples

HOSTILE = "<script>alert(1)</script> & \t\n मैं ठीक हूँ।"


def judge(bundle: Bundle) -> Opinion:
    sample = Sample("a < b", "मैं ठीक हूँ।", HOSTILE)
    return Opinion(bleu=12.5, chrf=34.5, signature="BLEU|nrefs:1|tok:intl", samples=(sample,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with a judge that says the same of every model."""
    here = tmp_path_factory.mktemp("report")
    settings = small_settings(write_pairs(here / "pairs.tsv"), data__source="en", data__target="hi")
    run = Run.start(here / "run", settings)
    run.results.judge = judge
    list(run.train())
    return here / "run"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.languages: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.languages += [value or "" for name, value in attrs if name == "lang"]


def test_the_report_is_there_after_every_evaluation_and_needs_nothing_else(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert "script" not in tags.names
    assert tags.links == []
    assert "http" not in re.sub(r"<meta[^>]*>", "", text)
    assert tags.names.count("svg") == 4  # loss, quality, rate, speed
    assert "<!--" not in text  # every mark of the template was filled
    assert {"hi", "en"} <= set(tags.languages)
    assert "BLEU|nrefs:1|tok:intl" in text
    assert "मैं ठीक हूँ।" in text
    assert "prefers-color-scheme: dark" in text


def test_every_drawing_of_the_report_is_sound_xml(folder: Path) -> None:
    drawings = re.findall(r"<svg class=\"chart\".*?</svg>", to_html(folder), re.DOTALL)
    assert len(drawings) == 4  # loss, quality, rate, speed
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        assert root.get("aria-label")
        paths = [path.get("d", "") for path in root.iter("path")]
        numbers = [float(n) for path in paths for n in re.findall(r"-?\d+\.\d", path)]
        assert len(numbers) >= 4, drawing  # a curve has two points at least, of two numbers each
        assert all(0 <= n <= 400 for n in numbers)


def test_a_model_that_peeks_is_called_so_in_report_and_card(tmp_path: Path) -> None:
    settings = small_settings(
        write_pairs(tmp_path / "pairs.tsv"), model__mask="none", train__steps="2"
    )
    list(Run.start(tmp_path / "run", settings).train())
    assert "peeks at the future" in to_html(tmp_path / "run")
    assert "peeks at the future" in to_markdown(tmp_path / "run")


def test_the_card_has_a_head_that_is_yaml_and_the_figures_that_were_measured(folder: Path) -> None:
    write_json(folder / "audit.json", {"verdict": "VERIFIED", "checks": [1, 2, 3]})
    write_card(folder)
    text = (folder / "model" / "README.md").read_text(encoding="utf-8")
    assert text.startswith('---\nlanguage:\n- "en"\n- "hi"\nlibrary_name: lookleft\n')
    assert '- {type: bleu, name: "BLEU", value: 12.5000}' in text
    assert "| chrF++ | 34.50 |" in text
    assert "**VERIFIED** by `lookleft audit --quick` on the trained weights, 3 checks" in text
    marks = json.loads((folder / "data.json").read_text())
    assert all(mark in text for mark in marks.values())
    assert "Audit of the trained weights" in to_html(folder)


def test_the_mean_of_checkpoints_and_what_dev_chose_are_called_so(
    folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folder, tmp_path / "run", symlinks=True))
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    mean = json.loads(rows[-1]) | {"n_averaged": 3}
    append_line(folder / "metrics.jsonl", json.dumps(mean))
    write_json(folder / "scores.json", mean | {"signature": "BLEU|tok:13a"})
    write_json(folder / "model" / "generation_config.json", {"length_penalty": 1.4, "num_beams": 5})
    page = to_html(folder)
    assert "Scores of the mean of the last 3 checkpoints, at step 4" in page
    assert '<th scope="row">4, mean of 3</th>' in page
    assert "to the power 1.4, which the dev set chose for a beam of 5" in to_markdown(folder)


def test_samples_come_back_as_they_went_but_for_line_breaks(folder: Path, tmp_path: Path) -> None:
    assert [list(read_samples(folder)), samples_of(folder, 1)] == [[2, 4], []]
    write_samples(tmp_path, 7, [Sample("a\tb", "c\nd", "मैं")])
    assert samples_of(tmp_path, 7) == [Sample("a b", "c d", "मैं")]
    write_samples(tmp_path, 8, [])
    assert list(read_samples(tmp_path)) == [7]


def test_a_sitting_is_what_began_at_one_step() -> None:
    rows = [{"since": n, "seconds": s} for n, s in ((0, 1.0), (0, 5.0), (7, 6.0), (7, 9.0))]
    assert sittings(rows) == [rows[1], rows[3]]  # though its clock passed that of the first
    assert sittings([]) == []
    assert [clock(59), clock(3_723)] == ["0:59", "1:02:03"]


def test_ticks_are_round_and_span_the_values() -> None:
    for low, high in [(0.0, 1.0), (3.21, 7.9), (-2.0, 5.0), (1e-5, 3e-3), (4.0, 4.0), (0.0, 8e6)]:
        marks = ticks(low, high)
        assert marks[0] <= low
        assert marks[-1] >= high
        assert 2 <= len(marks) <= 7
    assert [short(n) for n in (0, 12_000, 2_500_000, 0.5, 3e-5, 1_234)] == [
        "0", "12k", "2.5M", "0.5", "3.0e-05", "1,234",
    ]  # fmt: skip


def test_a_curve_without_finite_points_is_not_drawn() -> None:
    assert draw_chart("Loss", [Curve("x", [])]) == ""
    assert draw_chart("Loss", [Curve("x", [(1.0, float("nan"))])]) == ""
    assert "<circle" in draw_chart("Loss", [Curve("x", [(1.0, 2.0)])])
    many = draw_chart("Loss", [Curve("<x>", [(float(n), 1.0 / (n + 1)) for n in range(5_000)])])
    assert many.count("L") < 500
    assert "<x>" not in many
