"""Rules, the precision ladder, copies, causes, planted leaks and scripts, each on its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lookleft.audit import Verdict, audit
from lookleft.audit.cause import suggest
from lookleft.audit.copying import fresh_copy, modules_of
from lookleft.audit.guard import scramble
from lookleft.audit.precision import Rung, float64_throughout, judge
from lookleft.audit.spec import parse_rule
from lookleft.audit.tensors import by_position
from lookleft.errors import InputError

from .subjects import Decoder


@pytest.mark.parametrize(
    ("spec", "sees", "hidden"),
    [
        ("causal", (3, 3), (3, 4)),
        ("strict", (3, 2), (3, 3)),
        ("window:2", (3, 2), (3, 1)),
        ("lookahead:1", (3, 4), (3, 5)),
        ("prefix:3", (0, 2), (0, 3)),
        ("packed:0,0,1,1,1,2", (3, 2), (3, 1)),
        (lambda i, j: j == i, (3, 3), (3, 2)),
    ],
)
def test_a_rule_allows_and_forbids(
    spec: object, sees: tuple[int, int], hidden: tuple[int, int]
) -> None:
    allowed = parse_rule(spec).allowed(6)  # type: ignore[arg-type]
    assert bool(allowed[sees])
    assert not bool(allowed[hidden])


def test_a_rule_with_a_stride_has_fewer_outputs_than_inputs() -> None:
    rule = parse_rule("stride:2")
    assert rule.allowed(5).shape == (3, 5)
    assert rule.protected(torch.tensor([False, False, True, True, True])).tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("spec", ["window", "window:0", "packed:a", "up"])
def test_a_rule_that_makes_no_sense_is_refused(spec: str) -> None:
    with pytest.raises(InputError):
        parse_rule(spec)


@pytest.mark.parametrize(
    ("d32", "d64", "rung"),
    [
        (0.0, 0.0, Rung.NOTHING),
        (1e-7, 2e-16, Rung.ROUNDING),
        (1e-2, 1e-2, Rung.LEAK),
        (0.0, 1e-11, Rung.TINY_LEAK),
        (0.3, 0.0, Rung.LEAK),
        (1e-7, None, Rung.UNDECIDED),
        (0.3, None, Rung.LEAK),
        (3e-8, 1e-13, Rung.UNDECIDED),
    ],
)
def test_the_ladder_tells_rounding_from_leaks(d32: float, d64: float | None, rung: Rung) -> None:
    assert judge(d32, d64) is rung


def test_casts_inside_a_model_stay_in_float64_while_judging() -> None:
    x = torch.full((3,), 1 / 3, dtype=torch.float64)
    with float64_throughout():
        assert x.float().dtype == torch.float64
        assert x.to(torch.float32).dtype == torch.float64
        assert x.softmax(-1, dtype=torch.float32).dtype == torch.float64
        assert torch.zeros(2).dtype == torch.float64
    assert torch.zeros(2).dtype == torch.float32
    assert x.float().dtype == torch.float32


def test_a_copied_closure_works_on_a_copied_module() -> None:
    model = nn.Linear(2, 2)

    def inner(x: Tensor) -> Tensor:
        return model(x)

    def outer(x: Tensor) -> Tensor:
        return inner(x) + 1

    twin = fresh_copy(outer)
    assert modules_of(outer) == [model]
    modules_of(twin)[0].double()
    assert twin(torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64
    assert model.weight.dtype == torch.float32


def test_a_light_copy_shares_weights_and_nothing_else() -> None:
    model = Decoder()
    model.register_buffer("count", torch.zeros(1))
    model.seen = [1]
    twin = fresh_copy(model, share_parameters=True)
    twin.count += 1
    twin.seen.append(2)
    twin.blocks[0].fault = "other"
    assert twin.embed.weight is model.embed.weight
    assert float(model.count) == 0.0
    assert model.seen == [1]
    assert model.blocks[0].fault == ""


def test_what_cannot_be_copied_gets_a_sentence() -> None:
    class Stubborn(nn.Linear):
        def __deepcopy__(self, memo: object) -> Stubborn:
            raise RuntimeError("no")

    with pytest.raises(InputError, match="cannot be copied"):
        fresh_copy(Stubborn(1, 1))


def test_scrambled_weights_hold_no_zeros() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    scramble(model, 0)
    assert all(bool((parameter != 0).all()) for parameter in model.parameters())


def test_positions_are_recognised_by_the_length_of_an_axis() -> None:
    assert by_position(torch.zeros(2, 4, 37, 8), 2, 37).shape == (2, 37, 32)  # type: ignore[union-attr]
    assert by_position(torch.zeros(74, 8), 2, 37).shape == (2, 37, 8)  # type: ignore[union-attr]
    assert by_position(torch.zeros(37, 2, 8), 2, 37).shape == (2, 37, 8)  # type: ignore[union-attr]
    assert by_position(torch.zeros(2, 37, 37), 2, 37) is None
    assert by_position(torch.zeros(2, 8), 2, 37) is None


def test_shapes_of_a_matrix_suggest_causes() -> None:
    rule, ones = parse_rule("causal"), torch.ones(12, 12)
    assert "missing" in (suggest(ones, rule) or "")
    assert "inverted" in (suggest(ones.triu(), rule) or "")
    assert "off by 1" in (suggest(ones.tril(1), rule) or "")
    assert "faintly" in (suggest(ones.tril() + 1e-6 * ones.triu(1), rule) or "")
    assert "padding or prefix column" in (
        suggest(ones.tril() + ones * torch.eye(12)[11], rule) or ""
    )


def test_the_detection_limit_is_printed_and_small() -> None:
    report = audit(Decoder(), checks="K1", quick=True)
    (found,) = report.findings
    assert found.verdict is Verdict.VERIFIED
    assert found.detection_limit is not None
    assert found.detection_limit <= 1e-10


def test_the_script_of_a_violation_runs_without_this_package(tmp_path: Path) -> None:
    module = tmp_path / "peeking.py"
    module.write_text(
        "import torch\n"
        "class Peeking(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.embed = torch.nn.Embedding(20, 4)\n"
        "    def forward(self, ids):\n"
        "        x = self.embed(ids)\n"
        "        return x.cumsum(1) + x.roll(-1, 1)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import peeking  # type: ignore[import-not-found]

        found = audit(peeking.Peeking(), checks="K1", quick=True).violations[0]
    finally:
        sys.path.remove(str(tmp_path))
    assert found.snippet is not None
    assert "lookleft" not in found.snippet
    script = tmp_path / "show.py"
    script.write_text(found.snippet)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert float(ran.stdout.split(":")[1]) > 0
