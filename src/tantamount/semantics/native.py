"""A graph executed in its own dtypes: every result computed in float64 and rounded to its type, or left as it is.

What a machine does inside an operator (the order of a sum, the dtype that it is kept in) is not followed: each operator
is computed in float64 and rounded once. So this shows what dtypes do to a program; what compilers may do to its results
is bounded by :mod:`tantamount.semantics.exact`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node, references
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, recorded_constant, run, run_node
from tantamount.semantics.interpret import Evaluation, evaluation, input_tensors
from tantamount.semantics.reference import Array, Reference
from tantamount.semantics.rounding import FORMATS, rounded

__all__ = ["Native"]


class Native:
    """One execution of a graph of one rank in its own dtypes: the ``values`` of its nodes. ``rounding``: the nodes, in
    order, whose results had to be rounded. Views, maxima, casts that lose nothing and the like have none to round.

    Raises :class:`Unsupported` for dtypes that have no format here, and what :func:`tantamount.semantics.interpret`
    raises."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Array]) -> None:
        self._graph = graph
        self._on = Reference()
        found: list[str] = []

        def each(node: Node, result: Result) -> Result:
            settled = _rounded(result)
            if not _same(result, settled):
                found.append(node.name)
            return settled

        given = {name: _rounded_tensor(tensor) for name, tensor in input_tensors(graph, inputs).items()}
        self._values: Environment = run(graph, self._on, given, each=each)
        self.rounding = tuple(found)
        self.values = evaluation(self._values, self._on)

    def without(self, left_out: Collection[str]) -> Evaluation:
        """The value of every node where these nodes of ``rounding`` hand on what they computed, in float64. All others
        of ``rounding`` round; a node that had nothing to round hands on what it is given."""
        values, rounds, changed = dict(self._values), frozenset(self.rounding), set[str]()
        for node in self._graph.nodes:
            if node.name not in left_out and changed.isdisjoint(references(node)):
                continue
            found = run_node(self._graph, node, Builder(self._on, node.name), values, recorded_constant, None)
            values[node.name] = _rounded(found) if node.name in rounds and node.name not in left_out else found
            changed.add(node.name)
        return evaluation(values, self._on)


def _rounded(result: Result) -> Result:
    if isinstance(result, tuple):
        return tuple(None if item is None else _rounded_tensor(item) for item in result)
    return _rounded_tensor(result) if isinstance(result, Tensor) else result


def _rounded_tensor(tensor: Tensor) -> Tensor:
    part = tensor.dtype.part
    if not part.is_float:
        return tensor
    if part not in FORMATS:
        raise Unsupported(f"numbers of type {part.label}")
    return replace(tensor, value=rounded(np.asarray(tensor.value, dtype=np.float64), part))


def _same(one: Result, other: Result) -> bool:
    """True if rounding changed nothing."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_same, one, other))
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return True
    return not one.dtype.part.is_float or np.array_equal(one.value, other.value, equal_nan=True)
