"""Proposals for input relations."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.job import Unresolved
from tantamount.correspond.suggest import suggest, toml
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


def lines(spec: Graph, rank: Graph, listed: Mapping[str, object] | None = None, **axes: int) -> list[str]:
    mesh = Mesh(axes)
    return toml(suggest(Unresolved(spec, (rank,) * mesh.world_size, mesh, listed or {}))).splitlines()


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
    assert lines(graph(w=[8, 4]), graph(w=[4, 4]), {"w": "Shard(0)"}, tp=2) == []


SQUARE, PART = [8, 8], [4, 4]  # of the shapes alone, both dimensions could be cut by either axis
SWAPPED = ["Shard(1)", "Shard(0)"]


def second_line(first: str, second: str, relation: object) -> str:
    """What is proposed for the second of two square inputs, if the job relates the first."""
    spec, rank = graph(**{first: SQUARE, second: SQUARE}), graph(**{first: PART, second: PART})
    (line,) = lines(spec, rank, {first: relation}, dp=2, tp=2)
    return line


@pytest.mark.parametrize(("listed", "asked"), [("layers.0.w", "layers.12.w"), ("up.w", "optimizer:up.w.exp_avg")])
@pytest.mark.parametrize("relation", [SWAPPED, {"name": "w", "placement": SWAPPED}])
def test_placements_that_the_job_has_speak_for_relatives(listed: str, asked: str, relation: object) -> None:
    line = second_line(listed, asked, relation)
    assert line.startswith(f'"{asked}" = ["Shard(1)", "Shard(0)"]   # guess: the same name, placed as {listed};')
    assert line.endswith("also possible: Shard(0), Shard(1)")


@pytest.mark.parametrize(
    ("listed", "asked", "relation"),
    [
        ("up", "upper", SWAPPED),  # no relative
        ("layers.0.w", "layers.1.w", ["Shard(0)", "Replicate()"]),  # does not fit
        ("layers.0.w", "layers.1.w", "Shard(1)"),  # one placement for two axes
        ("layers.0.w", "layers.1.w", "concat(rank(0), rank(1), dim=0)"),
        ("layers.0.w", "layers.1.w", {"relation": "rank(0)"}),
    ],
)
def test_other_relations_speak_for_nothing(listed: str, asked: str, relation: object) -> None:
    line = second_line(listed, asked, relation)
    assert line.startswith(f'"{asked}" = ["Shard(0)", "Shard(1)"]   # guess: the same name;')
