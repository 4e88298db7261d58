"""Parts of a tensor that are read from the whole are the parts that the split has."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from support.graphs import call, placeholder, ref, returns, write
from support.graphs import graph as document
from support.jobs import graph_of, job_files
from tantamount import read_job, refine
from tantamount.capture import wide_splits
from tantamount.capture.wide_splits import read_from_the_whole
from tantamount.semantics.interpret import interpret, random_inputs
from tantamount.verdict import Verdict

PART = "x: float32[1000000]\nb = slice(x, 0, {0}, 8)\ny = mul(b, 2.0)\n-> y"
TABLES = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


@pytest.mark.parametrize("item", [0, 3, 6, -1, -7])
@pytest.mark.parametrize(
    "split",
    [
        "aten.split.Tensor(x, 3, 1)",
        "aten.split.Tensor(x, 3, -1)",
        "aten.split.Tensor(t, 3)",
        "aten.chunk.default(x, 9, 1)",
        "aten.unbind.int(x, 1)",
        "aten.unbind.int(t)",
    ],
)
def test_parts_are_those_of_the_split(monkeypatch: pytest.MonkeyPatch, split: str, item: int) -> None:
    graph = graph_of(f"x: float32[2, 20]\nt: float32[20, 2]\ns = {split}\na = getitem(s, {item})\ny = mul(a, 2)\n-> y")
    monkeypatch.setattr(wide_splits, "_MANY", 5)
    rewritten = read_from_the_whole(graph)
    assert {node.target for node in rewritten.nodes} & {"aten.slice.Tensor", "aten.select.int"}
    assert len(rewritten.nodes) == len(graph.nodes) - 1
    inputs = random_inputs(graph, 0)
    wanted, found = (interpret(one, inputs)["y"] for one in (graph, rewritten))
    assert isinstance(wanted, np.ndarray)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(wanted, found)


def test_one_of_a_million_parts(tmp_path: Path) -> None:
    count, other = 1_000_000, "b = slice(x, 0, 999_999, 1_000_000)".replace("_", "")
    nodes = [
        placeholder("x", (count,)),
        call("s", "aten.split.Tensor", [ref("x"), 1], shape=None),
        call("a", "getitem", [ref("s"), count - 1], shape=(1,)),
        call("y", "aten.mul.Tensor", [ref("a"), 2.0], shape=(1,)),
        returns(ref("y")),
    ]
    path = job_files(tmp_path, f"x: float32[{count}]\n{other}\ny = mul(b, 2.0)\n-> y", [PART.format(7)], TABLES, {}, {})
    for item, verdict in ((count - 1, Verdict.PROVED), (7, Verdict.REFUTED)):
        nodes[2] = call("a", "getitem", [ref("s"), item], shape=(1,))
        write(tmp_path / "rank0.json", document(*nodes))
        begun = time.process_time()
        assert refine(read_job(path)).verdict is verdict
        assert time.process_time() - begun < 5


@pytest.mark.parametrize("rest", ["a = getitem(s, 7)", "a = getitem(s, -8)", "b = cat(s, 1)\na = mul(b, 1)"])
def test_what_is_no_part_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, rest: str) -> None:
    graph = graph_of(f"x: float32[2, 20]\ns = aten.split.Tensor(x, 3, 1)\n{rest}\n-> a")
    monkeypatch.setattr(wide_splits, "_MANY", 5)
    assert read_from_the_whole(graph) is graph
