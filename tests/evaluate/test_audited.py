"""What the audit is told about our networks is what they do."""

from __future__ import annotations

import torch
from invariants.families import DECODERS_ONLY, ENCODERS_ONLY, TRANSLATORS, make, random_ids
from torch import nn

from lookleft.data.batch import Batch, as_rows, next_token_batch
from lookleft.evaluate.audited import capabilities
from lookleft.generate.decode import generate_ids
from lookleft.train.loss import batch_loss


def test_a_language_model_generates_and_costs_what_it_does_elsewhere() -> None:
    network = make(DECODERS_ONLY["rotary-grouped"])
    given, ids = capabilities(network.audit_subject()), random_ids(2, 5)
    is_token = torch.tensor([[True] * 5, [False] * 2 + [True] * 3])
    new = generate_ids(network, [ids[0].tolist(), ids[1, 2:].tolist()], max_new=3, eos=None)
    assert given["generate"](ids, 3, is_token).tolist() == [
        [*row, *more] for row, more in zip(ids.tolist(), new, strict=True)
    ]
    expected = batch_loss(network, next_token_batch(ids.tolist()))
    assert torch.equal(given["loss"](ids, ids), expected)
    assert torch.equal(given["loss"](ids, torch.full_like(ids, -100)), torch.zeros_like(expected))


def test_a_translator_starts_with_its_start_token() -> None:
    network = make(TRANSLATORS["sinusoidal-post"])
    given, source, ids = capabilities(network.audit_subject()), random_ids(2, 5), random_ids(2, 3)
    new = generate_ids(network, source.tolist(), max_new=3, eos=None)
    start = network.config.start_id
    assert given["generate"](source, 3).tolist() == [[start, *row] for row in new]
    batch = Batch(as_rows(ids), ids + 1, source=as_rows(source))
    assert torch.equal(given["loss"](ids, ids + 1, source), batch_loss(network, batch))
    assert given["encode"](source).shape == (2, 5, 16)


def test_nothing_is_said_about_an_encoder_or_a_stranger() -> None:
    assert capabilities(make(ENCODERS_ONLY["rotary-pre"]).audit_subject()) == {}
    assert capabilities(nn.Linear(2, 2)) == {}
