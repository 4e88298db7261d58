"""In-place operators: what is read after them is what memory then holds, or the graph is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.graphs import call, graph, placeholder, ref, returns
from tantamount.capture.fx_json import parse_graph
from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret

X = placeholder("x")
B = call("b", "aten.clone.default", [ref("x")])
SUB = call("s", "aten.sub_.Tensor", [ref("b"), 1])


def constant(name: str, target: str) -> Any:
    return {"name": name, "op": "get_attr", "target": target, "args": [], "kwargs": {}}


def _parse(*nodes: Any) -> None:
    parse_graph(json.dumps(graph(*nodes)), "g.json", Limits())


ALLOWED = {
    "only the new value is read": [X, B, SUB, returns(ref("s"))],
    "the original before": [X, B, call("m", "aten.mul.Tensor", [ref("b"), 2]), SUB, returns(ref("s"), ref("m"))],
    "another type is other memory": [
        X,
        B,
        call("v", "aten.to.dtype", [ref("b"), {"dtype": "float64"}]) | {"dtype": "float64"},
        SUB | {"args": [ref("v"), 1], "dtype": "float64"},
        returns(ref("b")),
    ],
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
READ_LATER = {
    "the original": (
        [X, B, SUB, call("m", "aten.mul.Tensor", [ref("b"), 2]), returns(ref("m"))], {"m": "2 * (x - 1)"},
    ),
    "the original as an output": ([X, B, SUB, returns(ref("s"), ref("b"))], {"s": "x - 1", "b": "x - 1"}),
    "an input as an output": (
        [X, call("s", "aten.sub_.Tensor", [ref("x"), 1]), returns(ref("s"), ref("x"))], {"s": "x - 1", "x": "x - 1"},
    ),
    "a view made before": ([X, B, VIEW, SUB, returns(ref("s"), ref("v"))], {"v": "(x - 1).reshape(6)"}),
    "the base of a view": (
        [X, B, VIEW, SUB | {"args": [ref("v"), 1], "shape": [6]}, returns(ref("b"))], {"b": "x - 1"},
    ),
    "written again through the old name": (
        [X, B, SUB, call("t", "aten.mul_.Tensor", [ref("b"), 2]), returns(ref("t"), ref("b"))], {"b": "2 * (x - 1)"},
    ),
    "an item of a split": (
        [
            X, B, call("p", "aten.split.Tensor", [ref("b"), 1], None), call("g", "getitem", [ref("p"), 0], [1, 3]),
            call("h", "getitem", [ref("p"), 1], [1, 3]), call("s", "aten.sub_.Tensor", [ref("g"), 1], [1, 3]),
            returns(ref("h"), ref("b")),
        ],
        {"h": "x[1:2]", "b": "np.concatenate([x[:1] - 1, x[1:]])"},
    ),
    "a slice with steps": (
        [
            X, B, call("v", "aten.slice.Tensor", [ref("b"), 1, 0, 3, 2], [2, 2]),
            call("s", "aten.mul_.Tensor", [ref("v"), 5], [2, 2]), returns(ref("b")),
        ],
        {"b": "x * np.array([5, 1, 5])"},
    ),
    "one of several results": (
        [
            X, call("k", "aten.topk.default", [ref("x"), 2], None), call("g", "getitem", [ref("k"), 0], [2, 2]),
            call("h", "getitem", [ref("k"), 0], [2, 2]), call("s", "aten.div_.Tensor", [ref("g"), 4], [2, 2]),
            returns(ref("g"), ref("h")),
        ],
        {"g": "-np.sort(-x)[:, :2] / 4", "h": "-np.sort(-x)[:, :2] / 4"},
    ),
}  # fmt: skip

REFUSED = {
    "maybe a view": (
        [X, B, call("v", "aten.reshape.default", [ref("b"), [6]], [6]), SUB, returns(ref("v"))], "output v reads v",
    ),
    "of what may be a view": (
        [X, B, call("v", "aten.contiguous.default", [ref("b")]), SUB | {"args": [ref("v"), 1]}, returns(ref("b"))],
        "output b reads b",
    ),
    "of what a conversion that changes nothing may give back": (
        [
            X, B, call("v", "aten.to.dtype", [ref("b"), {"dtype": "float32"}]), SUB | {"args": [ref("v"), 1]},
            returns(ref("b")),
        ],
        "output b reads b",
    ),
    "an element shown twice": (
        [
            X, call("v", "aten.expand.default", [ref("x"), [4, 2, 3]], [4, 2, 3]),
            call("s", "aten.sub_.Tensor", [ref("v"), 1], [4, 2, 3]), returns(ref("x")),
        ],
        "v, a view by aten.expand.default",
    ),
    "self as a keyword": (
        [X, B, call("s", "aten.sub_.Tensor", [], self=ref("b"), other=1), returns(ref("b"))], "output b",
    ),
    "a list of tensors": (
        [X, B, call("s", "aten._foreach_add_.Scalar", [[ref("b")], 1], None), returns(ref("b"))], "output b",
    ),
    "another shape of the same memory": (
        [X, B, call("s", "aten.unsqueeze_.default", [ref("b"), 0], [1, 2, 3]), returns(ref("b"))], "output b",
    ),
    "a constant that two nodes read": (
        [
            constant("c", "k"), constant("d", "k"), call("s", "aten.sub_.Tensor", [ref("c"), 1]), returns(ref("d")),
        ],
        "output d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("nodes", ALLOWED.values(), ids=ALLOWED)
def test_what_nobody_reads_later_stays(nodes: list[Any]) -> None:
    _parse(*nodes)


@pytest.mark.parametrize(("nodes", "expected"), READ_LATER.values(), ids=READ_LATER)
def test_what_is_read_later_is_what_memory_holds(nodes: list[Any], expected: dict[str, str]) -> None:
    found = parse_graph(json.dumps(graph(*nodes)), "g.json", Limits())
    check_graph(found, None)
    x = np.arange(6.0).reshape(2, 3) ** 2 - 7
    values = interpret(found, {"x": x})
    nodes_of = {output.name: output.node for output in found.outputs}
    for name, formula in expected.items():
        assert np.array_equal(values[nodes_of[name]], eval(formula, {"np": np, "x": x})), name


@pytest.mark.parametrize(("nodes", "reader"), REFUSED.values(), ids=REFUSED)
def test_refused(nodes: list[Any], reader: str) -> None:
    with pytest.raises(UserError) as caught:
        _parse(*nodes)
    error = caught.value
    assert error.code == "graph-in-place"
    assert error.place.startswith("g.json: node ")
    assert reader in error.found
    assert "functionalise" in error.hint
