"""The cache as a container: slots, positions, rings, roll-back, reorder, refusals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lookleft.errors import InputError
from lookleft.nn.attention import KV
from lookleft.nn.cache import KVCache


def make_cache(
    capacity: int, window: int | None = None, batch: int = 1, n_layers: int = 1
) -> KVCache:
    return KVCache(
        n_layers=n_layers,
        batch=batch,
        capacity=capacity,
        n_kv_heads=1,
        head_dim=1,
        window=window,
        dtype=torch.float64,
    )


def feed(cache: KVCache, counts: list[int], left_padding: int = 0) -> KV:
    """So many new tokens per row; the key of a token is its position, its value 10 x that."""
    width = max(counts) + left_padding
    is_token = torch.zeros(cache.batch, width, dtype=torch.bool)
    for row, n in zip(is_token, counts, strict=True):
        row[left_padding : left_padding + n] = True
    pos = cache.lengths[:, None] + (is_token.cumsum(1) - 1).clamp(min=0)
    slots = cache.place(pos, is_token)
    keys = torch.where(is_token, pos, -1).double()[:, None, :, None]
    kv = KV(keys, 10 * keys)
    for layer in range(len(cache.keys)):
        kv = cache.write(layer, slots, KV(keys, 10 * keys))
    return kv


def held(cache: KVCache, row: int = 0) -> list[int]:
    """The positions a row holds, in order, after checking that keys and values go with them."""
    is_token = cache.is_token[row]
    pos = cache.pos[row][is_token]
    for keys, values in zip(cache.keys, cache.values, strict=True):
        assert torch.equal(keys[row, 0, is_token, 0], pos.double())
        assert torch.equal(values[row, 0, is_token, 0], 10 * pos.double())
    return sorted(pos.tolist())


@given(
    chunks=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6),
    left_padding=st.integers(0, 2),
)
def test_rows_grow_each_at_their_own_pace(chunks: list[tuple[int, int]], left_padding: int) -> None:
    cache = make_cache(20, batch=2, n_layers=2)
    total = [0, 0]
    for chunk in chunks:
        kv = feed(cache, list(chunk), left_padding)
        total = [a + b for a, b in zip(total, chunk, strict=True)]
        assert kv.keys.size(2) == kv.values.size(2) == cache.n_used == max(total)
        assert cache.side.pos.shape == cache.side.is_token.shape == (2, max(total))
    assert cache.lengths.tolist() == total
    assert [held(cache, row) for row in (0, 1)] == [list(range(n)) for n in total]


@given(
    window=st.integers(1, 4),
    slack=st.integers(0, 3),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=12),
)
def test_a_ring_always_holds_what_a_window_still_sees(
    window: int, slack: int, chunks: list[int]
) -> None:
    cache = make_cache(window + slack, window)
    assert cache.max_chunk == slack + 1
    for n in chunks:
        n = min(n, cache.max_chunk)
        first = int(cache.lengths[0])
        feed(cache, [n])
        kept = held(cache)
        # The first of the new tokens sees `window - 1` older ones: they must still be there.
        assert set(range(max(first - window + 1, 0), first + n)) <= set(kept)
        assert len(kept) <= cache.capacity


@given(
    window=st.integers(1, 4),
    slack=st.integers(0, 4),
    moves=st.lists(st.integers(-5, 5), min_size=1, max_size=12),
)
def test_a_ring_that_rolls_back_holds_what_is_needed_or_says_that_it_cannot(
    window: int, slack: int, moves: list[int]
) -> None:
    cache = make_cache(window + slack, window)
    for move in moves:
        length = int(cache.lengths[0])
        if move > 0:
            feed(cache, [min(move, cache.max_chunk)])
            continue
        wanted = max(length + move, 0)
        needed = set(range(max(wanted - window + 1, 0), wanted))
        if not needed <= set(held(cache)):
            with pytest.raises(InputError, match="overwritten"):
                cache.roll_back(wanted)
            assert int(cache.lengths[0]) == length
            continue
        cache.roll_back(wanted)
        assert needed <= set(held(cache)) <= set(range(wanted))
        assert int(cache.lengths[0]) == wanted


def test_two_roll_backs_in_a_row_do_not_hide_that_the_ring_has_forgotten() -> None:
    cache = make_cache(5, window=3)
    for _ in range(10):
        feed(cache, [1])
    cache.roll_back(8)
    assert held(cache) == [5, 6, 7]
    with pytest.raises(InputError, match="overwritten"):
        cache.roll_back(6)  # the next query would need 4 and 5; 4 is gone since 9 came


def test_rows_roll_back_each_to_their_own_length() -> None:
    cache = make_cache(8, batch=3)
    feed(cache, [5, 2, 4])
    cache.roll_back(torch.tensor([1, 2, 0]))
    assert [held(cache, row) for row in range(3)] == [[0], [0, 1], []]
    feed(cache, [1, 1, 1])
    assert [held(cache, row) for row in range(3)] == [[0, 1], [0, 1, 2], [0]]


def test_reordered_rows_are_copies_that_live_on_their_own() -> None:
    cache = make_cache(8, batch=2, n_layers=2)
    feed(cache, [3, 1])
    cache.reorder(torch.tensor([1, 0, 0]))
    assert cache.batch == 3
    feed(cache, [1, 2, 0])
    assert [held(cache, row) for row in range(3)] == [[0, 1], [0, 1, 2, 3, 4], [0, 1, 2]]


def test_writing_with_gradients_leaves_earlier_tensors_as_they_were() -> None:
    cache = make_cache(4)
    keys = torch.ones(1, 1, 1, 1, dtype=torch.float64, requires_grad=True)
    total: Tensor = torch.zeros((), dtype=torch.float64)
    for t in range(3):
        slots = cache.place(torch.tensor([[t]]), torch.ones(1, 1, dtype=torch.bool))
        kv = cache.write(0, slots, KV(keys * (t + 1), keys))
        total = total + (kv.keys * kv.keys).sum()
    total.backward()
    # 1; 1 + 4; 1 + 4 + 9: the sum of squares, each with a derivative of twice itself.
    assert keys.grad.item() == 2 * (1 + 5 + 14)


@given(
    mine=st.tuples(st.integers(1, 12), st.integers(3, 6)),
    theirs=st.tuples(st.integers(1, 12), st.integers(3, 6)),
    more=st.lists(st.integers(1, 2), max_size=5),
)
def test_rings_of_unequal_size_join_and_go_on(
    mine: tuple[int, int], theirs: tuple[int, int], more: list[int]
) -> None:
    window = 3
    caches = []
    for n_tokens, capacity in (mine, theirs):
        cache = make_cache(capacity, window=window, n_layers=2)
        for _ in range(n_tokens):
            feed(cache, [1])
        caches.append(cache)
    joined, other = caches
    joined.join(other)
    lengths = [mine[0], theirs[0]]
    for n in more:
        feed(joined, [min(n, joined.max_chunk)] * 2)
        lengths = [length + min(n, joined.max_chunk) for length in lengths]
    assert joined.lengths.tolist() == lengths
    for row, length in enumerate(lengths):
        needed = list(range(max(0, length - window + 1), length))  # what the next query sees
        assert held(joined, row)[-len(needed) :] == needed or not needed
        assert held(joined, row)[-1] == length - 1


def test_joined_rows_keep_their_own_lengths_and_take_the_larger_capacity() -> None:
    cache, other = make_cache(4, n_layers=2), make_cache(9, batch=2, n_layers=2)
    feed(cache, [3])
    feed(other, [5, 1])
    cache.join(other)
    assert (cache.batch, cache.capacity) == (3, 9)
    feed(cache, [2, 2, 0])
    assert [held(cache, row) for row in range(3)] == [
        list(range(5)),
        list(range(7)),
        [0],
    ]


def test_a_short_row_without_a_ring_joins_one_with_a_ring() -> None:
    ring, short = make_cache(4, window=3), make_cache(3)
    for _ in range(6):
        feed(ring, [1])
    feed(short, [2])
    short.join(ring)
    assert (short.window, short.capacity) == (3, 4)
    assert [held(short, row) for row in range(2)] == [[0, 1], [2, 3, 4, 5]]
    for _ in range(3):
        feed(short, [1, 1])
    assert [held(short, row)[-3:] for row in range(2)] == [[2, 3, 4], [6, 7, 8]]


def test_memory_is_counted_in_bytes_of_keys_and_values() -> None:
    cache = KVCache(n_layers=3, batch=2, capacity=5, n_kv_heads=4, head_dim=6, dtype=torch.float16)
    assert cache.bytes == 2 * 3 * 2 * 5 * 4 * 6 * 2


def test_what_does_not_fit_is_refused_with_its_numbers() -> None:
    with pytest.raises(InputError, match=r"batch=0, capacity=3"):
        make_cache(3, batch=0)
    with pytest.raises(InputError, match=r"capacity=0"):
        make_cache(0)
    with pytest.raises(InputError, match=r"ring of 3 slots cannot hold a window of 4"):
        make_cache(3, window=4)
    cache = make_cache(3)
    feed(cache, [2])
    with pytest.raises(InputError, match=r"4 tokens do not fit into a capacity of 3"):
        feed(cache, [2])
    assert cache.lengths.tolist() == [2]  # refused as a whole
    with pytest.raises(InputError, match=r"3 tokens at once, but this cache takes 2"):
        feed(make_cache(5, window=4), [3])
    with pytest.raises(InputError, match=r"\(2, 1\)"):
        cache.place(torch.zeros(2, 1, dtype=torch.long), torch.ones(2, 1, dtype=torch.bool))
    for lengths in (3, -1):
        with pytest.raises(InputError, match=rf"roll back to \[{lengths}\]: the rows hold \[2\]"):
            cache.roll_back(lengths)
    with pytest.raises(InputError, match=r"\(2,\) lengths to roll back 1 rows"):
        cache.roll_back(torch.tensor([1, 1]))
    for rows in ([1], [-1], [[0]]):
        with pytest.raises(InputError, match=r"rows 0\.\.0"):
            cache.reorder(torch.tensor(rows))
