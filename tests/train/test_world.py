"""Processes find each other, also in a store where others have been before them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from lookleft.errors import FileError
from lookleft.train.world import ALONE, World, join_world, meet


def meet_all(store: HashStore, size: int) -> list[str]:
    """What each of `size` processes reads where process 0 wrote a word."""
    with ThreadPoolExecutor(size) as pool:
        stores = list(pool.map(lambda rank: meet(store, rank, size), range(size)))
    stores[0].set("word", f"of {size}")
    return [each.get("word").decode() for each in stores]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_processes_meet_in_a_part_of_the_store_of_their_own(size: int) -> None:
    assert meet_all(HashStore(), size) == [f"of {size}"] * size


def test_what_those_before_left_in_the_store_is_not_taken_for_new() -> None:
    store = HashStore()
    meet(store, 0, 1).set("address", "of one that has died")
    for size in (3, 2, 3, 4):
        assert meet_all(store, size) == [f"of {size}"] * size
    assert not meet(store, 0, 1).check(["address"])


def test_one_that_comes_first_waits_although_those_before_had_all_agreed() -> None:
    store = HashStore()
    meet_all(store, 2)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(meet, store, 1, 2)
        with pytest.raises(TimeoutError):
            early.result(timeout=0.3)
        late = pool.submit(meet, store, 0, 2)
        late.result(timeout=20).set("word", "of both")
        assert early.result(timeout=20).get("word") == b"of both"


def test_alone_everything_is_as_it_is() -> None:
    with join_world() as world:
        assert world == ALONE == World(0, 1)
    assert ALONE.is_main
    assert ALONE.total(1.5, 2.0) == [1.5, 2.0]
    assert ALONE.from_main(3.0) == [3.0]
    assert ALONE.is_any(True)
    assert not ALONE.is_any(False)
    with pytest.raises(FileError, match="as it was"), ALONE.agreed():
        raise FileError("as it was")
