"""The operator that a node calls, and what is known of that call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tantamount.errors import TantamountError, UserError
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.validate import node_place
from tantamount.ops.algebra import Tensor
from tantamount.ops.custom import custom_operator
from tantamount.ops.facts import NOTHING, Facts
from tantamount.ops.functionalized import is_wrapper, unwrapped, wrapper
from tantamount.ops.table import ASSERTIONS, Operator, bind, lookup, table

__all__ = ["COUNTS", "asserts", "facts_of", "operator_of", "requires"]


def operator_of(graph: Graph, node: Node) -> Operator:
    """The row of the operator that a ``call`` node applies. Raises :class:`UserError` if there is none, and where an
    operator overwrites operands outside ``auto_functionalized``: nodes have values, no memory."""
    if not graph.operators:  # most nodes of most programs
        plain = table().get(node.target)
        if plain is not None and not plain.mutates:
            return plain
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


COUNTS = "tantamount.counts.default"  # by which captures record a bincount with a minlength


def asserts(graph: Graph, name: str) -> bool:
    """True if a node of this name asserts something: it has no value, and the program stops at it or goes on."""
    node = graph.by_name.get(name)
    return node is not None and _calls(node) and operator_of(graph, node).category == ASSERTIONS


def requires(graph: Graph, name: str) -> str:
    """The clause that says what a node of this name requires of its operands' values (see
    :class:`~tantamount.ops.table.Operator`); "" where it requires nothing."""
    node = graph.by_name.get(name)
    return operator_of(graph, node).requires if node is not None and _calls(node) else ""


def _calls(node: Node) -> bool:
    return node.op == "call" and node.target != "getitem"


def facts_of(
    graph: Graph, node: Node, operand: Callable[[str], Tensor | None], groups: Mapping[str, int] | None = None
) -> Facts:
    """The facts of a ``call`` node, which name its operands as the graph does. ``operand`` gives the type of a node by
    name; its value may be a number that all its elements are (see :func:`tantamount.ops.derive.facts_of_call`). Where
    it gives nothing, those of the operator's ordinary calls. ``groups`` gives the size of every process group;
    ``None``: each is the rank alone. No facts where the node applies no known operator to operands that fit."""

    def resolved(argument: Argument) -> Any:
        if isinstance(argument, tuple):
            return tuple(map(resolved, argument))
        if not isinstance(argument, Ref):
            return argument
        found = operand(argument.name)
        if found is None:
            raise _Untyped
        value = found.value if isinstance(found.value, (int, float)) else argument.name
        return Tensor(found.shape, found.dtype, value, found.weak)

    try:
        row = operator_of(graph, node)
        try:
            args = tuple(map(resolved, node.args))
            kwargs = {key: resolved(value) for key, value in node.kwargs.items()}
        except _Untyped:
            return row.facts
        arguments = bind(row, node.target, args, kwargs, node_place(graph.path, node))
    except TantamountError:
        return NOTHING
    members = 1 if groups is None else groups.get(arguments.get(row.group_parameter or "", ""), 1)
    return row.facts_of(arguments, again=False, members=members)


class _Untyped(Exception):
    """An operand whose type is not known."""
