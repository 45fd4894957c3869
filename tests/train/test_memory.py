"""Memory stays with the process while it trains, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lookleft.train import memory
from lookleft.train.memory import find_glibc, kept_memory

# Takes and leaves a block as large as an activation, over and over; prints how many new pages the
# kernel had to find, outside and inside. In a process of its own, whose malloc nobody has tuned.
PROBE = """
import resource, torch
from lookleft.train.memory import kept_memory

def n_new_pages():
    torch.full((2**20,), 1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        pair = [torch.full((2**20,), 1.0), torch.full((2**22,), 1.0)]
        del pair
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with kept_memory():
    inside = n_new_pages()
print(inside, n_new_pages())
"""


@pytest.mark.skipif(find_glibc() is None, reason="runs where the C library is glibc")
def test_freed_memory_is_used_again_inside_and_given_back_outside() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
    )
    inside, outside = map(int, found.stdout.split())
    assert inside < outside / 5


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "find_glibc", lambda: None)
    with kept_memory():
        pass
