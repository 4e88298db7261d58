"""Pieces of the two programs of a job, as jobs, and their keys: all that a proof can depend on, without names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

from tantamount.ir.graph import Device, Graph, Node, Output, Ref, Setting, reading, references
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, InputRelation, Partial, RankTensor, Replicate, Shard, rank_tensors
from tantamount.ir.types import DType
from tantamount.ops.calls import operator_of

__all__ = ["Piece", "Side", "Unfit", "carried", "key_of", "named", "program_key"]


class Unfit(Exception):
    """A job is not proved piece by piece."""


@dataclass(frozen=True)
class Piece:
    """A piece as a job of its own. ``handed_on``: tensors of the implementation that later pieces read; ``read``:
    those of the specification."""

    job: Job
    handed_on: tuple[str, ...]
    read: tuple[str, ...]


class Side:
    """One program, cut at some positions."""

    def __init__(self, graph: Graph, places: Sequence[int]) -> None:
        self.graph = graph
        self._bounds = [0, *places, len(graph.nodes)]
        self._at = {node.name: bisect_right(places, k) for k, node in enumerate(graph.nodes) if node.op != "input"}
        self._varies = carried(graph)
        self._position = {node.name: k for k, node in enumerate(graph.nodes)}
        self._reads = {node.name: tuple(dict.fromkeys(references(node))) for node in graph.nodes}
        self._outputs: dict[int, list[Output]] = {}
        self._last: dict[str, int] = {}
        for node in graph.nodes:
            for name in self._reads[node.name]:
                self._last[name] = max(self._last.get(name, 0), self._at.get(node.name, 0))

    def at(self, name: str) -> int:
        """The piece that computes a tensor; the first one has all inputs."""
        return self._at.get(name, 0)

    def ask(self, k: int, output: Output) -> None:
        """Have an output be one of a piece."""
        if output not in self.outputs(k):
            self._outputs.setdefault(k, []).append(output)
            self._last[output.node] = max(self._last.get(output.node, 0), k)

    def keep(self, names: Collection[str]) -> None:
        """Have tensors be handed on, to what comes after the program; these are not computed anew."""
        self._varies.update(names)
        self._last.update(dict.fromkeys(names, len(self._bounds)))

    def _nodes(self, graph: Graph, k: int) -> list[Node]:
        """The nodes of a piece, without inputs."""
        return [node for node in graph.nodes[self._bounds[k] : self._bounds[k + 1]] if node.op != "input"]

    def is_empty(self, k: int) -> bool:
        """True if the program has nothing to do in a piece."""
        return not self._nodes(self.graph, k) and not self.outputs(k)

    def read(self, k: int, copies: Mapping[str, str]) -> list[str]:
        """The tensors that a piece reads of inputs and earlier pieces."""
        anew = self._anew(self.graph, k)
        found: dict[str, None] = {}
        for node in (*self._nodes(self.graph, k), *(self.graph.by_name[name] for name in anew)):
            found.update((copies.get(n, n), None) for n in self._reads[node.name] if self._at.get(n, -1) != k)
        found.update((copies.get(o.node, o.node), None) for o in self.outputs(k) if self._at.get(o.node, -1) != k)
        return [name for name in found if name not in anew]

    def _anew(self, graph: Graph, k: int) -> set[str]:
        """The tensors of earlier pieces that a piece computes anew: those that no real input has a part in (positions,
        masks, parts of token numbers), and inputs in other shapes."""
        found: set[str] = set()
        pending = [name for node in self._nodes(graph, k) for name in self._reads[node.name]]
        pending += [output.node for output in self.outputs(k)]
        while pending:
            name = pending.pop()
            if name in self._at and self._at[name] != k and name not in self._varies and name not in found:
                found.add(name)
                pending.extend(self._reads[name])
        return found

    def handed_on(self, k: int) -> tuple[str, ...]:
        """The tensors of a piece that later pieces read."""
        nodes = self._nodes(self.graph, k)
        return tuple(n.name for n in nodes if self._last.get(n.name, 0) > k and n.name in self._varies)

    def outputs(self, k: int) -> list[Output]:
        """The outputs of the program that are looked at in a piece."""
        return self._outputs.get(k, [])

    def piece(self, graph: Graph, k: int, inputs: Collection[str], copies: Mapping[str, str]) -> Graph:
        """The piece of a program (with the same names) as a program."""
        inside = self._nodes(graph, k)
        anew = self._anew(graph, k)
        rest = [*(graph.by_name[name] for name in sorted(anew, key=self._position.__getitem__)), *inside]
        if copies:
            rest = [reading(node, copies) for node in rest]
        used = {name: k for k, name in enumerate(dict.fromkeys(name for node in rest for name in references(node)))}
        # in the order of their use, in which equal pieces have them, too
        first = sorted(inputs, key=lambda name: (used.get(name, len(used)), self._position[name]))
        nodes = (*(_input(graph.by_name[name]) for name in first), *rest)
        outputs = tuple(Output(output.name, copies.get(output.node, output.node)) for output in self.outputs(k))
        # computed earlier: in one program maybe a negative zero where it is 0 in the other (definedness.py)
        computed = frozenset(name for name in first if name in graph.computed or graph.by_name[name].op != "input")
        return replace(graph, nodes=nodes, outputs=outputs, computed=computed)


def carried(graph: Graph) -> set[str]:
    """The nodes that are handed on where later pieces read them: those that some input of real numbers has a part in,
    but not inputs in other shapes and orders (weights as a loader leaves them), which a piece computes anew."""
    found: set[str] = set()
    moved: set[str] = set()
    for node in graph.nodes:
        read = references(node)
        if (node.op == "input" and not _is_whole(node)) or not found.isdisjoint(read):
            found.add(node.name)
            if node.op == "input" or (moved.issuperset(read) and _moves(graph, node)):
                moved.add(node.name)
    return found - {name for name in moved if graph.by_name[name].op != "input"}


def _moves(graph: Graph, node: Node) -> bool:
    """True if a call moves elements and computes nothing."""
    return node.target == "getitem" or operator_of(graph, node).category in ("movement", "joining")


def _is_whole(node: Node) -> bool:
    return node.type is not None and node.type.dtype.is_integral


def _input(node: Node) -> Node:
    if node.op == "input":
        return node
    if node.type is None:
        raise Unfit
    return Node(node.name, "input", node.name, type=node.type, source=node.source)


def named(relation: InputRelation | Expectation, name: str = "") -> set[str]:
    """The tensors of the implementation that a relation is about."""
    name = relation.name or name
    found = {name} if relation.placements is not None else set[str]()
    terms = [] if relation.expression is None else [*rank_tensors(relation.expression)]
    for term in (*terms, *(term for pair in relation.equal for side in pair for term in rank_tensors(side))):
        found.add(term.name or name)
    return found


def key_of(piece: Piece) -> object:
    """All that a proof of the piece can depend on, without names: of both programs every node (operator, attributes
    with their types, types, the values of constants), what reads what, the relations of inputs, what is asked of
    outputs, and what is handed on."""
    job = piece.job
    ours = _numbers(job.specification)
    theirs = _numbers(job.implementation[0])
    inputs = tuple(
        (ours[name], _plain(r, theirs, r.name))
        for name, r in sorted(job.inputs.items(), key=lambda item: ours[item[0]])
    )
    outputs = tuple(
        (ours[o.node], _plain(e, _outputs_too(theirs, job), e.name or o.name))
        for o in job.specification.outputs
        if (e := job.outputs.get(o.name)) is not None
    )
    return (
        program_key(job.specification),
        tuple(map(program_key, job.programs)),
        job.numbers if len(job.programs) > 1 else len(job.numbers),
        tuple(theirs[o.node] for o in job.implementation[0].outputs),
        inputs,
        outputs,
        tuple(theirs[name] for name in piece.handed_on),
        tuple(ours[name] for name in piece.read),
    )


def _numbers(graph: Graph) -> dict[str, int]:
    return {node.name: k for k, node in enumerate(graph.nodes)}


def _outputs_too(numbers: Mapping[str, int], job: Job) -> Mapping[str, int]:
    return {**numbers, **{o.name: numbers[o.node] for o in job.implementation[0].outputs}}


def program_key(graph: Graph) -> object:
    """All of a program but names."""
    numbers = _numbers(graph)
    found: list[object] = []
    for node in graph.nodes:
        what: object = node.target if node.op == "call" else None
        if node.op == "constant":
            constant = graph.constants[node.target]
            what = (constant.type, tuple((type(x), repr(x)) for x in constant.data))
        kwargs = tuple(sorted((key, _plain(value, numbers)) for key, value in node.kwargs.items()))
        found.append((node.op, what, _plain(node.args, numbers), kwargs, node.type, node.name in graph.computed))
    return tuple(found)


_EXACT = (Replicate, Shard, Partial, DType, Device, Setting)  # equal to nothing but the same of the same class


def _plain(value: Any, numbers: Mapping[str, int], name: str = "") -> Any:
    """A key of attributes, relations and expectations, with numbers for names; 1, 1.0 and True are three keys."""
    if isinstance(value, Ref):
        return "ref", numbers[value.name]
    if isinstance(value, RankTensor):
        return "rank", value.rank, numbers[value.name or name]
    if isinstance(value, (InputRelation, Expectation)):
        problem = value.problem if isinstance(value, Expectation) else ""
        infer = isinstance(value, Expectation) and value.infer
        held = numbers[name] if value.placements is not None else None
        return (
            held,
            infer,
            problem,
            *(_plain(x, numbers, name) for x in (value.placements, value.expression, value.equal)),
            value.signs if isinstance(value, InputRelation) else None,
        )
    if isinstance(value, tuple):
        return tuple(_plain(item, numbers, name) for item in cast("tuple[object, ...]", value))
    if isinstance(value, _EXACT):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(_plain(getattr(value, f.name), numbers, name) for f in fields(value))
    return type(value).__name__, repr(value)
