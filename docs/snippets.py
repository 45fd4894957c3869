"""Runs what the README and the docs show, so that nothing there is typed by hand.

    python docs/snippets.py            run every snippet, say what differs
    python docs/snippets.py --update   write the real output into the pages

A ```python block is run; if a ```text block follows at once, that is what it prints. Blocks of one
page share their variables. In a ```console block each line that starts with `$ ` is run by a
shell, and the lines up to the next one are what it prints. Blocks of other kinds are not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """The pages that hold runnable snippets."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rendered(page: Path) -> str:
    """The page with every output replaced by what its snippets print now."""
    text = page.read_text(encoding="utf-8")
    variables: dict[str, Any] = {"__name__": "snippet"}
    pieces, end, printed = [], 0, None
    for fence in FENCE.finditer(text):
        between = text[end : fence.start()]
        kind, body = fence[1], fence[2]
        if kind == "text" and printed is not None and not between.strip():
            body = printed
        printed = None
        if kind == "python":
            printed = run_python(body, variables, page)
        elif kind == "console":
            body = run_console(body)
        pieces.append(f"{between}```{kind}\n{body}```")
        end = fence.end()
    return "".join([*pieces, text[end:]])


def run_python(code: str, variables: dict[str, Any], page: Path) -> str:
    """What the code prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(page), "exec"), variables)
    return out.getvalue()


def run_console(body: str) -> str:
    """The block with the output of each of its commands."""
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"COLUMNS": "100", "NO_COLOR": "1"}
    lines = []
    for command in re.findall(r"^\$ (.*)$", body, re.MULTILINE):
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True
        )
        lines.append(f"$ {command}\n{done.stdout}{done.stderr}")
    return "".join(lines)


def main() -> None:
    """Check or update all pages."""
    is_update = "--update" in sys.argv[1:]
    n_stale = 0
    for page in pages():
        fresh = rendered(page)
        if fresh == page.read_text(encoding="utf-8"):
            continue
        n_stale += 1
        print(f"{'updated' if is_update else 'out of date'}: {page.relative_to(ROOT)}")
        if is_update:
            page.write_text(fresh, encoding="utf-8")
    sys.exit(0 if is_update or not n_stale else 1)


if __name__ == "__main__":
    main()
