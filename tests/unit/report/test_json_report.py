"""The JSON report: content, and what JSON cannot say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.reports import proved, refuted, unknown, vacuous
from tantamount.errors import InternalError, UserError
from tantamount.report import json_report
from tantamount.report.outcomes import failure


def test_every_verdict_round_trips_through_json() -> None:
    jobs = [json_report.as_job(report) for report in (proved(), refuted(), unknown(), vacuous())]
    document = json_report.as_document(jobs, exit_code=1, version="1.2.3")
    assert json.loads(json_report.as_text(document)) == document
    assert document["schema"] == "tantamount-report/1"
    assert document["tool"] == {"name": "tantamount", "version": "1.2.3"}
    assert [(job["verdict"], job["exit_code"]) for job in document["jobs"]] == [
        ("PROVED", 0),
        ("REFUTED", 1),
        ("UNKNOWN", 3),
        ("VACUOUS", 3),
    ]


def test_what_a_refuted_job_says() -> None:
    job = json_report.as_job(refuted())
    assert (job["outputs_checked"], job["outputs_total"]) == (2, 19)
    assert job["mismatch"] == {
        "specification": {
            "node": "mean",
            "operator": "aten.mean.default",
            "source": {"file": "spec.py", "line": 7, "function": "forward", "text": "loss = y.mean()"},
        },
        "implementation": {
            "node": "add_3",
            "operator": "aten.add.Tensor",
            "rank": 1,
            "source": {"file": "impl.py", "line": 40, "function": "", "text": ""},
        },
        "difference": "a factor: 2x too large\n(sum of two means)",
        "equations": ["specification   1/8 SUM y", "implementation  1/4 SUM y"],
        "headline": "",
        "hint": "",
        "kind": "",
    }
    assert job["counterexample"]["inputs"]["y"][7] == [0.5, 7.0]
    assert job["outputs"][1] == {
        "name": "x",
        "verdict": "PROVED",
        "expectation": "infer",
        "relation": {"tensor": "x", "expression": "Shard(0)", "implementation": "x_1", "source": None},
        "reason": "",
        "notes": ["this sums over tp"],
    }


def test_statistics_assumptions_and_refusals() -> None:
    job = json_report.as_job(proved())
    assert job["statistics"]["seconds"] == {"read": 0.25, "specification": 0.5}
    assert (job["statistics"]["atoms"], job["statistics"]["folded"]) == (31, True)
    (assumption,) = job["assumptions"]
    assert assumption["name"] == "real-arithmetic"
    assert assumption["places"] == ["a", "b", "c", "d", "e"]
    assert json_report.as_job(unknown())["refused"] == ["dropout: equal masks"]
    assert json_report.as_job(unknown())["mismatch"]["implementation"] is None


def test_numbers_that_json_lacks() -> None:
    found = refuted().counterexample
    assert found is not None
    inputs = {"a": [float("inf"), float("-inf"), 1.5], "c": complex(1, float("nan")), "i": [True, 3]}
    strange = replace(refuted(), counterexample=replace(found, actual=float("nan"), inputs=inputs))
    entry = json_report.as_job(strange)["counterexample"]
    assert entry["actual"] == {"float": "nan"}
    assert entry["inputs"] == {
        "a": [{"float": "inf"}, {"float": "-inf"}, 1.5],
        "c": {"complex": [1.0, {"float": "nan"}]},
        "i": [True, 3],
    }
    json_report.as_text(entry)
    with pytest.raises(InternalError, match="type object"):
        json_report.as_job(replace(strange, counterexample=replace(found, inputs={"a": object()})))


def test_errors_are_entries_too() -> None:
    wrong = UserError("job-key", place="job.toml: [spec]", found="no graph", needed="graph", hint="add it")
    assert json_report.as_error(failure("job.toml", wrong, "")) == {
        "job": "job.toml",
        "exit_code": 2,
        "error": {
            "kind": "user",
            "code": "job-key",
            "place": "job.toml: [spec]",
            "found": "no graph",
            "needed": "graph",
            "hint": "add it",
        },
    }
    ours = json_report.as_error(failure("job.toml", ValueError("boom"), "somewhere"))
    assert ours["exit_code"] == 4
    assert ours["error"] == {"kind": "internal", "type": "ValueError", "text": "boom"}


def test_the_documented_example_has_exactly_the_keys_that_are_written() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "report-json.md"
    example = json.loads(page.read_text().rpartition("```json\n")[2].partition("```")[0])
    written = json_report.as_document([json_report.as_job(proved())], exit_code=0, version="0")

    def keys(value: object) -> object:
        if isinstance(value, dict):
            return {key: None if key == "seconds" else keys(item) for key, item in value.items()}
        return [keys(item) for item in value[:1]] if isinstance(value, list) and value and key_list(value) else None

    def key_list(value: list[object]) -> bool:
        return isinstance(value[0], dict)

    written["jobs"][0]["relations"] = []
    assert keys(example) == keys(written)
