"""What every test relies on: one thread, repeatable Hypothesis runs, where real corpora lie.

With LOOKLEFT_NO_SKIPS=1, as CI has it, a test that is skipped has failed, unless nobody could have
installed what it lacks.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from hypothesis import settings

# One thread: bitwise comparisons must not depend on how work was split among cores.
torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("repeatable")

NO_CORPORA = (
    "needs corpora that are not part of the project (Multi30k, Tiny Shakespeare, TinyStories and "
    "others): LOOKLEFT_DATA names their folder, and CONTRIBUTING.md says what lies in it"
)
# How the reasons begin that no installation can take away.
ALLOWED_SKIPS = (
    "runs on a CPU with AVX-512",
    "runs where the C library is glibc",
    NO_CORPORA,
)
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder with real corpora, which LOOKLEFT_DATA names."""
    given = os.environ.get("LOOKLEFT_DATA")
    if not given:
        pytest.skip(NO_CORPORA)
    folder = Path(given)
    assert folder.is_dir(), f"LOOKLEFT_DATA={given}: there is no such folder"
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return without_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return without_skips((yield))


def without_skips(report: Report) -> Report:
    """The report; a skip that could have been helped is a failure if skips are not wanted."""
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    if os.environ.get("LOOKLEFT_NO_SKIPS") != "1" or not is_skip:
        return report
    assert isinstance(report.longrepr, tuple)  # file, line, "Skipped: reason"
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped, which LOOKLEFT_NO_SKIPS=1 forbids: {reason}"
    return report
