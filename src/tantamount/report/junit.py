"""The result as JUnit XML, as Jenkins, GitLab and others read it: a suite for every job, a case for every output."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tantamount.report.lines import printable, printable_rows
from tantamount.report.outcomes import Failure, Outcome
from tantamount.report.text import summary, text
from tantamount.verdict import OutputReport, Report, Verdict

__all__ = ["as_xml"]


def as_xml(outcomes: Sequence[Outcome]) -> str:
    """The whole file. What is not ``PROVED`` is a failure whose type is the verdict, a job without a verdict an error
    whose type is its code. The first failure of a job has the whole report, the others have their own reasons."""
    root = Element("testsuites", name="tantamount")
    for outcome in outcomes:
        root.append(_failed(outcome) if isinstance(outcome, Failure) else _suite(outcome))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(report: Report) -> Element:
    suite = _element("testsuite", name=report.job)
    properties = SubElement(suite, "properties")
    facts = [("verdict", report.verdict.value), *((f"assumption {one.name}", one.text) for one in report.assumptions)]
    for name, value in facts:
        properties.append(_element("property", name=name, value=value))
    whole = text(report)
    seconds = sum(report.statistics.seconds.values())
    for output in report.outputs:
        case = _element("testcase", classname=report.job, name=_title(output), time="0")
        if output.verdict is not Verdict.PROVED:
            case.append(_problem("failure", output.verdict.value, output.reason, whole or output.reason))
            whole = ""
        suite.append(case)
    if whole and not report.proved:  # nothing was checked, or --strict refuses what the proof rests on
        case = _element("testcase", classname=report.job, name="the job as a whole", time="0")
        case.append(_problem("failure", report.verdict.value, summary(report), whole))
        suite.append(case)
    cases = suite.findall("testcase")
    if cases:
        cases[0].set("time", f"{seconds:.3f}")
    return _counted(suite, seconds)


def _title(output: OutputReport) -> str:
    return output.name if output.expectation == "infer" else f"{output.name} = {output.expectation}"


def _failed(failed: Failure) -> Element:
    suite = _element("testsuite", name=failed.job)
    case = _element("testcase", classname=failed.job, name="the job as a whole", time="0")
    case.append(_problem("error", failed.code, failed.found, f"{failed}\n{failed.trace}"))
    suite.append(case)
    return _counted(suite, 0.0)


def _problem(tag: str, kind: str, message: str, content: str) -> Element:
    rows = message.splitlines()
    problem = _element(tag, type=kind, message=rows[0] if rows else kind)
    problem.text = printable_rows(content)
    return problem


def _element(tag: str, **attributes: str) -> Element:
    """An element whose attributes, which may come from untrusted files, have only characters that XML allows."""
    return Element(tag, {name: printable(value) for name, value in attributes.items()})


def _counted(suite: Element, seconds: float) -> Element:
    counts = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}
    for name, path in counts.items():
        suite.set(name, str(len(suite.findall(path))))
    suite.set("skipped", "0")
    suite.set("time", f"{seconds:.3f}")
    return suite
