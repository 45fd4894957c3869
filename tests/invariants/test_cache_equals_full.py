"""Alignment: fed in any chunks, the cached model says what one full pass over the text says.

Hypothesis draws whole sessions: how each row's text is cut into chunks (some rows get nothing in
some chunks), where the padding of a chunk lies, what is fed and rolled back again, and how rows
are reordered in between. Every logit on the way must be that of the full pass of that row alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants.families import (
    CAUSAL,
    DECODERS_ONLY,
    as_batch,
    decoder_only,
    make,
    random_ids,
)
from torch import Tensor

from lookleft import masks
from lookleft.config import Sinusoidal
from lookleft.data.batch import Batch, Rows, as_rows
from lookleft.masks import Mask
from lookleft.models import AnyModel, base
from lookleft.models import decoder_only as decoder_only_module
from lookleft.nn.cache import KVCache

BATCH, LENGTH = 3, 8


@dataclass(frozen=True)
class Chunk:
    """What one call feeds, after an optional reordering and a false start that is rolled back."""

    counts: list[int]  # tokens per row
    shifts: list[int] = field(default_factory=lambda: [0] * BATCH)  # padding to the left of them
    order: list[int] | None = None  # rows before this chunk
    false_start: int = 0  # tokens fed first and then forgotten


@st.composite
def sessions(draw: st.DrawFn, length: int = LENGTH, most: int = LENGTH) -> list[Chunk]:
    """Chunks that feed at most `length` tokens to each row, and at least one in the first."""
    left, chunks = [length] * BATCH, []
    for i in range(draw(st.integers(1, 6))):
        order = draw(st.none() | st.lists(st.integers(0, BATCH - 1), min_size=3, max_size=3))
        if i and order is not None:
            left = [left[row] for row in order]
        counts = [draw(st.integers(0 if i else 1, min(n, most))) if n else 0 for n in left]
        shifts = [draw(st.integers(0, 1)) for _ in range(BATCH)]
        false_start = draw(st.integers(0, 2)) if i else 0
        chunks.append(Chunk(counts, shifts, order if i else None, false_start))
        left = [n - count for n, count in zip(left, counts, strict=True)]
    return chunks


def chunk_rows(texts: Tensor, starts: list[int], chunk: Chunk) -> Rows:
    """The next tokens of every row, with padding around them where rows get fewer."""
    width = max(n + shift for n, shift in zip(chunk.counts, chunk.shifts, strict=True))
    ids = torch.full((BATCH, width), 7)
    is_token = torch.zeros(BATCH, width, dtype=torch.bool)
    for b, (start, n, shift) in enumerate(zip(starts, chunk.counts, chunk.shifts, strict=True)):
        ids[b, shift : shift + n] = texts[b, start : start + n]
        is_token[b, shift : shift + n] = True
    return as_rows(ids, is_token)


@torch.no_grad()
def check_session(model: AnyModel, session: list[Chunk], length: int = LENGTH) -> None:
    """Every logit of the session is that of a full pass over the row, to 1e-12."""
    texts = random_ids(BATCH, length, seed=4)
    batch = as_batch(model.config, as_rows(texts))
    full = model.score(batch)  # (B, T, V)
    starts, state = [0] * BATCH, None
    for chunk in session:
        if state is None:
            first = Batch(chunk_rows(texts, starts, chunk), source=batch.source)
            last, state = model.prefill(first, room=length + 2 - max(chunk.counts))
            ends = torch.tensor(chunk.counts) - 1
            expected = full[torch.arange(BATCH), ends]
            torch.testing.assert_close(last, expected, rtol=0, atol=1e-12)
        else:
            if chunk.order is not None:
                order = torch.tensor(chunk.order)
                state.reorder(order)
                texts, full, starts = texts[order], full[order], [starts[i] for i in chunk.order]
            if chunk.false_start:
                n = min(chunk.false_start, state.cache.max_chunk)  # more, and a ring cannot go back
                model.extend(as_rows(random_ids(BATCH, n, seed=8)), state)
                state.cache.roll_back(torch.tensor(starts))
            rows = chunk_rows(texts, starts, chunk)
            if rows.is_token.any():
                got = model.extend(rows, state)
                expected = torch.cat(
                    [
                        full[b, s : s + n]
                        for b, s, n in zip(range(BATCH), starts, chunk.counts, strict=True)
                    ]
                )
                torch.testing.assert_close(got[rows.is_token], expected, rtol=0, atol=1e-12)
        starts = [start + n for start, n in zip(starts, chunk.counts, strict=True)]
        assert state.cache.lengths.tolist() == starts


@pytest.mark.parametrize("name", CAUSAL)
@settings(max_examples=20)
@given(session=sessions())
def test_any_session_of_chunks_equals_the_full_pass(name: str, session: list[Chunk]) -> None:
    check_session(make(CAUSAL[name]), session)


@pytest.mark.parametrize("name", ["window-rotary", "window-sinusoidal"])
@settings(max_examples=25)
@given(session=sessions(length=40, most=9))
def test_rows_may_grow_far_beyond_the_ring(name: str, session: list[Chunk]) -> None:
    check_session(make(DECODERS_ONLY[name]), session, length=40)


@pytest.mark.parametrize("name", CAUSAL)
def test_one_token_at_a_time_equals_the_full_pass(name: str) -> None:
    check_steps(make(CAUSAL[name]), n_steps=12)


@torch.no_grad()
def check_steps(model: AnyModel, n_steps: int) -> None:
    """A prompt of one token, then single steps, each against the full pass."""
    ids = random_ids(BATCH, n_steps + 1, seed=5)
    batch = as_batch(model.config, as_rows(ids))
    full = model.score(batch)
    first = Batch(as_rows(ids[:, :1]), source=batch.source)
    logits, state = model.prefill(first, room=n_steps)
    for t in range(n_steps):
        torch.testing.assert_close(logits, full[:, t], rtol=0, atol=1e-12)
        logits = model.step(ids[:, t + 1], state)
    torch.testing.assert_close(logits, full[:, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["window-rotary", "window-sinusoidal"])
def test_a_ring_keeps_no_more_than_it_needs(name: str) -> None:
    config = DECODERS_ONLY[name]
    assert config.window is not None
    prompt = Batch(as_rows(random_ids(1, 5)))
    _, state = make(config).prefill(prompt, room=10_000)
    assert state.cache.capacity == config.window + 5 - 1


@pytest.mark.parametrize("name", DECODERS_ONLY)
def test_a_prompt_with_a_prefix_goes_on_as_in_the_full_pass(name: str) -> None:
    model, ids = make(DECODERS_ONLY[name]), random_ids(2, 10)
    prefix = torch.tensor([4, 2])
    full = model.score(Batch(as_rows(ids), prefix=prefix))
    logits, state = model.prefill(Batch(as_rows(ids[:, :5]), prefix=prefix), room=5)
    for t in range(5, 10):
        torch.testing.assert_close(logits, full[:, t - 1], rtol=0, atol=1e-12)
        logits = model.step(ids[:, t], state)
    torch.testing.assert_close(logits, full[:, -1], rtol=0, atol=1e-12)


def test_a_row_at_the_end_of_its_context_may_rest_while_others_go_on() -> None:
    model = make(decoder_only(max_len=4))
    ids = random_ids(2, 4)
    is_token = torch.tensor([[True] * 4, [True, True, False, False]])
    _, state = model.prefill(Batch(as_rows(ids, is_token)), room=2)
    more = as_rows(ids[:, :2], torch.tensor([[False, False], [True, True]]))
    alone = model.score(Batch(as_rows(torch.cat((ids[1:, :2], ids[1:, :2]), 1))))
    got = model.extend(more, state)[1:]
    torch.testing.assert_close(got, alone[:, 2:], rtol=0, atol=1e-12)


def test_gradients_through_cached_steps_are_those_of_the_full_pass() -> None:
    for config in (DECODERS_ONLY["rotary-grouped"], CAUSAL["encoder-decoder sinusoidal-post"]):
        model, ids = make(config), random_ids(2, 5)
        batch = as_batch(config, as_rows(ids))
        model.score(batch).square().sum().backward()
        expected = {name: p.grad.clone() for name, p in model.named_parameters()}
        model.zero_grad()
        logits, state = model.prefill(Batch(as_rows(ids[:, :1]), source=batch.source), room=4)
        total = logits.square().sum()
        for t in range(1, 5):
            total = total + model.step(ids[:, t], state).square().sum()
        total.backward()
        for name, parameter in model.named_parameters():
            scale = expected[name].abs().max().clamp(min=1)
            difference = (parameter.grad - expected[name]).abs().max() / scale
            assert difference < 1e-12, name


# --- the alarms can ring ---------------------------------------------------------------------

PLAIN = [
    Chunk([3, 2, 4]),
    Chunk([2, 3, 1], false_start=1),
    Chunk([1, 1, 1], order=[1, 2, 0]),
]


def from_shapes(q_pos: Tensor, k_pos: Tensor, *_: object) -> Mask:
    """A triangle in the top left corner: right for a full pass, wrong on a warm cache."""
    triangle = torch.ones(q_pos.size(1), k_pos.size(1), dtype=torch.bool).tril()[None, None]
    honest = masks.everything(q_pos.size(1), k_pos.size(1))
    return Mask(lambda i, j: triangle[:, :, i:j], honest.n_queries, honest.n_keys)


def from_zero(rows: Rows, cache: KVCache) -> Rows:
    """Every chunk is taken for the beginning of the text."""
    return rows


def one_too_far(rows: Rows, cache: KVCache) -> Rows:
    """Positions after the prompt are off by one."""
    late = (cache.lengths > 0).long()[:, None]
    return Rows(rows.ids, rows.is_token, rows.pos + cache.lengths[:, None] + late)


def test_a_session_without_fault_passes() -> None:
    check_session(make(decoder_only(positions=Sinusoidal())), PLAIN)


def test_a_triangle_drawn_from_shapes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "causal", from_shapes)
    with pytest.raises(AssertionError):
        check_session(make(decoder_only()), PLAIN)


@pytest.mark.parametrize("broken", [from_zero, one_too_far])
@pytest.mark.parametrize("name", ["sinusoidal-post", "rotary-grouped", "relative-one-kv-head"])
def test_wrong_positions_on_a_warm_cache_are_caught(
    name: str, broken: Callable[[Rows, KVCache], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_only_module, "continue_rows", broken)
    with pytest.raises(AssertionError):
        check_session(make(DECODERS_ONLY[name]), PLAIN)


def test_a_cache_that_does_not_roll_back_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVCache, "roll_back", lambda self, lengths: None)
    with pytest.raises(AssertionError):
        check_session(make(decoder_only()), PLAIN)


def test_rows_that_swap_places_without_their_cache_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KVCache, "reorder", lambda self, rows: None)
    with pytest.raises(AssertionError):
        check_session(make(decoder_only()), PLAIN)


def test_rows_that_swap_places_without_their_source_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base.Memory, "reorder", lambda self, rows: None)
    with pytest.raises(AssertionError):
        check_session(make(CAUSAL["encoder-decoder sinusoidal-post"]), PLAIN)


def test_a_ring_that_overwrites_what_is_still_seen_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KVCache, "max_chunk", property(lambda self: self.capacity))
    long_chunk = [Chunk([1, 1, 1]), Chunk([3, 3, 3]), Chunk([3, 3, 3]), Chunk([3, 3, 3])]
    with pytest.raises(AssertionError):
        check_session(make(DECODERS_ONLY["window-rotary"]), long_chunk, length=40)
