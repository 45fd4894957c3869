"""What all models share: a seeded start, checks in words, families by their config."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from invariants.families import (
    ALL,
    CAUSAL,
    DECODERS_ONLY,
    ENCODERS_ONLY,
    TRANSLATORS,
    as_batch,
    decoder_only,
    make,
    random_ids,
)
from torch import Tensor, nn

from lookleft.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, Learned
from lookleft.data.batch import Batch, as_rows, pack_documents
from lookleft.errors import InputError
from lookleft.models import DecoderOnly, EncoderDecoder, EncoderOnly, build
from lookleft.models.base import last_of
from lookleft.nn.attention import KV


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ALL)
def test_a_config_builds_its_family_and_logits_of_its_vocabulary(name: str) -> None:
    config = ALL[name]
    model = build(config)
    kinds = {
        DecoderOnlyConfig: DecoderOnly,
        EncoderDecoderConfig: EncoderDecoder,
        EncoderOnlyConfig: EncoderOnly,
    }
    assert type(model) is kinds[type(config)]
    logits = model.score(as_batch(config, as_rows(random_ids(2, 5))))
    assert logits.shape == (2, 5, config.vocab_size)


@pytest.mark.parametrize("name", ALL)
def test_one_seed_gives_one_model_and_initialise_forgets_all_training(name: str) -> None:
    first, second = build(ALL[name], seeded(5)), build(ALL[name], seeded(5))
    other = build(ALL[name], seeded(6))
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(1.0)
    second.initialise(seeded(5))
    for name_, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name_)), name_
        assert bool(parameter.isfinite().all()), name_
    assert not torch.equal(first.embedding.tokens.weight, other.embedding.tokens.weight)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_has_a_part_in_the_answer(name: str) -> None:
    config = ALL[name]
    model = make(config)
    rows = as_rows(random_ids(2, 5))
    model.score(as_batch(config, rows)).square().sum().backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    # A softmax does not feel a number added to all scores of a query: the bias of the keys.
    felt = [n for n in idle if not n.endswith("to_k.bias")]
    assert not felt


@pytest.mark.parametrize("name", ALL)
def test_ids_outside_the_vocabulary_are_refused_by_name(name: str) -> None:
    config = ALL[name]
    model = build(config)
    for wrong in (-1, config.vocab_size):
        ids = torch.tensor([[1, wrong, 2]])
        with pytest.raises(InputError, match=rf"id {wrong} is outside the vocabulary 0\.\.49"):
            model.score(as_batch(config, as_rows(ids)))


def test_ids_outside_the_source_vocabulary_are_refused_by_name() -> None:
    model = build(TRANSLATORS["learned-pre-two-vocabularies"])
    source = as_rows(torch.tensor([[43]]))
    with pytest.raises(InputError, match=r"id 43 is outside the vocabulary 0\.\.42"):
        model.score(Batch(as_rows(torch.tensor([[1]])), source=source))


def test_texts_beyond_the_context_are_refused_with_both_lengths() -> None:
    for config in (decoder_only(max_len=4), decoder_only(positions=Learned(max_len=4))):
        model = build(config)
        with pytest.raises(InputError, match="5 tokens, but this model reads at most 4"):
            model.score(Batch(as_rows(random_ids(1, 5))))
        _, state = model.prefill(Batch(as_rows(random_ids(1, 4))), room=1)
        with pytest.raises(InputError, match="5 tokens, but this model reads at most 4"):
            model.step(torch.tensor([1]), state)


def test_a_translator_without_a_source_or_with_one_too_few_is_refused() -> None:
    model = build(TRANSLATORS["sinusoidal-post"])
    rows = as_rows(random_ids(2, 3))
    with pytest.raises(InputError, match="needs a source"):
        model.score(Batch(rows))
    with pytest.raises(InputError, match="1 source rows but 2 target rows"):
        model.score(Batch(rows, source=as_rows(random_ids(1, 3))))


@pytest.mark.parametrize("name", CAUSAL)
def test_a_step_takes_one_id_per_row(name: str) -> None:
    model = build(CAUSAL[name])
    _, state = model.prefill(as_batch(CAUSAL[name], as_rows(random_ids(2, 3))), room=2)
    with pytest.raises(InputError, match=r"shape \(batch,\), got \(2, 1\)"):
        model.step(torch.tensor([[1], [2]]), state)


def test_packed_documents_are_not_silently_generated_from() -> None:
    model = build(DECODERS_ONLY["rotary-grouped"])
    with pytest.raises(InputError, match="packed documents"):
        model.prefill(pack_documents([[[1, 2, 3], [4, 5, 6]]]), room=2)


def test_the_last_real_token_is_found_wherever_it_stands() -> None:
    logits = torch.arange(12.0).view(2, 3, 2)
    is_token = torch.tensor([[True, True, False], [False, True, True]])
    assert last_of(logits, is_token).tolist() == [[2.0, 3.0], [10.0, 11.0]]


def test_models_run_under_mixed_precision() -> None:
    for name, config in CAUSAL.items():
        model = build(config)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model.score(as_batch(config, as_rows(random_ids(2, 5))))
            logits.float().logsumexp(-1).sum().backward()
        assert bool(logits.isfinite().all()), name


def test_dropout_is_off_outside_training() -> None:
    model = build(decoder_only(dropout=0.5, attention_dropout=0.5))
    batch = Batch(as_rows(random_ids(2, 5)))
    assert isinstance(model, nn.Module)
    assert not torch.equal(model.train().score(batch), model.score(batch))
    assert torch.equal(model.eval().score(batch), model.score(batch))


def test_segment_kinds_are_added_row_by_row_and_default_to_the_first() -> None:
    config = ENCODERS_ONLY["learned-post-types"]
    model, rows = make(config), as_rows(random_ids(1, 4))
    default = model.score(Batch(rows))
    first = model.score(Batch(replace(rows, types=torch.zeros(1, 4, dtype=torch.long))))
    mixed = model.score(Batch(replace(rows, types=torch.tensor([[0, 0, 1, 1]]))))
    assert torch.equal(default, first)
    assert not torch.equal(default, mixed)


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("learned-post-types", [[0, 1, 2, 0]], "segments 0 to 2, but this model has 2 kinds"),
        ("learned-post-types", [[0, -1, 0, 0]], "segments -1 to 0"),
        ("learned-post-types", [[0, 1]], r"segment numbers \(1, 2\), ids \(1, 4\)"),
        ("rotary-pre", [[0, 0, 0, 0]], "this model has 0 kinds"),
    ],
)
def test_segment_kinds_that_a_model_lacks_are_refused(
    name: str, types: list[list[int]], message: str
) -> None:
    model, rows = make(ENCODERS_ONLY[name]), as_rows(random_ids(1, 4))
    with pytest.raises(InputError, match=message):
        model.score(Batch(replace(rows, types=torch.tensor(types))))


def test_a_source_is_looked_at_in_every_step_and_read_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, ids = make(TRANSLATORS["sinusoidal-post"]), random_ids(2, 5)
    n_read = {name: 0 for name, _ in model.named_modules() if name.endswith("cross_attention")}
    for name in n_read:
        layer = model.get_submodule(name)

        def counted(x: Tensor, name: str = name, read: Any = layer.keys_values) -> KV:
            n_read[name] += 1
            return read(x)

        monkeypatch.setattr(layer, "keys_values", counted)
    _, state = model.prefill(Batch(as_rows(ids[:, :1]), source=as_rows(ids)), room=4)
    for t in range(1, 5):
        model.step(ids[:, t], state)
    assert set(n_read.values()) == {1}


def test_a_state_with_a_prefix_may_shrink_and_grow() -> None:
    model, ids = make(DECODERS_ONLY["sinusoidal-post"]), random_ids(2, 5)
    prefix = torch.tensor([3, 1])
    full = model.score(Batch(as_rows(ids), prefix=prefix))[:, -1]
    for order in ([1], [0, 1, 1]):
        _, state = model.prefill(Batch(as_rows(ids[:, :4]), prefix=prefix), room=1)
        state.reorder(torch.tensor(order))
        got = model.step(ids[order, 4], state)
        torch.testing.assert_close(got, full[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["sinusoidal-post", "relative-rms"])
def test_rows_that_join_later_are_answered_as_alone(name: str) -> None:
    model, ids = make(TRANSLATORS[name]), random_ids(3, 6)
    sources = [as_rows(random_ids(1, n, seed=n)) for n in (2, 5, 3)]
    alone = [
        model.score(Batch(as_rows(ids[b : b + 1, : 4 - b]), source=sources[b]))[:, -1]
        for b in range(3)
    ]
    _, state = model.prefill(Batch(as_rows(ids[:1, :1]), source=sources[0]), room=5)
    model.step(ids[:1, 1], state)
    for b in (1, 2):  # each is one token behind the one before
        _, other = model.prefill(Batch(as_rows(ids[b : b + 1, :1]), source=sources[b]), room=5)
        if b == 1:
            model.step(ids[:1, 2], state)
            model.step(ids[1:2, 1], other)
        state.join(other)
    assert state.lengths.tolist() == [3, 2, 1]
    got = model.step(ids[[0, 1, 2], [3, 2, 1]], state)
    torch.testing.assert_close(got, torch.cat(alone), rtol=0, atol=1e-12)


def test_beams_that_change_places_share_their_source_and_others_do_not() -> None:
    model, ids = make(TRANSLATORS["sinusoidal-post"]), random_ids(2, 4)
    _, state = model.prefill(Batch(as_rows(ids[:, :1]), source=as_rows(ids)), room=3)
    state.reorder(torch.tensor([0, 0, 1, 1]))
    kept = state.memory.kvs[0].keys
    state.reorder(torch.tensor([1, 0, 3, 3]))
    assert state.memory.kvs[0].keys is kept  # nothing had to move
    state.reorder(torch.tensor([2, 0]))
    full = model.score(Batch(as_rows(ids[[1, 0], :2]), source=as_rows(ids[[1, 0]])))[:, -1]
    got = model.step(ids[[1, 0], 1], state)
    torch.testing.assert_close(got, full, rtol=0, atol=1e-12)


def test_rows_with_a_prefix_do_not_join_rows_without() -> None:
    model, ids = make(DECODERS_ONLY["sinusoidal-post"]), random_ids(1, 4)
    _, plain = model.prefill(Batch(as_rows(ids)), room=1)
    _, other = model.prefill(Batch(as_rows(ids), prefix=torch.tensor([2])), room=1)
    with pytest.raises(InputError, match="prefix"):
        plain.join(other)
