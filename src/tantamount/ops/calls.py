"""The operator that a node calls."""

from __future__ import annotations

from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node
from tantamount.ir.validate import node_place
from tantamount.ops.custom import custom_operator
from tantamount.ops.functionalized import is_wrapper, unwrapped, wrapper
from tantamount.ops.table import Operator, lookup

__all__ = ["operator_of"]


def operator_of(graph: Graph, node: Node) -> Operator:
    """The row of the operator that a ``call`` node applies. Raises :class:`UserError` if there is none, and where an
    operator overwrites operands outside ``auto_functionalized``: nodes have values, no memory."""
    place = node_place(graph.path, node)
    name = unwrapped(node.target, node.args)
    declared = graph.operators.get(name)
    row = lookup(name, place) if declared is None else custom_operator(declared)
    if is_wrapper(node.target):
        return wrapper(row, node.target, node.kwargs, place)
    if row.mutates:
        raise UserError(
            "operator-overwrites", place=place, found=f"{row.name}, which overwrites {', '.join(row.mutates)}",
            needed="the operator inside auto_functionalized, whose results are the new values",
            hint="functionalise the graph at capture (run_decompositions, or torch.func.functionalize)",
        )  # fmt: skip
    return row
