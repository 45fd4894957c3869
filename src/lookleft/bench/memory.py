"""How much memory tensors take at one time while something runs, from torch's own profiler."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def peak_bytes(job: Callable[[], object]) -> int:
    """The most that tensors made by the job took at one time."""
    with _unheard(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        job()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        watched.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    changes = sorted(
        (event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]"
    )
    now = peak = 0
    for _, size in changes:
        now += size
        peak = max(peak, now)
    return peak


@contextmanager
def _unheard() -> Iterator[None]:
    """Inside, nothing reaches stderr: the profiler announces itself there, and cannot be asked."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
