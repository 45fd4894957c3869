"""What can keep a sentence from being shown: one error with a code that the page knows."""

from __future__ import annotations

from typing import Any, Literal

from lookleft.errors import InputError

Code = Literal["empty", "too_long", "bad_request", "cannot", "unknown_model", "unknown_trace"]

LIMIT = 64  # tokens shown without asking
HARD_LIMIT = 256  # tokens shown at all: a window moves over them
MAX_CHARACTERS = 4_000
MAX_NEW = 64  # tokens that a model may be asked to write


class ExploreError(InputError):
    """A request that cannot be shown; `details` carry the offending values."""

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.details = code, details

    def to_json(self) -> dict[str, Any]:
        """The error as the page reads it."""
        return {"error": {"code": self.code, "message": str(self), **self.details}}
