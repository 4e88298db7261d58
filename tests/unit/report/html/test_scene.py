"""What a page draws: colours, links, and where to look first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.pictures import chain, picture_report
from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.ir.graph import Graph, Node, Output, Ref
from tantamount.report.html.scene import scene, short_operator
from tantamount.verdict import Mismatch

EXAMPLES = Path(__file__).parents[4] / "examples"


def statuses(program: dict[str, Any]) -> dict[str, str]:
    return {node["name"]: node["status"] for node in program["nodes"]}


def drawn(job: str) -> dict[str, Any]:
    report = refine(read_job(EXAMPLES / job))
    picture = report.picture()
    assert picture is not None
    made = scene(report, picture)
    assert json.loads(json.dumps(made)) == made
    return made


def test_of_a_proved_job_everything_is_matched() -> None:
    made = drawn("mlp_tp2/job.toml")
    specification, implementation = made["programs"]
    assert set(statuses(specification).values()) == {"matched"}
    assert implementation["label"] == "implementation: all 2 ranks"
    (unmatched,) = (name for name, status in statuses(implementation).items() if status != "matched")
    assert unmatched == "mm"  # every rank's summand, which the specification does not have
    assert made["focus"] == {"program": 1, "specification": None, "implementation": None}


def test_of_a_refuted_job_the_culprits_are_in_focus() -> None:
    made = drawn("mlp_tp2/wrong.toml")
    specification, implementation = made["programs"]
    focus = made["focus"]
    assert statuses(specification)["add"] == statuses(implementation)["add"] == "culprit"
    assert specification["nodes"][focus["specification"]]["name"] == "add"
    assert implementation["nodes"][focus["implementation"]]["name"] == "add"
    assert statuses(specification)["relu"] == "matched"
    assert statuses(implementation)["all_reduce"] == "after"


def test_a_node_says_what_is_known_of_it() -> None:
    made = drawn("mlp_tp2/job.toml")
    names = [node["name"] for node in made["programs"][0]["nodes"]]
    node = made["programs"][0]["nodes"][names.index("relu")]
    assert (node["op"], node["type"]) == ("relu", "float32[4, 8]")
    assert node["place"].startswith("model.py:")
    assert node["line"].startswith("%relu: float32[4, 8] = aten.relu.default(")
    assert node["form"].startswith("relu[i, j] = ")
    (relation,) = (link[3] for link in made["links"] if link[0] == names.index("relu"))
    assert relation == "Shard(1)"


def test_what_follows_the_mismatch_is_told_from_what_does_not() -> None:
    # y = f(g(x)); z = h(x): g is wrong, and z is of no interest
    def graph() -> Graph:
        return Graph(
            (
                Node("x", "input", "x"),
                Node("g", "call", "aten.sin.default", (Ref("x"),)),
                Node("z", "call", "aten.cos.default", (Ref("x"),)),
                Node("y", "call", "aten.exp.default", (Ref("g"),)),
            ),
            (Output("y", "y"),),
        )

    report = picture_report(graph(), {(0,): graph()}, Mismatch("g", "aten.sin.default", "", "g", "aten.sin.default"))
    assert report.drawn is not None
    specification, implementation = (statuses(p) for p in scene(report, report.drawn)["programs"])
    assert specification == {"x": "matched", "g": "culprit", "z": "open", "y": "after"}
    assert implementation == specification
    alone = picture_report(graph(), {(0,): graph()}, Mismatch("g", "aten.sin.default", ""))
    assert alone.drawn is not None
    assert statuses(scene(alone, alone.drawn)["programs"][1])["g"] == "open"  # nothing comes near


def test_a_factory_is_not_to_blame() -> None:
    graph = Graph(
        (
            Node("x", "input", "x"),
            Node("positions", "call", "aten.arange.default"),
            Node("y", "call", "aten.add.Tensor", (Ref("x"), Ref("positions"))),
            Node("z", "call", "aten.exp.default", (Ref("y"),)),
        ),
        (Output("y", "z"),),
    )
    report = picture_report(graph, {(0,): graph}, Mismatch("z", "aten.exp.default", ""))
    picture = report.drawn
    assert picture is not None
    picture = replace(picture, links=tuple(link for link in picture.links if link.specification == "x"))
    found = statuses(scene(replace(report, mismatch=None), picture)["programs"][0])
    assert found == {"x": "matched", "positions": "open", "y": "frontier", "z": "after"}


def test_the_program_of_the_rank_is_in_focus() -> None:
    graph = chain(3, False)
    for rank, program in ((0, 1), (3, 2), (None, 1)):
        mismatch = Mismatch("node_1", "", "", "node_1", "", rank=rank)
        report = picture_report(graph, {(0, 1): graph, (2, 3): graph}, mismatch)
        assert report.drawn is not None
        made = scene(report, report.drawn)
        assert made["focus"]["program"] == program
        assert [p["label"] for p in made["programs"][1:]] == [
            "implementation: ranks 0, 1",
            "implementation: ranks 2, 3",
        ]


@pytest.mark.parametrize(
    ("target", "short"),
    [
        ("aten.add.Tensor", "add"),
        ("aten.sum.dim_IntList", "sum"),
        ("_c10d_functional.all_reduce.default", "all_reduce"),
        ("getitem", "getitem"),
        ("hlo.dot", "dot"),
        ("aten.empty.memory_format", "empty"),
    ],
)
def test_short_operators(target: str, short: str) -> None:
    assert short_operator(target) == short
