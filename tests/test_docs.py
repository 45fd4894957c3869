"""Every snippet in the README and the docs runs, and prints what the page says it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def named_pages(part: Any) -> Iterator[str]:
    """The pages of a navigation, in order: lists of mappings from a title to a page or a list."""
    if isinstance(part, str):
        yield part
        return
    for child in part if isinstance(part, list) else part.values():
        yield from named_pages(child)


def test_the_site_leads_to_every_page_once() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / "docs"
    assert sorted(named_pages(settings["nav"])) == sorted(
        str(page.relative_to(docs)) for page in docs.rglob("*.md")
    ), "name new pages in mkdocs.yml"


FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def build_site(settings: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    command += ["--config-file", str(settings), "--site-dir", str(site)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    built = build_site(ROOT / "mkdocs.yml", tmp_path)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert FETCHED.findall(text) == [], page.name
    assert "मैं" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert FETCHED.search('<script src="https://elsewhere.example/a.js"></script>')


def test_a_link_that_leads_nowhere_stops_the_site(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[lost](nowhere.md)\n")
    settings = tmp_path / "mkdocs.yml"
    settings.write_text("site_name: small\n")
    built = build_site(settings, tmp_path / "site")
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
