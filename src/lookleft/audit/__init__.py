"""Does a model see the future? An audit that stands alone: torch and nothing else of lookleft."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lookleft.audit.verdict import Finding, Report, Verdict

if TYPE_CHECKING:
    from lookleft.audit.run import NotCausalError, assert_causal, audit

__all__ = ["Finding", "NotCausalError", "Report", "Verdict", "assert_causal", "audit"]


def __getattr__(name: str) -> Any:
    """Load what needs torch on first use: the pytest plugin imports this package everywhere."""
    if name in __all__:
        return getattr(import_module("lookleft.audit.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _CallablePackage(ModuleType):
    """`lookleft.audit` is this package and the function of the same name at once."""

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        report: Report = import_module("lookleft.audit.run").audit(*args, **kwargs)
        return report


sys.modules[__name__].__class__ = _CallablePackage
