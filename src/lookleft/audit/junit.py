"""A report as JUnit XML, the form in which build servers read test results."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from lookleft.audit.report import clean, facts, number, pair
from lookleft.audit.verdict import Finding, Report, Verdict

# A build server must not show green for what was not shown: inconclusive is an error, not a skip.
_ELEMENTS = {
    Verdict.DISPROVED: "failure",
    Verdict.INCONCLUSIVE: "error",
    Verdict.SKIPPED: "skipped",
}


def to_junit(report: Report) -> str:
    """One test case per check and configuration; well-formed whatever the texts contain."""
    suite = ET.Element("testsuite", name="lookleft audit", time=f"{report.seconds:.3f}")
    for finding in report.findings:
        _case(suite, report.target, finding)
    if report.verdict is Verdict.INCONCLUSIVE and suite.find("testcase/error") is None:
        # All skipped, or no check at all: every case would look harmless.
        case = _add(suite, "testcase", classname=report.target, name="audit")
        _add(case, "error", message="no check applied, so nothing was shown", type="INCONCLUSIVE")
    if report.notes:
        _add(suite, "system-out").text = clean("\n".join(report.notes))
    suite.set("tests", str(len(suite.findall("testcase"))))
    for plural, path in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(plural, str(len(suite.findall(f"testcase/{path}"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, target: str, finding: Finding) -> None:
    name = f"{finding.check} {finding.title} [{finding.configuration}]"
    case = _add(suite, "testcase", classname=target, name=name)
    if finding.verdict in _ELEMENTS:
        element = _ELEMENTS[finding.verdict]
        child = _add(case, element, message=finding.reason)
        if element != "skipped":
            child.set("type", finding.verdict.value)
            child.text = clean(_details(finding))


def _details(finding: Finding) -> str:
    lines = [f"{name}: {value}" for name, value in facts([finding])]
    lines.append(f"worst |d|: {number(finding.worst)}, pair i<-j: {pair(finding)}")
    lines.append(f"detection limit: {number(finding.detection_limit)}")
    if finding.snippet:
        lines += ["", finding.snippet]
    return "\n".join(lines)


def _add(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, tag, {key: clean(text) for key, text in attributes.items()})
