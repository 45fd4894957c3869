"""A real language model in the engine, on the 4-bit blocks of its file."""

from __future__ import annotations

import pytest
import torch
from weights import SMOLLM2, packaged

from lookleft.bundle import load
from lookleft.data.batch import Batch, as_rows
from lookleft.engine import pick_runner
from lookleft.engine.runner import Runner

TEXT = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is"


@pytest.mark.slow
@torch.no_grad()
def test_blocks_as_stored_write_the_text_of_the_network() -> None:
    bundle = load(packaged(*SMOLLM2))
    runner = pick_runner(bundle)
    assert isinstance(runner, Runner)
    assert runner.weights.n_bytes < 110e6  # not a float32 of them
    ids = bundle.encode(TEXT)
    batch = Batch(as_rows(torch.tensor([ids])))
    expected, theirs = bundle.network.prefill(batch, room=12)
    found, ours = runner.prefill(batch, room=12)
    for _ in range(12):
        # Weights are the same; activations of 16 bits are all that differs.
        assert float((found - expected).abs().max()) < 0.05
        next_id = expected.argmax(-1)
        assert torch.equal(found.argmax(-1), next_id)
        expected, found = bundle.network.step(next_id, theirs), runner.step(next_id, ours)
