"""Several processes for a test: started together, and waited for together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_WAIT = 300  # seconds, for machines that do much else


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """That of this process, with one thread each and the tests importable."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    one = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": paths}
    return os.environ | one | more


def run_world(script: Path, size: int, *words: str) -> None:
    """Run a script as torchrun would, in `size` processes, without the program around it."""
    port = str(free_port())
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(script), *words],
            env=environment(
                RANK=str(rank),
                WORLD_SIZE=str(size),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                TORCHELASTIC_RUN_ID="test",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        said = [process.communicate(timeout=_WAIT)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    for process, text in zip(started, said, strict=True):
        assert process.returncode == 0, text


def torchrun(*words: str) -> list[str]:
    """The command line of torchrun with two processes on this machine, for `words`."""
    here = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    two = ["--nnodes", "1", "--nproc-per-node", "2", *here]
    return [sys.executable, "-m", "torch.distributed.run", *two, *words]
