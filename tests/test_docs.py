"""Every snippet in the README and the docs runs, and prints what the page says it prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import snippets  # noqa: E402


@pytest.mark.parametrize("page", snippets.pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_prints_what_it_says(page: Path) -> None:
    assert snippets.rendered(page) == page.read_text(encoding="utf-8"), (
        "run: make docs, and read what changed"
    )


def test_a_page_with_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert snippets.rendered(page) == "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n"


@pytest.mark.parametrize("page", snippets.pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
