"""Each mask against a double loop that spells the rule out, and every claim a mask makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lookleft.errors import InputError
from lookleft.masks import Mask, Side, causal, everything, real_keys, same_document, visible

Rule = Callable[[int, int, int], bool]  # row, query index, key index -> may look?


def written_out(rule: Rule, batch: int, n_queries: int, n_keys: int) -> Tensor:
    """The rule asked once per entry. -> (B, 1, T, S)."""
    allowed = torch.zeros(batch, 1, n_queries, n_keys, dtype=torch.bool)
    for b in range(batch):
        for t in range(n_queries):
            for s in range(n_keys):
                allowed[b, 0, t, s] = rule(b, t, s)
    return allowed


def check_mask(mask: Mask, rule: Rule, batch: int) -> None:
    """The mask is the rule, whole and in pieces, and claims about itself only what is so."""
    expected = written_out(rule, batch, mask.n_queries, mask.n_keys)
    whole = mask.allowed
    assert whole.dtype == torch.bool
    assert whole.size(0) == mask.batch
    assert torch.equal(whole.expand_as(expected), expected)
    for start in range(mask.n_queries):
        for stop in range(start + 1, mask.n_queries + 1):
            assert torch.equal(mask.rows(start, stop), whole[:, :, start:stop])
    if mask.is_full:
        assert bool(whole.all())
    if mask.is_triangle:
        triangle = torch.ones(mask.n_queries, mask.n_keys, dtype=torch.bool).tril()
        assert mask.n_queries == mask.n_keys
        assert torch.equal(whole, triangle.expand_as(whole))


@st.composite
def position_rows(draw: st.DrawFn, batch: int, max_len: int = 5) -> Tensor:
    """Positions of any kind: rising, repeated, with gaps, in disorder. (B, 1..max_len)."""
    length = draw(st.integers(1, max_len))
    kind = draw(st.sampled_from(["plain", "rising", "any"]))
    if kind == "plain":
        return torch.arange(length).repeat(batch, 1) + draw(st.integers(0, 3))
    numbers = st.lists(st.integers(0, 8), min_size=length, max_size=length, unique=kind != "any")
    rows = [draw(numbers) for _ in range(batch)]
    return torch.tensor([sorted(row) if kind == "rising" else row for row in rows])


@settings(max_examples=120)
@given(st.data())
def test_a_causal_mask_is_its_rule_spelled_out(data: st.DataObject) -> None:
    batch = data.draw(st.integers(1, 3))
    q_pos = data.draw(position_rows(batch))
    k_pos = q_pos if data.draw(st.booleans()) else data.draw(position_rows(batch))
    window = data.draw(st.none() | st.integers(1, 6))
    prefix = data.draw(
        st.none() | st.integers(0, 6) | st.lists(st.integers(0, 6), min_size=batch, max_size=batch)
    )

    def rule(b: int, t: int, s: int) -> bool:
        asker, asked = int(q_pos[b, t]), int(k_pos[b, s])
        reach = prefix[b] if isinstance(prefix, list) else prefix
        if reach is not None and asker < reach and asked < reach:
            return True
        return asked <= asker and (window is None or asker - asked < window)

    given_prefix = torch.tensor(prefix) if isinstance(prefix, list) else prefix
    check_mask(causal(q_pos, k_pos, window, given_prefix), rule, batch)


@given(st.data())
def test_padding_and_documents_are_their_rules_spelled_out(data: st.DataObject) -> None:
    batch, n_queries, n_keys = (data.draw(st.integers(1, 4)) for _ in range(3))

    def table(n: int, low: int, high: int) -> Tensor:
        row = st.lists(st.integers(low, high), min_size=n, max_size=n)
        return torch.tensor([data.draw(row) for _ in range(batch)])

    is_token = table(n_keys, 0, 1).bool()
    check_mask(real_keys(is_token, n_queries), lambda b, t, s: bool(is_token[b, s]), batch)
    q_docs, k_docs = table(n_queries, 0, 2), table(n_keys, 0, 2)
    check_mask(
        same_document(q_docs, k_docs), lambda b, t, s: bool(q_docs[b, t] == k_docs[b, s]), batch
    )
    check_mask(everything(n_queries, n_keys), lambda b, t, s: True, 1)


@given(st.data())
def test_visible_joins_every_rule_that_applies(data: st.DataObject) -> None:
    batch, length = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5))
    bits = st.lists(st.booleans(), min_size=length, max_size=length)
    is_token = torch.tensor([data.draw(bits) for _ in range(batch)])
    pos = (is_token.cumsum(1) - 1).clamp(min=0)
    has_docs, is_causal = data.draw(st.booleans()), data.draw(st.booleans())
    docs = (torch.arange(length) // 2).repeat(batch, 1) if has_docs else None
    window = data.draw(st.none() | st.integers(1, 4))
    side = Side(pos, is_token, docs)

    def rule(b: int, t: int, s: int) -> bool:
        gap = int(pos[b, t] - pos[b, s])
        is_behind = gap >= 0 and (window is None or gap < window)
        is_same = docs is None or bool(docs[b, t] == docs[b, s])
        return bool(is_token[b, s]) and is_same and (is_behind or not is_causal)

    check_mask(visible(side, side, is_causal=is_causal, window=window), rule, batch)


@st.composite
def any_mask(draw: st.DrawFn, batch: int, n_queries: int, n_keys: int) -> Mask:
    """A mask of the given size, of any kind, for one row or for all of them."""
    rows = draw(st.sampled_from([1, batch]))
    kind = draw(st.sampled_from(["everything", "real_keys", "causal", "documents"]))
    if kind == "everything":
        return everything(n_queries, n_keys)
    numbers = st.lists(st.integers(0, 3), min_size=n_keys, max_size=n_keys)
    keys = torch.tensor([draw(numbers) for _ in range(rows)])
    if kind == "real_keys":
        return real_keys(keys > 0, n_queries)
    queries = torch.arange(n_queries).repeat(rows, 1)
    if kind == "documents":
        return same_document(queries % 2, keys)
    is_plain = draw(st.booleans())
    return causal(queries, torch.arange(n_keys).repeat(rows, 1) if is_plain else keys)


@given(st.data())
def test_joined_masks_allow_what_all_of_them_allow_in_any_order(data: st.DataObject) -> None:
    size = [data.draw(st.integers(1, 4)) for _ in range(3)]
    a, b, c = (data.draw(any_mask(*size)) for _ in range(3))

    def both(x: int, t: int, s: int) -> bool:
        rows = (m.allowed.expand(size[0], 1, -1, -1) for m in (a, b))
        return all(bool(row[x, 0, t, s]) for row in rows)

    check_mask(a & b, both, size[0])
    full = (size[0], 1, size[1], size[2])
    for one, other in ((a & b, b & a), (a & (b & c), (a & b) & c), (a & a, a)):
        assert torch.equal(one.allowed.expand(full), other.allowed.expand(full))
    everyone = everything(size[1], size[2])
    assert torch.equal((a & everyone).allowed.expand(full), a.allowed.expand(full))


def test_the_fast_claims_are_made_where_they_pay() -> None:
    pos = torch.arange(6)[None]
    side = Side(pos, torch.ones(1, 6, dtype=torch.bool))
    assert causal(pos, pos).is_triangle
    assert causal(pos, pos, window=6).is_triangle
    assert visible(side, side, is_causal=True).is_triangle
    assert visible(side, side, is_causal=False).is_full
    assert not causal(pos, pos, window=5).is_triangle
    assert not causal(pos[:, 2:], pos).is_triangle
    packed = side._replace(docs=pos // 3)
    assert not visible(packed, packed, is_causal=True).is_triangle


def test_positions_with_gaps_do_not_pass_for_a_triangle_within_the_window() -> None:
    pos = torch.tensor([[0, 10, 20]])
    mask = causal(pos, pos, window=5)
    assert torch.equal(mask.allowed[0, 0], torch.eye(3, dtype=torch.bool))
    assert not mask.is_triangle


def test_one_prefix_per_row_makes_one_mask_per_row() -> None:
    pos = torch.arange(3)[None]
    mask = causal(pos, pos, prefix=torch.tensor([0, 3]))
    assert mask.batch == mask.allowed.size(0) == 2
    assert mask.allowed[1].all()
    assert not mask.allowed[0].all()


def test_additive_is_zero_where_allowed_and_minus_infinity_where_hidden() -> None:
    pos = torch.arange(4)[None]
    mask = causal(pos, pos)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        added = mask.additive(dtype)
        assert added.dtype == dtype
        assert torch.equal(added == 0, mask.allowed)
        assert torch.equal(added == -torch.inf, ~mask.allowed)


@given(st.tuples(*[st.integers(1, 4)] * 4))
def test_masks_of_different_sizes_do_not_join(sizes: tuple[int, int, int, int]) -> None:
    first, second = everything(*sizes[:2]), real_keys(torch.ones(1, sizes[3]) > 0, sizes[2])
    if sizes[:2] == sizes[2:]:
        assert (first & second).n_keys == sizes[1]
        return
    with pytest.raises(InputError) as caught:
        first & second
    assert f"{sizes[0]} queries x {sizes[1]} keys" in str(caught.value)
    assert f"{sizes[2]} x {sizes[3]}" in str(caught.value)


def test_masks_of_different_batches_are_refused_by_name() -> None:
    two, three = torch.zeros(2, 4, dtype=torch.long), torch.zeros(3, 4, dtype=torch.long)
    for join in (
        lambda: real_keys(two == 0, 4) & real_keys(three == 0, 4),
        lambda: causal(two, three),
        lambda: causal(two, two, prefix=torch.tensor([1, 2, 3])),
        lambda: same_document(two, three),
    ):
        with pytest.raises(InputError, match=r"2 and 3 rows"):
            join()


@pytest.mark.parametrize("window", [0, -3])
def test_a_window_that_hides_a_position_from_itself_is_refused(window: int) -> None:
    pos = torch.arange(3)[None]
    with pytest.raises(InputError, match=f"window={window}"):
        causal(pos, pos, window=window)
