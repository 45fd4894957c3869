"""`lookleft bench`: what something costs on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookleft.errors import InputError

if TYPE_CHECKING:
    from lookleft.models import DecoderOnly

LENGTHS = (64, 128, 256, 512)
REPEATS = 5  # of one plain forward; the fastest counts, since noise only ever adds


def bench(
    job: Literal["audit"],
    /,
    *,
    lengths: str = ",".join(map(str, LENGTHS)),
    width: int = 320,
    layers: int = 8,
    threads: int = 1,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Measure what JOB costs: forwards and time, beside one plain forward of the same network.

    Seconds are those the processor spent on it, so that a busy machine does not stretch them.

    Examples:
      lookleft bench audit
      lookleft bench audit --lengths 64,128 --width 64 --layers 2 --json

    Parameters
    ----------
    job
        audit: `lookleft audit` with and without --quick, on a random decoder.
    lengths
        Positions per row, with commas between; the full audit runs at the first.
    width
        Of the decoder; 320 and 8 layers make 10 million parameters.
    layers
        Of the decoder.
    threads
        That torch may use.
    json_
        Print one JSON object instead of a table.
    """
    import torch

    sizes = _numbers(lengths)
    if min(width // 64, layers, threads) < 1:
        raise InputError(f"too small: width {width} (64 or more), {layers=}, {threads=}")
    torch.set_num_threads(threads)
    model = _decoder(width - width % 64, layers)
    if json_:
        cells = list(_cells(model, sizes))
        print(json.dumps({"parameters": model.n_parameters, "threads": threads, "cells": cells}))
        return
    print(f"{model.n_parameters:,} parameters, {threads} thread{'s' * (threads > 1)}")
    print(f"{'job':<14} {'length':>6} {'forwards':>8} {'x one forward':>13} {'seconds':>8}")
    for cell in _cells(model, sizes):
        line = (
            f"{cell['job']:<14} {cell['length']:>6} {cell['forwards']:>8} "
            f"{cell['ratio_to_one_forward']:>13,.0f} {cell['seconds']:>8.1f}"
        )
        print(line, flush=True)  # the next one takes minutes


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--lengths {text!r}: give numbers with commas, as in 64,128") from None
    if min(found) < 8:
        raise InputError(f"--lengths {text!r}: below 8 there is little to audit")
    return found


def _decoder(width: int, layers: int) -> DecoderOnly:
    import torch

    from lookleft.models import DecoderOnly, presets

    heads = width // 64
    config = presets.llama(1000, width, layers, heads, heads, d_ff=8 * width // 3)
    return DecoderOnly(config, torch.Generator().manual_seed(0)).eval()


def _cells(model: DecoderOnly, lengths: list[int]) -> Iterator[dict[str, Any]]:
    """The quick audit at every length, then the full one at the first."""
    from lookleft.audit.run import audit

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
    import torch

    from lookleft.data.batch import Batch, as_rows

    batch = Batch(as_rows(torch.arange(length)[None] % model.config.vocab_size))
    with torch.no_grad():
        return min(_seconds(lambda: model.score(batch)) for _ in range(REPEATS))


def _seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
