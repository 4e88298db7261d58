"""The type check of whole graphs against the operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tantamount.errors import InternalError, TantamountError, Unsupported, UserError
from tantamount.ir.graph import Graph, Node
from tantamount.ops.algebra import Tensor, TypesOnly, Unsized
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
    done: dict[str, Result] = {}
    try:
        types = run(graph, TypesOnly(groups), inputs, constant=_constant, groups=groups, each=_remember(done))
    except Unsupported as problem:
        raise UserError(
            "sizes-unsupported", place=_failing(graph, done), found=problem.reason,
            needed="an operator that computes with sizes as polynomials do",
            hint="capture without symbolic sizes, or keep this dimension a number",
        ) from None  # fmt: skip
    except TantamountError:
        raise
    except MemoryError:
        raise UserError(
            "graph-too-large",
            place=_failing(graph, done),
            found="an operator with more results than fit in memory",
            needed="shapes and attributes of a sensible size",
        ) from None
    except Exception as problem:
        raise InternalError(f"{_failing(graph, done)}: its type rule failed with {problem!r}") from problem
    for output in graph.outputs:
        if not isinstance(types[output.node], (Tensor, Unsized)):
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


def _remember(done: dict[str, Result]) -> Callable[[Node, Result], Result]:
    def each(node: Node, result: Result) -> Result:
        done[node.name] = result
        return result

    return each


def _failing(graph: Graph, done: Mapping[str, Result]) -> str:
    """The place of the first node without a type."""
    node = next(node for node in graph.nodes if node.op != "input" and node.name not in done)
    return f"{place_of(graph, node)}: {node.target}"
