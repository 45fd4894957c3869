"""What every test relies on: one thread, repeatable Hypothesis runs, where real corpora lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# One thread: bitwise comparisons must not depend on how work was split among cores.
torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real corpora: LOOKLEFT_DATA, or shared/data beside the project."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LOOKLEFT_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"needs the real corpora: {folder} is not there; set LOOKLEFT_DATA")
    return folder
