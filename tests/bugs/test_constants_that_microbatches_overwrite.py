"""A program that writes into a constant, or into an input through a view by another operand than the first: the next
microbatch finds something else there. Such plans were PROVED, for only inputs, and views by first operands, were looked
at."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.plans import PROGRAMS, verified, write_plan
from tantamount.verdict import Verdict

ONE = {"shape": [1], "dtype": "float32"}


def _call(name: str, target: str, *args: Any, **type_: Any) -> dict[str, Any]:
    return {"name": name, "op": "call_function", "target": target, "args": list(args), "kwargs": {}, **type_}


def _with_constant(path: Path, more: Sequence[dict[str, Any]]) -> None:
    """Multiply the output y of a program by a constant, and add nodes behind that."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    nodes: list[dict[str, Any]] = []
    for node in document["nodes"]:
        if node["name"] == "y":
            type_ = {"shape": node["shape"], "dtype": node["dtype"]}
            nodes += [
                {"name": "k", "op": "get_attr", "target": "k", **ONE}, {**node, "name": "whole"},
                _call("y", "aten.mul.Tensor", {"node": "whole"}, {"node": "k"}, **type_), *more,
            ]  # fmt: skip
        else:
            nodes.append(node)
    document |= {"nodes": nodes, "constants": {"k": {**ONE, "data": [1.5]}}}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


WRITES: dict[str, Sequence[dict[str, Any]]] = {
    "a factor": [_call("n", "aten.mul_.Tensor", {"node": "k"}, 2.0, **ONE)],
    "a view": [
        _call("v", "aten.view.default", {"node": "k"}, [1, 1], shape=[1, 1], dtype="float32"),
        _call("n", "aten.zero_.default", {"node": "v"}, shape=[1, 1], dtype="float32"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("writes", WRITES)
def test_a_constant_that_is_written_passes_on_to_the_next_microbatch(writes: str, tmp_path: Path) -> None:
    """One device does the same to it, once."""
    path = write_plan(tmp_path)
    for name in ("first", "first.spec"):
        _with_constant(tmp_path / f"{name}.json.gz", WRITES[writes])
    report = verified(path)
    assert {part.verdict for part in report.parts} == {Verdict.PROVED}
    assert report.verdict is Verdict.UNKNOWN, report.text()
    problems = [joint.problem for joint in report.joints if joint.problem]
    assert [problem.rpartition("/")[2] for problem in problems] == [
        f"{name}.json.gz overwrites its constant k" for name in ("first.spec", "first")
    ]


def test_a_constant_that_is_read_or_copied_is_none_of_that(tmp_path: Path) -> None:
    path = write_plan(tmp_path)
    copied = [
        _call("c", "aten.clone.default", {"node": "k"}, **ONE),
        _call("n", "aten.mul_.Tensor", {"node": "c"}, 2.0, **ONE),
    ]
    for name in ("first", "first.spec"):
        _with_constant(tmp_path / f"{name}.json.gz", copied)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()


SHARE = 'd_x = all_reduce(share, "sum", "tp")'
OTHERS = "other = mul(b, 1)\nboth = aten.broadcast_tensors.default([other, b])\nlast = getitem(both, {})\n"


@pytest.mark.parametrize("number", [0, 1])
def test_an_input_that_is_written_through_a_list_of_views(number: int, tmp_path: Path) -> None:
    """Which element of a list is a view of which is not looked at: that may be the input."""
    writes = f"{OTHERS.format(number)}n = aten.mul_.Tensor(last, 2)\n{SHARE}"
    report = verified(write_plan(tmp_path, {"layer": (SHARE, writes)}))
    assert report.verdict is Verdict.UNKNOWN, report.text()
    (problem,) = (joint.problem for joint in report.joints if joint.problem)
    assert problem.endswith("layer.json.gz overwrites its input b")


def test_what_one_device_overwrites_is_what_it_replaces(tmp_path: Path) -> None:
    """A specification that leaves something else in a parameter says two things of it."""
    written = ("new_w = sub(w, c)", "new_w = aten.sub_.Tensor(w, c)")
    report = verified(write_plan(tmp_path, {"first_update.spec": written}))
    assert report.verdict is Verdict.PROVED, report.text()
    (tmp_path / "ranks").mkdir()
    report = verified(write_plan(tmp_path / "ranks", {"first_update": written}))
    assert report.verdict is Verdict.UNKNOWN, report.text()
    (tmp_path / "more").mkdir()
    more = ("-> y, d_a, d_b, d_x", "n = aten.mul_.Tensor(a, 2)\n-> y, d_a, d_b, d_x")
    report = verified(write_plan(tmp_path / "more", {"layer.spec": more}))
    assert report.verdict is Verdict.UNKNOWN, report.text()
    (problem,) = (joint.problem for joint in report.joints if joint.problem)
    assert problem.endswith("layer.spec.json.gz overwrites its input a")


def test_what_is_given_beside_the_outputs_is_seen_whatever_it_is_called(tmp_path: Path) -> None:
    """A tensor whose node has the name of an output, which is another node: it was taken for that output."""
    whole = 'y = all_reduce(part, "sum", "tp")'
    text = PROGRAMS["layer"].replace(whole, f"{whole.replace('y', 'sum_', 1)}\ny = mul(sum_, 3)")
    text = text.replace("-> y, d_a, d_b, d_x", "-> y=sum_, d_a, d_b, d_x, left=y")
    report = verified(write_plan(tmp_path, {}, None, {"layer": text}))
    assert {part.verdict for part in report.parts} == {Verdict.PROVED}
    assert report.verdict is Verdict.UNKNOWN, report.text()
    (problem,) = (joint.problem for joint in report.joints if joint.problem)
    assert problem.endswith("layer.json.gz also gives left, of which the specification knows nothing")
