"""A whole training step of a GPT layer under tensor and sequence parallelism, forward and backward.

Wrong: ten gradients of replicated parameters are added to what was accumulated without their all-reduce. Each is
refused, with what is missing where; the other nine outputs are proved. With the all-reduces put in, all are; and with
something else wrong, never."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tantamount import read_job
from tantamount.answers import refine
from tantamount.correspond.alignment import align
from tantamount.diagnosis.localise import find_mismatch
from tantamount.ir.job import Job
from tantamount.proof import Options, Proof, prove
from tantamount.verdict import OutputReport, Verdict

# the accumulated gradients, and the summands that lack their all-reduce
UNREDUCED = {
    "add_8": "view_42", "add_13": "getitem_58", "add_14": "getitem_59", "add_15": "view_52", "add_17": "getitem_61",
    "add_18": "getitem_62", "add_19": "getitem_64", "add_20": "getitem_65", "add_24": "getitem_67",
    "add_25": "getitem_68",
}  # fmt: skip
Nodes = dict[str, Any]  # a graph's nodes by name, to be changed


@pytest.fixture
def wrong(shared: Path) -> Path:
    return shared / "jobs" / "bug9_missing_layernorm_allreduce"


def _checked(job: Job) -> tuple[Proof, tuple[OutputReport, ...]]:
    sides = prove(job, Options(align=align))
    assert sides.folded
    return sides, sides.check()


def test_every_gradient_without_its_all_reduce_is_refused(wrong: Path) -> None:
    job = read_job(wrong / "job.toml")
    sides, outputs = _checked(job)
    proved = {output.name for output in outputs if output.verdict is Verdict.PROVED}
    failing = [output for output in outputs if output.verdict is not Verdict.PROVED]
    assert {output.name for output in failing} == set(UNREDUCED)
    assert len(proved) == 9
    mismatch, reductions = find_mismatch(sides, failing)
    assert set(reductions) == set(UNREDUCED)
    for name, summand in UNREDUCED.items():
        missing, why = reductions[name].splitlines()
        assert missing.startswith(f"a sum over tp (all_reduce or reduce_scatter) is missing before {name} (")
        assert "Gradient addition node" in missing
        assert why.startswith(f"it adds {summand} (")
        assert 'which is Partial("sum") over tp (every rank holds one summand), to tangents_' in why
        assert why.endswith("which is Replicate()")
    assert "it adds view_42 (Megatron-LM/megatron/core/fusions/fused_bias_dropout.py:33)" in reductions["add_8"]
    assert mismatch is not None
    assert mismatch.implementation == mismatch.specification == failing[0].name


# ---------------------------------------------------------------------------------------------- repaired, and mutants
def test_values_at_reduced_shapes_refute_it(wrong: Path) -> None:
    report = refine(read_job(wrong / "job.toml"))
    verdicts = [output.verdict for output in report.outputs]
    assert report.verdict is Verdict.REFUTED, report.notes
    assert (verdicts.count(Verdict.PROVED), verdicts.count(Verdict.REFUTED)) == (9, 9)
    assert report.counterexample is not None


def _reduced(name: str, reduction: str = "sum") -> list[Any]:
    """The all-reduce of a gradient's summand, and the wait for it."""
    summand = {"node": UNREDUCED[name]}
    common = {"op": "call_function", "kwargs": {}, "shape": None, "dtype": None}
    return [
        {**common, "name": f"{name}_reduce", "target": "_c10d_functional.all_reduce.default",
         "args": [summand, reduction, "12"]},
        {**common, "name": f"{name}_wait", "target": "_c10d_functional.wait_tensor.default",
         "args": [{"node": f"{name}_reduce"}]},
    ]  # fmt: skip


def _repaired(graph: Any, change: Callable[[Nodes], None], reduction: str) -> Any:
    nodes: list[Any] = []
    for node in graph["nodes"]:
        if node["name"] in UNREDUCED:
            accumulated, summand = node["args"]
            collective = _reduced(node["name"], reduction)
            for new in collective:
                new |= {"shape": node["shape"], "dtype": node["dtype"]}
            nodes += collective
            assert summand == {"node": UNREDUCED[node["name"]]}
            node = {**node, "args": [accumulated, {"node": collective[1]["name"]}]}
        nodes.append(node)
    change({node["name"]: node for node in nodes})
    return {**graph, "nodes": nodes}


def _job(wrong: Path, folder: Path, change: Callable[[Nodes], None] = lambda _: None, reduction: str = "sum") -> Job:
    for name in ("job.toml", "spec.json.gz"):
        (folder / name).write_bytes((wrong / name).read_bytes())
    for name in ("rank0.json.gz", "rank1.json.gz"):
        graph = json.loads(gzip.decompress((wrong / name).read_bytes()))
        text = json.dumps(_repaired(graph, change, reduction))
        (folder / name).write_bytes(gzip.compress(text.encode(), 1))
    return read_job(folder / "job.toml")


def test_with_the_all_reduces_everything_is_proved(wrong: Path, tmp_path: Path) -> None:
    _, outputs = _checked(_job(wrong, tmp_path))
    assert len(outputs) == 19
    assert {output.verdict for output in outputs} == {Verdict.PROVED}


def _argument(name: str, position: int, value: Any) -> Callable[[Nodes], None]:
    def change(nodes: Nodes) -> None:
        assert nodes[name]["args"][position] != value
        nodes[name]["args"][position] = value

    return change


def _swapped(name: str, other: str) -> Callable[[Nodes], None]:
    def change(nodes: Nodes) -> None:
        x, y = nodes[name]["args"], nodes[other]["args"]
        x[0], y[0] = y[0], x[0]

    return change


def _operator(name: str, target: str) -> Callable[[Nodes], None]:
    def change(nodes: Nodes) -> None:
        nodes[name]["target"] = target

    return change


MUTANTS: dict[str, tuple[Callable[[Nodes], None], set[str]]] = {
    "an all-reduce dropped": (_argument("add_17", 1, {"node": "getitem_61"}), {"add_17"}),
    "another scale": (_argument("mul_5", 1, 0.1443), {"add_19", "add_21", "add_24"}),
    "gradients swapped": (_swapped("add_24_reduce", "add_25_reduce"), {"add_24", "add_25"}),
    "softmax along queries": (_argument("_softmax_backward_data", 2, -2), {"add_17", "add_19"}),
    "rows of a padding index": (_argument("embedding_dense_backward", 3, 0), {"add_26"}),
    "masked scores": (_argument("masked_fill_1", 2, 1), {"add_19"}),
    "a difference for a sum": (_operator("add_27", "aten.sub.Tensor"), {"add_27"}),
    "unscattered groups": (_argument("reduce_scatter_tensor_4", 1, "avg"), {"add_24", "add_25"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_proved(wrong: Path, tmp_path: Path, name: str) -> None:
    change, concerned = MUTANTS[name]
    _, outputs = _checked(_job(wrong, tmp_path, change))
    refused = {output.name for output in outputs if output.verdict is not Verdict.PROVED}
    assert concerned <= refused


@pytest.mark.parametrize("reduction", ["avg", "max"])
def test_another_reduction_is_not_proved(wrong: Path, tmp_path: Path, reduction: str) -> None:
    _, outputs = _checked(_job(wrong, tmp_path, reduction=reduction))
    assert {output.name for output in outputs if output.verdict is not Verdict.PROVED} == set(UNREDUCED)
