"""Other programs that do the same job, one adapter each; none of them is needed to install this."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str | None:
    """The installed version of a package; None if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
