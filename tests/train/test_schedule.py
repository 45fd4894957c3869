"""Schedules: their corners, and that they never leave the range of a share."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookleft.errors import ConfigError
from lookleft.train.schedule import make_schedule, row_length

KINDS = ["inverse-sqrt", "cosine", "wsd", "constant"]


@pytest.mark.parametrize("kind", KINDS)
def test_warm_up_rises_to_the_peak(kind: str) -> None:
    schedule = make_schedule(kind, warmup=4, steps=100)
    assert [schedule(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]


def test_inverse_square_root_is_the_paper_s() -> None:
    schedule = make_schedule("inverse-sqrt", warmup=100, steps=10_000)
    assert schedule(399) == pytest.approx(0.5)
    assert schedule(9_999) == pytest.approx(0.1)


def test_cosine_and_wsd_end_at_their_floor() -> None:
    for kind in ("cosine", "wsd"):
        assert make_schedule(kind, warmup=5, steps=50, floor=0.1)(49) == pytest.approx(0.1)
    halfway = make_schedule("cosine", warmup=0, steps=101)(50)
    assert halfway == pytest.approx((1 + math.cos(math.pi / 2)) / 2)


def test_wsd_stays_at_the_peak_until_it_falls() -> None:
    schedule = make_schedule("wsd", warmup=10, steps=100, decay_share=0.2)
    assert {schedule(step) for step in range(10, 81)} == {1.0}
    assert schedule(81) < 1.0


@given(
    kind=st.sampled_from(KINDS),
    warmup=st.integers(0, 50),
    fewer=st.integers(1, 200),
    more=st.integers(0, 200),
    decay_share=st.floats(0.01, 1),
)
def test_the_rate_never_rises_where_steps_are_left_out(
    kind: str, warmup: int, fewer: int, more: int, decay_share: float
) -> None:
    before, after = (
        make_schedule(kind, warmup=warmup, steps=steps, decay_share=decay_share)
        for steps in (fewer + more, fewer)
    )
    assert all(after(step) <= before(step) + 1e-12 for step in range(fewer))


@given(
    kind=st.sampled_from(KINDS),
    steps=st.integers(1, 500),
    share=st.floats(0, 1),
    floor=st.floats(0, 1),
)
def test_a_share_is_a_share(kind: str, steps: int, share: float, floor: float) -> None:
    schedule = make_schedule(kind, warmup=int(share * steps), steps=steps, floor=floor)
    assert all(0.0 <= schedule(step) <= 1.0 for step in range(steps))


def test_a_run_shorter_than_its_warm_up_ends_while_it_rises() -> None:
    for kind in KINDS:
        schedule = make_schedule(kind, warmup=100, steps=10)
        assert [schedule(step) for step in range(10)] == [(n + 1) / 100 for n in range(10)]


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="warmup=-1"):
        make_schedule("cosine", warmup=-1, steps=10)


def test_rows_grow_in_stages_and_then_stay_as_they_come() -> None:
    lengths = [row_length(step, length=256, warmup=80) for step in range(100)]
    assert lengths[0] == 64
    assert lengths[9:11] == [64, 88]
    assert lengths[79] == 232
    assert lengths[80:] == [None] * 20
    assert all(a <= b for a, b in pairwise(lengths[:80]))
    assert row_length(0, length=64, warmup=80) is None  # nothing shorter to begin with
    assert row_length(0, length=256, warmup=0) is None
