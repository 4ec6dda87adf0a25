"""The report as JUnit XML, for what shows test results: a suite per phase, a case per check. Pure."""

from __future__ import annotations

from xml.etree import ElementTree

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.report.judged import Report
from global_ingress.validate.report.text import moment, printable

PHASES = {
    1: "inventory",
    2: "compatibility",
    3: "provenance",
    4: "materialization",
    5: "conformance",
    6: "traffic",
    7: "acceptance and rollback",
}


def to_junit(report: Report) -> bytes:
    """UTF-8, with a declaration and one trailing newline."""
    top = ElementTree.Element("testsuites", name="global-ingress validate")
    for phase, name in PHASES.items():
        checks = [check for check in report.checks if check.phase == phase]
        suite = ElementTree.SubElement(
            top,
            "testsuite",
            name=name,
            tests=str(len(checks)),
            failures=str(sum(check.verdict is Verdict.FAILED for check in checks)),
            skipped=str(sum(check.verdict is Verdict.SKIPPED for check in checks)),
            errors="0",
            time=f"{sum(check.took_s or 0.0 for check in checks):.3f}",
            timestamp=moment(report.evidence.began),
        )
        for check in checks:
            suite.append(_case(check, name))
    ElementTree.indent(top)
    text: str = ElementTree.tostring(top, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _case(check: Check, suite: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=suite, name=check.id, time=f"{check.took_s or 0.0:.3f}")
    words = printable("\n".join((check.clause, *check.findings)))
    if check.verdict is Verdict.FAILED:
        ElementTree.SubElement(case, "failure", message=printable(check.reason)).text = words
    elif check.verdict is Verdict.SKIPPED:
        risk = f"{check.reason} (open risk of the {check.owner}, since {check.date})"
        ElementTree.SubElement(case, "skipped", message=printable(risk))
    return case
