"""SARIF: structure by the standard, places, fingerprints, links."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.reports import proved, refuted, unknown, vacuous
from tantamount.errors import UserError
from tantamount.ir.graph import Source
from tantamount.report.outcomes import Outcome, failure
from tantamount.report.sarif import as_text

WRONG = failure("bad.toml", UserError("job-key", place="bad.toml", found="no graph", needed="graph"), "")

# SARIF 2.1.0, section 3: for the objects that we write, what must be there, what may be, and what is inside.
REQUIRED = {
    "log": {"version", "runs"},
    "run": {"tool", "results"},
    "tool": {"driver"},
    "driver": {"name"},
    "rule": {"id"},
    "invocation": {"executionSuccessful"},
    "result": {"message"},
    "text": {"text"},
    "location": {"physicalLocation"},
    "physical": {"artifactLocation"},
    "artifact": {"uri"},
    "region": {"startLine"},
}
ALLOWED: dict[str, dict[str, str | None]] = {
    "log": {"$schema": None, "version": None, "runs": "run"},
    "run": {
        "tool": "tool", "invocations": "invocation", "originalUriBaseIds": "bases", "columnKind": None,
        "results": "result",
    },
    "tool": {"driver": "driver"},
    "driver": {"name": None, "version": None, "rules": "rule"},
    "rule": {"id": None, "shortDescription": "text", "fullDescription": "text", "help": "text"},
    "invocation": {"executionSuccessful": None, "exitCode": None},
    "bases": {"SRCROOT": "artifact"},
    "result": {
        "ruleId": None, "ruleIndex": None, "level": None, "message": "text", "locations": "location",
        "relatedLocations": "location", "partialFingerprints": None,
    },
    "text": {"text": None},
    "location": {"id": None, "physicalLocation": "physical", "message": "text"},
    "physical": {"artifactLocation": "artifact", "region": "region"},
    "artifact": {"uri": None, "uriBaseId": None},
    "region": {"startLine": None},
}  # fmt: skip


def check(kind: str, value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            check(kind, item)
        return
    assert REQUIRED.get(kind, set()) <= set(value) <= set(ALLOWED[kind]), (kind, value)
    for key, item in value.items():
        inner = ALLOWED[kind][key]
        if inner is not None:
            check(inner, item)


def log(outcomes: Sequence[Outcome], root: Path) -> dict[str, Any]:
    document = json.loads(as_text(outcomes, root, "1.2.3"))
    check("log", document)
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert all(location["physicalLocation"]["region"]["startLine"] >= 1 for location in result["locations"])
        ids = [location["id"] for location in result["relatedLocations"]]
        links = [int(number) for number in re.findall(r"(?<!\\)\]\((\d+)\)", result["message"]["text"])]
        assert links == ids == [*range(1, len(ids) + 1)]
    return run


def place(location: Mapping[str, Any]) -> str:
    physical = location["physicalLocation"]
    return f"{physical['artifactLocation']['uri']}:{physical['region']['startLine']}"


def test_one_result_for_every_job_that_is_not_proved(tmp_path: Path) -> None:
    run = log([proved(), refuted(), unknown(), vacuous(), WRONG], tmp_path)
    found = [(result["ruleId"], result["level"]) for result in run["results"]]
    assert found == [("refuted", "error"), ("unknown", "warning"), ("vacuous", "warning"), ("job-key", "error")]
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 2}]
    assert log([proved()], tmp_path)["results"] == []


def test_our_own_bug_is_not_a_successful_execution(tmp_path: Path) -> None:
    run = log([failure("a", ZeroDivisionError("x"), "")], tmp_path)
    assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 4}]
    assert [result["ruleId"] for result in run["results"]] == ["internal"]


def test_the_implementation_first_then_specification_and_job(tmp_path: Path) -> None:
    (result,) = log([refuted()], tmp_path)["results"]
    assert [place(location) for location in result["locations"]] == ["impl.py:40"]
    assert [(one["message"]["text"], place(one)) for one in result["relatedLocations"]] == [
        ("specification: mean", "spec.py:7"),
        ("job", "wrong.toml:1"),
    ]
    text = result["message"]["text"]
    assert text.startswith("loss: a factor: 2x too large\n(sum of two means)\n")
    assert "loss: expected 0.5, rank 1 has 1\n" in text
    assert "specification: mean: [spec.py:7](1)\n" in text


def test_a_file_that_is_here_before_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "spec.py").touch()
    (result,) = log([refuted()], tmp_path)["results"]
    assert [place(location) for location in result["locations"]] == ["spec.py:7"]
    assert [place(one) for one in result["relatedLocations"]] == ["impl.py:40", "wrong.toml:1"]


def test_without_a_line_the_job_is_the_place(tmp_path: Path) -> None:
    (result,) = log([unknown()], tmp_path)["results"]
    assert [place(location) for location in result["locations"]] == ["open.toml:1"]
    assert result["relatedLocations"] == []


def test_paths_are_relative_to_the_root_where_they_can_be(tmp_path: Path) -> None:
    found = refuted().mismatch
    assert found is not None
    inside = tmp_path / "a b" / "é.py"
    inside.parent.mkdir()
    inside.touch()
    mismatch = replace(
        found, implementation_source=Source(str(inside), 3), specification_source=Source("/usr/lib/x:y.py", 9)
    )
    run = log([replace(refuted(), mismatch=mismatch)], tmp_path)
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == tmp_path.as_uri() + "/"
    (result,) = run["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "a%20b/%C3%A9.py", "uriBaseId": "SRCROOT"}
    other = result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]
    assert other == {"uri": "file:///usr/lib/x%3Ay.py"}


def test_the_kind_of_a_mismatch_is_the_rule(tmp_path: Path) -> None:
    found = refuted().mismatch
    assert found is not None
    run = log([replace(refuted(), mismatch=replace(found, kind=kind)) for kind in ("factor", "new-kind")], tmp_path)
    rules = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert rules["factor"] == "A constant factor differs."
    assert [result["ruleId"] for result in run["results"]] == ["factor", "new-kind"]


def test_a_fingerprint_stays_when_lines_and_values_change(tmp_path: Path) -> None:
    def fingerprint(report: Outcome) -> str:
        return log([report], tmp_path)["results"][0]["partialFingerprints"]["tantamount/v1"]

    found = refuted().mismatch
    assert found is not None
    moved = replace(found, implementation_source=Source("impl.py", 41), difference="3x too large")
    other = replace(found, implementation_source=Source("other.py", 40))
    assert fingerprint(replace(refuted(), mismatch=moved, counterexample=None)) == fingerprint(refuted())
    assert fingerprint(replace(refuted(), mismatch=other)) != fingerprint(refuted())
    assert fingerprint(refuted("b.toml")) != fingerprint(refuted())


def test_nothing_untrusted_is_a_link_or_a_control_character(tmp_path: Path) -> None:
    found = refuted().mismatch
    assert found is not None
    mismatch = replace(found, difference="[click](1) \x1b[2J\udcff", specification="x](1)",
                       specification_source=Source("a](1).py", 1))  # fmt: skip
    (result,) = log([replace(refuted(), mismatch=mismatch)], tmp_path)["results"]
    text = result["message"]["text"]
    assert "[click] (1) \\x1b[2J\\udcff" in text
    assert "specification: x] (1): [a\\](1).py:1](1)" in text
    assert "\x1b" not in text
