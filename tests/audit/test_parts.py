"""Rules, the precision ladder, copies, causes, planted leaks and scripts, each on its own."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lookleft.audit import Verdict, audit
from lookleft.audit.cause import suggest
from lookleft.audit.constants import constants_of, ids_with_meaning
from lookleft.audit.copying import fresh_copy, modules_of
from lookleft.audit.guard import scramble
from lookleft.audit.precision import Rung, float64_throughout, judge
from lookleft.audit.recognise import recognise
from lookleft.audit.spec import parse_rule
from lookleft.audit.tensors import by_position
from lookleft.audit.verdict import Culprit, Finding
from lookleft.errors import InputError

from .subjects import Decoder, Experts


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


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("roll", "comes back at its beginning"),
        ("flip", "backwards"),
        ("fft_irfft", "circular"),
        ("layer_norm", "statistic over time"),
        ("gru", "both ends"),
        ("reshape", "mixed up"),
        ("mul", "summary of the row"),
        ("matmul (softmax puts 50% of its weight on forbidden positions)", "mask is missing"),
    ],
)
def test_the_call_where_a_leak_starts_suggests_a_cause(op: str, words: str) -> None:
    culprit = Culprit("mixer", "Mixer", op=op)
    assert words in (suggest(torch.ones(12, 12), parse_rule("causal"), culprit) or "")


@pytest.mark.parametrize(
    ("seen", "words"),
    [(6, "6 wide instead of 4"), (12, "not applied")],
)
def test_a_window_that_is_too_wide_is_measured(seen: int, words: str) -> None:
    used = torch.ones(12, 12).tril().triu(1 - seen)
    assert words in (suggest(used, parse_rule("window:4")) or "")


def test_a_choice_is_told_from_a_weight_by_its_missing_gradient() -> None:
    found = audit(Experts(tokens_choose=False), checks="K1", quick=True).violations[0]
    assert "a choice over time" in (found.cause or "")


def test_numbers_in_attributes_and_in_code_are_found() -> None:
    class Chunked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.window, self.eos_id = nn.Linear(2, 2), 96, 41

        def forward(self, x: Tensor) -> Tensor:
            return x.flip(1) if x.size(1) > 513 else self.linear(x)

    subject, _ = recognise(
        Chunked(), parse_rule("causal"), inputs=torch.zeros(2, 5, 2), capabilities={}
    )
    assert {96, 513} <= constants_of(subject)
    assert ids_with_meaning(subject, 50) == {41}


def test_the_detection_limit_is_printed_and_small() -> None:
    report = audit(Decoder(), checks="K1", quick=True)
    (found,) = report.findings
    assert found.verdict is Verdict.VERIFIED
    assert found.detection_limit is not None
    assert found.detection_limit <= 1e-10


PEEKING = """
import torch

class Peeking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 4)

    def forward(self, ids):
        x = self.embed(ids)
        return x.cumsum(1) + x.roll(-1, 1)

class Translating(Peeking):  # sees the padding of its source, and the next word of its target
    def forward(self, src, tgt, src_key_padding_mask=None):
        return super().forward(tgt) + self.embed(src).mean(1, keepdim=True)

class Asking(Peeking):  # is given the causal mask and does not look at it
    def forward(self, src, tgt, tgt_mask):
        return super().forward(tgt) + self.embed(src).mean(1, keepdim=True) + 0.0 * len(tgt_mask)
"""


def found_in(tmp_path: Path, name: str, check: str) -> Finding:
    (tmp_path / "peeking.py").write_text(PEEKING)
    sys.path.insert(0, str(tmp_path))
    sys.modules.pop("peeking", None)
    try:
        kind = getattr(import_module("peeking"), name)
        return audit(kind(), checks=check, stop=True).violations[0]
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "check"),
    [("Peeking", "K1"), ("Translating", "K1"), ("Translating", "K7"), ("Asking", "K1")],
)
def test_the_script_of_a_violation_runs_without_this_package(
    name: str, check: str, tmp_path: Path
) -> None:
    found = found_in(tmp_path, name, check)
    assert found.snippet is not None
    assert "lookleft" not in found.snippet
    script = tmp_path / "show.py"
    script.write_text(found.snippet)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert float(ran.stdout.split(":")[1]) > 0
