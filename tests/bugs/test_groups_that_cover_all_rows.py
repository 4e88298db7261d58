"""That the groups of ``_grouped_mm`` cover all rows, in order, was assumed of implementations, too: kernels leave other
rows unwritten, so one that leaves rows out was PROVED."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.certificates import checked
from support.graphs import ONE_RANK, call, placeholder, ref, write_job
from tantamount import read_job
from tantamount.answers import refine
from tantamount.certificate.check import check_certificate
from tantamount.verdict import Report, Verdict

ROWS, GROUPS, INNER, COLUMNS = 6, 3, 4, 5
GIVEN = [
    placeholder("x", (ROWS, INNER)),
    placeholder("w", (GROUPS, INNER, COLUMNS)),
    placeholder("offs", (GROUPS,), "int32"),
    placeholder("expert", (ROWS,), "int64"),
]
OUT = (ROWS, COLUMNS)


def program(*nodes: Any, **constants: list[int]) -> Any:
    held = {name: {"dtype": "int32", "shape": [len(values)], "data": values} for name, values in constants.items()}
    made: list[Any] = [{"name": name, "op": "get_attr", "target": name, "args": [], "kwargs": {}} for name in constants]
    outputs = [{"name": "y", "node": "y"}]
    found: Any = {"format": "fx-nodes/1", "rank": None, "nodes": [*GIVEN, *made, *nodes], "outputs": outputs}
    return found | ({"constants": held} if held else {})


def grouped(offs: str = "offs", name: str = "y", x: str = "x") -> Any:
    return call(name, "aten._grouped_mm.default", [ref(x), ref("w"), ref(offs)], OUT)


def dense(ends: list[int]) -> list[Any]:
    """The same product slice by slice; the rows after the last group as zeros."""
    nodes: list[Any] = []
    parts: list[Any] = []
    for g, (low, high) in enumerate(zip([0, *ends], ends, strict=False)):
        nodes += [
            call(f"x{g}", "aten.slice.Tensor", [ref("x"), 0, low, high], (high - low, INNER)),
            call(f"w{g}", "aten.select.int", [ref("w"), 0, g], (INNER, COLUMNS)),
            call(f"y{g}", "aten.mm.default", [ref(f"x{g}"), ref(f"w{g}")], (high - low, COLUMNS)),
        ]
        parts.append(ref(f"y{g}"))
    if ends[-1] < ROWS:
        nodes.append(call("rest", "aten.zeros.default", [[ROWS - ends[-1], COLUMNS]], (ROWS - ends[-1], COLUMNS)))
        parts.append(ref("rest"))
    return [*nodes, call("y", "aten.cat.default", [parts], OUT)]


def judged(folder: Path, specification: Any, implementation: Any) -> Report:
    return refine(read_job(write_job(folder, ONE_RANK, {"spec.json": specification, "impl.json": implementation})))


def test_where_the_specification_needs_it_too(tmp_path: Path) -> None:
    late = [grouped(name="product"), call("y", "aten.mul.Tensor", [ref("product"), 2.0], OUT)]
    early = [call("twice", "aten.mul.Tensor", [ref("x"), 2.0], (ROWS, INNER)), grouped(x="twice")]
    report = judged(tmp_path, program(*late), program(*early))
    assert report.verdict is Verdict.PROVED
    domain = [a for a in report.assumptions if a.name == "domain" and "product" in a.places]
    assert any("its groups end in order" in a.text for a in domain)
    report.save_certificate(tmp_path / "proof.json")
    assert not check_certificate(tmp_path / "proof.json").problems

    def without(content: dict[str, Any]) -> None:
        content["assumptions"] = [one for one in content["assumptions"] if "groups" not in one["text"]]

    found = checked((tmp_path / "job.toml", tmp_path / "proof.json"), without)
    assert any("its groups end in order" in one for one in found.problems)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ([2, 2, 6], Verdict.PROVED),
        ([1, 4, 6], Verdict.PROVED),
        ([0, 0, 6], Verdict.PROVED),
        ([2, 4, 5], Verdict.REFUTED),
        ([0, 0, 0], Verdict.REFUTED),
        ([4, 2, 6], Verdict.REFUTED),
        ([2, 4, 7], Verdict.REFUTED),
    ],
)
def test_ends_that_are_recorded(tmp_path: Path, ends: list[int], verdict: Verdict) -> None:
    """The last of them is known: rows after it are what was in memory."""
    straight = sorted(min(end, ROWS) for end in ends)
    report = judged(tmp_path, program(*dense(straight)), program(grouped("ends"), ends=ends))
    assert report.verdict is verdict, report.outputs
    if verdict is Verdict.REFUTED:
        assert report.counterexample is not None


def cut(rows: int, *nodes: Any, **constants: list[int]) -> Any:
    """A program without the rows of its result from ``rows`` on."""
    whole = [node | {"name": "all"} if node["name"] == "y" else node for node in nodes]
    return program(*whole, call("y", "aten.slice.Tensor", [ref("all"), 0, 0, rows], (rows, COLUMNS)), **constants)


def test_rows_that_pad_the_last_group(tmp_path: Path) -> None:
    """They are in no group, and left out afterwards, in either program."""
    for k, (ours, theirs) in enumerate([(True, False), (False, True), (True, True)]):
        folder = tmp_path / str(k)
        folder.mkdir()
        late = [grouped("ends", "product"), call("y", "aten.mul.Tensor", [ref("product"), 1.0], OUT)]
        one = cut(4, *late, ends=[2, 2, 4]) if ours else cut(4, *dense([2, 2, 4]))
        other = cut(4, grouped("ends"), ends=[2, 2, 4]) if theirs else cut(4, *dense([2, 2, 4]))
        assert judged(folder, one, other).verdict is Verdict.PROVED


def test_ends_that_anybody_gives(tmp_path: Path) -> None:
    """The membership of every row is written out: equal wherever groups cover all rows, and not shown elsewhere."""
    members = [
        call("place", "aten.arange.default", [ROWS], (ROWS,), "int64"),
        call("row", "aten.unsqueeze.default", [ref("place"), 1], (ROWS, 1), "int64"),
        call("after", "aten.ge.Tensor", [ref("row"), ref("offs")], (ROWS, GROUPS), "bool"),
        call("group", "aten.sum.dim_IntList", [ref("after"), [1]], (ROWS,), "int64"),
        call("clamped", "aten.clamp.default", [ref("group"), 0, GROUPS - 1], (ROWS,), "int64"),
        call("chosen", "aten.index.Tensor", [ref("w"), [ref("clamped")]], (ROWS, INNER, COLUMNS)),
        call("lone", "aten.unsqueeze.default", [ref("x"), 1], (ROWS, 1, INNER)),
        call("each", "aten.bmm.default", [ref("lone"), ref("chosen")], (ROWS, 1, COLUMNS)),
        call("y", "aten.squeeze.dim", [ref("each"), 1], OUT),
    ]
    report = judged(tmp_path, program(*members), program(grouped()))
    assert report.verdict is not Verdict.PROVED


@pytest.mark.parametrize("counted", [ROWS, ROWS - 1])
def test_ends_that_are_counted(tmp_path: Path, counted: int) -> None:
    """Running sums of how many rows each expert has: they cover all rows if every row is counted."""
    hot = [
        call("of", "aten.slice.Tensor", [ref("expert"), 0, 0, counted], (counted,), "int64"),
        call("hot", "aten.one_hot.default", [ref("of"), GROUPS], (counted, GROUPS), "int64"),
        call("count", "aten.sum.dim_IntList", [ref("hot"), [0]], (GROUPS,), "int64"),
        call("sums", "aten.cumsum.default", [ref("count"), 0], (GROUPS,), "int64"),
        call("ends", "aten.to.dtype", [ref("sums"), {"dtype": "int32"}], (GROUPS,), "int32"),
    ]
    members = [
        call("place", "aten.arange.default", [ROWS], (ROWS,), "int64"),
        call("row", "aten.unsqueeze.default", [ref("place"), 1], (ROWS, 1), "int64"),
        call("after", "aten.ge.Tensor", [ref("row"), ref("ends")], (ROWS, GROUPS), "bool"),
        call("group", "aten.sum.dim_IntList", [ref("after"), [1]], (ROWS,), "int64"),
        call("chosen", "aten.index.Tensor", [ref("w"), [ref("group")]], (ROWS, INNER, COLUMNS)),
        call("lone", "aten.unsqueeze.default", [ref("x"), 1], (ROWS, 1, INNER)),
        call("each", "aten.bmm.default", [ref("lone"), ref("chosen")], (ROWS, 1, COLUMNS)),
        call("y", "aten.squeeze.dim", [ref("each"), 1], OUT),
    ]
    report = judged(tmp_path, program(*hot, *members), program(*hot, grouped("ends")))
    assert (report.verdict is Verdict.PROVED) is (counted == ROWS)
