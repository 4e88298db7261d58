"""Inputs that a boolean program is true of, found by z3; or that there are none."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tantamount.effort import Effort
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph
from tantamount.ops.algebra import Tensor
from tantamount.ops.execute import input_type, run
from tantamount.smt.inputs import variables
from tantamount.smt.interpretation import Elements
from tantamount.smt.knowledge import Knowledge
from tantamount.smt.solver import Solver, load_z3
from tantamount.smt.terms import Table

__all__ = ["satisfying"]


def satisfying(graph: Graph, effort: Effort) -> Mapping[str, tuple[Fraction, ...]] | bool | None:
    """Inputs, flat, row-major, of which every element of a program's only output is true; ``True`` if it is true of
    all, ``False`` if of none, ``None`` if that is not known. The inputs are to be tried: functions may be others than
    those that z3 thought of. Raises :class:`Unsupported` for what has no terms, :class:`UserError` without z3."""
    z3 = load_z3()
    table = Table()
    on = Elements(table, 0, "specification")
    given: dict[str, Tensor] = {}
    for node in graph.inputs:
        type_ = input_type(graph, node)
        given[node.name] = Tensor(type_.shape, type_.dtype, variables(table, graph, node.name, "spec"))
    found = run(graph, on, given)[graph.outputs[0].node]
    if not isinstance(found, Tensor):
        raise Unsupported("a condition that is not one tensor")
    model = Solver(z3, Knowledge(table, {}), effort).model(list(found.value.flat))
    if model is None or isinstance(model, bool):
        return model
    return {name: tuple(model.get(one, Fraction(0)) for one in tensor.value.flat) for name, tensor in given.items()}
