"""Memory stays with the process while it trains, and only then."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from lookleft.train import memory
from lookleft.train.memory import find_glibc, kept_memory

# Takes and leaves two blocks as large as activations, over and over inside and once outside; prints
# how many new pages the kernel had to find. In a process of its own, whose malloc nobody has tuned.
PROBE = """
import resource, torch
from lookleft.train.memory import kept_memory

def n_new_pages(n_times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n_times):
        pair = [torch.full((2**20,), 1.0), torch.full((2**22,), 1.0)]
        del pair
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with kept_memory():
    n_new_pages(20)  # until the places for both are found
    inside = n_new_pages(50)
print(inside, n_new_pages(1))
"""
N_PAGES = 5 * 2**22 // resource.getpagesize()  # of the two blocks


@pytest.mark.skipif(find_glibc() is None, reason="runs where the C library is glibc")
def test_freed_memory_is_used_again_inside_and_given_back_outside() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
    )
    inside, outside = map(int, found.stdout.split())
    assert inside < N_PAGES  # of 50 times as many
    assert outside > N_PAGES / 2


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "find_glibc", lambda: None)
    with kept_memory():
        pass
