"""The processes of one run: which of them this is, and what all of them know together.

torchrun starts the same command several times and tells each copy its number. In a run of one
process all of this does nothing, so nobody else has to ask how many there are. Only tensors of
numbers travel between processes: objects would come in a form that can carry code.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from lookleft.data.bucket import Share
from lookleft.errors import LookleftError

_PAUSE = 0.02  # seconds between two looks at what the others say
# How long others wait while process 0 learns a tokenizer, or translates. One that dies is noticed
# at once, since its sockets close.
_PATIENCE = timedelta(hours=12)


class PeerError(LookleftError):
    """Another process of this run has failed or gone; what went wrong is said there."""


@dataclass(frozen=True)
class World:
    """One process among `size`; process 0 is the one that writes and speaks."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def share(self) -> Share:
        """Which part of the data this process learns from."""
        return Share(self.rank, self.size)

    def total(self, *values: float) -> list[float]:
        """Each value summed over all processes, in double precision; a NaN anywhere is a NaN."""
        if self.size == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(sums)
        return sums.tolist()

    def is_any(self, claim: bool) -> bool:
        """Whether the claim holds in at least one process."""
        return self.total(float(claim))[0] > 0

    def from_main(self, *values: float) -> list[float]:
        """The values that process 0 has."""
        if self.size == 1:
            return list(values)
        said = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(said, src=0)
        return said.tolist()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """This tensor as each process has it, by rank; the shape is the same in all."""
        if self.size == 1:
            return [tensor]
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor)
        return found

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """What fails inside in one process fails in all: none goes on, or waits, alone.

        Nothing inside may talk to other processes: the one that failed would not answer.
        """
        try:
            yield
        except Exception:
            self.is_any(True)
            raise
        if self.is_any(False):
            raise PeerError("another process of this run failed; its own message says why")


ALONE = World()


@contextmanager
def join_world() -> Iterator[World]:
    """The world that torchrun made, left again at the end; without torchrun a world of one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or not is_under_torchrun():
        yield ALONE
        return
    try:
        store, rank, size = next(rendezvous("env://"))
        store = meet(store, rank, size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_PATIENCE)
        yield World(rank, size)
    except RuntimeError as error:
        if "gloo" not in str(error).lower():
            raise
        raise PeerError(
            "another process of this run has gone. torchrun --max-restarts 3 would begin all of "
            "them again at the last checkpoint"
        ) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def is_under_torchrun() -> bool:
    """True if torchrun started this process, for the first time or again."""
    return bool(dist.is_torchelastic_launched())


def meet(store: Store, rank: int, size: int) -> Store:
    """The part of a store that belongs to exactly these processes.

    torchrun keeps one store through all restarts, and in it the addresses of processes that have
    died. So each process draws a name, process 0 lists the names, and the list is settled when
    everyone has found its own name in it: no list of an earlier world can have them all.
    """
    name = secrets.token_hex(8)
    store.set(f"lookleft/name/{rank}", name)
    while True:
        if rank == 0:
            names = [store.get(f"lookleft/name/{other}").decode() for other in range(size)]
            store.set("lookleft/list", ",".join(names))
        listed = store.get("lookleft/list").decode()
        if name in listed:  # else it is the list of an earlier world, on which all had agreed
            store.set(f"lookleft/seen/{rank}", listed)
            seen = [f"lookleft/seen/{other}" for other in range(size)]
            if store.check(seen) and all(store.get(key).decode() == listed for key in seen):
                return PrefixStore(listed, store)
        time.sleep(_PAUSE)
