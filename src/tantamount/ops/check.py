"""The type check of whole graphs against the operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tantamount.errors import InternalError, TantamountError, UserError
from tantamount.ir.graph import Graph, Node
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, constant_type, place_of, run

__all__ = ["check_graph"]


def check_graph(graph: Graph, groups: Mapping[str, int] | None) -> Environment:
    """The type of every node (tensors without values), all checked against what the file recorded.

    ``groups`` gives the size of every process group; ``None``: each is the rank alone (a specification). Raises
    :class:`UserError` for an unknown operator or attribute, operands that do not fit, types that contradict the file,
    and outputs that are not tensors.
    """
    inputs: dict[str, Tensor] = {}
    for node in graph.inputs:
        if node.type is None:
            raise UserError(
                "graph-input-type",
                place=place_of(graph, node),
                found="an input without a type",
                needed="its shape and dtype",
            )
        inputs[node.name] = Tensor(node.type.shape, node.type.dtype, None)
    current = ["the first node"]
    try:
        types = run(graph, TypesOnly(groups), inputs, constant=_constant, groups=groups, each=_remember(current))
    except TantamountError:
        raise
    except Exception as problem:
        raise InternalError(f"{graph.path}: type check of the node after {current[0]}: {problem!r}") from problem
    for output in graph.outputs:
        if not isinstance(types[output.node], Tensor):
            raise UserError(
                "graph-output-type",
                place=f"{graph.path}: output {output.name}",
                found=f"node {output.node}, whose value is not one tensor",
                needed="outputs that are tensors",
                hint="name the getitem nodes of its results",
            )
    return types


def _constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)


def _remember(current: list[str]) -> Callable[[Node, Result], Result]:
    def each(node: Node, result: Result) -> Result:
        current[0] = node.name
        return result

    return each
