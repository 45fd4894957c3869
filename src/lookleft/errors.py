"""The errors lookleft raises on purpose: each says what, where, why, and what to type next."""

from __future__ import annotations


class LookleftError(Exception):
    """Base of all errors a user can cause; the command line prints its text without a traceback."""

    exit_code = 1


class InputError(LookleftError, ValueError):
    """A value handed to a function or command is out of range, of the wrong shape or kind."""

    exit_code = 2


class ConfigError(LookleftError, ValueError):
    """A configuration names an unknown key or a combination that cannot be built."""

    exit_code = 3


class FileError(LookleftError):
    """A file is missing, truncated, oversized, or says one thing and holds another."""

    exit_code = 3


class MissingExtraError(LookleftError, ImportError):
    """An optional package is needed for this and is not installed."""

    exit_code = 4

    def __init__(self, job: str, extra: str, missing: str) -> None:
        super().__init__(
            f"{job} needs an extra package: pip install 'lookleft[{extra}]'   (missing: {missing})"
        )
