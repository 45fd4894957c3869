"""Devices that are not there are refused; compiling changes neither names nor numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from lookleft.config import Learned, Positions, Relative, Rotary
from lookleft.data.batch import next_token_batch, translation_batch
from lookleft.errors import ConfigError
from lookleft.models import build, presets
from lookleft.nn.block import Block
from lookleft.train.device import (
    Precision,
    compile_blocks,
    find_device,
    find_precision,
    remark_on,
)
from lookleft.train.loss import batch_loss
from lookleft.train.objective import Objective


def test_auto_finds_a_device_and_an_absent_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(ConfigError, match=rf"train\.device = '{name}'.*\"auto\""):
            find_device(name)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")


def test_a_precision_without_units_is_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert remark_on("float32", cpu) is None
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "amx_bf16": False})
    assert "no bfloat16 units" in (remark_on("bfloat16", cpu) or "")
    assert remark_on("auto", cpu) is None
    assert find_precision("auto", cpu) == "float32"
    assert find_precision("bfloat16", cpu) == "bfloat16"  # slow, but what a run was begun with
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "amx_bf16": True})
    assert remark_on("bfloat16", cpu) is None
    assert find_precision("auto", cpu) == "bfloat16"
    assert find_precision("auto", torch.device("mps")) == find_precision("float32", cpu)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """What was compiled before counts towards what is compiled at most."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # compiling warns of its own old parts
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("positions", [Learned(max_len=32), Rotary()])
def test_compiled_layers_keep_their_names_and_compute_the_same(positions: Positions) -> None:
    config = presets.gpt(30, 16, 1, 2, 32).model_copy(update={"positions": positions})
    model = build(config, torch.Generator().manual_seed(0))
    compiled = build(config, torch.Generator().manual_seed(0))
    compile_blocks(compiled, backend="aot_eager")  # traces all the same, and writes no C++
    assert compiled.state_dict().keys() == model.state_dict().keys()
    for length, precision in ((3, "float32"), (5, "float32"), (4, "bfloat16")):
        batch = next_token_batch([[4] * length, [5, 6, 7]])  # another length is no other model
        objective = Objective(precision=precision)
        losses = [objective(one, batch) for one in (model, compiled)]
        # What lies between narrow products is narrow in our kernels and wide when compiled.
        rounding = 1e-5 if precision == "float32" else 0.02
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=0)
        assert (losses[0] == batch_loss(model, batch)) == (precision == "float32")
        for one, loss in zip((model, compiled), losses, strict=True):
            one.zero_grad()
            loss.backward()
        for one, other in zip(model.parameters(), compiled.parameters(), strict=True):
            assert (one.grad - other.grad).norm() <= rounding * other.grad.norm() + 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    ("task", "positions", "precision"),
    [
        ("lm", Learned(max_len=32), "float32"),
        ("lm", Relative(), "float32"),
        ("translate", Rotary(), "bfloat16"),
    ],
)
def test_a_layer_is_compiled_in_one_piece(
    task: str, positions: Positions, precision: Precision
) -> None:
    changes = {"positions": positions, "norm": "rms", "d_model": 16, "d_ff": 16, "dropout": 0.0}
    if task == "lm":
        model = build(presets.gpt(30, 16, 1, 2, 32).model_copy(update=changes))
        batch = next_token_batch([[4, 5, 6], [7, 8]])
    else:
        model = build(presets.tiny(30).model_copy(update=changes))
        batch = translation_batch([[4, 5], [6, 7, 8]], [[9, 10, 2], [11, 2]], start_id=1)
    objective, ways = Objective(precision=precision), (True, False)
    losses = [objective(model.train(is_training), batch) for is_training in ways]
    for block in model.modules():
        if isinstance(block, Block):
            block.compile(fullgraph=True, dynamic=True, backend="eager")  # pieces are an error
    rounding = 1e-5 if precision == "float32" else 0.01
    for is_training, loss in zip(ways, losses, strict=True):
        found = objective(model.train(is_training), batch)
        torch.testing.assert_close(found, loss, rtol=rounding, atol=0)
