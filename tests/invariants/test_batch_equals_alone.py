"""Padding x positions x cache: a text says the same alone, in a batch, and packed with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants.families import (
    ALL,
    CAUSAL,
    DECODERS_ONLY,
    TRANSLATORS,
    VOCAB,
    make,
    random_ids,
    row_of,
)
from torch import Tensor

from lookleft import masks
from lookleft.config import EncoderDecoderConfig, EncoderOnlyConfig
from lookleft.data import batch as batch_module
from lookleft.data.batch import Batch, Rows, as_rows, pack_documents, pad_rows
from lookleft.models import AnyConfig, AnyModel

LENGTHS = [7, 1, 4]
WIDTH = 9  # two columns more than the longest text: every row has padding


def lay_out(lengths: list[int], where: str, seed: int = 0) -> Rows:
    """Texts of these lengths in rows of WIDTH, with padding on one side or scattered."""
    is_token = torch.zeros(len(lengths), WIDTH, dtype=torch.bool)
    generator = torch.Generator().manual_seed(1)
    for row, n in zip(is_token, lengths, strict=True):
        if where == "scattered":
            row[torch.randperm(WIDTH, generator=generator)[:n]] = True
        else:
            row[slice(0, n) if where == "right" else slice(WIDTH - n, None)] = True
    # Ids under padding are drawn as well: the model must not read them.
    return batch_module.as_rows(random_ids(len(lengths), WIDTH, seed=seed), is_token)


def padded_batch(config: AnyConfig, where: str) -> Batch:
    """Three texts of unequal length, with sources of other lengths for translators."""
    rows, source = lay_out(LENGTHS, where), None
    if isinstance(config, EncoderDecoderConfig):
        source = lay_out([2, 9, 5], where, seed=1)
    if isinstance(config, EncoderOnlyConfig) and config.n_types:
        rows = replace(rows, types=random_ids(*rows.shape, seed=2, vocab=config.n_types))
    return Batch(inputs=rows, source=source)


@torch.no_grad()
def check_batched_equals_alone(model: AnyModel, batch: Batch) -> None:
    """At every real token of every row, the batch says what the row says alone, to 1e-12."""
    together = model.score(batch)
    for b in range(batch.inputs.shape[0]):
        alone = model.score(row_of(batch, b))[0]
        at_tokens = together[b, batch.inputs.is_token[b]]
        torch.testing.assert_close(at_tokens, alone, rtol=0, atol=1e-12)


@torch.no_grad()
def check_padding_is_not_read(model: AnyModel, batch: Batch) -> None:
    """Other ids under the padding, of both sides, change not one bit at real tokens."""

    def repainted(rows: Rows | None) -> Rows | None:
        if rows is None:
            return None
        return replace(rows, ids=torch.where(rows.is_token, rows.ids, (rows.ids + 5) % (VOCAB - 7)))

    inputs = repainted(batch.inputs)
    assert inputs is not None
    is_token = inputs.is_token
    before = model.score(batch)
    after = model.score(replace(batch, inputs=inputs, source=repainted(batch.source)))
    assert torch.equal(before[is_token], after[is_token]), "ids under padding were read"


@pytest.mark.parametrize("where", ["right", "left", "scattered"])
@pytest.mark.parametrize("name", ALL)
def test_a_text_says_the_same_in_a_batch_and_alone(name: str, where: str) -> None:
    config = ALL[name]
    model, batch = make(config), padded_batch(config, where)
    check_batched_equals_alone(model, batch)
    check_padding_is_not_read(model, batch)


@pytest.mark.parametrize("name", ALL)
def test_ids_under_padding_are_not_read_in_single_precision_either(name: str) -> None:
    check_padding_is_not_read(make(ALL[name], torch.float32), padded_batch(ALL[name], "scattered"))


@pytest.mark.parametrize("name", ["decoder-only rotary-grouped", "encoder-decoder relative-rms"])
@settings(max_examples=25)
@given(bits=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3))
def test_padding_may_lie_anywhere(name: str, bits: list[list[bool]]) -> None:
    is_token = torch.tensor(bits)
    is_token[:, 2] |= ~is_token.any(1)  # an empty row has nothing to compare
    rows = as_rows(random_ids(len(bits), 6), is_token)
    source = rows if name.startswith("encoder-decoder") else None
    check_batched_equals_alone(make(CAUSAL[name]), Batch(rows, source=source))


@pytest.mark.parametrize("where", ["right", "left", "scattered"])
@pytest.mark.parametrize("name", CAUSAL)
def test_generation_in_a_batch_goes_as_it_goes_alone(name: str, where: str) -> None:
    check_generation_equals_alone(make(CAUSAL[name]), padded_batch(CAUSAL[name], where))


@torch.no_grad()
def check_generation_equals_alone(model: AnyModel, batch: Batch) -> None:
    """The greedy continuation of every row, and its logits on the way, as on its own."""
    rows = range(batch.inputs.shape[0])
    together, shared = model.prefill(batch, room=6)
    pairs = [model.prefill(row_of(batch, b), room=6) for b in rows]
    alone, states = torch.cat([logits for logits, _ in pairs]), [state for _, state in pairs]
    for _ in range(6):
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
        ids = together.argmax(-1)
        together = model.step(ids, shared)
        alone = torch.cat([model.step(ids[b : b + 1], states[b]) for b in rows])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@torch.no_grad()
def check_packed_equals_separate(model: AnyModel, packed: Batch, separate: list[Batch]) -> None:
    """One row of several documents says what each of them says on its own, to 1e-12."""
    together = model.score(packed)[0]
    alone = torch.cat([model.score(batch)[0] for batch in separate])
    torch.testing.assert_close(together[: len(alone)], alone, rtol=0, atol=1e-12)


def packed_texts() -> tuple[Batch, list[Batch]]:
    """Three documents in the first of two rows (the second is longer), and each on its own."""
    ids = random_ids(1, 11)[0].tolist()
    docs = [ids[:4], ids[4:6], ids[6:]]
    separate = [Batch(as_rows(torch.tensor([doc[:-1]]))) for doc in docs]
    return pack_documents([docs, [ids + ids]]), separate


@pytest.mark.parametrize("name", DECODERS_ONLY)
def test_packed_documents_say_what_they_say_apart(name: str) -> None:
    check_packed_equals_separate(make(DECODERS_ONLY[name]), *packed_texts())


def packed_pairs() -> tuple[Batch, list[Batch]]:
    """Two sentence pairs in one row, each with its own source, and each pair on its own."""

    def joined(rows: list[list[int]]) -> Rows:
        flat = as_rows(torch.tensor([[i for row in rows for i in row]]))
        docs = torch.tensor([[n for n, row in enumerate(rows) for _ in row]])
        pos = torch.tensor([[i for row in rows for i in range(len(row))]])
        return replace(flat, docs=docs, pos=pos)

    ids = random_ids(1, 20)[0].tolist()
    sources, targets = [ids[:3], ids[3:9]], [ids[9:14], ids[14:17]]
    separate = [
        Batch(pad_rows([target]), source=pad_rows([source]))
        for source, target in zip(sources, targets, strict=True)
    ]
    return Batch(joined(targets), source=joined(sources)), separate


@pytest.mark.parametrize("name", TRANSLATORS)
def test_packed_sentence_pairs_say_what_they_say_apart(name: str) -> None:
    check_packed_equals_separate(make(TRANSLATORS[name]), *packed_pairs())


# --- the alarms can ring ---------------------------------------------------------------------


def padding_counted(ids: Tensor, is_token: Tensor | None = None) -> Rows:
    """Positions that count columns: right for no padding, wrong for padding on the left."""
    rows = as_rows(ids, is_token)
    return replace(rows, pos=torch.arange(ids.size(1)).expand_as(ids))


def all_keys(is_token: Tensor, n_queries: int) -> masks.Mask:
    """Padding is taken for text."""
    return masks.everything(n_queries, is_token.size(1))


def first_row_for_all(is_token: Tensor, n_queries: int) -> masks.Mask:
    """The padding of the first row is taken for that of every row."""
    honest: Callable[..., masks.Mask] = HONEST_REAL_KEYS
    return honest(is_token[:1].expand_as(is_token), n_queries)


HONEST_REAL_KEYS = masks.real_keys


@pytest.mark.parametrize("name", ["decoder-only learned-pre", "encoder-only learned-post-types"])
def test_positions_that_count_padding_are_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "as_rows", padding_counted)
    with pytest.raises(AssertionError):
        check_batched_equals_alone(make(ALL[name]), padded_batch(ALL[name], "left"))


@pytest.mark.parametrize("broken", [all_keys, first_row_for_all])
@pytest.mark.parametrize("name", ["encoder-decoder sinusoidal-post", "encoder-only rotary-pre"])
def test_padding_that_is_seen_is_caught(
    name: str, broken: Callable[..., masks.Mask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "real_keys", broken)
    model, batch = make(ALL[name]), padded_batch(ALL[name], "right")
    with pytest.raises(AssertionError):
        check_batched_equals_alone(model, batch)
    with pytest.raises(AssertionError, match="ids under padding were read"):
        check_padding_is_not_read(model, batch)


def test_padding_that_is_cached_as_text_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    config = DECODERS_ONLY["rotary-grouped"]
    monkeypatch.setattr(masks, "real_keys", all_keys)
    with pytest.raises(AssertionError):
        check_generation_equals_alone(make(config), padded_batch(config, "right"))


@pytest.mark.parametrize("name", ["decoder-only rotary-grouped", "encoder-decoder relative-rms"])
def test_a_dropped_document_mask_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "same_document", lambda q, k: masks.everything(q.size(1), k.size(1)))
    case = packed_texts() if name.startswith("decoder-only") else packed_pairs()
    with pytest.raises(AssertionError):
        check_packed_equals_separate(make(CAUSAL[name]), *case)
