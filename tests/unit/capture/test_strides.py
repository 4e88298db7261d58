"""``as_strided`` reads memory: of a tensor that lies in it in order, or it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.graphs import call, graph, placeholder, ref, returns
from tantamount.capture.fx_json import parse_graph
from tantamount.errors import UserError
from tantamount.limits import Limits

X = placeholder("x")  # float32[2, 3]
Y = call("y", "aten.as_strided.default", [ref("t"), [2, 2], [1, 2], 0], [2, 2])
TRANSPOSED = call("t", "aten.t.default", [ref("x")], [3, 2])
REFUSED = {
    "transposed": [TRANSPOSED],
    "a part": [call("t", "aten.slice.Tensor", [ref("x"), 1, 0, 2], [2, 2])],
    "repeated": [call("t", "aten.expand.default", [ref("x"), [2, 3]], [2, 3])],
    "an elementwise result": [TRANSPOSED | {"name": "s"}, call("t", "aten.relu.default", [ref("s")], [3, 2])],
    "a copy": [TRANSPOSED | {"name": "s"}, call("t", "aten.clone.default", [ref("s")], [3, 2])],
    "a view of a view": [TRANSPOSED | {"name": "s"}, call("t", "aten.unsqueeze.default", [ref("s"), 0], [1, 3, 2])],
}
ALLOWED = {
    "computed": [call("t", "aten.relu.default", [ref("x")])],
    "made contiguous": [TRANSPOSED | {"name": "s"}, call("t", "aten.contiguous.default", [ref("s")], [3, 2])],
}


def _parse(nodes: list[Any]) -> None:
    parse_graph(json.dumps(graph(X, *nodes, Y, returns(ref("y")))), "g.json", Limits())


@pytest.mark.parametrize("nodes", REFUSED.values(), ids=REFUSED)
def test_another_order_in_memory_is_refused(nodes: list[Any]) -> None:
    with pytest.raises(UserError) as problem:
        _parse(nodes)
    assert problem.value.code == "graph-strides"
    assert "of t" in problem.value.found


@pytest.mark.parametrize("nodes", ALLOWED.values(), ids=ALLOWED)
def test_the_order_of_elements_is_allowed(nodes: list[Any]) -> None:
    _parse(nodes)
