"""lookleft's own networks under its own audit: nothing wrong, nothing left open."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from invariants.families import ALL, CAUSAL, DECODERS_ONLY, TRANSLATORS, decoder_only, make
from weights import SMOLLM2, packaged

from lookleft.audit.run import audit
from lookleft.audit.verdict import Report, Verdict
from lookleft.bundle import Bundle
from lookleft.cli.main import main
from lookleft.config import EncoderOnlyConfig
from lookleft.data.batch import Batch, as_rows
from lookleft.engine.runner import Runner as Engine
from lookleft.evaluate.audited import audited_runner, capabilities
from lookleft.models import AnyConfig, AnyModel
from lookleft.nn.attention import Attention

# Why a check may be left out, in the audit's own words. Anything else is a hole in the adapter.
DOES_NOT_APPLY = {
    "decoder-only": {"no source side", "one attention backend only"},
    "encoder-decoder": {"document ids", "one attention backend only"},
    "encoder-only": {
        "no source side",
        "takes no cache",
        "document ids",
        "takes no labels",
        "no generate function",
        "forbids nothing",
        "every output may use the last position",
        "no other length could be judged",
    },
}


def run(network: AnyModel, *, quick: bool, spec: str | None = None) -> Report:
    module = network.audit_subject()
    rule = "bidirectional" if isinstance(network.config, EncoderOnlyConfig) else "causal"
    return audit(module, spec=spec or rule, quick=quick, **capabilities(module))


def nothing_is_open(report: Report, family: str) -> None:
    """VERIFIED, and what was skipped does not apply to this family."""
    assert report.verdict is Verdict.VERIFIED, str(report)
    for found in report.findings:
        if found.verdict is Verdict.SKIPPED:
            known = any(words in found.reason for words in DOES_NOT_APPLY[family])
            assert known, f"{found.check}: {found.reason}"


def through_attend(network: AnyModel) -> AnyModel:
    """The network on its written-out path, which it takes whenever somebody listens."""
    for module in network.modules():
        if isinstance(module, Attention):
            module.tap = lambda name, value: None
    return network


@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_every_family_passes_the_quick_audit(config: AnyConfig) -> None:
    nothing_is_open(run(make(config, torch.float32), quick=True), config.family)


@pytest.mark.parametrize(
    "name",
    [
        "decoder-only rotary-grouped",
        "decoder-only window-sinusoidal",
        "encoder-decoder relative-rms",
        "encoder-only learned-post-types",
    ],
)
def test_the_written_out_path_passes_as_the_fused_one_does(name: str) -> None:
    network = through_attend(make(ALL[name], torch.float32))
    nothing_is_open(run(network, quick=True), network.config.family)


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_every_family_passes_the_full_audit(config: AnyConfig) -> None:
    report = run(make(config, torch.float32), quick=False)
    nothing_is_open(report, config.family)
    verified = {found.check for found in report.findings if found.verdict is Verdict.VERIFIED}
    expected = {
        "decoder-only": {"K0", "K1", "K1g", "K2", "K3", "K4", "K5", "K6", "K9", "K10", "K11"},
        "encoder-decoder": {"K0", "K1", "K1g", "K2", "K3", "K4", "K5", "K7", "K9", "K10", "K11"},
        "encoder-only": {"K0", "K1g", "K4", "K5", "K8", "K11"},
    }[config.family]
    assert verified == expected
    is_trained = any(found.configuration.startswith("train") for found in report.findings)
    assert is_trained


@pytest.mark.parametrize(
    "config", [DECODERS_ONLY["window-rotary"], TRANSLATORS["relative-rms"]], ids=["ring", "source"]
)
def test_the_cache_is_tried_in_every_way(config: AnyConfig) -> None:
    module = make(config, torch.float32).audit_subject()
    (base, *_) = audit(module, checks="K3").findings
    assert base.verdict is Verdict.VERIFIED, base.reason
    for way in (
        "single tokens from the start",
        "several tokens on a warm cache",
        "looks ahead",
        "rows reordered",
        "rolled back",
        "rows left-padded unequally",
    ):
        assert way in base.reason


def test_a_window_is_neither_wider_nor_narrower_than_it_says() -> None:
    network = make(decoder_only(window=5, n_layers=1), torch.float32)
    assert run(network, quick=True, spec="window:5").verdict is Verdict.VERIFIED
    assert run(network, quick=True, spec="window:4").verdict is Verdict.DISPROVED


@pytest.mark.parametrize(
    "name",
    [
        "decoder-only sinusoidal-post",
        "decoder-only rotary-grouped",
        "encoder-decoder rotary-grouped",
    ],
)
@pytest.mark.parametrize("path", ["fused", "written out"])
def test_a_network_without_its_mask_is_caught_in_its_first_self_attention(
    name: str, path: str
) -> None:
    network = make(CAUSAL[name].model_copy(update={"mask": "none"}), torch.float32)
    if path == "written out":
        through_attend(network)
    (found,) = audit(network.audit_subject(), checks="K1", quick=True).findings
    assert found.verdict is Verdict.DISPROVED
    assert found.module == "network.decoder.layers.0.self_attention"
    assert found.culprit is not None
    assert "nn/attention.py" in (found.culprit.place or "")
    assert "mask" in (found.cause or "")


def test_a_cache_with_wrong_positions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from lookleft.models import decoder_only as family

    honest = family.continue_rows
    # Positions start again with every chunk, though the cache goes on.
    monkeypatch.setattr(family, "continue_rows", lambda rows, cache: rows)
    module = make(DECODERS_ONLY["rotary-grouped"], torch.float32).audit_subject()
    (found, *_) = audit(module, checks="K3", quick=True).findings
    assert found.verdict is Verdict.DISPROVED
    monkeypatch.setattr(family, "continue_rows", honest)
    (found, *_) = audit(module, checks="K3", quick=True).findings
    assert found.verdict is Verdict.VERIFIED


def test_a_network_and_a_bundle_can_be_handed_over_as_they_are() -> None:
    network = make(DECODERS_ONLY["learned-pre"], torch.float32)
    for target in (network, Bundle(network)):
        report = audit(target, checks="K1,K3,K4", quick=True)
        assert {found.verdict for found in report.findings} == {Verdict.VERIFIED}


@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
def test_python_and_the_command_line_ask_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network = make(DECODERS_ONLY["rotary-grouped"], torch.float32)
    Bundle(network).save(tmp_path / "ours", layout="lookleft")
    options = {"checks": "labels,generation,encoder-decoder"}
    here = [(f.check, f.configuration, str(f.verdict)) for f in audit(network, **options).findings]
    words = [str(tmp_path / "ours"), "--checks", options["checks"]]
    _, report = typed(words, monkeypatch, capsys)
    there = [(f["check"], f["configuration"], f["verdict"]) for f in report["checks"]]
    assert here == there
    assert {"K9", "K10"} == {check for check, _, verdict in here if verdict == "VERIFIED"}


@pytest.mark.parametrize(
    "config", [DECODERS_ONLY["window-rotary"], TRANSLATORS["relative-rms"]], ids=["ring", "source"]
)
def test_a_network_passes_as_generation_drives_it(config: AnyConfig) -> None:
    report = audit(**audited_runner(make(config, torch.float32)), checks="K1,K2,K3,K7,K10")
    assert report.verdict is Verdict.VERIFIED, str(report)
    verified = {found.check for found in report.findings if found.verdict is Verdict.VERIFIED}
    assert verified >= {"K1", "K2", "K3", "K10"}


class Forgetful:
    """Drives a network, but answers a step as if nothing had come before."""

    def __init__(self, network: AnyModel) -> None:
        self.network, self.config = network, network.config
        self.score, self.prefill, self.extend = network.score, network.prefill, network.extend

    def step(self, ids: torch.Tensor, state: object) -> torch.Tensor:
        del state
        return self.score(Batch(as_rows(ids[:, None])))[:, 0]


def test_a_runner_that_forgets_is_caught() -> None:
    runner = Forgetful(make(DECODERS_ONLY["rotary-grouped"], torch.float32))
    (found, *_) = audit(**audited_runner(runner), checks="K3", quick=True).findings
    assert found.verdict is Verdict.DISPROVED
    assert "not read" in (found.cause or "")


@pytest.mark.parametrize("config", CAUSAL.values(), ids=CAUSAL)
def test_the_engine_passes_for_every_family(config: AnyConfig) -> None:
    engine = Engine(make(config, torch.float32), n_threads=1)
    report = audit(**audited_runner(engine), quick=False)
    assert report.verdict is Verdict.VERIFIED, str(report)
    verified = {found.check for found in report.findings if found.verdict is Verdict.VERIFIED}
    assert verified >= {"K0", "K1", "K2", "K3", "K4", "K5", "K10"}


def typed(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, object]]:
    """`lookleft audit ... --json` as a user types it: exit code and report."""
    monkeypatch.setattr(sys, "argv", ["lookleft", "audit", *words, "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
@pytest.mark.parametrize("name", ["decoder-only none-untied", "encoder-decoder sinusoidal-post"])
def test_a_saved_folder_passes_on_the_command_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Bundle(make(CAUSAL[name], torch.float32)).save(tmp_path / "ours", layout="lookleft")
    words = [str(tmp_path / "ours"), "--checks", "cache,encoder-decoder,labels,generation"]
    code, report = typed(words, monkeypatch, capsys)
    assert code == 0
    assert report["verdict"] == "VERIFIED"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
def test_smollm2_from_its_gguf_file_passes_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(packaged(*SMOLLM2)), "--quick", "--length", "13"]
    code, report = typed(words, monkeypatch, capsys)
    assert code == 0
    assert report["verdict"] == "VERIFIED"
