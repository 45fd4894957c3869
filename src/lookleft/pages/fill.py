"""A template with its parts put in: what every report of this package is made by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lookleft.pages.fonts import devanagari_face, has_devanagari


def fill_page(template: Path, parts: Mapping[str, str]) -> str:
    """The template with `<!--style-->` and every other such mark replaced by its part, as HTML.

    Parts must be escaped by whoever makes them; so they hold no such mark of their own. If there is
    Hindi in them, its font comes along.
    """
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    if has_devanagari("".join(parts.values())):
        style = (devanagari_face() or "") + style
    page = template.read_text(encoding="utf-8").replace("<!--style-->", style)
    for name, part in parts.items():
        page = page.replace(f"<!--{name}-->", part)
    return page
