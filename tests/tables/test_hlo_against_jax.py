"""HLO instructions mean what JAX computes: texts and values in ``tests/data/hlo`` were made by ``make.py`` there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tantamount.capture.fields import Place
from tantamount.capture.hlo import parse_hlo
from tantamount.capture.spelled_groups import with_groups
from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.ops.table import table
from tantamount.semantics.interpret import interpret, interpret_ranks

DATA = Path(__file__).resolve().parents[1] / "data" / "hlo"
Case = Mapping[str, Any]


def _cases(name: str) -> list[Case]:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


ONE, RANKS = _cases("one.json"), _cases("ranks.json")


def graph_of(case: Case) -> Graph:
    return parse_hlo("\n".join(case["text"]), f"{case['name']}.hlo", Limits())


def array(value: Case) -> Any:
    return np.array(value["data"], dtype=value["dtype"]).reshape(value["shape"])


def agree(found: Any, wanted: Case) -> None:
    expected = array(wanted)
    assert found.shape == expected.shape
    assert (found.dtype.kind == "f") == (expected.dtype.kind == "f")
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", ONE, ids=lambda case: case["name"])
def test_one_device(case: Case) -> None:
    graph = graph_of(case)
    check_graph(graph, None)
    values = interpret(graph, {f"parameter{k}": array(x) for k, x in enumerate(case["arguments"])})
    assert len(graph.outputs) == len(case["results"])
    for k, wanted in enumerate(case["results"]):
        assert graph.outputs[k].name == f"output{k}"
        agree(values.array(graph.outputs[k].node), wanted)


@pytest.mark.parametrize("case", RANKS, ids=lambda case: case["name"])
def test_every_rank(case: Case) -> None:
    graph = graph_of(case)
    mesh = with_groups(Mesh(case["mesh"]), (graph,), Place("job", "mesh", Limits()))
    check_graph(graph, {name: mesh.group_size(name) for name in mesh.groups})
    inputs = [
        {f"parameter{k}": array(shards[rank]) for k, shards in enumerate(case["arguments"])}
        for rank in range(mesh.world_size)
    ]
    values = interpret_ranks([graph] * mesh.world_size, mesh, inputs)
    (wanted,) = case["results"]
    for rank in range(mesh.world_size):
        agree(values[rank].array(graph.outputs[0].node), wanted[rank])


def test_names_are_those_of_the_text() -> None:
    for case in (*ONE, *RANKS):
        text = "\n".join(case["text"])
        for node in graph_of(case).nodes:
            if node.op != "input" and "/" not in node.name:
                assert f"{node.name.split('[')[0]} = " in text, case["name"]


def test_every_operator_of_the_table_occurs() -> None:
    used = {node.target for case in (*ONE, *RANKS) for node in graph_of(case).nodes}
    elsewhere = {"hlo.bitcast", "hlo.logistic"}  # tests/unit/capture/test_hlo.py, as the custom calls
    known = {name for name in table() if name.startswith("hlo.") and not name.startswith("hlo.custom-call.")}
    assert known - used == elsewhere
