"""A program whose parameters are computed from the tensors of a checkpoint, by what its loader does to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from tantamount.capture.fx_json import graph_of
from tantamount.capture.programs import Program
from tantamount.comparison.inlined import Loading, inline
from tantamount.correspond.index_maps import shape_of
from tantamount.correspond.numbering import Source
from tantamount.ir.graph import Graph, references
from tantamount.ir.relation import Concat, Expression, Permute, RankTensor, Reshape, Slice
from tantamount.ir.types import Shape
from tantamount.limits import limits_from_environment
from tantamount.ops.table import table

__all__ = ["from_checkpoint", "when_read"]


def from_checkpoint(
    program: Program,
    sources: Mapping[str, Source],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str],
    loading: Loading | None = None,
) -> tuple[Program, dict[str, str]]:
    """The program with an input for every tensor of the checkpoint that it uses, from which the parameters that have a
    source are computed right before they are read, so that each layer loads its own parameters and is like the others
    (:mod:`tantamount.proof.lemmas`); and those inputs by the names of the checkpoint's tensors. ``shapes`` and
    ``dtypes`` are the checkpoint's, by name; ``loading`` computes the parameters that it writes and have no source."""
    nodes: list[dict[str, Any]] = list(program.document["nodes"])
    replaced = {
        node["name"]: source
        for node in nodes
        if node["op"] == "placeholder" and (source := sources.get(node["name"])) and source.expression is not None
    }
    plain = {name for name, source in replaced.items() if source.exact and source.expression == RankTensor(0, name)}
    names = _Names({node["name"] for node in nodes}, plain)
    made: list[dict[str, Any]] = []
    inputs: dict[str, dict[str, Any]] = {}
    for node in nodes:
        source = replaced.get(node["name"])
        if source is None or source.expression is None:
            continue
        if node["name"] in plain:
            inputs[node["name"]] = node
            continue
        builder = _Builder(node, names, shapes, dtypes, inputs)
        made += builder.nodes_of(source.expression, source.factor, source.shift)
    constants = dict(program.document.get("constants", {}))
    if loading is not None:
        left = [n for n in nodes if n["op"] == "placeholder" and n["name"] not in replaced]
        computed = [node for node in left if loading.computes(node["name"])]
        builder = _Builder({}, names, shapes, dtypes, inputs)
        more, recorded = inline(loading, computed, builder.input_of, names.fresh)
        made += more
        constants |= recorded
        replaced |= {node["name"]: Source(None) for node in computed}
    kept = [node for node in nodes if node["op"] != "placeholder" or node["name"] not in replaced]
    document = {**program.document, "nodes": [*inputs.values(), *made, *kept], "constants": constants}
    graph = graph_of(document, program.graph.path, limits_from_environment())
    graph = when_read(graph, {node["name"] for node in made})
    at = {node.name: k for k, node in enumerate(graph.nodes)}
    document["nodes"] = sorted(document["nodes"], key=lambda node: at[node["name"]])
    return replace(program, graph=graph, document=document), {tensor: node["name"] for tensor, node in inputs.items()}


def when_read(graph: Graph, made: Collection[str]) -> Graph:
    """The program with each of the nodes that are ``made`` right before the first one that reads it: its operands are
    further in front still, so every node reads backwards as before. What may draw numbers, which are told apart by
    their order, and what nobody reads stays where it is, with what it reads."""
    first: dict[str, int] = {}
    for k, node in reversed([*enumerate(graph.nodes)]):
        row = table().get(node.target) if node.op == "call" else None
        moves = node.name in made and (node.op == "constant" or (row is not None and row.category != "random"))
        at = first[node.name] = first.get(node.name, k) if moves else k
        first.update((name, min(at, first.get(name, at))) for name in references(node))
    return replace(graph, nodes=tuple(sorted(graph.nodes, key=lambda node: first[node.name])))


@dataclass
class _Names:
    """Names of nodes that are taken, and the parameters that are tensors of the checkpoint as they are."""

    taken: set[str]
    plain: set[str]

    def of_tensor(self, tensor: str) -> str:
        """The name of the input for a tensor of the checkpoint."""
        return tensor if tensor in self.plain or tensor not in self.taken else f"checkpoint {tensor}"

    def fresh(self, wanted: str) -> str:
        name, k = wanted, 1
        while name in self.taken:
            k += 1
            name = f"{wanted} {k}"
        self.taken.add(name)
        return name


@dataclass
class _Builder:
    """The nodes that compute one parameter, the last of which has its name."""

    parameter: Mapping[str, Any]
    names: _Names
    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str]
    inputs: dict[str, dict[str, Any]]

    def nodes_of(self, expression: Expression, factor: Fraction, shift: Fraction) -> list[dict[str, Any]]:
        """The nodes in order; the first ones may be inputs."""
        self.made: list[dict[str, Any]] = []
        last = self._value(expression)
        shape = list(self.parameter["shape"])
        for target, number, neutral in (("aten.mul.Tensor", factor, 1), ("aten.add.Tensor", shift, 0)):
            if number != neutral:
                last = self._call(target, [{"node": last}, _literal(number)], shape)
        dtype = {"dtype": self.parameter["dtype"]}
        final = self._call("aten._to_copy.default", [{"node": last}], shape, {"dtype": dtype})
        self.made[-1]["name"] = self.parameter["name"]
        self.names.taken.discard(final)
        return self.made

    def _value(self, expression: Expression) -> str:
        """The name of the node that computes an expression."""
        if isinstance(expression, RankTensor):
            return self.input_of(expression.name or "")
        shape = list(shape_of(expression, self.shapes))
        if isinstance(expression, Concat):
            parts = [{"node": self._value(part)} for part in expression.parts]
            return self._call("aten.cat.default", [parts, expression.dim], shape)
        if isinstance(expression, Slice):
            return self._slice(expression)
        if isinstance(expression, Permute):
            order = list(expression.dims)
            return self._call("aten.permute.default", [{"node": self._value(expression.operand)}, order], shape)
        if isinstance(expression, Reshape):
            return self._call("aten.reshape.default", [{"node": self._value(expression.operand)}, shape], shape)
        raise ValueError(f"{type(expression).__name__} is no view")

    def _slice(self, expression: Slice) -> str:
        last = self._value(expression.operand)
        shape = list(shape_of(expression.operand, self.shapes))
        for dim, (low, high, step) in enumerate(expression.bounds):
            if (low, high, step) != (0, shape[dim], 1):
                shape = [*shape[:dim], len(range(low or 0, high or 0, step)), *shape[dim + 1 :]]
                last = self._call("aten.slice.Tensor", [{"node": last}, dim, low, high, step], shape)
        return last

    def input_of(self, tensor: str) -> str:
        """The name of the input for a tensor of the checkpoint."""
        if tensor not in self.inputs:
            name = self.names.of_tensor(tensor)
            self.names.taken.add(name)
            self.inputs[tensor] = {
                "name": name, "op": "placeholder", "target": name, "shape": list(self.shapes[tensor]),
                "dtype": self.dtypes[tensor],
            }  # fmt: skip
        return self.inputs[tensor]["name"]

    def _call(self, target: str, args: list[Any], shape: list[int], kwargs: dict[str, Any] | None = None) -> str:
        name = self.names.fresh(f"load {self.parameter['name']}")
        known = {node["name"]: node["dtype"] for node in (*self.inputs.values(), *self.made)}
        operand = cast("list[Any]", args[0])[0] if isinstance(args[0], list) else args[0]
        dtype = kwargs["dtype"]["dtype"] if kwargs else known[operand["node"]]
        self.made.append(
            {
                "name": name, "op": "call_function", "target": target, "args": args, "kwargs": kwargs or {},
                "shape": list(shape), "dtype": dtype, "stack": f"the loader of {self.parameter['name']}",
            }
        )  # fmt: skip
        return name


def _literal(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)
