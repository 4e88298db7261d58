"""In-place operators: allowed unless what they overwrite is read later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.graphs import call, graph, placeholder, ref, returns
from tantamount.capture.fx_json import parse_graph
from tantamount.errors import UserError
from tantamount.limits import Limits

X = placeholder("x")
B = call("b", "aten.clone.default", [ref("x")])
SUB = call("s", "aten.sub_.Tensor", [ref("b"), 1])


def _parse(*nodes: Any) -> None:
    parse_graph(json.dumps(graph(*nodes)), "g.json", Limits())


ALLOWED = {
    "only the new value is read": [X, B, SUB, returns(ref("s"))],
    "the original before": [X, B, call("m", "aten.mul.Tensor", [ref("b"), 2]), SUB, returns(ref("s"), ref("m"))],
    "a copy made before": [X, B, SUB, returns(ref("x"), ref("s"))],
    "a view of the new value": [X, B, SUB, call("v", "aten.view.default", [ref("s"), [6]], [6]), returns(ref("v"))],
    "twice in a row": [X, B, SUB, call("t", "aten.mul_.Tensor", [ref("s"), 2]), returns(ref("t"))],
    "another operand stays": [X, B, call("s", "aten.add_.Tensor", [ref("b"), ref("x")]), returns(ref("s"), ref("x"))],
    "dunder names are no in-place operators": [
        X,
        call("s", "aten.__and__.Tensor", [ref("x"), 1]),
        returns(ref("x"), ref("s")),
    ],
}

VIEW = call("v", "aten.view.default", [ref("b"), [6]], [6])
REFUSED = {
    "the original": (
        [X, B, SUB, call("m", "aten.mul.Tensor", [ref("b"), 2]), returns(ref("m"))], "node m reads b",
    ),
    "the original as an output": ([X, B, SUB, returns(ref("s"), ref("b"))], "output b reads b"),
    "an input as an output": (
        [X, call("s", "aten.sub_.Tensor", [ref("x"), 1]), returns(ref("s"), ref("x"))], "output x reads x",
    ),
    "a view made before": ([X, B, VIEW, SUB, returns(ref("s"), ref("v"))], "output v reads v"),
    "the base of a view": ([X, B, VIEW, SUB | {"args": [ref("v"), 1]}, returns(ref("b"))], "output b reads b"),
    "a view of a view": (
        [X, B, VIEW, call("w", "aten.t.default", [ref("v")]), SUB | {"args": [ref("w"), 1]}, returns(ref("v"))],
        "output v",
    ),
    "an item of a split": (
        [
            X, call("p", "aten.split.Tensor", [ref("x"), 1], None), call("g", "getitem", [ref("p"), 0]),
            call("h", "getitem", [ref("p"), 1]), SUB | {"args": [ref("g"), 1]}, returns(ref("h")),
        ],
        "output h",
    ),
    "written again through the old name": (
        [X, B, SUB, call("t", "aten.mul_.Tensor", [ref("b"), 2]), returns(ref("t"))], "node t reads b",
    ),
    "self as a keyword": (
        [X, B, call("s", "aten.sub_.Tensor", [], self=ref("b"), other=1), returns(ref("b"))], "output b",
    ),
    "index_put_": (
        [X, B, call("s", "aten.index_put_.default", [ref("b"), [ref("x")], 0]), returns(ref("b"))], "output b",
    ),
    "collective in place": (
        [X, B, call("s", "_c10d_functional.all_reduce_.default", [ref("b"), "sum", "1"]), returns(ref("b"))],
        "output b",
    ),
    "a list of tensors": (
        [X, B, call("s", "aten._foreach_add_.Scalar", [[ref("b")], 1], None), returns(ref("b"))], "output b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("nodes", ALLOWED.values(), ids=ALLOWED)
def test_allowed(nodes: list[Any]) -> None:
    _parse(*nodes)


@pytest.mark.parametrize(("nodes", "reader"), REFUSED.values(), ids=REFUSED)
def test_refused(nodes: list[Any], reader: str) -> None:
    with pytest.raises(UserError) as caught:
        _parse(*nodes)
    error = caught.value
    assert error.code == "graph-in-place"
    assert error.place.startswith("g.json: node ")
    assert reader in error.found
    assert "functionalise" in error.hint
