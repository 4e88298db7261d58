"""Sizes that data decide: what depends on them is not proved, all else is decided, and executions still refute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.graphs import call, placeholder, ref, write_job
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

T, D = 6, 4
JOB = """
format = "job/1"
[spec]
graph = "spec.json"
[impl]
graphs = ["impl.json", "impl.json"]
mesh = { tp = 2 }
[impl.groups]
tp = ["tp"]
[inputs]
default = "Replicate()"
[outputs]
default = "Replicate()"
"""


def routed(factor: float = 2.0, bias: float = 0.0, reduced: bool = False) -> Any:
    """Tokens whose first score is the best go through an expert, as an exporter records it."""
    nodes = [
        placeholder("x", (T, D)),
        placeholder("gate", (D, 2)),
        placeholder("w", (D, D)),
        call("scores", "aten.mm.default", [ref("x"), ref("gate")], (T, 2)),
        call("best", "aten.argmax.default", [ref("scores"), 1], (T,), "int64"),
        call("mask", "aten.eq.Scalar", [ref("best"), 0], (T,), "bool"),
        call("places", "aten.nonzero.default", [ref("mask")], None) | {"shape": ["u0", 1], "dtype": "int64"},
        call("count", "aten.sym_size.int", [ref("places"), 0], None),
        call("some", "<built-in function ge>", [ref("count"), 0], None),
        call("holds", "aten._assert_scalar.default", [ref("some"), "u0 >= 0"], None),
        call("bounded", "aten.sym_constrain_range_for_size.default", [ref("count")], None, min=0),
        call("index", "aten.view.default", [ref("places"), [ref("count")]], None) | {"shape": ["u0"], "dtype": "int64"},
        call("tokens", "aten.index.Tensor", [ref("x"), [ref("index")]], None)
        | {"shape": ["u0", D], "dtype": "float32"},
        call("hidden", "aten.mm.default", [ref("tokens"), ref("w")], None) | {"shape": ["u0", D], "dtype": "float32"},
        call("scaled", "aten.mul.Tensor", [ref("hidden"), factor], None) | {"shape": ["u0", D], "dtype": "float32"},
    ]
    found = "scaled"
    if reduced:
        nodes.append(
            call("summed", "_c10d_functional.all_reduce.default", [ref("scaled"), "avg", "tp"], None)
            | {"shape": ["u0", D], "dtype": "float32"}
        )
        found = "summed"
    nodes += [
        call("zero", "aten.zeros_like.default", [ref("x")], (T, D)),
        call("out", "aten.index_add.default", [ref("zero"), 0, ref("index"), ref(found)], (T, D)),
        call("total", "aten.sum.default", [ref("scores")], ()),
        call("aux", "aten.add.Tensor", [ref("total"), bias], ()),
    ]
    outputs = [{"name": name, "node": node} for name, node in (("out", "out"), ("aux", "aux"), ("rows", found))]
    return {"format": "fx-nodes/1", "rank": None, "nodes": nodes, "outputs": outputs}


def judged(folder: Path, implementation: Any, fold: bool | None = None) -> Report:
    path = write_job(folder, JOB, {"spec.json": routed(), "impl.json": implementation})
    return refine(read_job(path), fold=fold)


def verdicts(report: Report) -> dict[str, str]:
    return {output.name: output.verdict.name for output in report.outputs}


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("reduced", [False, True])
def test_what_does_not_depend_on_data_is_decided(tmp_path: Path, fold: bool, reduced: bool) -> None:
    """Nothing is, if an operator may fail that the specification does not have: ranks that disagree about a size."""
    report = judged(tmp_path, routed(reduced=reduced), fold)
    assert verdicts(report) == {"out": "UNKNOWN", "aux": "UNKNOWN" if reduced else "PROVED", "rows": "UNKNOWN"}
    if reduced:
        assert any("that summed, whose size data decide, does not fail" in output.reason for output in report.outputs)
    reasons = [note for output in report.outputs for note in output.notes]
    assert any("places has no normal form: the number of elements that are not zero" in note for note in reasons)
    assert {one.name for one in report.assumptions} <= {"real-arithmetic", "operator"}


def test_a_wrong_factor_is_refuted_by_execution(tmp_path: Path) -> None:
    report = judged(tmp_path, routed(factor=3.0))
    assert verdicts(report) == {"out": "REFUTED", "aux": "UNKNOWN", "rows": "REFUTED"}
    assert report.counterexample is not None


def asserting(**bounds: int) -> Any:
    """The same programs with another assertion about the number of the tokens."""
    made = routed()
    bounded = call("bounded", "aten.sym_constrain_range.default", [ref("count")], None, **bounds)
    return made | {"nodes": [bounded if node["name"] == "bounded" else node for node in made["nodes"]]}


@pytest.mark.parametrize(
    ("bounds", "holds"),
    [
        ({}, True),
        ({"min": 0}, True),
        ({"min": -1, "max": T}, True),
        ({"min": 1}, False),
        ({"max": T - 1}, False),
        ({"min": 0, "max": T // 2}, False),
    ],
)
def test_assertions_about_such_numbers_have_to_hold(tmp_path: Path, bounds: dict[str, int], holds: bool) -> None:
    there = tmp_path / "one", tmp_path / "other"
    for folder in there:
        folder.mkdir()
    found = judged(there[0], asserting(**bounds))
    assert (verdicts(found)["aux"] == "PROVED") is holds
    path = write_job(there[1], JOB, {"spec.json": asserting(**bounds), "impl.json": asserting(**bounds)})
    assert verdicts(refine(read_job(path)))["aux"] == "PROVED"  # the specification stops there, too


def test_what_does_not_depend_on_data_is_refuted(tmp_path: Path) -> None:
    report = judged(tmp_path, routed(bias=1.0))
    assert verdicts(report)["aux"] == "REFUTED"
    assert report.verdict is Verdict.REFUTED


def test_a_number_that_is_no_size_is_a_tensor(tmp_path: Path) -> None:
    """A loss scale that was taken out of a tensor: arithmetic with it is proved."""

    def scaled(first: str) -> Any:
        nodes = [
            placeholder("x", (T, D)),
            placeholder("scale", ()),
            call("number", "aten.item.default", [ref("scale")], None),
            call("twice", "<built-in function mul>", [ref("number"), 2], None),
            call("y", "aten.mul.Tensor", [ref("x"), ref(first)], (T, D)),
            call("z", "aten.mul.Scalar", [ref("y"), 0.5 if first == "twice" else 1.0], (T, D)),
        ]
        outputs = [{"name": "z", "node": "z"}]
        return {"format": "fx-nodes/1", "rank": None, "nodes": nodes, "outputs": outputs}

    path = write_job(tmp_path, JOB, {"spec.json": scaled("number"), "impl.json": scaled("twice")})
    assert refine(read_job(path)).verdict is Verdict.PROVED


def _replaced(program: Any, **nodes: Any) -> Any:
    """The program with the nodes of these names replaced, each by one or several."""
    made: list[Any] = []
    for node in program["nodes"]:
        new = nodes.get(node["name"], [node])
        made += new if isinstance(new, list) else [new]
    return program | {"nodes": made}


def test_what_is_done_with_equal_tensors_does_not_fail(tmp_path: Path) -> None:
    """The scores are sums over ranks there: other operators, the same numbers."""
    summed = [
        call("xs", "aten.slice.Tensor", [ref("x"), 1, 0, D // 2], (T, D // 2)),
        call("gs", "aten.slice.Tensor", [ref("gate"), 0, 0, D // 2], (D // 2, 2)),
        call("xr", "aten.slice.Tensor", [ref("x"), 1, D // 2, D], (T, D // 2)),
        call("gr", "aten.slice.Tensor", [ref("gate"), 0, D // 2, D], (D // 2, 2)),
        call("first", "aten.mm.default", [ref("xs"), ref("gs")], (T, 2)),
        call("scores", "aten.addmm.default", [ref("first"), ref("xr"), ref("gr")], (T, 2)),
    ]
    report = judged(tmp_path, _replaced(routed(), scores=summed))
    assert verdicts(report)["aux"] == "PROVED", report.outputs


FAILING: dict[str, Any] = {
    "rows that are not there": [
        call("fewer", "aten.slice.Tensor", [ref("x"), 0, 0, T - 1], (T - 1, D)),
        call("tokens", "aten.index.Tensor", [ref("fewer"), [ref("index")]], None)
        | {"shape": ["u0", D], "dtype": "float32"},
    ],
    "rows of another choice": [
        call("other", "aten.eq.Scalar", [ref("best"), 1], (T,), "bool"),
        call("elsewhere", "aten.nonzero.default", [ref("other")], None) | {"shape": ["u1", 1], "dtype": "int64"},
        call("flat", "aten.view.default", [ref("elsewhere"), [ref("count")]], None)
        | {"shape": ["u0"], "dtype": "int64"},
        call("tokens", "aten.index.Tensor", [ref("x"), [ref("flat")]], None) | {"shape": ["u0", D], "dtype": "float32"},
    ],
}


@pytest.mark.parametrize("way", FAILING)
def test_what_may_fail_proves_nothing(tmp_path: Path, way: str) -> None:
    """``aux`` is the same number, of a program that raises where the specification does not."""
    report = judged(tmp_path, _replaced(routed(), tokens=FAILING[way]))
    assert verdicts(report)["aux"] != "PROVED"
