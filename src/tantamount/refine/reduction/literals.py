"""The numbers that a job is written with, by what they are: sizes, or values that programs compute with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Union

from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.relation import Concat, Expression, Permute, RankTensor, Reshape, Slice, Sum, Transpose
from tantamount.ops.calls import operator_of

__all__ = ["Number", "map_expression", "map_node"]

Number = Union[int, float]

_VALUES = {"Scalar", "Operand", "float"}  # kinds of parameters whose numbers enter what is computed


def map_node(
    graph: Graph, node: Node, size: Callable[[int], int], value: Callable[[Number], Number] | None = None
) -> Node:
    """The node with ``size`` applied to every integer among its attributes, and to those of its type; numbers that
    programs compute with are given to ``value`` (if ``None``: the integers among them to ``size``)."""
    type_ = None if node.type is None else replace(node.type, shape=tuple(map(size, node.type.shape)))
    if node.op != "call" or node.target == "getitem":  # which of several results is structure
        return replace(node, type=type_)
    parameters = operator_of(graph, node).parameters
    names = list(parameters)

    def mapped(argument: Argument, name: str) -> Argument:
        kind = parameters[name].kind.rstrip("?") if name in parameters else ""
        if isinstance(argument, tuple):
            return tuple(mapped(item, name) for item in argument)
        if isinstance(argument, bool) or not isinstance(argument, (int, float)):
            return argument
        if kind in _VALUES and value is not None:
            return value(argument)
        return size(argument) if isinstance(argument, int) else argument

    args = tuple(mapped(argument, names[k] if k < len(names) else "") for k, argument in enumerate(node.args))
    kwargs = {name: mapped(argument, name) for name, argument in node.kwargs.items()}
    return replace(node, args=args, kwargs=kwargs, type=type_)


def map_expression(expression: Expression, size: Callable[[int], int]) -> Expression:
    """The clean expression with ``size`` applied to bounds of slices and sizes of reshapes."""
    if isinstance(expression, RankTensor):
        return expression
    if isinstance(expression, (Concat, Sum)):
        return replace(expression, parts=tuple(map_expression(part, size) for part in expression.parts))
    operand = map_expression(expression.operand, size)
    if isinstance(expression, Slice):
        bounds = tuple(
            (None if low is None else size(low), None if high is None else size(high), step)
            for low, high, step in expression.bounds
        )
        return Slice(operand, bounds)
    if isinstance(expression, Reshape):
        return Reshape(operand, tuple(map(size, expression.shape)))
    if isinstance(expression, Transpose):
        return Transpose(operand, expression.dim0, expression.dim1)
    return Permute(operand, expression.dims)
