"""Assertions of numbers in graph files were assumed to hold, in implementations, too: one that stops where the
specification goes on was PROVED."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.graphs import ONE_RANK, call, placeholder, ref, write_job
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

PLACE = "aten._make_dep_token.default"
# what a program asserts of the number k, beside the values of k in -3..8 at which eager goes on
ASSERTIONS: dict[str, tuple[list[Any], range]] = {
    "scalar": (
        [
            call("holds", "<built-in function ge>", [ref("k"), 2], None),
            call("a", "aten._assert_scalar.default", [ref("holds"), "k >= 2"], None),
        ],
        range(2, 9),
    ),
    "range": ([call("a", "aten.sym_constrain_range.default", [ref("k")], None, min=1, max=4)], range(1, 5)),
    "least": ([call("a", "aten.sym_constrain_range.default", [ref("k")], None, min=1)], range(1, 9)),
    "size": ([call("a", "aten.sym_constrain_range_for_size.default", [ref("k")], None)], range(9)),
    "size up to": ([call("a", "aten.sym_constrain_range_for_size.default", [ref("k")], None, max=5)], range(6)),
    "tensor": (
        [
            call("holds", "aten.ne.Scalar", [ref("i"), 3], (), "bool"),
            call("a", "aten._assert_async.msg", [ref("holds"), "k is 3"], None),
        ],
        range(3),
    ),
    "functional scalar": (
        [
            call("holds", "<built-in function ge>", [ref("k"), 2], None),
            call("token", PLACE, [], ()),
            call("a", "aten._functional_assert_scalar.default", [ref("holds"), "k >= 2", ref("token")], ()),
        ],
        range(2, 9),
    ),
    "functional tensor": (
        [
            call("holds", "aten.ne.Scalar", [ref("i"), 3], (), "bool"),
            call("token", PLACE, [], ()),
            call("a", "aten._functional_assert_async.msg", [ref("holds"), "k is 3", ref("token")], ()),
        ],
        range(3),
    ),
    "functional range": (
        [
            call("token", PLACE, [], ()),
            call("a", "aten._functional_sym_constrain_range.default", [ref("k"), 1, 4, ref("token")], ()),
        ],
        range(1, 5),
    ),
    "functional size": (
        [
            call("token", PLACE, [], ()),
            call("a", "aten._functional_sym_constrain_range_for_size.default", [ref("k"), None, 5, ref("token")], ()),
        ],
        range(6),
    ),
}


def program(assertion: str | None, number: list[Any] | None = None) -> Any:
    """``2 x``, after an assertion of the number k that the program is given, or that is computed so."""
    nodes = [
        placeholder("x", (4,)),
        placeholder("i", (), "int64"),
        *(number or [call("k", "aten.item.default", [ref("i")], None)]),
        *([] if assertion is None else ASSERTIONS[assertion][0]),
        call("y", "aten.mul.Tensor", [ref("x"), 2], (4,)),
    ]
    outputs = [{"name": "y", "node": "y"}]
    return {"format": "fx-nodes/1", "rank": None, "nodes": nodes, "outputs": outputs}


def judged(folder: Path, specification: Any, implementation: Any) -> Report:
    path = write_job(folder, ONE_RANK, {"spec.json": specification, "impl.json": implementation})
    report = refine(read_job(path))
    assert not [a for a in report.assumptions if a.name == "operator"]
    return report


@pytest.mark.parametrize("name", ASSERTIONS)
def test_an_implementation_that_stops_where_the_specification_goes_on_is_refuted(tmp_path: Path, name: str) -> None:
    report = judged(tmp_path, program(None), program(name))
    assert report.verdict is Verdict.REFUTED
    assert "a asserts what does not hold" in str(report)


@pytest.mark.parametrize("name", ASSERTIONS)
@pytest.mark.parametrize("both", [False, True])
def test_where_the_specification_stops_nothing_is_claimed(tmp_path: Path, name: str, both: bool) -> None:
    assert judged(tmp_path, program(name), program(name if both else None)).verdict is Verdict.PROVED


REST = [
    call("r", "aten.remainder.Scalar", [ref("i"), 3], (), "int64"),
    call("s", "aten.add.Scalar", [ref("r"), 2], (), "int64"),
    call("k", "aten.item.default", [ref("s")], None),  # 2, 3 or 4
]


@pytest.mark.parametrize("name", [name for name, (_, stays) in ASSERTIONS.items() if {2, 3, 4} <= {*stays}])
def test_assertions_that_follow_are_discharged(tmp_path: Path, name: str) -> None:
    assert judged(tmp_path, program(None), program(name, REST)).verdict is Verdict.PROVED


def test_a_weaker_assertion_is_not_refuted(tmp_path: Path) -> None:
    report = judged(tmp_path, program("range"), program("size"))
    assert report.verdict is Verdict.UNKNOWN
    assert "what a asserts was not shown to hold" in str(report)


@pytest.mark.parametrize("name", ["range", "least", "size", "size up to"])
def test_the_numbers_at_which_eager_goes_on(name: str) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    (node,), stays = ASSERTIONS[name]
    assertion = getattr(torch.ops.aten, node["target"].split(".")[1]).default
    for k in range(-3, 9):
        if k in stays:
            assertion(k, **node["kwargs"])
        else:
            with pytest.raises(RuntimeError):
                assertion(k, **node["kwargs"])
