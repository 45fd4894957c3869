"""The page in a real browser: what it needs, a server for it, and the tests in web/e2e."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lookleft.explore.page import Page
from lookleft.explore.server import LocalServer
from lookleft.explore.service import Explorer

WEB = Path(__file__).parents[2] / "web"


def needs() -> str | None:
    """What is missing for these tests, and how to get it; None if nothing is."""
    if shutil.which("node") is None or not (WEB / "node_modules").is_dir():
        return "the page's tests need Node 20 and its packages: install node, then `make web`"
    if shutil.which("chromium") is None:
        return "the page's tests need a browser: install chromium"
    if not Page().is_built:
        return "the page is not built: `make web`"
    return None


@contextmanager
def serving(explorer: Explorer) -> Iterator[str]:
    """The address of the explorer's page while the block runs."""
    with LocalServer(explorer, port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{server.address}/"
        finally:
            server.shutdown()
            thread.join()


def write_facts(file: Path, facts: dict[str, Any]) -> Path:
    """Tell the browser's side what was prepared for it; get the file."""
    told = {"chromium": shutil.which("chromium"), **facts}
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


def run_part(part: str, prepared: Path) -> None:
    """Run web/e2e/PART.test.ts, and show what it says if it fails."""
    vitest = [str(WEB / "node_modules" / ".bin" / "vitest"), "run"]
    done = subprocess.run(
        [*vitest, "--config", "vitest.e2e.config.ts", f"e2e/{part}.test.ts"],
        cwd=WEB,
        env={**os.environ, "LOOKLEFT_PREPARED": str(prepared), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
