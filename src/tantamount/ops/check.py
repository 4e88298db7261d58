"""The type check of whole graphs against the operator table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from tantamount.errors import InternalError, TantamountError, Unsupported, UserError
from tantamount.ir.graph import Graph, Node
from tantamount.ir.types import Shape
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.algebra import ShapeProblem, Tensor, TypesOnly, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import Environment, Result, constant_type, place_of, run, types_problem, untyped

__all__ = ["check_graph", "with_types"]

_MOST_PRIMITIVES = 1 << 20  # of one operator


def check_graph(graph: Graph, groups: Mapping[str, int] | None) -> Environment:
    """The type of every node (tensors without values), all checked against what the file recorded.

    ``groups`` gives the size of every process group; ``None``: each is the rank alone (a specification). Raises
    :class:`UserError` for an unknown operator or attribute, operands that do not fit, types that contradict the file,
    and outputs that are not tensors.
    """
    inputs: dict[str, Tensor] = {}
    for node in graph.inputs:
        if node.type is None:
            raise UserError("graph-input-type", **untyped(graph, node))
        inputs[node.name] = Tensor(node.type.shape, node.type.dtype, None)
    done: dict[str, Result] = {}
    interpretation = TypesOnly(groups)
    interpretation.most = _MOST_PRIMITIVES
    each = _remember(graph, done, interpretation)
    try:
        known = None if graph.sizes.symbols else dict[Hashable, Result]()
        types = run(graph, interpretation, inputs, constant=_constant, groups=groups, each=each, known=known)
    except Unsupported as problem:
        raise UserError(
            "sizes-unsupported", place=_failing(graph, done), found=problem.reason,
            needed="an operator that computes with sizes as polynomials do",
            hint="capture without symbolic sizes, or keep this dimension a number",
        ) from None  # fmt: skip
    except (TantamountError, MemoryError):
        raise
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


def with_types(graph: Graph, groups: Mapping[str, int] | None) -> Graph:
    """The graph; if the file did not record the types of all its outputs, with the types that operators give in the
    place of those that are missing. Raises :class:`UserError` as :func:`check_graph` does."""
    if all(graph.by_name[output.node].type is not None for output in graph.outputs):
        return graph
    types = check_graph(graph, groups)

    def typed(node: Node) -> Node:
        found = types.get(node.name)
        return replace(node, type=found.type) if node.type is None and isinstance(found, Tensor) else node

    return replace(graph, nodes=tuple(map(typed, graph.nodes)))


def _constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)


def _remember(graph: Graph, done: dict[str, Result], interpretation: TypesOnly) -> Callable[[Node, Result], Result]:
    limits = limits_from_environment()

    def each(node: Node, result: Result) -> Result:
        interpretation.primitives = 0
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, Tensor):
                _check_size(graph, node, one.shape, limits)
        done[node.name] = result
        return result

    return each


def _check_size(graph: Graph, node: Node, shape: Shape, limits: Limits) -> None:
    """Raise :class:`UserError` for a tensor that no file may state, either, and for negative sizes."""
    known = [size for size in shape if type(size) is int]
    largest = max(known, default=0)
    if min(known, default=0) < 0:
        problem = ShapeProblem(f"sizes {list(shape)} of a result")
        raise types_problem(operator_of(graph, node), node.target, problem, place_of(graph, node))
    if len(shape) > limits.dimensions or largest > limits.dimension_size:
        place = f"{place_of(graph, node)}: {node.target}"
        limits.check("dimensions", len(shape), place, "dimensions")
        limits.check("dimension_size", largest, place, "elements along a dimension")


def _failing(graph: Graph, done: Mapping[str, Result]) -> str:
    """The place of the first node without a type."""
    node = next(node for node in graph.nodes if node.op != "input" and node.name not in done)
    return f"{place_of(graph, node)}: {node.target}"
