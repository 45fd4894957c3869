"""The plugin inside a real pytest run: first with a stand-in for the audit, then with the audit."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Also brings torch into this process for good: a run inside a test forgets what it has imported,
# and torch cannot be imported twice.
from lookleft.audit.run import chosen_checks

pytest_plugins = ["pytester"]

# The stand-in says about a check what the "model" tells it to: {"K1": {"eval": "VERIFIED"}}.
STAND_IN = """
import sys, types
from lookleft.audit.verdict import Finding, Report, Verdict
from lookleft.audit.checks.base import TITLES
from lookleft.audit.run import chosen_checks

def planned_for(model, *, checks=None, **options):
    keys = [key for key in chosen_checks(checks) if key in model]
    return [(key, words) for key in keys for words in model[key]]

def audit(model, *, checks=None, only=None, **options):
    if options.pop("spec", "causal") != "causal":
        raise AssertionError("the marker's options arrive here")
    findings = [
        Finding(key, TITLES[key], words, Verdict(verdict), f"reason for {words}")
        for key in checks or model
        for words, verdict in model.get(key, {}).items()
        if only is None or (key, words) in only
    ]
    return Report("stand-in", findings, 0.1)

module = types.ModuleType("lookleft.audit.run")
module.audit = audit
module.chosen_checks = chosen_checks
module.planned_for = planned_for
sys.modules["lookleft.audit.run"] = module
"""
MARKED = """
import pytest

@pytest.mark.lookleft(checks=("K0", "K1", "packing"))
def test_decoder():
    return {
        "K0": {"eval": "VERIFIED"},
        "K1": {"sdpa, eval": "VERIFIED", "eager, train": "DISPROVED"},
        "K6": {"eval": "SKIPPED"},
    }
"""


@pytest.fixture
def stage(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(STAND_IN)
    return pytester


def test_loading_the_plugin_does_not_import_torch() -> None:
    code = "import lookleft.audit.pytest_plugin, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_marked_factory_gives_one_id_per_check_and_configuration(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    result = stage.runpytest("-v", "-rs")
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_decoder[[]K0 purity: eval] PASSED*",
            "test_it.py::test_decoder[[]K1 future-swap: sdpa, eval] PASSED*",
            "test_it.py::test_decoder[[]K1 future-swap: eager, train] FAILED*",
            "test_it.py::test_decoder[[]K6 packing: eval] SKIPPED*",
            "*reason for eager, train*",
            "SKIPPED*reason for eval*",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_check_can_be_selected_by_keyword_and_by_last_failure(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    assert stage.runpytest("-k", "purity").ret == pytest.ExitCode.OK
    stage.runpytest()
    again = stage.runpytest("--lf", "-v")
    again.stdout.fnmatch_lines(["*K1 future-swap: eager, train] FAILED*"])
    again.stdout.no_fnmatch_line("*K0 purity*")


def test_only_the_failed_configurations_count_as_failures(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    assert stage.runpytest().parseoutcomes() == {"failed": 1, "passed": 2, "skipped": 1}


def test_configurations_are_known_when_tests_are_collected(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    listed = [line for line in stage.runpytest("--collect-only", "-q").outlines if "[" in line]
    assert listed == [
        "test_it.py::test_decoder[K0 purity: eval]",
        "test_it.py::test_decoder[K1 future-swap: sdpa, eval]",
        "test_it.py::test_decoder[K1 future-swap: eager, train]",
        "test_it.py::test_decoder[K6 packing: eval]",
    ]
    assert stage.runpytest("-k", "eager").parseoutcomes() == {"failed": 1, "deselected": 3}


def test_a_factory_that_needs_fixtures_gives_one_item_per_check(stage: pytest.Pytester) -> None:
    source = MARKED.replace("test_decoder()", "test_decoder(tmp_path)")
    stage.makepyfile(test_it=source)
    listed = [line for line in stage.runpytest("--collect-only", "-q").outlines if "[" in line]
    assert [line.partition("[")[2] for line in listed] == [
        "K0 purity]",
        "K1 future-swap]",
        "K6 packing]",
    ]
    # Each of the three items once, and each of the four configurations once.
    assert stage.runpytest().parseoutcomes() == {"failed": 2, "passed": 3, "skipped": 2}


def test_ids_survive_the_way_from_a_parallel_worker(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    result = stage.runpytest_subprocess("-v", "-n", "1")
    result.stdout.fnmatch_lines(
        ["*FAILED*test_it.py::test_decoder[[]K1 future-swap: eager, train]*"]
    )
    assert result.parseoutcomes() == {"failed": 1, "passed": 2, "skipped": 1}


def test_progress_ends_at_one_hundred_percent(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED.replace("test_decoder()", "test_decoder(tmp_path)"))
    shown = stage.runpytest("-v").stdout.str()
    assert "100%]" in shown
    assert "150%]" not in shown


def test_junit_lists_every_configuration(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    stage.runpytest("--junit-xml=r.xml")
    text = (stage.path / "r.xml").read_text()
    assert 'name="test_decoder[K1 future-swap: eager, train]"' in text


def test_factories_may_use_fixtures_parameters_and_classes(stage: pytest.Pytester) -> None:
    stage.makepyfile(
        """
        import pytest

        @pytest.fixture
        def words():
            return "eval"

        class TestModels:
            @pytest.mark.parametrize("verdict", ["VERIFIED", "DISPROVED"])
            @pytest.mark.lookleft(checks="K0")
            def test_it(self, words, verdict):
                return {"K0": {words: verdict}}
        """
    )
    result = stage.runpytest("-v")
    result.stdout.fnmatch_lines(
        [
            "*::TestModels::test_it[[]K0 purity: eval-VERIFIED] PASSED*",
            "*::TestModels::test_it[[]K0 purity: eval-DISPROVED] FAILED*",
        ]
    )


@pytest.mark.parametrize(
    ("marker", "model", "message"),
    [
        ("checks='K99'", "{}", "unknown check 'K99'"),
        ("'K1'", "{}", "takes keywords only"),
        ("checks='K1'", "None", "must return the model"),
        ("checks='K1'", "{}", "says nothing about this check"),
    ],
)
def test_a_wrong_marker_or_factory_is_explained(
    stage: pytest.Pytester, marker: str, model: str, message: str
) -> None:
    stage.makepyfile(
        f"import pytest\n@pytest.mark.lookleft({marker})\ndef test_x(): return {model}"
    )
    result = stage.runpytest()
    assert result.ret != pytest.ExitCode.OK
    assert any(message in line for line in result.outlines + result.errlines)


@pytest.mark.parametrize(
    ("verdict", "option", "is_green"),
    [
        ("VERIFIED", "", True),
        ("DISPROVED", "", False),
        ("DISPROVED", "allow_inconclusive=True", False),
        ("INCONCLUSIVE", "", False),
        ("INCONCLUSIVE", "allow_inconclusive=True", True),
    ],
)
def test_inconclusive_passes_only_when_allowed(
    stage: pytest.Pytester, verdict: str, option: str, is_green: bool
) -> None:
    stage.makepyfile(
        f"""
        import pytest

        @pytest.mark.lookleft(checks="K0", {option})
        def test_marker():
            return {{"K0": {{"eval": "{verdict}"}}}}

        def test_fixture(lookleft_audit):
            assert lookleft_audit({{"K0": {{"eval": "{verdict}"}}}}, {option}).findings
        """
    )
    outcomes = stage.runpytest().parseoutcomes()
    assert outcomes == ({"passed": 2} if is_green else {"failed": 2})


def test_a_report_of_skips_alone_fails_the_fixture(stage: pytest.Pytester) -> None:
    stage.makepyfile("def test_x(lookleft_audit): lookleft_audit({'K6': {'eval': 'SKIPPED'}})")
    stage.runpytest().assert_outcomes(failed=1)


def test_the_marker_is_known_to_strict_pytest(stage: pytest.Pytester) -> None:
    stage.makepyfile(test_it=MARKED)
    assert stage.runpytest("--strict-markers", "-k", "purity").ret == pytest.ExitCode.OK
    stage.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.lookleft(*"])


def test_a_check_nobody_asked_for_that_says_nothing_is_skipped(stage: pytest.Pytester) -> None:
    stage.makepyfile("import pytest\n@pytest.mark.lookleft()\ndef test_x(): return {}")
    stage.runpytest().assert_outcomes(skipped=len(chosen_checks(None)))


def test_a_marker_without_checks_asks_for_all_of_them(stage: pytest.Pytester) -> None:
    stage.makepyfile("import pytest\n@pytest.mark.lookleft()\ndef test_x(): return {}")
    listed = stage.runpytest("--collect-only", "-q").outlines
    checks = [line.partition("[")[2].split()[0] for line in listed if "[" in line]
    assert checks == list(chosen_checks(None))


MODELS = """
import pytest, torch
from torch import nn

class Mean(nn.Module):
    def __init__(self, leak):
        super().__init__()
        self.embed, self.head, self.leak = nn.Embedding(50, 8), nn.Linear(8, 50), leak

    def forward(self, ids):
        x = self.embed(ids).cumsum(1)
        return self.head((x + torch.roll(x, -1, dims=1) if self.leak else x).tanh())

@pytest.mark.lookleft(checks=("K0", "K1"), quick=True)
def test_honest():
    return Mean(leak=False)

@pytest.mark.lookleft(checks=("K0", "K1"), quick=True)
def test_leaky():
    return Mean(leak=True)

def test_fixture_on_an_honest_model(lookleft_audit):
    assert lookleft_audit(Mean(leak=False), checks="K1", quick=True).ok

def test_fixture_on_a_leaky_model(lookleft_audit):
    lookleft_audit(Mean(leak=True), checks="K1", quick=True)
"""


def test_the_audit_itself_finds_the_leak_and_spares_the_honest_model(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_it=MODELS)
    result = pytester.runpytest_subprocess("-v")
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_honest[[]K1 future-swap: *] PASSED*",
            "test_it.py::test_leaky[[]K0 purity: *] PASSED*",
            "test_it.py::test_leaky[[]K1 future-swap: *] FAILED*",
            "test_it.py::test_fixture_on_an_honest_model PASSED*",
            "test_it.py::test_fixture_on_a_leaky_model FAILED*",
        ]
    )
