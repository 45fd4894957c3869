"""A skip is a failure where LOOKLEFT_NO_SKIPS=1 says so, but for reasons that nobody can help."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parent
SKIPS = """
import pytest

def test_that_passes():
    pass

@pytest.mark.xfail(reason="known to fail", strict=True)
def test_that_is_known_to_fail():
    raise AssertionError

def test_that_skips():
    pytest.skip("could not be bothered")

def test_that_misses_a_package():
    pytest.importorskip("a_package_that_nobody_made", reason="ends with pip install it")

@pytest.mark.skipif(True, reason="needs a browser")
def test_that_is_skipped_by_its_mark():
    pass

@pytest.fixture
def missing():
    pytest.skip("needs real weights")

def test_whose_fixture_skips(missing):
    pass

@pytest.mark.skipif(True, reason="runs on a CPU with AVX-512 and VNNI; elsewhere without")
def test_of_another_processor():
    pass

def test_of_real_corpora(corpora):
    pass
"""


@pytest.fixture
def stage(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the conftest of this one; no corpora, skips as usual."""
    pytester.makeconftest((TESTS / "conftest.py").read_text(encoding="utf-8"))
    for name in ("LOOKLEFT_DATA", "LOOKLEFT_NO_SKIPS"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def test_skips_are_skips_unless_they_are_forbidden(stage: pytest.Pytester) -> None:
    stage.makepyfile(SKIPS)
    stage.runpytest().assert_outcomes(passed=1, skipped=6, xfailed=1)


def test_a_forbidden_skip_is_a_failure_with_its_reason(
    stage: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.makepyfile(SKIPS)
    monkeypatch.setenv("LOOKLEFT_NO_SKIPS", "1")
    result = stage.runpytest()
    # A fixture that fails is counted among the errors, and so is a mark: both are of the set-up.
    result.assert_outcomes(passed=1, failed=2, errors=2, skipped=2, xfailed=1)
    for reason in ("could not be bothered", "ends with pip install it", "a browser", "weights"):
        result.stdout.fnmatch_lines(f"*LOOKLEFT_NO_SKIPS=1 forbids: *{reason}")


def test_a_file_that_skips_itself_as_a_whole_is_a_failure_too(
    stage: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.makepyfile("import pytest\npytest.skip('not today', allow_module_level=True)")
    stage.runpytest().assert_outcomes(skipped=1)
    monkeypatch.setenv("LOOKLEFT_NO_SKIPS", "1")
    stage.runpytest().assert_outcomes(errors=1)


def test_corpora_are_looked_for_where_it_was_said_and_nowhere_else(
    stage: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.makepyfile("def test_it(corpora):\n    assert corpora.name == 'mine'")
    stage.runpytest().assert_outcomes(skipped=1)
    monkeypatch.setenv("LOOKLEFT_DATA", str(stage.mkdir("mine")))
    stage.runpytest().assert_outcomes(passed=1)
    monkeypatch.setenv("LOOKLEFT_DATA", str(stage.path / "gone"))
    stage.runpytest().assert_outcomes(errors=1)


def test_every_reason_that_is_allowed_is_one_that_a_test_gives(
    request: pytest.FixtureRequest,
) -> None:
    """What nobody gives any more must not lie in wait for a skip that happens to begin so."""
    [conftest] = [
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(TESTS / "conftest.py")
    ]
    texts = [
        file.read_text(encoding="utf-8") for file in TESTS.rglob("*.py") if file != Path(__file__)
    ]
    for reason in conftest.ALLOWED_SKIPS:
        if reason != conftest.NO_CORPORA:
            n_uses = sum(f'reason="{reason}' in text for text in texts)
            assert n_uses == 1, reason
