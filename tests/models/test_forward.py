"""Networks behind a plain forward: the same numbers as by their own names."""

from __future__ import annotations

import pytest
import torch
from invariants.families import (
    ALL,
    DECODERS_ONLY,
    TRANSLATORS,
    as_batch,
    make,
    random_ids,
    some_source,
)

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, as_rows, pack_documents
from lookleft.models import AnyConfig
from lookleft.models.forward import DecoderForward, TranslatorForward, as_module

MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])


@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
@torch.no_grad()
def test_a_forward_is_the_network_s_score(config: AnyConfig) -> None:
    network, ids = make(config), random_ids(2, 6)
    batch = as_batch(config, as_rows(ids, MASK.bool()))
    if isinstance(config, EncoderDecoderConfig):
        source = some_source(2)
        out = TranslatorForward(network)(source.ids, ids, source.is_token, MASK)
    else:
        out = as_module(network)(ids, MASK)
    assert torch.equal(out.logits, network.score(batch))
    assert out.attentions is None


@torch.no_grad()
def test_weights_come_when_asked_for_and_leave_no_trace() -> None:
    module = as_module(make(DECODERS_ONLY["rotary-grouped"]))
    ids = random_ids(2, 6)
    out = module(ids, output_attentions=True)
    assert [tuple(weights.shape) for weights in out.attentions] == [(2, 4, 6, 6)] * 2
    torch.testing.assert_close(out.logits, module(ids).logits)
    assert module(ids).attentions is None


@pytest.mark.parametrize("name", ["rotary-grouped", "window-rotary"])
@torch.no_grad()
def test_chunks_through_a_cache_give_the_whole(name: str) -> None:
    module, ids = DecoderForward(make(DECODERS_ONLY[name])), random_ids(2, 6)
    first = module(ids[:, :3], MASK[:, :3], use_cache=True)
    assert first.past_key_values is not None
    second = module(ids[:, 3:], MASK, past_key_values=first.past_key_values)
    whole = module(ids, MASK).logits
    together = torch.cat([first.logits, second.logits], 1)
    torch.testing.assert_close(together[MASK.bool()], whole[MASK.bool()])
    assert module(ids).past_key_values is None


@torch.no_grad()
def test_a_warm_translation_remembers_its_source_and_can_be_cropped() -> None:
    module = TranslatorForward(make(TRANSLATORS["relative-rms"]))
    source, ids = some_source(2), random_ids(2, 5)
    whole = module(source.ids, ids, source.is_token).logits
    state = module(source.ids, ids[:, :2], source.is_token, use_cache=True).past_key_values
    wrong = (ids[:, 2:4] + 1) % 43
    module(source.ids, wrong, past_key_values=state)
    state.crop(2)
    other = torch.zeros_like(source.ids)  # not read again
    rest = module(other, ids[:, 2:], past_key_values=state).logits
    torch.testing.assert_close(rest, whole[:, 2:])


@torch.no_grad()
def test_document_numbers_pack_as_the_data_pipeline_does() -> None:
    network = make(DECODERS_ONLY["learned-pre"])
    documents = [random_ids(4, seed=1).tolist(), random_ids(2, seed=2).tolist()]
    packed = pack_documents([documents])
    out = as_module(network)(packed.inputs.ids, document_ids=packed.inputs.docs).logits
    assert torch.equal(out, network.score(Batch(packed.inputs)))
    assert not torch.equal(out, as_module(network)(packed.inputs.ids).logits)
