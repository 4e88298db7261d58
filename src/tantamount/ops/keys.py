"""Keys of calls: equal keys, the same function of the same operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ops.functionalized import unwrapped

__all__ = ["Unkeyed", "call_key"]


class Unkeyed(Exception):
    """An operand of which nothing is known that a key could be made of."""


def call_key(graph: Graph, node: Node, of: Callable[[str], Hashable]) -> tuple[Hashable, ...]:
    """A key of what a ``call`` node applies (its operator, as declared by the graph if it is, and every attribute with
    its type: 1, 1.0 and True are three) to what: ``of`` gives the key of an operand by its node's name, and raises
    :class:`Unkeyed` if there is none. The recorded element type is part of it, for it settles what operands leave open.
    It comes third, before the arguments."""

    def key(argument: Argument) -> Hashable:
        kind = argument.__class__
        if kind is Ref:
            return of(argument.name)  # type: ignore[union-attr]
        if kind is tuple:
            return (tuple, *[key(item) for item in argument])  # type: ignore[union-attr]
        if kind is float or kind is complex:
            return kind, repr(argument)  # 0.0 and -0.0 are two
        return kind, argument

    names = node.kwargs
    return (
        node.target,
        graph.operators.get(unwrapped(node.target, node.args)) if graph.operators else None,
        node.type.dtype if node.type is not None else None,
        *[key(argument) for argument in node.args],
        *[(name, key(names[name])) for name in sorted(names)],
    )
