"""The captured Megatron-LM graphs, at a small size, executed: ranks in lock step give the single device's values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.shrink import MEGATRON, shrunk
from tantamount.capture.readers import read_graph
from tantamount.ir.graph import Graph, Ref
from tantamount.ir.mesh import Mesh
from tantamount.semantics.interpret import Evaluation, interpret, interpret_ranks, random_inputs
from tantamount.semantics.survey import survey

RANKS = 2
MESH = Mesh({"tp": RANKS}, {"12": ("tp",)})


def part(whole: Any, placement: str, rank: int) -> Any:
    """This rank's part of a specification input."""
    found = re.fullmatch(r"Shard\((\d)\)", placement)
    return np.split(whole, RANKS, int(found[1]))[rank] if found else whole


class Job:
    """The specification, the ranks' graphs and how to run them on the same inputs and the same dropout masks."""

    def __init__(self, folder: Path) -> None:
        self.placements: Mapping[str, str] = tomllib.loads((folder / "job.toml").read_text())["inputs"]
        self.spec = shrunk(read_graph(folder / "spec.json.gz"), MEGATRON)
        self.ranks = [shrunk(read_graph(folder / f"rank{rank}.json.gz"), MEGATRON) for rank in range(RANKS)]
        self.masks: list[Any] = []

    def expected(self, seed: int) -> Evaluation:
        def masks(site: str, ordinal: int, shape: tuple[int, ...], p: Any) -> Any:
            self.masks.append(np.random.default_rng([seed, ordinal]).random(shape) >= float(p))
            return self.masks[-1]

        self.masks = []
        self.inputs = random_inputs(self.spec, seed, survey(self.spec).index_bounds)
        return interpret(self.spec, self.inputs, constants=0, masks=masks)

    def actual(self, graphs: list[Graph] | None = None) -> list[Evaluation]:
        def masks(rank: int) -> Callable[..., Any]:
            def own(site: str, ordinal: int, shape: tuple[int, ...], p: Any) -> Any:
                whole = self.masks[ordinal]
                for dim, size in enumerate(shape):
                    if size * RANKS == whole.shape[dim]:
                        whole = np.split(whole, RANKS, dim)[rank]
                return whole

            return own

        given = [
            {name: part(value, self.placements[name], rank) for name, value in self.inputs.items()}
            for rank in range(RANKS)
        ]
        own_masks = [masks(rank) for rank in range(RANKS)]
        return interpret_ranks(graphs or self.ranks, MESH, given, constants=0, masks=own_masks)


@pytest.fixture(params=["gpt_tp2_l1", "gpt_tp2_l2"])
def job(request: pytest.FixtureRequest, shared: Path) -> Job:
    return Job(shared / "jobs" / request.param)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_is_the_single_device_s_on_every_rank(job: Job, seed: int) -> None:
    wanted = job.expected(seed)
    loss = wanted.array("div_2")
    assert np.isfinite(loss).all()
    for rank in job.actual():
        np.testing.assert_allclose(rank.array("div_2"), loss, rtol=1e-9)
        assert not [flag for flag in rank.flags if flag.what == "out-of-range"]


def test_a_missing_all_reduce_shows(job: Job) -> None:
    """Each of the sums over ranks counts: without it the loss is another one."""
    loss = job.expected(0).array("div_2")
    names = [node.name for node in job.ranks[0].nodes if "all_reduce.default" in node.target and "sum" in node.args]
    assert len(names) >= 3
    for name in names:
        found = job.actual([without(graph, name) for graph in job.ranks])
        assert not np.allclose(found[0].array("div_2"), loss, rtol=1e-6), name


def without(graph: Graph, name: str) -> Graph:
    """The graph in which the node ``name`` gives its first argument."""
    node = graph.by_name[name]
    alias = replace(node, target="aten.alias.default", args=node.args[:1])
    assert isinstance(node.args[0], Ref)
    return replace(graph, nodes=tuple(alias if other is node else other for other in graph.nodes))


def test_what_a_run_costs(shared: Path) -> None:
    """At its real size the specification does not fit in memory, which is known without running it."""
    found = survey(read_graph(shared / "jobs" / "gpt_tp2_l1" / "spec.json.gz"))
    assert found.kept > 10**10
    assert found.largest == 8 * 1536 * 98304
    assert found.index_bounds == {"primals_18": 98304, "primals_20": 1536, "primals_21": 98304}
