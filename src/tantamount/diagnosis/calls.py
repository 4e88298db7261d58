"""The operators that compute values of both programs: their facts, and what is known of numbers without any input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from tantamount.diagnosis.arguments import renamed, uniform
from tantamount.diagnosis.classes import Origin, specification_origins
from tantamount.diagnosis.replay import Place, Replay
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, references
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import facts_of
from tantamount.ops.check import check_graph
from tantamount.ops.facts import NOTHING, Facts

__all__ = ["Calls"]

_PASSED_ON = Facts(moved=frozenset({"sent"}), view=True, collective="message")


class Calls:
    """The calls of both programs of one execution. What is found of one is kept for calls that are alike, of ranks that
    run one program and of equal layers."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.job = replay.job
        self._facts: dict[Place, Facts] = {}
        self._whole_facts: dict[str, Facts] = {}
        self._calls: dict[object, Facts] = {}
        self._sources: dict[object, bool] = {}

    def _node(self, place: Place) -> Node:
        return self.job.implementation[place[0]].by_name[place[1]]

    def _graph(self, place: Place) -> Graph:
        return self.job.implementation[place[0]]

    def facts(self, place: Place) -> Facts:
        """The facts of the operator that computes a value of the implementation (of one of several results, those of
        the operator that has them), with its operands as the graph names them; none of inputs and constants."""
        if place in self.replay.messages.sent:
            return _PASSED_ON
        if place not in self._facts:
            graph, node = self._graph(place), self._node(place)
            alike = self._alike(place)
            if alike in self._calls:
                self._facts[place] = self._calls[alike]
                return self._calls[alike]
            operands = (self._operand((place[0], name)) for name in references(node))
            # ranks that run one program have its calls in common, if they know as much of the operands
            key = (id(graph), node.name, tuple([None if x is None else (x.type, repr(x.value)) for x in operands]))
            found = self._calls.get(key)
            if found is None:
                named = _named(graph, node)
                found = self._facts_of(graph, named, lambda name: self._operand((place[0], name)), self._groups)
                self._calls[key] = found
            if alike is not None:
                self._calls[alike] = found
            self._facts[place] = found
        return self._facts[place]

    def _alike(self, place: Place) -> object:
        """A key that a call has in common with that of another rank which runs the same program, where nothing is known
        of the operands but their types; else ``None``."""
        graph = self._graph(place)
        known = any((place[0], name) in self._inputless for name in references(graph.by_name[place[1]]))
        return None if known else (id(graph), place[1])

    def whole_facts(self, name: str) -> Facts:
        """As :meth:`facts`, of a node of the specification."""
        if name not in self._whole_facts:
            graph = self.job.specification
            self._whole_facts[name] = self._facts_of(graph, _named(graph, graph.by_name[name]), self._whole_operand)
        return self._whole_facts[name]

    @cached_property
    def _groups(self) -> Mapping[str, int]:
        return {name: self.job.mesh.group_size(name) for name in self.job.mesh.groups}

    def _facts_of(
        self,
        graph: Graph,
        node: Node,
        operand: Callable[[str], Tensor | None],
        groups: Mapping[str, int] | None = None,
    ) -> Facts:
        if node.op != "call":
            return NOTHING
        # ranks have calls in common, and equal layers, whatever their operands are called
        short = {ref: f"#{k:03}" for k, ref in enumerate(dict.fromkeys(references(node)))}
        long = {name: ref for ref, name in short.items()}
        call = renamed(node, dict(enumerate(short[ref] for ref in references(node))))
        types = [None if x is None else (x.type, x.value) for x in map(operand, short)]
        key = (node.target, groups is None, repr((call.args, sorted(call.kwargs.items()), types)))
        if key not in self._calls:
            self._calls[key] = facts_of(graph, call, lambda name: operand(long[name]), groups)
        return self._calls[key].called(long)

    def _operand(self, place: Place) -> Tensor | None:
        """The type of a value, and the number that its elements are if that is known without any input. A tensor of
        zeros is a tensor: what adds it still adds."""
        held = self.replay.tensor(place)
        return None if held is None else Tensor(held.shape, held.dtype, self.known_number(place) or None)

    def _unknown(self, place: Place) -> Tensor | None:
        """The type of a value alone."""
        held = self.replay.tensor(place)
        return None if held is None else Tensor(held.shape, held.dtype, None)

    def _whole_operand(self, name: str) -> Tensor | None:
        found = self._whole_types.get(name)
        return None if found is None else Tensor(found.shape, found.dtype, self.whole_number(name) or None)

    @cached_property
    def _whole_types(self) -> Mapping[str, Tensor]:
        try:
            found = check_graph(self.job.specification, None)
        except TantamountError:
            return {}
        return {name: x for name, x in found.items() if isinstance(x, Tensor)}

    @cached_property
    def _inputless(self) -> frozenset[Place]:
        """The values of the implementation that are computed from constants and factories alone."""
        found: set[Place] = set()
        for place in self.replay.order:
            node, operands = self._node(place), self.replay.operands[place]
            if node.op != "input" and all(operand in found for operand in operands):
                found.add(place)
        return frozenset(found)

    def says_nothing(self, place: Place) -> bool:
        """True where no input decides a value."""
        return place in self._inputless or self._node(place).op == "constant"

    def known_number(self, place: Place) -> int | float | None:
        """The finite number that all elements of a value are, where no input is needed to know it."""
        return uniform(self.replay.held(place)) if place in self._inputless else None

    def whole_number(self, name: str) -> int | float | None:
        return None if self.whole_origins[name] else uniform(self.replay.wanted(name))

    @cached_property
    def whole_origins(self) -> Mapping[str, Origin]:
        return specification_origins(self.job.specification)

    def is_source(self, place: Place) -> bool:
        """True for constants and for operators whose result depends on the value of no operand, whatever that is."""
        node = self._node(place)
        if place in self.replay.messages.sent:
            return False
        if node.op == "constant" or (node.op == "call" and not list(references(node))):
            return True
        if node.op != "call" or not self.facts(place).factory:
            return False
        graph, alike = self._graph(place), self._alike(place)
        if alike is None or alike not in self._sources:
            call = _named(graph, node)
            facts = self._facts_of(graph, call, lambda name: self._unknown((place[0], name)), self._groups)
            self._sources[alike] = facts.factory
        return self._sources[alike]


def _named(graph: Graph, node: Node) -> Node:
    """The node; for one of several results, the node that has them."""
    while node.target == "getitem":
        node = graph.by_name[next(iter(references(node)))]
    return node
