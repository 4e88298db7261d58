"""Rules applied to an e-graph: matching, and rounds within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from tantamount.ir.graph import Graph
from tantamount.ir.types import Kind, TensorType
from tantamount.rules.rule import Match, Rule
from tantamount.rules.terms import Attribute, Term, Variable, entries
from tantamount.saturate.egraph import EGraph, ENode
from tantamount.saturate.types import HOLE, Types

__all__ = ["Limits", "Saturated", "saturated"]

_KINDS = {Kind.BOOL: "b", Kind.INT: "i", Kind.FLOAT: "f"}


@dataclass(frozen=True)
class Limits:
    """The limits that end a search: rounds, nodes of the e-graph, and how many instances of a rule are used in a
    round."""

    rounds: int = 2
    nodes: int = 160
    instances: int = 6


@dataclass
class Saturated:
    """An e-graph of a graph: the class of every node, and how often each rule made something new."""

    egraph: EGraph
    classes: dict[str, int]
    fired: dict[str, int]

    @cached_property
    def steps(self) -> dict[int, list[tuple[ENode, tuple[int, ...]]]]:
        """Of every class its operations, with the classes of their operands."""
        find = self.egraph.find
        return {
            number: [(node, tuple([find(operand) for operand in node[1]])) for node in nodes]
            for number, nodes in self.egraph.nodes.items()
        }


Binding = dict[str, Any]


def _matches(egraph: EGraph, pattern: Term, node: ENode, bindings: list[Binding]) -> list[Binding]:
    """The bindings with which an operation matches a pattern, each one of ``bindings`` or more than it."""
    operation, operands = node
    if operation.target != pattern.target or len(operation.args) != len(pattern.args):
        return []
    if len(operation.kwargs) != len(pattern.kwargs):
        return []
    pairs: list[tuple[Any, Any]] = list(zip(pattern.args, operation.args, strict=True))
    for key, value in pattern.kwargs.items():
        if key not in operation.kwargs:
            return []
        pairs.append((value, operation.kwargs[key]))
    pairs.reverse()
    holes = 0  # they take operands from the left
    while pairs and bindings:
        wanted, argument = pairs.pop()
        if argument is HOLE:
            bindings = _operand(egraph, wanted, egraph.find(operands[holes]), bindings)
            holes += 1
        elif isinstance(wanted, Attribute):
            bindings = _attribute(f"@{wanted.name}", argument, bindings)
        elif (inner := entries(wanted)) is not None:
            given = entries(argument)
            if given is None or len(given) != len(inner):
                return []
            pairs += [*zip(inner, given, strict=True)][::-1]
        elif type(wanted) is not type(argument) or wanted != argument:
            return []
    return bindings


def _operand(egraph: EGraph, wanted: Any, number: int, bindings: list[Binding]) -> list[Binding]:
    """The bindings with which a class matches a part of a pattern."""
    if isinstance(wanted, Term):
        members = [member for member in egraph.members(number) if member[0].target == wanted.target]
        return [
            found for known in bindings for member in members for found in _matches(egraph, wanted, member, [known])
        ]
    if not isinstance(wanted, Variable):
        return []
    name, found = wanted.name, list[Binding]()
    for known in bindings:
        if name in known:
            if egraph.find(known[name]) == number:
                found.append(known)
        elif isinstance(egraph.types[number], TensorType):
            found.append({**known, name: number})
    return found


def _attribute(name: str, argument: Any, bindings: list[Binding]) -> list[Binding]:
    """The bindings with which a hole for an attribute takes an argument; none has operands in it."""
    return [
        {**known, name: argument} if name not in known else known
        for known in bindings
        if (known[name] == argument if name in known else not _has_hole(argument))
    ]


def _has_hole(argument: Any) -> bool:
    return argument is HOLE or (isinstance(argument, tuple) and any(map(_has_hole, entries(argument) or ())))


def _match(egraph: EGraph, binding: Binding, root: int, random: Random) -> Match:
    tensors = {name: egraph.leaf(egraph.find(value)) for name, value in binding.items() if name[0] != "@"}
    attributes = {name[1:]: value for name, value in binding.items() if name[0] == "@"}
    return Match(tensors, attributes, random, egraph.leaf(root))


def _applies(rule: Rule, type_: Any) -> bool:
    return isinstance(type_, TensorType) and _KINDS.get(type_.dtype.kind, "") in rule.kinds


def saturated(
    graph: Graph, rules: Mapping[str, Rule], random: Random, limits: Limits | None = None, types: Types | None = None
) -> Saturated:
    """The e-graph of a typed graph after some rounds of the rules, whose parameters are drawn from ``random``."""
    limits = limits or Limits()
    egraph = EGraph(types)
    classes: dict[str, int] = {}
    for node in graph.nodes:
        number = egraph.insert_node(node, classes)
        if number is None:
            raise ValueError(f"node {node.name} does not fit its operands")
        classes[node.name] = number
    fired: dict[str, int] = {}
    order = list(rules.values())
    for _ in range(limits.rounds):
        found: list[tuple[Rule, int, Binding]] = []
        index = egraph.by_operator()
        numbers = list(egraph.nodes)
        for rule in order:
            if isinstance(rule.pattern, Term) and rule.pattern.target not in index:
                continue
            instances = list(_instances(egraph, rule, index, numbers, random))
            if len(instances) > limits.instances:
                instances = random.sample(instances, limits.instances)
            found += [(rule, number, binding) for number, binding in instances]
        random.shuffle(found)
        for rule, number, binding in found:
            if egraph.size >= limits.nodes:
                break
            number = egraph.find(number)
            part = rule.build(_match(egraph, binding, number, random))
            new = None if part is None else egraph.insert_term(part)
            if new is not None and egraph.types[new] == egraph.types[number] and egraph.merge(number, new):
                fired[rule.name] = fired.get(rule.name, 0) + 1
        egraph.rebuild()
        if egraph.size >= limits.nodes:
            break
    return Saturated(egraph, {name: egraph.find(number) for name, number in classes.items()}, fired)


def _instances(
    egraph: EGraph, rule: Rule, index: Mapping[str, list[tuple[int, ENode]]], numbers: list[int], random: Random
) -> Iterator[tuple[int, Binding]]:
    if isinstance(rule.pattern, Variable):
        for number in numbers:
            if random.random() < rule.share and _applies(rule, egraph.types[number]):
                yield number, {rule.pattern.name: number}
        return
    for number, node in index.get(rule.pattern.target, ()):
        if (rule.share == 1.0 or random.random() < rule.share) and _applies(rule, egraph.types[number]):
            for binding in _matches(egraph, rule.pattern, node, [{}]):
                yield number, binding
