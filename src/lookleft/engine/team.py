"""Threads that run one forward together.

The caller is thread 0. The others wait inside compiled code for the next job for a while, and
then sleep until they are woken: between two steps of a decode loop nobody is put to sleep.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakSet

import numpy as np
from numba import njit, types

from lookleft.engine.compiling import FREEDOMS, kernel_cache
from lookleft.engine.forward import forward
from lookleft.engine.spin import (
    JOB_ADDRESS,
    N_BYTES,
    PATIENCE,
    TICKET,
    read,
    wait_for_all,
    wait_for_change,
    write,
)

MAX_THREADS = 64


class Turn:
    """A lock that is free in a forked process, whoever held it when the process was forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _TURNS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """In a child, whose only thread holds nothing."""
        self._lock = threading.Lock()


_TURNS: WeakSet[Turn] = WeakSet()


def _renew_all() -> None:
    for turn in _TURNS:
        turn.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def take_part(sync: int, me: int, team: int, ticket: int) -> int:
    """Thread 0 runs the job at hand; others run jobs as they come, until none has come for a
    while. Gives the last ticket seen."""
    while me == 0 or wait_for_change(sync + TICKET, ticket, PATIENCE):
        ticket = read(sync + TICKET)
        forward(read(sync + JOB_ADDRESS), me, team, sync)
        wait_for_all(sync, (me, team))
        if me == 0:
            break
    return ticket


def publish(sync: int, ticket: int) -> None:
    """Let the others see a new ticket, and before it all that the caller has stored: a plain store
    may overtake others on ARM."""
    write(sync + TICKET, ticket)


@cache
def machine_code() -> tuple[Callable[[int, int, int, int], int], Callable[[int, int], None]]:
    """`take_part` and `publish` compiled; from the cache on disk if they have been before."""
    i64 = types.int64
    with kernel_cache() as is_kept:
        freedoms: dict[str, Any] = {"fastmath": FREEDOMS, "error_model": "numpy"}
        long = njit(i64(i64, i64, i64, i64), nogil=True, cache=is_kept, **freedoms)(take_part)
        # Holding the lock of Python: giving it away and waiting for it takes longer than a store.
        short = njit(types.void(i64, i64), cache=is_kept, **freedoms)(publish)
        return long, short


class Team:
    """So many threads, the caller among them."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._take_part, self._publish = machine_code()
        self._order = Turn()  # one forward at a time
        self._start()

    def _start(self) -> None:
        """Counters and threads, all new."""
        self._process = os.getpid()
        self._memory = np.zeros(N_BYTES // 8 + 16, np.int64)
        start = self._memory.ctypes.data
        first = -start % 128 // 8  # counters begin on a line of their own
        self._sync = start + 8 * first
        self._ticket, self._job = self._memory[first:], self._memory[first + JOB_ADDRESS // 8 :]
        self._wake = threading.Condition()
        self._n_asleep = 0
        for number in range(1, self.n_threads):
            threading.Thread(target=self._work, args=(number,), daemon=True).start()

    def run(self, job: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Run a forward to its end. job: one record of `records.JOB`."""
        with self._order:
            if self._process != os.getpid():
                self._start()  # a process that was forked has the numbers of the threads, not them
            self._job[0] = job.ctypes.data
            # Either a worker sees the new ticket, or it has said before that it sleeps: both
            # sides are Python, and Python runs one thread at a time.
            self._publish(self._sync, int(self._ticket[0]) + 1)
            try:
                if self._n_asleep:
                    with self._wake:
                        self._wake.notify_all()
            finally:  # whatever interrupts: the others have begun and wait for thread 0
                self._take_part(self._sync, 0, self.n_threads, 0)

    def _work(self, number: int) -> None:
        ticket = 0
        while True:
            with self._wake:
                self._n_asleep += 1
                while int(self._ticket[0]) == ticket:
                    self._wake.wait()
                self._n_asleep -= 1
            ticket = self._take_part(self._sync, number, self.n_threads, ticket)


@cache
def team_of(n_threads: int) -> Team:
    """The team of this size: all runners of a process share it."""
    return Team(n_threads)


def usable_cores() -> int:
    """How many threads can run at once here."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    return min(os.cpu_count() or 1, MAX_THREADS)
