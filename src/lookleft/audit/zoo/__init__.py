"""The zoo: every causal and sequence-to-sequence class of a library, built tiny and audited."""

from __future__ import annotations

from lookleft.audit.zoo.build import build_tiny, class_names
from lookleft.audit.zoo.sweep import Row, sweep
from lookleft.audit.zoo.table import from_json, to_json, to_markdown

__all__ = ["Row", "build_tiny", "class_names", "from_json", "sweep", "to_json", "to_markdown"]
