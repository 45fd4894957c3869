"""The audit inside pytest: a fixture for one line, a marker for a test per check and configuration.

Pytest loads this file in every project where lookleft is installed, so importing it costs nothing:
torch is imported when the fixture or the marker is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from lookleft.errors import InputError

if TYPE_CHECKING:
    from lookleft.audit.verdict import Report


@dataclass(frozen=True)
class _Result:
    """One configuration of one check, as a test outcome."""

    name: str  # "K1 future-swap: sdpa, eval"
    outcome: Literal["passed", "failed", "skipped"]
    text: str


_CHECK = "_lookleft_check"
_OF_RUNS = ("allow_inconclusive", "stop", "progress")  # options that do not change the plan
_RESULTS = pytest.StashKey[Sequence[_Result]]()
_MARKER = (
    "lookleft(checks=None, spec='causal', allow_inconclusive=False, ...): the function returns a "
    "model; each check of lookleft.audit becomes a test of its own in each configuration"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist may only name its items
        config.pluginmanager.register(_Naming(), "lookleft-naming")


@pytest.fixture
def lookleft_audit() -> Callable[..., Report]:
    """`lookleft_audit(model, **options)` gives the Report, or fails the test.

    Takes what `lookleft.audit` takes. A violation fails the test; so does a report in which
    something could not be told, unless `allow_inconclusive=True`.
    """

    def audit_or_fail(model: Any, *, allow_inconclusive: bool = False, **options: Any) -> Report:
        __tracebackhide__ = True
        from lookleft.audit.run import audit

        report = audit(model, **options)
        if report.violations or not (report.ok or allow_inconclusive):
            pytest.fail(str(report), pytrace=False)
        return report

    return audit_or_fail


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item per check and configuration, so that `-k`, `--lf` and `-n` work as for any test.

    What will be asked depends on the model, so a factory is called once while tests are collected.
    One that needs fixtures cannot be: it gets an item per check, and an id for each configuration
    as soon as it is known.
    """
    marker = metafunc.definition.get_closest_marker("lookleft")
    if marker is None:
        return
    if marker.args:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: mark.lookleft takes keywords only")
    checks = _select(marker.kwargs, metafunc.definition.nodeid)
    asked = _planned(metafunc, marker.kwargs) or [(key, None) for key, _ in checks]
    titles = dict(checks)
    metafunc.fixturenames.append(_CHECK)  # the function itself does not ask for it
    metafunc.parametrize(
        _CHECK,
        asked,
        ids=[f"{key} {titles[key]}" + (f": {words}" if words else "") for key, words in asked],
    )


def _planned(
    metafunc: pytest.Metafunc, options: Mapping[str, Any]
) -> list[tuple[str, str | None]] | None:
    """Checks and configurations, if the factory can be called now; else None."""
    from lookleft.audit.run import planned_for

    if metafunc.cls is not None or inspect.signature(metafunc.function).parameters:
        return None
    try:
        model = metafunc.function()
        rest = {key: value for key, value in options.items() if key not in _OF_RUNS}
        return None if model is None else list(planned_for(model, **rest))
    except Exception:  # it will be raised again, and shown, where tests are run
        return None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Let a marked function build the model, and audit what it returns."""
    marker = pyfuncitem.get_closest_marker("lookleft")
    if marker is None:
        return None
    from lookleft.audit.run import audit

    names = inspect.signature(pyfuncitem.obj).parameters
    model = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if model is None:
        pytest.fail(f"{pyfuncitem.originalname} must return the model it is marked for", False)
    options = dict(marker.kwargs)
    allow_inconclusive = options.pop("allow_inconclusive", False)
    asked: Any = pyfuncitem.callspec.params[_CHECK]
    check, words = asked
    options["checks"] = (check,)
    if words is not None:
        _conclude_one(audit(model, **options, only=[(check, words)]), allow_inconclusive)
        return True
    report = audit(model, **options)
    results = [_result(replace(report, findings=(f,)), allow_inconclusive) for f in report.findings]
    pyfuncitem.stash[_RESULTS] = results
    if not results and "checks" not in marker.kwargs:
        pytest.skip("the audit asks nothing of this model under this check")
    _conclude(results)
    return True


def _conclude_one(report: Report, allow_inconclusive: bool) -> None:
    """End an item that stands for one configuration."""
    __tracebackhide__ = True
    if not report.findings:
        pytest.fail("the audit plans something else for this model each time it is built", False)
    result = _result(report, allow_inconclusive)
    if result.outcome == "failed":
        pytest.fail(result.text, pytrace=False)
    if result.outcome == "skipped":
        pytest.skip(result.text)


def _result(report: Report, allow_inconclusive: bool) -> _Result:
    """What pytest is told about one finding."""
    finding = report.findings[0]
    name = f"{finding.check} {finding.title}: {finding.configuration}"
    if report.violations:
        return _Result(name, "failed", str(report))
    if finding.verdict == "SKIPPED":
        return _Result(name, "skipped", finding.reason)
    if report.ok or allow_inconclusive:
        return _Result(name, "passed", "")
    return _Result(name, "failed", str(report))


def _conclude(results: Sequence[_Result]) -> None:
    """End the item itself: it fails if any of its configurations did."""
    __tracebackhide__ = True
    failed = [result.name for result in results if result.outcome == "failed"]
    if failed:
        names = "\n  ".join(failed)
        pytest.fail(f"{len(failed)} of {len(results)} configurations failed:\n  {names}", False)
    if not results:
        pytest.fail("the audit says nothing about this check", False)
    if all(result.outcome == "skipped" for result in results):
        pytest.skip(results[0].text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report each configuration under an id of its own, before the item that ran them."""
    report = yield
    if call.when == "call":
        for result in item.stash.get(_RESULTS, ()):
            item.ihook.pytest_runtest_logreport(report=_as_report(report, result))
    return report


class _Naming:
    """Gives the report on one configuration its own id, where results are shown and counted."""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = getattr(report, "lookleft_name", None)
        if name is None:
            return
        check = name.partition(":")[0]
        path, line, domain = report.location
        report.nodeid = report.nodeid.replace(check, name)
        report.location = (path, line, domain.replace(check, name))
        self._session.testscollected += 1  # else progress would pass 100 %


def _as_report(whole: pytest.TestReport, result: _Result) -> pytest.TestReport:
    path, line, _ = whole.location
    skipped = (path, line or 0, f"Skipped: {result.text}")
    return pytest.TestReport(
        nodeid=whole.nodeid,
        location=whole.location,
        keywords=whole.keywords,
        outcome=result.outcome,
        longrepr=skipped if result.outcome == "skipped" else result.text or None,
        when="call",
        lookleft_name=result.name,
    )


def _select(options: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    """(id, title) of the checks a marker asks for."""
    from lookleft.audit.checks.base import TITLES
    from lookleft.audit.run import chosen_checks

    try:
        chosen = chosen_checks(options.get("checks"), options.get("quick", False))
    except InputError as error:
        raise pytest.UsageError(f"{where}: {error}") from error
    return [(key, TITLES[key]) for key in chosen]
