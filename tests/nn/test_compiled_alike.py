"""Machine code fresh from the compiler computes, bit for bit, what the same from disk does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

from lookleft.nn.compiling import is_compiled

# A step of a small translator, which goes through every kernel; prints a hash of its gradients.
STEP = """
import hashlib

import torch

from lookleft.data.batch import translation_batch
from lookleft.models import build
from lookleft.train.device import computing_in
from lookleft.train.loss import batch_loss, twin_loss
from lookleft.train.settings import model_config
from lookleft.train.settings_file import read_settings

torch.set_num_threads(1)
chosen = {"model.norm": "rms", "model.activation": "relu2", "model.qk_norm": "true"}
chosen |= {"model.positions": '{ kind = "rotary" }', "model.n_layers": "1"}
config = model_config(read_settings(None, chosen), 1_000, 1)
draw = torch.Generator().manual_seed(3)
rows = [torch.randint(5, 1_000, (n,), generator=draw).tolist() for n in range(5, 30)]
batch, digest = translation_batch(rows, rows[::-1], 1), hashlib.sha256()
for precision in ("float32", "bfloat16"):
    for rdrop in (0.0, 1.0):
        torch.manual_seed(0)
        model = build(config, torch.Generator().manual_seed(0)).train()
        with computing_in(precision, model.device):
            loss = twin_loss(model, batch, 0.1, rdrop) if rdrop else batch_loss(model, batch, 0.1)
        loss.backward()
        for parameter in model.parameters():
            digest.update(parameter.grad.numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_what_was_just_compiled_computes_what_is_loaded_later(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", STEP],
            env=environment(NUMBA_CACHE_DIR=str(tmp_path)),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert is_compiled(tmp_path)
        found.append(done.stdout)
    assert found[0] == found[1]
