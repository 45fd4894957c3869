"""What the audit costs: forwards, and time beside one plain forward of the same network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from lookleft.audit.run import audit
from lookleft.data.batch import Batch, as_rows
from lookleft.models import DecoderOnly, presets

REPEATS = 5  # of one plain forward; the fastest counts, since noise only ever adds


def random_decoder(width: int, layers: int) -> DecoderOnly:
    """A decoder with heads of 64; width 320 and 8 layers make 10 million parameters."""
    heads = width // 64
    config = presets.llama(1000, width, layers, heads, heads, d_ff=8 * width // 3)
    return DecoderOnly(config, torch.Generator().manual_seed(0)).eval()


def measure(model: DecoderOnly, lengths: Sequence[int]) -> Iterator[dict[str, Any]]:
    """One cell for the quick audit at every length, then one for the full audit at the first.

    Seconds are those the processor spent, so that a busy machine does not stretch them.
    """
    module = model.audit_subject()
    jobs = [("audit --quick", lengths), ("audit", lengths[:1])]
    for job, sizes in jobs:
        for length in sizes:
            single = _one_forward(model, length)
            began = time.process_time()
            report = audit(module, length=length, quick=job.endswith("quick"))
            seconds = time.process_time() - began
            yield {
                "job": job,
                "length": length,
                "forwards": report.forwards,
                "ratio_to_one_forward": seconds / single,
                "seconds": seconds,
            }


def _one_forward(model: DecoderOnly, length: int) -> float:
    """CPU seconds of one row in the network's own dtype, without gradients."""
    batch = Batch(as_rows(torch.arange(length)[None] % model.config.vocab_size))
    with torch.no_grad():
        return min(_seconds(lambda: model.score(batch)) for _ in range(REPEATS))


def _seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
