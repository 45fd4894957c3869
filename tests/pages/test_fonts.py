"""Hindi can be read on machines without a font for it."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from lookleft.pages import fill
from lookleft.pages.fonts import devanagari_face

FONT = b"a font"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "noto-sans-devanagari-x.woff2").write_bytes(FONT)
    return tmp_path


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text("<style><!--style--></style><p><!--text--></p>", encoding="utf-8")
    return path


def test_the_font_is_inside_the_style_sheet(built: Path) -> None:
    face = devanagari_face(built)
    assert face is not None
    assert f"base64,{b64encode(FONT).decode()}" in face
    assert devanagari_face(built / "nowhere") is None


@pytest.mark.parametrize(("text", "has_font"), [("मैं ठीक हूँ", True), ("I am fine", False)])
def test_a_page_brings_the_font_if_there_is_hindi_in_it(
    text: str, has_font: bool, built: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "devanagari_face", lambda: devanagari_face(built))
    page = fill.fill_page(template, {"text": text})
    assert ("@font-face" in page) == has_font
    assert text in page


def test_a_page_is_made_where_there_is_no_font_to_bring(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "devanagari_face", lambda: None)
    page = fill.fill_page(template, {"text": "मैं ठीक हूँ"})
    assert "मैं ठीक हूँ" in page
    assert "@font-face" not in page
