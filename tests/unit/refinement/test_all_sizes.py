"""Jobs with size symbols that are written by hand: what is covered, what is printed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tantamount import UserError, read_job, refine
from tantamount.refinement import all_sizes
from tantamount.sizes import search as size_search
from tantamount.sizes.domain import Domain
from tantamount.verdict import Report, Verdict


def call(name: str, target: str, args: list[Any], shape: list[Any]) -> dict[str, Any]:
    node: dict[str, Any] = {"name": name, "op": "call_function", "target": target, "args": args}
    return {**node, "shape": shape, "dtype": "float32"}


def graph(nodes: list[dict[str, Any]], conditions: list[str], low: int = 1) -> dict[str, Any]:
    x = {"name": "x", "op": "placeholder", "target": "x", "shape": ["S", 3], "dtype": "float32"}
    sizes = {"symbols": {"S": {"hint": 246, "min": low}}, "conditions": conditions}
    outputs = [{"name": "y", "node": nodes[-1]["name"]}]
    return {"format": "fx-nodes/1", "rank": None, "sizes": sizes, "nodes": [x, *nodes], "outputs": outputs}


TOTAL = call("y", "aten.sum.dim_IntList", [{"node": "x"}, [0]], [3])


def parts(cut: object) -> list[dict[str, Any]]:
    """The sum of the rows before a cut and of those behind it."""
    size = cut if isinstance(cut, int) else {"size": cut}
    rest = f"S - {cut}" if isinstance(cut, int) else f"S - ({cut})"
    return [
        call("a", "aten.slice.Tensor", [{"node": "x"}, 0, 0, size], [cut, 3]),
        call("b", "aten.slice.Tensor", [{"node": "x"}, 0, size, {"size": "S"}], [rest, 3]),
        call("s", "aten.sum.dim_IntList", [{"node": "a"}, [0]], [3]),
        call("t", "aten.sum.dim_IntList", [{"node": "b"}, [0]], [3]),
        call("y", "aten.add.Tensor", [{"node": "s"}, {"node": "t"}], [3]),
    ]


def report(folder: Path, specification: dict[str, Any], implementation: dict[str, Any], **options: Any) -> Report:
    (folder / "spec.json").write_text(json.dumps(specification))
    (folder / "rank0.json").write_text(json.dumps(implementation))
    (folder / "job.toml").write_text(
        'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraphs = ["rank0.json"]\nmesh = {}\n'
        '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
    )
    return refine(read_job(folder / "job.toml"), **options)


def sizes(found: Report) -> list[str]:
    return [f"{a.name}: {a.text}" for a in found.assumptions if a.name.startswith("sizes")]


def test_a_cut_in_the_middle(tmp_path: Path) -> None:
    pytest.importorskip("z3", reason="the extra smt: a single row is a case of its own")
    even = ["S % 2 == 0"]
    found = report(tmp_path, graph([TOTAL], even), graph(parts("S//2"), even), strict=True)
    assert found.verdict is Verdict.PROVED, found
    assert sizes(found) == ["sizes: for all sizes with S >= 2, S % 2 == 0"]


def test_a_cut_at_a_number_needs_as_many_rows(tmp_path: Path) -> None:
    pytest.importorskip("z3", reason="the extra smt: few rows are cases of their own")
    found = report(tmp_path, graph([TOTAL], []), graph(parts(4), ["S >= 5"]))
    assert found.verdict is Verdict.PROVED, found
    assert sizes(found) == ["sizes: for all sizes with S >= 5"]


def test_what_is_not_covered_is_printed_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_known(domain: Domain, covered: object, effort: object, near: object) -> size_search.Found:
        return size_search.Found(None)

    monkeypatch.setattr("tantamount.refinement.all_sizes.find_sizes", nothing_known)
    pair = graph([TOTAL], []), graph(parts(4), ["S >= 4"])
    found = report(tmp_path, *pair)
    assert found.verdict is Verdict.PROVED
    assert sizes(found) == [
        "sizes: for all sizes with S >= 4",
        "sizes-covered: only where S >= 5, S != 4: whether there are others is not known",
    ]
    strict = report(tmp_path, *pair, strict=True)
    assert strict.verdict is Verdict.UNKNOWN
    assert strict.refused == ("sizes-covered",)


def test_sizes_at_which_it_is_not_proved_are_not_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3", reason="the extra smt: a single row is a case of its own")
    attempt, calls = all_sizes._attempt, []

    def once(*arguments: Any, **written: Any) -> Any:
        calls.append(arguments)
        return attempt(*arguments) if len(calls) == 1 else all_sizes._Attempt((), failure="too hard")

    monkeypatch.setattr(all_sizes, "_attempt", once)
    found = report(tmp_path, graph([TOTAL], []), graph(parts(4), ["S >= 4"]))
    assert len(calls) == 3  # S as a symbol that is 4, and as the number
    assert sizes(found)[1:] == ["sizes-covered: only where S >= 5, S != 4: at S = 4 it is not: too hard"]


def test_a_proof_for_one_size_is_none(tmp_path: Path) -> None:
    fixed = [
        call("z", "aten.view.default", [{"node": "x"}, [246, 3]], [246, 3]),
        call("y", "aten.sum.dim_IntList", [{"node": "z"}, [0]], [3]),
    ]
    found = report(tmp_path, graph([TOTAL], []), graph(fixed, []))
    assert found.verdict is Verdict.UNKNOWN
    assert "at single sizes that were tried the outputs are equal" in str(found)


def test_wrong_programs_are_refuted_at_a_size(tmp_path: Path) -> None:
    less = [
        call("a", "aten.slice.Tensor", [{"node": "x"}, 0, 0, 4], [4, 3]),
        call("y", "aten.sum.dim_IntList", [{"node": "a"}, [0]], [3]),
    ]
    found = report(tmp_path, graph([TOTAL], []), graph(less, ["S >= 4"]))
    assert found.verdict is Verdict.REFUTED, found
    assert found.notes[0] == "at S = 5; the sizes may be any with S >= 4"


def test_a_counterexample_comes_before_a_search_for_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(proof: object, outputs: object) -> None:
        raise AssertionError("a proof was searched for")

    monkeypatch.setattr("tantamount.proof.Proof.check_again", searched)
    half = [
        call("a", "aten.slice.Tensor", [{"node": "x"}, 0, 0, {"size": "S//2"}], ["S//2", 3]),
        call("y", "aten.sum.dim_IntList", [{"node": "a"}, [0]], [3]),
    ]
    even = ["S % 2 == 0"]
    assert report(tmp_path, graph([TOTAL], even), graph(half, even)).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sizes": {"symbols": {"S": {"hint": 3}}, "conditions": ["S % 2 == 0"]}}, "graph-size"),
        ({"sizes": {"symbols": {"S": {"hint": 3}}, "conditions": ["S +"]}}, "graph-size"),
        ({"sizes": {"symbols": {"S": {"hint": 3}}, "conditions": ["open('x') == 0"]}}, "graph-size"),
        ({"sizes": {"symbols": {"S": {"hint": 0}}}}, "graph-field"),
        ({"sizes": {"symbols": {"a b": {"hint": 3}}}}, "graph-size"),
        ({"sizes": {"symbols": {"T": {"hint": 3}}}}, "graph-size"),
        ({"sizes": {"symbols": {"S": {"hint": 246, "high": 3}}}}, "graph-unknown-key"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError, match=code):
        report(tmp_path, {**graph([TOTAL], []), **change}, graph([TOTAL], []))


def test_a_quotient_must_come_out_even(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="graph-size"):
        report(tmp_path, graph([TOTAL], []), graph(parts("S//2"), []))
