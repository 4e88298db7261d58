"""Statistics of half-precision tensors: of the tensor's type on a CPU, float32 on an accelerator. Both are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.jobs import graph_of
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph

HALF, FULL, DOUBLE = DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64
GRAPH = """
x: bfloat16[2, 6, 4]
y, mean, rstd = {norm}
z = aten.mul.Tensor(mean, rstd)
-> z
"""
NORMS = {
    "aten.native_layer_norm.default(x, [4], None, None, 1e-05)": (2, 6, 1),
    "aten.native_group_norm.default(x, None, None, 2, 6, 4, 3, 1e-05)": (2, 3),
}


def _recorded(graph: Graph, types: dict[str, TensorType]) -> Graph:
    nodes = tuple(replace(n, type=types[n.name]) if n.name in types else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [HALF, FULL])
def test_the_recorded_type_is_taken(norm: str, dtype: DType) -> None:
    type_ = TensorType(NORMS[norm], dtype)
    graph = _recorded(graph_of(GRAPH.format(norm=norm)), {"mean": type_, "rstd": type_, "z": type_})
    values = check_graph(graph, None)
    found = values["z"]
    assert isinstance(found, Tensor)
    assert found.type == type_


@pytest.mark.parametrize(
    ("name", "type_"),
    [("mean", TensorType((2, 6, 1), DOUBLE)), ("rstd", TensorType((2, 6), HALF)), ("y", TensorType((2, 6, 4), FULL)),
     ("mean", TensorType((2, 6, 1), DType.FLOAT16))],
)  # fmt: skip
def test_any_other_type_is_refused(name: str, type_: TensorType) -> None:
    graph = _recorded(graph_of(GRAPH.format(norm=next(iter(NORMS)))), {name: type_})
    with pytest.raises(UserError, match="type-mismatch"):
        check_graph(graph, None)
