"""Polarity: no word, at any distance ahead, changes a single bit of what came before it.

Same shapes, same weights, two texts that agree up to a cut: everything before the cut must be
equal bit for bit, in every model family, at every cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from invariants.families import (
    CAUSAL,
    DECODERS_ONLY,
    ENCODERS_ONLY,
    TRANSLATORS,
    VOCAB,
    as_batch,
    decoder_only,
    encoder_decoder,
    make,
    random_ids,
)
from torch import Tensor

from lookleft import masks
from lookleft.data.batch import Batch, as_rows, pack_documents
from lookleft.masks import Mask
from lookleft.models import AnyModel
from lookleft.nn import attention

LENGTH = 9


def change(ids: Tensor, columns: slice) -> Tensor:
    """The same ids with other ones in some columns."""
    other = ids.clone()
    other[:, columns] = (other[:, columns] + 1) % VOCAB
    return other


@torch.no_grad()
def check_no_peek(model: AnyModel, batch: Batch, first_cut: int = 1) -> None:
    """At every cut: the past is equal bit for bit, the changed word itself is not."""
    ids, is_token = batch.inputs.ids, batch.inputs.is_token
    before = model.score(batch)
    for cut in range(first_cut, ids.size(1)):
        inputs = replace(batch.inputs, ids=change(ids, slice(cut, None)))
        after = model.score(replace(batch, inputs=inputs))
        past = is_token[:, :cut]  # what is computed at padding is read by nobody
        same = torch.equal(before[:, :cut][past], after[:, :cut][past])
        assert same, f"a change at {cut} shows before it"
        assert not torch.equal(before[:, cut], after[:, cut]), "the probe itself does nothing"


def check_no_gradient_from_the_future(model: AnyModel, batch: Batch) -> None:
    """The logits at t have a gradient of exactly zero in the words after t, and one at t."""
    vectors: list[Tensor] = []

    def keep(module: torch.nn.Module, args: tuple[Tensor, ...], out: Tensor) -> Tensor:
        vectors.append(out.detach().requires_grad_())
        return vectors[-1]

    handle = model.embedding.register_forward_hook(keep)
    logits = model.score(batch)
    handle.remove()
    target = vectors[-1]  # an encoder that shares the embedding was here first
    for t in range(logits.size(1)):
        weights = torch.linspace(1, 2, logits.size(2), dtype=logits.dtype)
        (gradient,) = torch.autograd.grad((logits[:, t] * weights).sum(), target, retain_graph=True)
        assert bool((gradient[:, t + 1 :] == 0).all()), f"position {t} has a gradient in its future"
        assert bool(gradient[:, t].abs().sum() > 0), "the probe itself does nothing"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CAUSAL)
def test_the_future_never_changes_the_past(name: str, dtype: torch.dtype) -> None:
    model = make(CAUSAL[name], dtype)
    check_no_peek(model, as_batch(CAUSAL[name], as_rows(random_ids(2, LENGTH))))


@pytest.mark.parametrize("name", CAUSAL)
def test_no_gradient_flows_in_from_the_future(name: str) -> None:
    model = make(CAUSAL[name])
    check_no_gradient_from_the_future(model, as_batch(CAUSAL[name], as_rows(random_ids(2, LENGTH))))


@pytest.mark.parametrize("name", ["window-rotary", "relative-one-kv-head", "rotary-grouped"])
def test_a_mask_written_out_in_pieces_hides_the_future_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MASK_ROWS", 2)
    check_no_peek(
        make(DECODERS_ONLY[name]), Batch(as_rows(random_ids(2, LENGTH), padding_in_row_one()))
    )


@pytest.mark.parametrize("name", CAUSAL)
def test_the_future_stays_hidden_in_a_padded_batch(name: str) -> None:
    config = CAUSAL[name]
    check_no_peek(
        make(config), as_batch(config, as_rows(random_ids(2, LENGTH), padding_in_row_one()))
    )


def padding_in_row_one() -> Tensor:
    is_token = torch.ones(2, LENGTH, dtype=torch.bool)
    is_token[1, [0, 3, 4]] = False
    return is_token


@pytest.mark.parametrize("name", DECODERS_ONLY)
def test_a_prefix_is_seen_both_ways_and_nothing_beyond_it(name: str) -> None:
    model = make(DECODERS_ONLY[name])
    batch = Batch(as_rows(random_ids(2, LENGTH)), prefix=torch.tensor([3, 3]))
    check_no_peek(model, batch, first_cut=3)
    with pytest.raises(AssertionError, match="a change at 2 shows before it"):
        check_no_peek(model, batch, first_cut=2)


@torch.no_grad()
def check_reach(model: AnyModel, batch: Batch, reach: int) -> None:
    """A changed first word shows up to `reach` positions later and not one further."""
    before = model.score(batch)
    inputs = replace(batch.inputs, ids=change(batch.inputs.ids, slice(0, 1)))
    after = model.score(replace(batch, inputs=inputs))
    assert torch.equal(before[:, reach + 1 :], after[:, reach + 1 :]), "seen beyond the window"
    assert not torch.equal(before[:, reach], after[:, reach]), "the window is too narrow"


@pytest.mark.parametrize("name", ["window-rotary", "window-sinusoidal"])
def test_a_window_reaches_exactly_as_far_as_it_says(name: str) -> None:
    config = DECODERS_ONLY[name]
    assert config.window is not None
    reach = (config.window - 1) * config.n_layers
    check_reach(make(config), Batch(as_rows(random_ids(2, reach + 4))), reach)
    wider = config.model_copy(update={"window": config.window + 1})
    with pytest.raises(AssertionError, match="seen beyond the window"):
        check_reach(make(wider), Batch(as_rows(random_ids(2, reach + 4))), reach)


@pytest.mark.parametrize("name", DECODERS_ONLY)
def test_packed_documents_change_neither_their_past_nor_their_neighbours(name: str) -> None:
    model = make(DECODERS_ONLY[name])
    ids = random_ids(1, 13)[0].tolist()
    batch = pack_documents([[ids[:5], ids[5:7], ids[7:]]])
    check_no_peek(model, batch)
    check_no_look_into_other_documents(model, batch)


@torch.no_grad()
def check_no_look_into_other_documents(model: AnyModel, batch: Batch) -> None:
    docs = batch.inputs.docs
    assert docs is not None
    before = model.score(batch)
    for number in range(int(docs.max()) + 1):
        ids = torch.where(docs == number, (batch.inputs.ids + 1) % VOCAB, batch.inputs.ids)
        after = model.score(replace(batch, inputs=replace(batch.inputs, ids=ids)))
        is_other = docs != number
        assert torch.equal(before[is_other], after[is_other]), f"document {number} was seen"
        assert not torch.equal(before[~is_other], after[~is_other]), "the probe does nothing"


# --- the alarms can ring ---------------------------------------------------------------------


def one_ahead(q_pos: Tensor, k_pos: Tensor, *_: object) -> Mask:
    """`gap >= -1`: sees the very word that it must predict."""
    honest = masks.everything(q_pos.size(1), k_pos.size(1))
    gap = q_pos[:, None, :, None] - k_pos[:, None, None, :]
    return replace(honest, rows=lambda i, j: (gap >= -1)[:, :, i:j], is_full=False)


def inverted(q_pos: Tensor, k_pos: Tensor, *_: object) -> Mask:
    """True taken for "hide": everybody sees the future only."""
    honest = masks.everything(q_pos.size(1), k_pos.size(1))
    gap = q_pos[:, None, :, None] - k_pos[:, None, None, :]
    return replace(honest, rows=lambda i, j: (gap < 0)[:, :, i:j], is_full=False)


@pytest.mark.parametrize("broken", [one_ahead, inverted])
@pytest.mark.parametrize("name", ["decoder-only rotary-grouped", "encoder-decoder sinusoidal-post"])
def test_a_mask_that_peeks_is_caught(
    name: str, broken: Callable[..., Mask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "causal", broken)
    model, batch = make(CAUSAL[name]), as_batch(CAUSAL[name], as_rows(random_ids(2, LENGTH)))
    with pytest.raises(AssertionError, match="shows before it"):
        check_no_peek(model, batch)
    with pytest.raises(AssertionError, match="gradient in its future"):
        check_no_gradient_from_the_future(model, batch)


@pytest.mark.parametrize("config", [decoder_only(mask="none"), encoder_decoder(mask="none")])
def test_a_model_without_its_mask_is_caught(config: object) -> None:
    with pytest.raises(AssertionError, match="shows before it"):
        check_no_peek(make(config), as_batch(config, as_rows(random_ids(2, LENGTH))))


@pytest.mark.parametrize("name", ENCODERS_ONLY)
def test_an_encoder_sees_both_ways_and_the_check_says_so(name: str) -> None:
    with pytest.raises(AssertionError, match="a change at 1 shows before it"):
        check_no_peek(make(ENCODERS_ONLY[name]), Batch(as_rows(random_ids(2, LENGTH))))


def test_a_dropped_document_mask_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "same_document", lambda q, k: masks.everything(q.size(1), k.size(1)))
    ids = random_ids(1, 13)[0].tolist()
    batch = pack_documents([[ids[:5], ids[5:7], ids[7:]]])
    with pytest.raises(AssertionError, match="document 0 was seen"):
        check_no_look_into_other_documents(make(DECODERS_ONLY["rotary-grouped"]), batch)


def test_the_source_is_seen_in_full_from_the_first_target_word() -> None:
    """Hiding too much would pass every check above: the translator must see its whole source."""
    for config in TRANSLATORS.values():
        model = make(config)
        rows, source = as_rows(random_ids(1, 4)), as_rows(random_ids(1, 6, seed=3))
        before = model.score(Batch(rows, source=source))
        for s in range(6):
            other = replace(source, ids=(change(source.ids, slice(s, s + 1))) % (VOCAB - 7))
            after = model.score(Batch(rows, source=other))
            assert bool((before != after).any(-1).all()), f"source word {s} is not seen everywhere"
