"""The one-file page: everything inside, nothing fetched, every sentence only ever text."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from explore.speakers import HINDI, trace_of, translator, writer

from lookleft.errors import FileError
from lookleft.explore.notebook import Explanation, explain
from lookleft.explore.one_file import widest_scope
from lookleft.explore.page import Page, data_text
from lookleft.explore.service import Explorer
from lookleft.explore.trace import Trace

MARKUP = '<script>alert(1)</script><!--</script> & "quoted"'
INDEX = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lookleft</title>
<script type="module" crossorigin src="./assets/app-1.js"></script>
<link rel="stylesheet" crossorigin href="./assets/app-2.css"></head>
<body><div id="app"></div><noscript><!--lookleft:noscript--></noscript><!--lookleft:data--></body>
</html>"""
STYLE = """@font-face{font-family:N;src:url(./noto-sans-devanagari-x.woff2) format("woff2")}
@font-face{font-family:N;src:url(./noto-latin-y.woff2) format("woff2")}body{margin:0}"""


@pytest.fixture
def page(tmp_path: Path) -> Page:
    (tmp_path / "assets").mkdir()
    files = {
        "index.html": INDEX.encode(),
        "assets/app-1.js": b'const end = "</script>"; document.title = end',
        "assets/app-2.css": STYLE.encode(),
        "assets/noto-sans-devanagari-x.woff2": b"devanagari",
        "assets/noto-latin-y.woff2": b"latin",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return Page(tmp_path)


@cache
def parts() -> tuple[Explorer, Trace]:
    """A sentence seen from the second layer; made once, because its audit takes a while."""
    shown = explain(translator(), "I am", HINDI, layer=1)
    return shown.explorer, shown.trace


class Reader(HTMLParser):
    """What a browser would find in a page: elements, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script" and data.strip():
            self.scripts.append(data)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="lookleft-data">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


def test_nothing_is_fetched_from_anywhere(page: Page) -> None:
    text = Explanation(*parts(), page).html()
    for tag, attributes in Reader(text).elements:
        assert tag != "link"
        assert not attributes.keys() & {"src", "href", "action"}
    assert not re.search(r"url\((?!data:)", text)
    assert "http" not in text.replace("http-equiv", "")
    assert "connect-src" not in text  # default-src 'none' covers it
    assert "default-src 'none'" in text.replace("&#x27;", "'")


def test_the_data_inside_is_the_trace(page: Page) -> None:
    explorer, trace = parts()
    data = data_of(Explanation(explorer, trace, page).html("layer"))
    assert data["views"][0]["trace"]["id"] == trace.id
    places = {(head["kind"], head["layer"]) for head in data["views"][0]["heads"]}
    assert places == {("decoder_self", 1), ("cross", 1), ("encoder_self", 1)}
    assert data["audit"]["verdict"] == "VERIFIED"
    assert data["beam"]["nodes"]


def test_markup_in_a_sentence_stays_text(page: Page) -> None:
    shown = explain(translator(), MARKUP, MARKUP)
    text = Explanation(shown.explorer, shown.trace, page).html("head")
    assert data_of(text)["views"][0]["trace"]["source"]["text"] == MARKUP
    scripts = [a for tag, a in Reader(text).elements if tag == "script"]
    assert len(scripts) == 2  # the page's own and its data
    assert "alert(1)</script>" not in text


def test_the_script_cannot_end_its_own_element(page: Page) -> None:
    text = Explanation(*parts(), page).html("head")
    assert 'const end = "<\\/script>"' in text


def test_the_devanagari_font_comes_only_with_devanagari(page: Page) -> None:
    assert page.one_file({"text": HINDI}).count("data:font/woff2") == 2
    assert page.one_file({"text": "the cat"}).count("data:font/woff2") == 1


def test_a_picture_can_bring_its_font(page: Page, tmp_path: Path) -> None:
    shown = Explanation(*parts(), page)
    assert "data:font/woff2;base64,ZGV2YW5hZ2FyaQ==" in shown.svg(has_font=True)
    assert "data:" not in shown.svg()
    with pytest.raises(FileError, match="make web"):
        Page(tmp_path / "nowhere").font_style()


def test_data_holds_no_markup_and_reads_back() -> None:
    value = {"a": MARKUP, "b": [1.5, None]}
    assert "<" not in data_text(value)
    assert json.loads(data_text(value)) == value


def test_the_table_without_scripts_shows_words_as_words(page: Page) -> None:
    shown = explain(writer(), "<b>cat</b> sat")
    text = Explanation(shown.explorer, shown.trace, page).html("head")
    assert "<td>hidden</td>" in text
    assert not [tag for tag, _ in Reader(text).elements if tag == "b"]


def test_a_page_that_was_not_built_says_what_to_do(tmp_path: Path) -> None:
    shown = Explanation(*parts(), Page(tmp_path))
    with pytest.raises(FileError, match="make web"):
        shown.save(tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()
    assert "<svg" in shown._repr_html_()  # a notebook still gets a picture


def test_a_build_of_another_shape_is_refused(page: Page) -> None:
    (page.folder / "index.html").write_text(INDEX.replace("app-1.js", "../x"), encoding="utf-8")
    with pytest.raises(FileError, match="names 0 files"):
        page.one_file({})


def test_large_models_send_fewer_heads() -> None:
    trace = trace_of(writer())
    assert widest_scope(trace) == "all"
    long = trace_of(writer(), target="the cat sat on the mat " * 40, long="window")
    assert widest_scope(long) in ("layer", "head")


def test_a_notebook_gets_a_frame_that_reaches_nothing(page: Page) -> None:
    frame = Explanation(*parts(), page)._repr_html_()
    (tag, attributes), *rest = Reader(frame).elements
    assert (tag, rest) == ("iframe", [])
    assert attributes["sandbox"] == "allow-scripts allow-downloads"
    assert data_of(attributes["srcdoc"] or "")["version"] == 1
