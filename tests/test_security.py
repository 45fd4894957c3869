"""SECURITY.md promises nothing that no test keeps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def missing_tests(text: str) -> list[str]:
    """The tests that a text names and that are not there."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    return [f"{path}::{name}" for path, name in named if name not in functions_of(ROOT / path)]


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module()
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_names_a_test_that_is_there() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promises = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(promises) >= 10
    for promise in promises:
        assert "`tests/" in promise or promise.endswith("| the same |"), promise
    assert missing_tests(text) == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    here = "tests/test_security.py"
    assert missing_tests(f"`{here}::test_a_test_that_is_not_there_is_noticed`") == []
    assert missing_tests(f"`{here}::test_gone`") == [f"{here}::test_gone"]
    assert missing_tests("`tests/gone.py::test_it`") == ["tests/gone.py::test_it"]
