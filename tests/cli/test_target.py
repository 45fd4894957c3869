"""A TARGET that is a folder: its config.json keeps to the limits that every config has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookleft.cli.target import load_target
from lookleft.errors import FileError
from lookleft.interop.hf.folder import MAX_CONFIG_BYTES, MAX_CONFIG_DEPTH

SHORT = '{"deep": 1}'


def nested(depth: int) -> str:
    return '{"deep": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (SHORT.ljust(MAX_CONFIG_BYTES), "names no model_type"),
        (SHORT.ljust(MAX_CONFIG_BYTES + 1), "has 1,000,001 bytes, the limit is 1,000,000"),
        (nested(MAX_CONFIG_DEPTH), "names no model_type"),
        (nested(MAX_CONFIG_DEPTH + 1), "nested deeper than 32"),
    ],
    ids=["as long as allowed", "one byte longer", "as deep as allowed", "one level deeper"],
)
def test_a_config_beyond_the_limits_is_refused_for_that_reason(
    config: str, reason: str, tmp_path: Path
) -> None:
    """A model of nobody: what keeps to the limits is refused for its missing type."""
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(FileError, match=reason):
        load_target(str(tmp_path))
