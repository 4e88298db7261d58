"""Proposals for input relations."""

from __future__ import annotations

import pytest

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.job import Unresolved
from tantamount.capture.suggest import suggest, toml
from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh
from tantamount.limits import limits_from_environment


def graph(**inputs: list[int]) -> Graph:
    import json

    nodes = [
        {"name": name.replace("__", "."), "op": "placeholder", "target": name, "shape": shape, "dtype": "float32"}
        for name, shape in inputs.items()
    ]
    document = {"format": "fx-nodes/1", "nodes": nodes, "outputs": [{"name": "y", "node": nodes[0]["name"]}]}
    return parse_graph(json.dumps(document), "graph", limits_from_environment())


def lines(spec: Graph, rank: Graph, listed: frozenset[str] = frozenset(), **axes: int) -> list[str]:
    mesh = Mesh(axes)
    return toml(suggest(Unresolved(spec, (rank,) * mesh.world_size, mesh, listed))).splitlines()


@pytest.mark.parametrize(
    ("whole", "part", "relation"),
    [([8, 4], [8, 4], '"Replicate()"'), ([8, 4], [4, 4], '"Shard(0)"'), ([8, 4], [8, 2], '"Shard(1)"')],
)
def test_the_same_name_by_shape(whole: list[int], part: list[int], relation: str) -> None:
    (line,) = lines(graph(w=whole), graph(w=part), tp=2)
    assert line.startswith(f'"w" = {relation}   # guess: the same name')


def test_two_axes_and_what_else_fits() -> None:
    (line,) = lines(graph(w=[8, 8]), graph(w=[4, 4]), dp=2, tp=2)
    assert line.startswith('"w" = ["Shard(0)", "Shard(1)"]')
    assert "also possible: Shard(1), Shard(0)" in line


def test_names_but_for_wrappers_and_the_only_shape_that_fits() -> None:
    found = lines(graph(layer__weight=[8, 4], x=[3, 4]), graph(_orig_mod__layer__weight=[4, 4], tokens=[3, 4]), tp=2)
    assert found[0].startswith('"layer.weight" = { name = "_orig_mod.layer.weight", placement = "Shard(0)" }')
    assert found[1].startswith('"x" = { name = "tokens", placement = "Replicate()" }')


def test_nothing_is_proposed_where_nothing_fits() -> None:
    found = lines(graph(w=[8, 4], v=[7]), graph(w=[3, 4], a=[7], b=[7]), tp=2)
    assert found[0] == '# "w" = ?   # the same name, but [3, 4] is no part of [8, 4]'
    assert found[1] == '# "v" = ?   # no tensor of that name; 2 others have a shape that fits'


def test_what_the_job_has_is_left_alone() -> None:
    assert lines(graph(w=[8, 4]), graph(w=[4, 4]), frozenset({"w"}), tp=2) == []
