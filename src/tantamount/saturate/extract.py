"""Graphs out of an e-graph: the simplest, the most complex, and random ones.

The simplest is found by the least set of operations that a class can be computed with (shared ones count once). For the
most complex, edges that close a circle are removed first, in a search from the outputs in depth; what is left is
finite, and the greatest cost is a fixed point (Algorithm 1 of PolyJuice, OOPSLA 2024). Random ones take any
operation of a class in what is left after removing edges in a random order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from tantamount.ir.graph import Constant, Graph, Node, Output, Ref
from tantamount.ir.types import TensorType
from tantamount.saturate.egraph import ENode, filled
from tantamount.saturate.rewrite import Saturated

__all__ = ["Choice", "as_graph", "most_complex", "random_form", "simplest", "tree_cost"]

Choice = dict[int, ENode]  # for every class that is needed, the operation that computes it
_MOST = 1 << 40


def _roots(found: Saturated, graph: Graph) -> list[int]:
    return list(dict.fromkeys(found.egraph.find(found.classes[output.node]) for output in graph.outputs))


def _cost(node: ENode) -> int:
    return 0 if node[0].leaf is not None or node[0].target == "getitem" else 1


def simplest(found: Saturated, graph: Graph) -> Choice:
    """For every class the operation with the fewest different operations below it."""
    egraph = found.egraph
    below: dict[int, int] = {}  # class -> set of classes with an operation, as bits
    choice: Choice = {}
    members = [(number, node) for number, nodes in egraph.nodes.items() for node in nodes]
    changed = True
    while changed:
        changed = False
        for number, node in members:
            bits = (1 << number) if _cost(node) else 0
            for operand in node[1]:
                inner = below.get(egraph.find(operand))
                if inner is None or (inner >> number) & 1:
                    break
                bits |= inner
            else:
                old = below.get(number)
                if old is None or bits.bit_count() < old.bit_count():
                    below[number], choice[number] = bits, node
                    changed = True
    return choice


def _acyclic(found: Saturated, roots: Sequence[int], random: Random | None) -> dict[int, list[ENode]]:
    """The operations of each class that is reached, without those that lead back to a class on the way to them; every
    class keeps one at least, as terms are finite."""
    egraph = found.egraph
    kept: dict[int, list[ENode]] = {}
    on_the_way: set[int] = set()

    def visit(number: int) -> bool:
        """True if the class can be computed without what is on the way."""
        if number in kept:
            return bool(kept[number])
        on_the_way.add(number)
        usable: list[ENode] = []
        nodes = list(egraph.nodes[number])
        if random is not None:
            random.shuffle(nodes)
        for node in nodes:
            operands = [egraph.find(operand) for operand in node[1]]
            if all(operand not in on_the_way and visit(operand) for operand in operands):
                usable.append(node)
        on_the_way.discard(number)
        if usable:
            kept[number] = usable
        return bool(usable)

    for root in roots:
        visit(root)
    return kept


def _choose(
    found: Saturated, roots: Sequence[int], random: Random | None, best: Callable[[list[ENode]], ENode]
) -> Choice:
    """One operation for each class that is needed, among those that close no circle with what is chosen already."""
    kept = _acyclic(found, roots, random)
    return {number: best(nodes) for number, nodes in kept.items()}


def most_complex(found: Saturated, graph: Graph) -> Choice:
    """For every class the operation with the greatest cost, shared parts counted every time."""
    egraph = found.egraph
    kept = _acyclic(found, _roots(found, graph), None)
    cost = dict.fromkeys(kept, 0)
    choice: Choice = {number: nodes[0] for number, nodes in kept.items()}
    for number in _upwards(found, kept):
        for node in kept[number]:
            total = _cost(node) + sum(cost[egraph.find(operand)] for operand in node[1])
            if total > cost[number] or number not in choice:
                cost[number], choice[number] = min(total, _MOST), node
    return choice


def _upwards(found: Saturated, kept: Mapping[int, list[ENode]]) -> list[int]:
    """The classes with operands before what is computed of them."""
    order: dict[int, None] = {}

    def visit(number: int) -> None:
        if number not in order:
            for node in kept[number]:
                for operand in node[1]:
                    visit(found.egraph.find(operand))
            order[number] = None

    for number in kept:
        visit(number)
    return list(order)


def random_form(found: Saturated, graph: Graph, random: Random) -> Choice:
    """For every class any operation."""
    return _choose(found, _roots(found, graph), random, random.choice)


def tree_cost(found: Saturated, choice: Choice, graph: Graph) -> int:
    """The number of operations of a choice, shared ones counted every time."""
    costs: dict[int, int] = {}

    def cost(number: int) -> int:
        number = found.egraph.find(number)
        if number not in costs:
            node = choice[number]
            costs[number] = _cost(node) + sum(map(cost, node[1]))
        return costs[number]

    return sum(cost(root) for root in _roots(found, graph))


def as_graph(found: Saturated, choice: Choice, graph: Graph) -> Graph:
    """The graph of a choice: the inputs, constants and outputs of ``graph``, computed in the chosen way."""
    egraph = found.egraph
    names: dict[int, str] = {}
    nodes: list[Node] = [node for node in graph.nodes if node.op == "input"]
    names.update({egraph.find(found.classes[node.name]): node.name for node in nodes})
    counted = 0

    def emit(number: int) -> str:
        nonlocal counted
        number = egraph.find(number)
        if number in names:
            return names[number]
        operation, operands = choice[number]
        if operation.leaf is not None:
            nodes.append(operation.leaf)
            names[number] = operation.leaf.name
            return operation.leaf.name
        given = iter([emit(operand) for operand in operands])
        args, kwargs = filled(operation, lambda: Ref(next(given)))
        name = f"t{counted}"
        counted += 1
        type_ = egraph.types[number]
        nodes.append(
            Node(name, "call", operation.target, args, kwargs, type_ if isinstance(type_, TensorType) else None)
        )
        names[number] = name
        return name

    outputs = tuple(Output(output.name, emit(found.classes[output.node])) for output in graph.outputs)
    constants: dict[str, Constant] = {
        node.target: graph.constants[node.target] for node in nodes if node.op == "constant"
    }
    return Graph(tuple(nodes), outputs, constants, path=graph.path)
