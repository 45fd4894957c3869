"""Transformers that only look left, and the proof that they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lookleft.errors import LookleftError

__version__ = "0.1.0"

__all__ = ["LookleftError", "__version__", "assert_causal", "audit", "explain", "load"]

if TYPE_CHECKING:
    from lookleft.api import load
    from lookleft.audit.run import assert_causal, audit
    from lookleft.explore.notebook import explain

# Imported when first used, so that `import lookleft` and `lookleft --help` need no torch.
_WHERE = {
    "assert_causal": "lookleft.audit.run",
    "audit": "lookleft.audit.run",
    "explain": "lookleft.explore.notebook",
    "load": "lookleft.api",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'lookleft' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
