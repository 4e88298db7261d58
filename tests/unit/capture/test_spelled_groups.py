"""Groups spelled out as ranks are found again as axes of the mesh, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tantamount import read_job
from tantamount.capture.fields import Place
from tantamount.capture.spelled_groups import check_alone, with_groups
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh
from tantamount.limits import Limits

PLACE = Place("job", "mesh", Limits())
MESH = Mesh({"dp": 2, "one": 1, "tp": 3})


def graph(*instances: tuple[int, ...], ranks: int | None = None) -> Graph:
    return Graph((), (), groups={"g": instances}, ranks=ranks)


@pytest.mark.parametrize(
    ("instances", "axes"),
    [
        ([(0, 1, 2), (3, 4, 5)], ("tp",)),
        ([(3, 4, 5), (0, 1, 2)], ("tp",)),
        ([(0, 3), (1, 4), (2, 5)], ("dp",)),
        ([(0, 1, 2, 3, 4, 5)], ("dp", "tp")),
        ([(0, 3, 1, 4, 2, 5)], ("tp", "dp")),
        ([(0,), (1,), (2,), (3,), (4,), (5,)], ()),
        ([], ("dp", "one", "tp")),
    ],
)
def test_axes(instances: list[tuple[int, ...]], axes: tuple[str, ...]) -> None:
    assert with_groups(MESH, (graph(*instances),), PLACE).groups["g"] == axes


@pytest.mark.parametrize(
    "instances",
    [[(0, 1), (2, 3), (4, 5)], [(0, 2, 1), (3, 5, 4)], [(0, 1, 2)], [(0, 1, 2), (3, 4, 6)], [(0, 1, 2), (3, 5, 4)]],
)
def test_groups_across_the_mesh(instances: list[tuple[int, ...]]) -> None:
    with pytest.raises(UserError, match="cut the mesh into more axes"):
        with_groups(MESH, (graph(*instances),), PLACE)


def test_another_number_of_ranks() -> None:
    with pytest.raises(UserError, match="which is for 4"):
        with_groups(MESH, (graph(ranks=4),), PLACE)


def test_a_specification_is_alone() -> None:
    check_alone(graph((0,)), PLACE)
    check_alone(graph(), PLACE)
    for wrong in (graph((0, 1)), graph(ranks=2)):
        with pytest.raises(UserError, match="the program of one device"):
            check_alone(wrong, PLACE)


def test_a_job_of_both_kinds_of_graphs(tmp_path: Path) -> None:
    """One device in JSON, two ranks in HLO."""
    (tmp_path / "spec.json").write_text(
        '{"format": "fx-nodes/1", "nodes": [{"name": "x", "op": "placeholder", "target": "x", "args": [], "kwargs": {},'
        '"shape": [4], "dtype": "float32"}, {"name": "y", "op": "call_function", "target": "aten.sum.default",'
        '"args": [{"node": "x"}], "kwargs": {}, "shape": [], "dtype": "float32"},'
        '{"name": "output", "op": "output", "args": [[{"node": "y"}]]}]}'
    )
    (tmp_path / "impl.hlo").write_text(
        "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
        "ENTRY e { x = f32[2] parameter(0)\n z = f32[] constant(0)\n"
        " s = f32[] reduce(x, z), dimensions={0}, to_apply=add\n"
        " ROOT r = f32[] all-reduce(s), replica_groups={}, to_apply=add\n}\n"
    )
    (tmp_path / "job.toml").write_text(
        'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "impl.hlo"\nmesh = { tp = 2 }\n'
        '[inputs]\nx = { name = "parameter0", placement = "Shard(0)" }\n'
        '[outputs]\ny = { name = "output0", placement = "Replicate()" }\n'
    )
    from tantamount.answers import refine
    from tantamount.verdict import Verdict

    assert refine(read_job(tmp_path / "job.toml")).verdict is Verdict.PROVED
