"""The audit accuses what is broken, names it, and leaves honest models in peace."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn

from lookleft.audit import NotCausalError, Report, Verdict, assert_causal, audit
from lookleft.errors import InputError

from .subjects import VOCAB, CausalConvolution, Decoder, Experts, Remembering


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def verdicts(report: Report, check: str) -> set[Verdict]:
    return {finding.verdict for finding in report.findings if finding.check == check}


@pytest.fixture(scope="module")
def honest() -> Report:
    return audit(Decoder())


def test_an_honest_decoder_passes_every_check_it_takes_part_in(honest: Report) -> None:
    assert not honest.violations
    for check in ("K0", "K1", "K1g", "K2", "K3", "K4", "K5"):
        assert Verdict.VERIFIED in verdicts(honest, check), check


def test_configurations_of_one_check_have_names_of_their_own(honest: Report) -> None:
    names = [(finding.check, finding.configuration) for finding in honest.findings]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("no mask", "K1"),
        ("off by one", "K1g"),
        ("mean over time", "K1"),
        ("length scale", "K2"),
        ("cache aligned top left", "K3"),
        ("padding seen", "K4"),
        ("row mixing", "K5"),
        ("dropout in eval", "K0"),
    ],
)
def test_every_fault_is_found_by_the_check_that_asks_for_it(fault: str, check: str) -> None:
    report = audit(Decoder(fault), quick=True)
    assert Verdict.DISPROVED in verdicts(report, check)
    assert report.exit_code == 1


@pytest.mark.parametrize("fault", ["no mask in train", "hidden by a gate"])
def test_faults_of_one_configuration_are_found_by_the_sweep(fault: str) -> None:
    report = audit(Decoder(fault), checks="K1")
    accused = {finding.configuration for finding in report.violations}
    cleared = {f.configuration for f in report.findings if f.verdict is Verdict.VERIFIED}
    assert accused
    assert cleared


def test_the_culprit_is_the_deepest_module_and_its_line() -> None:
    report = audit(Decoder("no mask"), checks="K1", quick=True)
    culprit = report.violations[0].culprit
    assert culprit is not None
    assert culprit.module == "blocks.1"
    assert culprit.others == ("blocks.1",)
    assert culprit.place is not None
    assert "subjects.py" in culprit.place
    assert culprit.op is not None
    assert "matmul" in culprit.op


def test_a_missing_mask_and_an_off_by_one_look_different() -> None:
    missing = audit(Decoder("no mask"), checks="K1", quick=True).violations[0]
    shifted = audit(Decoder("off by one", layers=1), checks="K1", quick=True).violations[0]
    assert "mask is missing" in (missing.cause or "")
    assert "off by 1" in (shifted.cause or "")
    assert shifted.pair is not None
    assert shifted.pair[1] == shifted.pair[0] + 1


def test_state_left_behind_by_a_longer_call_is_found() -> None:
    finding = audit(Remembering(), checks="K0").violations[0]
    assert "state" in finding.reason


def test_experts_that_choose_tokens_leak_and_tokens_that_choose_experts_do_not() -> None:
    assert audit(Experts(tokens_choose=False), quick=True).violations
    assert not audit(Experts(tokens_choose=True), quick=True).violations


def test_other_time_axes_are_respected() -> None:
    x = torch.randn(2, 4, 19)
    assert not audit(CausalConvolution(), inputs=x, time=(2, 2), quick=True).violations
    report = audit(CausalConvolution(is_centred=True), inputs=x, time=(2, 2), quick=True)
    pairs = [f.pair for f in report.violations if f.pair is not None]
    assert pairs
    assert all(source == target + 1 for target, source in pairs)  # it looks one step ahead


def test_a_window_must_be_neither_wider_nor_narrower_than_declared() -> None:
    x = torch.randn(2, 4, 19)
    fine = audit(CausalConvolution(), inputs=x, time=(2, 2), spec="window:3", quick=True)
    assert not fine.violations
    for spec in ("window:2", "window:4"):
        report = audit(CausalConvolution(), inputs=x, time=(2, 2), spec=spec, quick=True)
        assert report.violations, spec


def test_an_encoder_that_is_causal_by_accident_is_blind() -> None:
    report = audit(Decoder(), spec="bidirectional", quick=True)
    blind = [f for f in report.violations if f.check == "K1g"]
    assert blind
    assert blind[0].worst == 0.0
    assert not audit(Decoder("no mask", layers=1), spec="bidirectional", quick=True).violations


def test_plain_functions_and_closures_are_audited_without_touching_what_they_close_over() -> None:
    model = Decoder()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = audit(lambda ids: model(ids)[0], vocab=VOCAB, quick=True)
    assert not report.violations
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.embed.weight.dtype == torch.float32


def test_random_states_modes_and_flags_are_left_as_they_were() -> None:
    model = Decoder("dropout in eval").train()
    torch.manual_seed(3)
    random.seed(3)
    torch.set_grad_enabled(True)
    expected = torch.rand(2), random.random()
    torch.manual_seed(3)
    random.seed(3)
    audit(model, quick=True)
    assert torch.equal(torch.rand(2), expected[0])
    assert random.random() == expected[1]
    assert model.training
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not model.embed._forward_hooks


def test_one_line_for_a_unit_test() -> None:
    x = torch.randn(2, 11, 3)
    assert_causal(lambda values: values.cumsum(1), x)
    with pytest.raises(NotCausalError, match="forbids") as caught:
        assert_causal(lambda values: values.flip(1).cumsum(1).flip(1), x)
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(NotCausalError):  # it may not use its own position
        assert_causal(lambda values: values.cumsum(1), x, spec="strict")


def test_differences_that_shrink_with_the_precision_are_rounding() -> None:
    def by_transform(values: Tensor) -> Tensor:  # a causal sum, worked out over all positions
        size = 2 * values.size(1)
        ones = torch.fft.rfft(torch.ones(values.size(1), dtype=values.dtype), size)
        product = torch.fft.rfft(values, size, dim=1) * ones[None, :, None]
        return torch.fft.irfft(product, size, dim=1)[:, : values.size(1)]

    report = audit(by_transform, inputs=torch.randn(2, 16, 3), checks=("K1", "K2"))
    assert not report.violations
    assert any("rounding" in f.reason for f in report.findings)


def test_a_model_that_ignores_its_input_or_its_past_never_passes() -> None:
    constant = audit(
        lambda values: torch.ones_like(values), inputs=torch.randn(2, 9, 3), quick=True
    )
    alone = audit(lambda values: values * 2, inputs=torch.randn(2, 9, 3), quick=True)
    assert constant.verdict is Verdict.INCONCLUSIVE
    assert alone.verdict is Verdict.INCONCLUSIVE


def test_outputs_without_numbers_are_inconclusive() -> None:
    report = audit(lambda values: values / 0 * 0, inputs=torch.randn(2, 9, 3), quick=True)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("NaN" in finding.reason for finding in report.findings)


class _Demanding(nn.Module):
    def forward(self, x: Tensor, wisdom: Tensor) -> Tensor:
        return x + wisdom


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (3, {}, "not callable"),
        (lambda ids: ids, {}, "plain function"),
        (_Demanding(), {}, "wisdom"),
        (lambda x: {"text": "nothing"}, {"inputs": torch.randn(2, 5, 3)}, "without a tensor"),
        (lambda x: x[:, :2], {"inputs": torch.randn(2, 5, 3)}, "outputs along axis"),
        (lambda x: x / [], {"inputs": torch.randn(2, 5, 3)}, "could not be run"),
        (lambda x: x, {"inputs": torch.randn(2, 5, 3), "spec": "sideways"}, "unknown dependency"),
        (lambda x: x, {"inputs": torch.randn(2, 5, 3), "checks": "K99"}, "unknown check"),
        (lambda x: x, {"inputs": torch.randn(2, 5, 3), "length": 1}, "at least 2"),
        (Decoder(), {"step": "hop"}, "no method"),
    ],
)
def test_what_cannot_be_audited_gets_a_sentence(
    target: object, options: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        audit(target, **options)  # type: ignore[arg-type]


def test_a_function_that_is_not_deterministic_is_never_accused_of_looking_ahead() -> None:
    state = {"calls": 0}

    def drifting(values: Tensor) -> Tensor:  # causal, but another answer in every call
        state["calls"] += 1
        return values.cumsum(1) * (1 + 0.01 * (state["calls"] % 7))

    report = audit(drifting, inputs=torch.randn(2, 9, 3))
    assert {finding.check for finding in report.violations} == {"K0"}
    assert any(f.check == "K1" and f.verdict is Verdict.INCONCLUSIVE for f in report.findings)


class Meddling(Decoder):
    """Changes what belongs to everybody while it answers."""

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        torch.manual_seed(7)
        torch.set_default_dtype(torch.float16)
        return super().forward(ids)[0]


def test_a_model_that_changes_global_state_is_told_of_and_undone() -> None:
    model = Meddling()
    before = torch.get_default_dtype(), torch.initial_seed()
    report = audit(model, checks="K0,K1", quick=True)
    assert (torch.get_default_dtype(), torch.initial_seed()) == before
    assert any("default dtype of the process" in note for note in report.notes)
    assert any("random seed of the process" in note for note in report.notes)
    assert not report.violations


def test_a_vocabulary_of_one_is_refused() -> None:
    with pytest.raises(InputError, match="vocab=1"):
        audit(Decoder(), vocab=1)
