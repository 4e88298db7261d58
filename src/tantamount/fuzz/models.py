"""Cases cut out of real models: connected parts of captured graphs, at other sizes, with inputs as random ones have.

A part is grown from a random call by neighbours that the policy has. What it reads from outside becomes an input, what
is read outside, or nowhere, an output. Its sizes are then drawn anew: those that nothing else decides become others,
and the rest follows from the types of its operators (:func:`tantamount.reduction.reduce.resized`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random

import numpy as np

from tantamount.effort import Effort
from tantamount.errors import TantamountError, UserError
from tantamount.fuzz.draft import CAST, Draft, Policy, usable
from tantamount.fuzz.generate import Sample, pruned
from tantamount.fuzz.plain import plain_calls
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Kind, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.reduction.reduce import NotReduced, resized
from tantamount.semantics.exact import Exact, evaluate
from tantamount.semantics.reference import Array
from tantamount.semantics.rounding import array_type

__all__ = ["Models"]

_SIZES = (2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33)
_LETTERS = {"input": "x", "constant": "c", "call": "n"}
_TRIES = 12  # parts that are cut before a case is given up


@dataclass
class Models:
    """The graphs that cases are cut from, under a policy. The same graphs, seed, index and policy give the same
    case."""

    graphs: Sequence[Graph]
    policy: Policy
    _parts: dict[int, dict[str, list[str]]] = field(default_factory=dict[int, "dict[str, list[str]]"], repr=False)

    def __post_init__(self) -> None:
        self.graphs = [plain_calls(graph) for graph in self.graphs]
        for k, graph in enumerate(self.graphs):
            self._parts[k] = _neighbours(graph, self.policy)
        self.sources = [k for k, neighbours in self._parts.items() if neighbours]
        if not self.sources:
            raise UserError(
                "fuzz-policy", place="--from", found="no operator that the backends have, for its element types",
                needed="a graph with some", hint="`tantamount show GRAPH` lists its operators",
            )  # fmt: skip

    def sample(self, seed: int, index: int) -> Sample:
        """The case number ``index`` of a seed. Raises :class:`NotReduced` where none of some parts has values that can
        be compared."""
        random = Random(f"{seed}/{index}/models")
        for _ in range(_TRIES):
            source = random.choice(self.sources)
            part = _cut(self.graphs[source], self._parts[source], random)
            for made in (_at_other_sizes(part, random, self.policy), part):
                found = None if made is None else self._with_values(_renamed(made, f"case {seed}/{index}"), random)
                if found is not None:
                    return Sample(seed, index, *found)
        raise NotReduced(f"case {seed}/{index}: no part of the graphs has values that can be compared")

    def _with_values(self, graph: Graph, random: Random) -> tuple[Graph, dict[str, Array], dict[str, Tensor]] | None:
        """Inputs and the value of every node; ``None`` if those found cannot be compared."""
        if any(node.type and prod(node.type.shape) > 4 * self.policy.largest for node in graph.nodes):
            return None
        draft = Draft(random, self.policy)
        for places in (False, True):
            inputs = {
                node.name: np.asarray(_drawn(draft, node.type, places), dtype=array_type(node.type.dtype))
                for node in graph.inputs
                if node.type is not None
            }
            exact = Exact()
            try:
                values = evaluate(graph, inputs, exact)
            except (TantamountError, ValueError, IndexError):
                continue
            tensors = {name: x for name, x in values.items() if isinstance(x, Tensor)}
            if not exact.flags and self.policy.allows(exact) and all(map(usable, tensors.values())):
                return graph, inputs, tensors
        return None


def _drawn(draft: Draft, type_: TensorType, places: bool) -> Array:
    """Random elements; integers that may be places are 0 and 1."""
    if places and type_.dtype.kind is Kind.INT:
        return draft.numpy.integers(0, 2, type_.shape)
    return draft.array(type_.shape, type_.dtype)


def _neighbours(graph: Graph, policy: Policy) -> dict[str, list[str]]:
    """Of every call that the policy has the calls it reads, or is read by, that the policy has."""
    types = {node.name: node.type for node in graph.nodes if node.type is not None}
    has: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.op == "call" and _may(node, types, policy):
            has[node.name] = []
            for other in references(node):
                if other in has:
                    has[node.name].append(other)
                    has[other].append(node.name)
    return has


def _may(node: Node, types: Mapping[str, TensorType], policy: Policy) -> bool:
    operands = list(references(node))
    if node.type is None or not operands or any(name not in types for name in operands):
        return False
    if node.target not in (SAMPLERS if policy.targets is None else policy.targets) or len(node.type.shape) > 5:
        return False
    dtypes = [types[name].dtype for name in operands]
    if node.target == CAST:
        dtypes.append(node.type.dtype)
    return all(dtype in policy.dtypes for dtype in (*dtypes, node.type.dtype)) and policy.has(node.target, dtypes)


def _cut(graph: Graph, neighbours: Mapping[str, list[str]], random: Random) -> Graph:
    """A connected part of a graph as a graph of its own."""
    wanted = 2 + int(random.expovariate(1 / 6))
    chosen = {random.choice(list(neighbours))}
    border = list(neighbours[next(iter(chosen))])
    while border and len(chosen) < wanted:
        name = border.pop(random.randrange(len(border)))
        if name not in chosen:
            chosen.add(name)
            border += [other for other in neighbours[name] if other not in chosen]
    return _part(graph, chosen)


def _part(graph: Graph, chosen: set[str]) -> Graph:
    by_name = graph.by_name
    read = {name for call in chosen for name in references(by_name[call])}
    nodes: list[Node] = []
    constants: dict[str, Constant] = {}
    for node in graph.nodes:
        if node.name in chosen:
            nodes.append(node)
        elif node.name in read:
            constant = graph.constants.get(node.target) if node.op == "constant" else None
            if constant is not None and len(constant.data) == prod(constant.type.shape) <= 512:
                constants[node.target] = constant
                nodes.append(node)
            else:
                nodes.append(replace(node, op="input", target=node.name, args=(), kwargs={}))
    inside = {name for call in chosen for name in references(by_name[call]) if name in chosen}
    outside = {name for node in graph.nodes if node.name not in chosen for name in references(node)}
    outputs = tuple(
        Output(n.name, n.name) for n in nodes if n.name in chosen and (n.name not in inside or n.name in outside)
    )
    return pruned(Graph(tuple(nodes), outputs, constants, path="part"))


def _renamed(graph: Graph, path: str) -> Graph:
    """The graph with short names, which are identifiers in every language, and without the lines it came from."""
    names: dict[str, str] = {}
    counted = dict.fromkeys(_LETTERS, 0)
    for node in graph.nodes:
        names[node.name] = f"{_LETTERS[node.op]}{counted[node.op]}"
        counted[node.op] += 1

    def new(item: Argument) -> Argument:
        if isinstance(item, Ref):
            return Ref(names[item.name])
        return tuple(map(new, item)) if isinstance(item, tuple) else item

    nodes: list[Node] = []
    for node in graph.nodes:
        name = names[node.name]
        kwargs = {key: new(item) for key, item in node.kwargs.items()}
        target = node.target if node.op == "call" else name
        nodes.append(Node(name, node.op, target, tuple(map(new, node.args)), kwargs, node.type))
    outputs = tuple(Output(names[output.node], names[output.node]) for output in graph.outputs)
    constants = {names[node.name]: graph.constants[node.target] for node in graph.nodes if node.op == "constant"}
    return Graph(tuple(nodes), outputs, constants, path=path)


def _at_other_sizes(part: Graph, random: Random, policy: Policy) -> Graph | None:
    """The part at sizes drawn for it; ``None`` where there are none."""
    job = Job("part", part, (part,), Mesh({"rank": 1}), {}, {})
    try:
        return resized(job, lambda _: random.choice(_SIZES), policy.largest, Effort()).specification
    except NotReduced:
        return None
