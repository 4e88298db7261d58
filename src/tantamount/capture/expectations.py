"""Expectations over several outputs: ``[[expect]] spec = "f(outputs)", impl = "g(outputs)"``.

What ``f`` is of the specification's outputs becomes one more output of it, computed by operators that are known; then
``g`` is an expectation like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tantamount.capture.fields import Fields, Place, nearest
from tantamount.capture.relations import Side, read_expectation
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref
from tantamount.ir.relation import (
    OUTPUT,
    Concat,
    Expectation,
    Expression,
    Permute,
    RankTensor,
    Reshape,
    Slice,
    Sum,
    rank_tensors,
    unresolved,
)
from tantamount.ir.relation_text import parse_relation
from tantamount.ir.relation_types import RelationProblem, resolve
from tantamount.ir.types import TensorType

__all__ = ["with_expectations"]

_KEYS = ("name", "spec", "impl")


def with_expectations(
    entries: object, place: Place, specification: Graph, types: Mapping[str, TensorType], side: Side
) -> tuple[Graph, dict[str, Expectation]]:
    """The specification with an output for every entry, and what is expected of these. Raises :class:`UserError` for
    what is wrong with an entry. ``types`` of the specification's outputs by name."""
    found: dict[str, Expectation] = {}
    for k, entry in enumerate(place.list(entries, "entries [[expect]]")):
        here = place.at(f"[{k}]")
        fields = Fields.of(entry, here, _KEYS, ("spec", "impl"))
        expression, type_ = _read(fields, types)
        text = str(expression)
        name = fields.at("name").name(fields.get("name")) if "name" in fields else text
        if name in types or name in found:
            raise here.wrong(f"the name {name!r}, which another output has", "names that differ", code="expect")
        writer = _Writer(specification)
        node = writer.node(expression)
        nodes, outputs = (*specification.nodes, *writer.nodes), (*specification.outputs, Output(name, node))
        specification = replace(specification, nodes=nodes, outputs=outputs)
        expectation = read_expectation(name, type_, fields.get("impl"), fields.at("impl"), side)
        if expectation.infer:
            raise fields.at("impl").wrong('"infer"', "what the implementation's outputs make of it", code="expect")
        found[name] = expectation
    return specification, found


def _read(fields: Fields, types: Mapping[str, TensorType]) -> tuple[Expression, TensorType]:
    """The expression over the specification's outputs, and its type."""
    place = fields.at("spec")
    parsed = parse_relation(place.string(fields.get("spec"), "an expression in quotes"), place.text, place.limits)

    def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
        name = term.name or ""
        if term.rank != OUTPUT:
            raise place.wrong(str(term), 'output("name"), an output of the specification', code="expect")
        if name not in types:
            raise place.wrong(
                f"{term}, which is no output of the specification whose type is known",
                "names of its outputs",
                code="unknown-output",
                hint=nearest(name, types),
            )
        return term, types[name]

    if not isinstance(parsed, Expression):
        raise place.wrong(str(parsed), 'an expression such as sum(output("a"), output("b"))', code="expect")
    if not any(True for _ in rank_tensors(parsed)):
        raise place.wrong(str(parsed), "an expression over outputs", code="expect")
    try:
        return resolve(parsed, tensor)
    except RelationProblem as problem:
        raise place.wrong(f"{parsed}: {problem}", "shapes that fit", code="relation-shape") from None


@dataclass
class _Writer:
    """Writes expressions as nodes of a graph."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list[Node])

    def node(self, expression: Expression) -> str:
        """The name of the node that computes a resolved expression."""
        if isinstance(expression, RankTensor):
            return next(output.node for output in self.graph.outputs if output.name == expression.name)
        if isinstance(expression, Concat):
            parts = tuple(Ref(self.node(part)) for part in expression.parts)
            return self._call("aten.cat.default", parts, expression.dim)
        if isinstance(expression, Sum):
            total = self.node(expression.parts[0])
            for part in expression.parts[1:]:
                total = self._call("aten.add.Tensor", Ref(total), Ref(self.node(part)))
            return total
        operand = self.node(expression.operand)
        if isinstance(expression, Slice):
            for dim, (start, stop, step) in enumerate(expression.bounds):
                operand = self._call("aten.slice.Tensor", Ref(operand), dim, start, stop, step)
            return operand
        if isinstance(expression, Permute):
            return self._call("aten.permute.default", Ref(operand), expression.dims)
        if isinstance(expression, Reshape):
            return self._call("aten.reshape.default", Ref(operand), expression.shape)
        raise unresolved(expression)

    def _call(self, target: str, *args: Argument) -> str:
        taken = {node.name for node in self.nodes} | self.graph.by_name.keys()
        name = next(name for k in range(len(taken) + 1) if (name := f"expected_{k}") not in taken)
        self.nodes.append(Node(name, "call", target, args))
        return name
