"""Two accumulated micro-batches, each with the mean of its own loss: twice the loss of the whole batch.

From a real trainer. Wrong: REFUTED, with the inputs. Repaired in either of two ways: PROVED, and execution agrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.cross_check import cross_check
from tantamount import read_job
from tantamount.answers import refine
from tantamount.cli.main import main
from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.verdict import Verdict


@pytest.fixture
def job(shared: Path) -> Job:
    return read_job(shared / "jobs" / "bug6_grad_accumulation" / "job.toml")


def test_it_is_refuted_with_an_input_that_reads_well(job: Job) -> None:
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.exit_code == 1
    example = report.counterexample
    assert example is not None
    assert set(example.inputs) == {"arg0_1", "arg1_1", "arg2_1", "arg3_1", "arg4_1"}
    numbers = [v for value in example.inputs.values() for v in (value if isinstance(value, list) else [value])]
    assert sorted(numbers) == [0.0] * 18 + [1.0]
    assert example.actual == 2 * example.expected
    assert "in the specification and" in report.outputs[0].reason


def test_the_command_line_exits_with_1(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.json"
    monkeypatch.setattr("sys.argv", ["tantamount", "refine", job.path, "--json", str(out)])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 1
    (entry,) = json.loads(out.read_text())["jobs"]
    assert entry["counterexample"]["output"] == "add_1"


def _divided_means(graph: Graph) -> Graph:
    """mean / 2 for each of the two micro-batches."""
    nodes: list[Node] = []
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        args = tuple(Ref(renamed.get(a.name, a.name)) if isinstance(a, Ref) else a for a in node.args)
        nodes.append(replace(node, args=args))
        if node.target == "aten.mean.default":
            half = f"{node.name}_half"
            nodes.append(Node(half, "call", "aten.div.Tensor", (Ref(node.name), 2), type=node.type))
            renamed[node.name] = half
    assert len(renamed) == 2
    return replace(graph, nodes=tuple(nodes))


def _sums_over_eight(graph: Graph) -> Graph:
    """sum / 8 instead of mean, as the specification has it."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.target == "aten.mean.default":
            nodes.append(replace(node, name=f"{node.name}_sum", target="aten.sum.default"))
            args = (Ref(f"{node.name}_sum"), 8)
            nodes.append(Node(node.name, "call", "aten.div.Tensor", args, type=node.type))
        else:
            nodes.append(node)
    assert len(nodes) == len(graph.nodes) + 2
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.parametrize("repair", [_divided_means, _sums_over_eight])
def test_the_repaired_trainer_is_proved(job: Job, repair: object) -> None:
    assert callable(repair)
    repaired = replace(job, implementation=tuple(repair(graph) for graph in job.implementation))
    report = refine(repaired)
    assert report.verdict is Verdict.PROVED
    assert [str(o.relation) for o in report.outputs] == ["add_1 = Replicate() of add_3"]
    checked = cross_check(repaired)
    assert (checked.outputs, checked.disagreements, checked.undefined) == (("add_1",), (), ())
    assert checked.executed == 4
