"""Where the tests of this folder find real corpora."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real corpora: LOOKLEFT_DATA, or shared/data beside the project."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("LOOKLEFT_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"needs the real corpora: {folder} is not there; set LOOKLEFT_DATA")
    return folder
