"""The record that describes one broken model of the museum and its repaired twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

Build = Callable[[], nn.Module]  # seeds itself: two calls give equal weights
Options = Mapping[str, Any] | Callable[[nn.Module], Mapping[str, Any]]


@dataclass(frozen=True)
class Exhibit:
    """A bug that was really made, in the smallest model that shows it, beside the model without."""

    name: str
    mutant: Build
    twin: Build
    module: str  # dotted name of the module at fault; "" where only the whole model can be blamed
    threads: tuple[str, ...]  # public reports of the mechanism
    check: str  # the check of the audit that should catch it: "K1", "K3", ...
    story: str  # what went wrong and where
    symptom: str  # how it looks to somebody who does not know
    audit_options: Options = field(default_factory=dict)

    def options(self, model: nn.Module) -> dict[str, Any]:
        """The keyword arguments for an audit of `model`, which is the mutant or the twin."""
        given = self.audit_options
        return dict(given(model) if callable(given) else given)


def github(*threads: str) -> tuple[str, ...]:
    """Addresses of threads written as "owner/project/issues/7" or "owner/project/pull/7"."""
    return tuple(f"https://github.com/{thread}" for thread in threads)
