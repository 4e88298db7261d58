"""Comparisons of numbers that depend on no input, decided: which frequencies a RoPE scales is written by comparing.

``where(wavelength > 32, f / 8, f)`` chooses by numbers that both programs compute, each in its own way. The numbers are
known, by execution with a bound on what rounding may have added; where that bound leaves no doubt of any element, the
comparison is written as the runs of true and false that it is. Nothing is assumed: both have the same elements over the
reals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np

from tantamount.comparison.rounding import exact_constants
from tantamount.ir.graph import Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.reference import Array
from tantamount.verdict import Assumption

__all__ = ["with_decided_comparisons"]

_COMPARISONS = frozenset({f"aten.{name}.{kind}" for name in ("lt", "gt", "le", "ge") for kind in ("Scalar", "Tensor")})
_RUNS = 8  # of equal elements that a comparison is written as


def with_decided_comparisons(job: Job) -> tuple[Job, tuple[Assumption, ...]]:
    """The job with comparisons of known numbers that are not whole written as what they are; no assumption comes of
    it."""
    done: dict[int, Graph] = {}
    for graph in (job.specification, *job.implementation):
        if id(graph) not in done:
            done[id(graph)] = _rewritten(graph)
    if all(done[id(graph)] is graph for graph in (job.specification, *job.implementation)):
        return job, ()
    ranks = tuple(done[id(graph)] for graph in job.implementation)
    return replace(job, specification=done[id(job.specification)], implementation=ranks), ()


def _rewritten(graph: Graph) -> Graph:
    if not any(node.target in _COMPARISONS for node in graph.nodes):
        return graph
    known = exact_constants(graph)
    runs: dict[str, tuple[Node, ...]] = {}
    for node in graph.nodes:
        if node.target not in _COMPARISONS or node.name not in known:
            continue
        operands = [known[name] for name in references(node) if name in known]
        if any(_is_broken(value) for value in operands):
            made = tuple(_runs(node, known[node.name]))
            if made:
                runs[node.name] = made
    if not runs:
        return graph
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in runs.get(node.name, (node,))))


def _is_broken(value: Array) -> bool:
    """True for numbers that are not all whole: comparisons of whole ones, such as positions, are the calculus's own."""
    return value.dtype.kind == "f" and bool((value != np.rint(value)).any())


def _runs(node: Node, value: Array) -> Iterator[Node]:
    """Nodes that write a vector of booleans run by run, the last of which has the name of the comparison; none for a
    matrix, or for too many runs."""
    if sum(size != 1 for size in value.shape) > 1:
        return
    lengths = [(bool(key), len(list(members))) for key, members in groupby(value.reshape(-1).tolist())]
    if not 0 < len(lengths) <= _RUNS:
        return
    parts: list[Ref] = []
    for k, (chosen, length) in enumerate(lengths):
        name = f"{node.name} run {k}"
        found = TensorType((length,), DType.BOOL)
        yield Node(name, "call", "aten.full.default", ((length,), chosen), {"dtype": DType.BOOL}, found)
        parts.append(Ref(name))
    joined = parts[0]
    if len(parts) > 1:
        found = TensorType((value.size,), DType.BOOL)
        yield Node(f"{node.name} runs", "call", "aten.cat.default", (tuple(parts),), {}, found)
        joined = Ref(f"{node.name} runs")
    found = TensorType(tuple(value.shape), DType.BOOL)
    yield Node(node.name, "call", "aten.reshape.default", (joined, found.shape), {}, found)
