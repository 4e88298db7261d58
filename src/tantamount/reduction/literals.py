"""The numbers that a job is written with, by what they are: sizes, or values that programs compute with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Union

from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.relation import Concat, Expression, RankTensor, Reshape, Slice, Sum
from tantamount.ops.calls import operator_of

__all__ = ["Number", "lists_of", "map_expression", "map_node", "output_node"]

Number = Union[int, float]

_VALUES = {"Scalar", "Operand", "float"}  # kinds of parameters whose numbers enter what is computed


def output_node(graph: Graph, name: str) -> str:
    """The node behind an output's name (a node's own name will do)."""
    return next((output.node for output in graph.outputs if output.name == name), name)


def map_node(graph: Graph, node: Node, size: Callable[[int, str], int], value: Callable[[Number, str], Number]) -> Node:
    """The node with ``size`` applied to every integer among its attributes and ``value`` to the numbers that programs
    compute with; both are told the attribute: its parameter's name and place in a list."""
    if node.op != "call" or node.target == "getitem":  # which of several results is structure
        return node
    parameters = operator_of(graph, node).parameters
    names = list(parameters)

    def mapped(argument: Argument, name: str, place: str) -> Argument:
        kind = parameters[name].kind.rstrip("?") if name in parameters else ""
        if isinstance(argument, tuple):
            return tuple(mapped(item, name, f"{place}.{k}") for k, item in enumerate(argument))
        if isinstance(argument, bool) or not isinstance(argument, (int, float)):
            return argument
        if kind in _VALUES:
            return value(argument, place)
        return size(argument, place) if isinstance(argument, int) else argument

    def positional(k: int, argument: Argument) -> Argument:
        name = names[k] if k < len(names) else str(k)
        return mapped(argument, name, name)

    args = tuple(positional(k, argument) for k, argument in enumerate(node.args))
    kwargs = {name: mapped(argument, name, name) for name, argument in node.kwargs.items()}
    return replace(node, args=args, kwargs=kwargs)


def lists_of(graph: Graph, node: Node) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The attributes that are lists of integers, by their parameter's name."""
    if node.op != "call" or node.target == "getitem":
        return
    names = list(operator_of(graph, node).parameters)
    named = ((names[k] if k < len(names) else str(k), argument) for k, argument in enumerate(node.args))
    for name, argument in (*named, *node.kwargs.items()):
        if isinstance(argument, tuple):
            sizes = tuple(n for n in argument if isinstance(n, int) and not isinstance(n, bool))
            if sizes and len(sizes) == len(argument):
                yield name, sizes


def map_expression(
    expression: Expression, bound: Callable[[int], int], size: Callable[[int, str], int], place: str = ""
) -> Expression:
    """The clean expression with ``bound`` applied to bounds of slices, and ``size`` to sizes of reshapes; ``place`` is
    different for every one of these."""
    if isinstance(expression, RankTensor):
        return expression
    if isinstance(expression, (Concat, Sum)):
        parts = (map_expression(part, bound, size, f"{place}.{k}") for k, part in enumerate(expression.parts))
        return replace(expression, parts=tuple(parts))
    operand = map_expression(expression.operand, bound, size, f"{place}.")
    if isinstance(expression, Slice):
        bounds = tuple(
            (None if low is None else bound(low), None if high is None else bound(high), step)
            for low, high, step in expression.bounds
        )
        return Slice(operand, bounds)
    if isinstance(expression, Reshape):
        return Reshape(operand, tuple(size(n, f"{place}/{k}") for k, n in enumerate(expression.shape)))
    return replace(expression, operand=operand)
