"""In-place calls: written only where nothing reads afterwards, and then with the values that there were."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from support.fuzzed import failure_in_pytorch, run_in_pytorch
from support.jobs import typed_graph
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import policy_of
from tantamount.fuzz.generate import generate
from tantamount.fuzz.in_place import VIEWS, writes_unseen, written
from tantamount.fuzz.shrink import form_of
from tantamount.ir.graph import Output

POLICY = policy_of([backends()["eager"]])
HEAD = "x: float32[2, 2]\na = aten.neg.default(x)\nv = aten.permute.default(a, [1, 0])\n"


@pytest.mark.parametrize("lines", [
    "b = aten.add_.Tensor(a, x)\n-> b",
    "b = aten.add_.Tensor(v, x)\nc = aten.relu_.default(b)\n-> c",
    "u = aten.add.Tensor(v, a)\nb = aten.mul_.Tensor(a, u)\n-> b, u",
])  # fmt: skip
def test_what_nothing_reads_any_more_may_be_written_into(lines: str) -> None:
    assert writes_unseen(typed_graph(HEAD + lines))


@pytest.mark.parametrize("lines", [
    "b = aten.relu_.default(x)\n-> b",  # an input
    "b = aten.add_.Tensor(a, x)\n-> b, a",
    "b = aten.add_.Tensor(a, x)\n-> b, v",
    "b = aten.add_.Tensor(v, x)\nc = aten.abs.default(a)\n-> b, c",
    "b = aten.add_.Tensor(a, v)\n-> b",  # it reads what it writes
    "e = aten.expand.default(a, [2, 2, 2])\nb = aten.relu_.default(e)\n-> b",
    "e = aten.alias.default(a)\nb = aten.relu_.default(a)\n-> b, e",
])  # fmt: skip
def test_what_something_reads_is_not_written_into(lines: str) -> None:
    graph = typed_graph(HEAD + lines)
    assert not writes_unseen(graph)
    assert form_of(graph, {"x": np.ones((2, 2))}) is None  # nor does making a program small lead there


def test_programs_in_place_compute_the_same_in_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    found = 0
    for index in range(20):
        sample = generate(12, index, POLICY)
        graph = written(sample.graph, POLICY, Random(index))
        form = form_of(graph, sample.inputs, policy=POLICY)
        assert form is not None
        assert failure_in_pytorch(form) is None, graph.path
        found += graph != sample.graph
    assert found >= 3


def test_only_views_share_memory_in_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for index in range(20):
        graph = generate(13, index, POLICY).graph
        calls = [node for node in graph.nodes if node.op == "call" and node.type is not None]
        whole = replace(graph, outputs=tuple(Output(node.name, node.name) for node in calls))
        seen: dict[int, str] = {}
        results = run_in_pytorch(whole, generate(13, index, POLICY).inputs)
        for node, tensor in zip(calls, results, strict=True):
            place = tensor.untyped_storage().data_ptr()
            if place and node.target not in VIEWS:
                assert place not in seen, f"{node.target} gives the memory of {seen[place]}"
            seen.setdefault(place, node.name)
