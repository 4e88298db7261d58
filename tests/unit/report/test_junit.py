"""JUnit XML: counts, kinds of problems, what the schema of Jenkins' xUnit plugin allows, and untrusted names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from support.reports import proved, refuted, unknown, vacuous
from tantamount.errors import UserError
from tantamount.report.junit import as_xml
from tantamount.report.outcomes import Outcome, failure
from tantamount.report.text import text

WRONG = failure("bad.toml", UserError("job-key", place="bad.toml", found="no graph", needed="graph"), "")
BUG = failure("bug.toml", ZeroDivisionError("by zero"), "while checking bug.toml")

# Element: attributes that must be there, attributes that may be, elements that may be inside.
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp"},
        {"properties", "testcase"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"classname", "time"}, {"failure", "error"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
}


def parsed(outcomes: Sequence[Outcome]) -> Element:
    root = ElementTree.fromstring(as_xml(outcomes))
    for element in root.iter():
        required, allowed, inside = SCHEMA[element.tag]
        assert required <= set(element.keys()) <= required | allowed, element.tag
        assert {child.tag for child in element} <= inside, element.tag
    return root


def counts(element: Element) -> tuple[str | None, ...]:
    return tuple(element.get(name) for name in ("tests", "failures", "errors"))


def test_a_suite_for_every_job_and_a_case_for_every_output() -> None:
    root = parsed([proved(), refuted(), unknown(), vacuous(), WRONG, BUG])
    suites = {suite.get("name"): suite for suite in root}
    assert {name: counts(suite) for name, suite in suites.items()} == {
        "job.toml": ("1", "0", "0"),
        "wrong.toml": ("2", "1", "0"),
        "open.toml": ("1", "1", "0"),
        "empty.toml": ("1", "1", "0"),
        "bad.toml": ("1", "0", "1"),
        "bug.toml": ("1", "0", "1"),
    }
    assert counts(root) == ("7", "3", "2")
    names = [[case.get("name") for case in suite.iter("testcase")] for suite in root]
    assert names[:3] == [["div_2 = Replicate()"], ["loss = Replicate()", "x"], ["loss"]]
    assert suites["job.toml"].get("time") == "0.750"


def test_what_a_failure_says() -> None:
    (failed,) = parsed([refuted()]).iter("failure")
    assert failed.get("type") == "REFUTED"
    assert failed.get("message") == "the implementation's value is 2x too large"
    assert failed.text == text(refuted()).rstrip("\n")
    (error,) = parsed([WRONG]).iter("error")
    assert (error.get("type"), error.get("message")) == ("job-key", "no graph")
    assert "needed: graph" in (error.text or "")
    (ours,) = parsed([BUG]).iter("error")
    assert "ZeroDivisionError: by zero" in (ours.text or "")


def test_nothing_checked_and_refused_assumptions_are_failures() -> None:
    (empty,) = parsed([vacuous()]).iter("failure")
    assert (empty.get("type"), empty.get("message")) == ("VACUOUS", "nothing was checked")
    strict = replace(proved(), verdict=unknown().verdict, refused=("domain",))
    (refused,) = parsed([strict]).iter("failure")
    assert (refused.get("type"), refused.get("message")) == ("UNKNOWN", "--strict refuses domain")


def test_the_report_is_there_once() -> None:
    outputs = tuple(replace(refuted().outputs[0], name=name, reason=f"why {name}") for name in "abc")
    texts = [failed.text or "" for failed in parsed([replace(refuted(), outputs=outputs)]).iter("failure")]
    assert ["Counterexample" in shown for shown in texts] == [True, False, False]
    assert texts[1:] == ["why b", "why c"]


def test_the_assumptions_are_properties() -> None:
    properties = {one.get("name"): one.get("value") for one in parsed([proved()]).iter("property")}
    assert properties == {
        "verdict": "PROVED",
        "assumption real-arithmetic": "casts between float types are the identity",
    }


def test_untrusted_names_cannot_break_the_file() -> None:
    nasty = '\x00\x1b[2J\udcff\uffff"><failure>]]>&#0;\u202e'
    output = replace(refuted().outputs[0], name=nasty, reason=f"a\n{nasty}\r\n\x0b")
    root = parsed([replace(refuted(), job=nasty, outputs=(output,))])
    (case,) = root.iter("testcase")
    assert case.get("classname") == '\\x00\\x1b[2J\\udcff\\uffff"><failure>]]>&#0;\\u202e'
    assert len([*root.iter("failure")]) == 1


def test_a_reader_of_such_files_agrees(tmp_path: Path) -> None:
    junitparser = pytest.importorskip("junitparser", reason="reads the file as others do")
    path = tmp_path / "out.xml"
    path.write_text(as_xml([proved(), refuted(), WRONG]))
    found = junitparser.JUnitXml.fromfile(str(path))
    assert (found.tests, found.failures, found.errors) == (4, 1, 1)
    assert [suite.name for suite in found] == ["job.toml", "wrong.toml", "bad.toml"]
