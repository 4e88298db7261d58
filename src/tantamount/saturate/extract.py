"""Graphs out of an e-graph: the simplest, the most complex, and random ones.

The simplest is found by the least set of operations that a class can be computed with; shared ones count once. For the
most complex, edges that lead back to a class on the way are cut in a search from the outputs in depth; what is left is
finite, and the greatest cost is a fixed point (Algorithm 1 of PolyJuice, OOPSLA 2024).

Cutting all of them would lose every detour that ends where it began: ``x = permute(permute(x, p), q)`` makes a circle
of two classes, and a term that goes round it once passes through the class of ``x`` twice. So there are two storeys. On
the upper one an edge back leads to the lower storey; on the lower one it is cut. Every circle can be gone round once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from tantamount.ir.graph import Constant, Graph, Node, Output, Ref
from tantamount.ir.types import TensorType
from tantamount.saturate.egraph import ENode
from tantamount.saturate.rewrite import Saturated
from tantamount.saturate.types import filled

__all__ = ["Choice", "as_graph", "most_complex", "random_form", "simplest", "tree_cost"]

Key = tuple[int, int]  # a class, and the storey (1 above, 0 below)
Step = tuple[ENode, tuple[Key, ...]]  # an operation, and where its operands are computed
Choice = dict[Key, Step]
_Member = tuple[int, int, ENode, tuple[int, ...]]  # a class, its own bit, an operation, the classes of its operands
_MOST = 1 << 40


def _roots(found: Saturated, graph: Graph) -> list[int]:
    return list(dict.fromkeys(found.egraph.find(found.classes[output.node]) for output in graph.outputs))


def _cost(node: ENode) -> int:
    return 0 if node[0].leaf is not None or node[0].target == "getitem" else 1


# ---------------------------------------------------------------------------------------------- simplest
def simplest(found: Saturated, graph: Graph) -> Choice:
    """For every class the operation with the fewest different operations below it; of several outputs those of one are
    free for the next, if that is better in all."""
    roots = _roots(found, graph)
    members = [
        (number, (1 << number) if _cost(node) else 0, node, operands)
        for number, steps in found.steps.items() for node, operands in steps if number not in operands
    ]  # fmt: skip
    below, chosen = _least(members, 0)
    best, total = chosen, _union(below, roots)
    if len(roots) > 1:
        paid = 0
        members.sort(key=lambda member: below[member[0]].bit_count() if member[0] in below else _MOST)
        for root in sorted(roots, key=lambda number: below[number].bit_count()):
            paid |= below[root]
            _, other = _least(members, paid)
            size = _size(found, other, roots)
            if size is not None and size < total.bit_count():
                best, total = other, (1 << size) - 1
    find = found.egraph.find
    return {(k, 0): (node, tuple([(find(operand), 0) for operand in node[1]])) for k, node in best.items()}


def _union(below: Mapping[int, int], roots: Sequence[int]) -> int:
    bits = 0
    for root in roots:
        bits |= below[root]
    return bits


def _least(members: Sequence[_Member], paid: int) -> tuple[dict[int, int], dict[int, ENode]]:
    """For every class the set of classes with an operation below it (as bits), and its operation. Those in ``paid``
    cost nothing. ``members``: the operations with their classes, soonest found in an order in which operands come
    first."""
    below: dict[int, int] = {}
    choice: dict[int, ENode] = {}
    costs: dict[int, int] = {}
    free = ~paid
    changed = True
    while changed:
        changed = False
        for number, bits, node, operands in members:
            for operand in operands:
                inner = below.get(operand)
                if inner is None or (inner >> number) & 1:
                    break
                bits |= inner
            else:
                cost = (bits & free).bit_count()
                if number not in costs or cost < costs[number]:
                    below[number], choice[number], costs[number] = bits, node, cost
                    changed = True
    return below, choice


def _size(found: Saturated, choice: Mapping[int, ENode], roots: Sequence[int]) -> int | None:
    """The number of operations of a choice, shared ones once; ``None`` if it goes in circles."""
    seen: dict[int, bool] = {}
    if not all(_ends(found, choice, root, seen) for root in roots):
        return None
    return sum(_cost(choice[number]) for number in seen)


def _ends(found: Saturated, choice: Mapping[int, ENode], number: int, seen: dict[int, bool]) -> bool:
    """True if a class is computed without itself, and so is all that it is computed of."""
    if number not in seen:
        seen[number] = False
        seen[number] = all(_ends(found, choice, found.egraph.find(operand), seen) for operand in choice[number][1])
    return seen[number]


# ---------------------------------------------------------------------------------------------- most complex, random
class _Search:
    """A search from the outputs in depth. ``kept``: the operations of each class that is reached, on both storeys,
    operands before what is computed of them."""

    def __init__(self, found: Saturated, random: Random | None) -> None:
        self.steps = found.steps
        self.random = random
        self.kept: dict[Key, list[Step]] = {}
        self.on_the_way: set[Key] = set()

    def visit(self, key: Key) -> bool:
        """True if the class can be computed on this storey; it is kept then."""
        kept, on_the_way = self.kept, self.on_the_way
        on_the_way.add(key)
        number, storey = key
        steps = self.steps[number]
        if self.random is not None:
            steps = steps.copy()
            self.random.shuffle(steps)
        usable: list[Step] = []
        for node, numbers in steps:
            operands: list[Key] = []
            for operand in numbers:
                inner = (operand, storey)
                if inner in on_the_way:
                    inner = (operand, 0)
                    if not storey or inner in on_the_way:
                        break
                if inner not in kept and not self.visit(inner):
                    break
                operands.append(inner)
            else:
                usable.append((node, tuple(operands)))
        on_the_way.discard(key)
        if usable:
            kept[key] = usable
        return bool(usable)


def _storeys(found: Saturated, roots: Sequence[int], random: Random | None) -> dict[Key, list[Step]]:
    search = _Search(found, random)
    for root in roots:
        if (root, 1) not in search.kept:
            search.visit((root, 1))
    return search.kept


def most_complex(found: Saturated, graph: Graph) -> Choice:
    """For every class the operation with the greatest cost, shared parts counted every time."""
    cost: dict[Key, int] = {}
    choice: Choice = {}
    for key, steps in _storeys(found, _roots(found, graph), None).items():  # operands come first
        for step in steps:
            total = min(_MOST, _cost(step[0]) + sum(cost[operand] for operand in step[1]))
            if key not in cost or total > cost[key]:
                cost[key], choice[key] = total, step
    return choice


def random_form(found: Saturated, graph: Graph, random: Random) -> Choice:
    """For every class any operation."""
    pick: Callable[[list[Step]], Step] = random.choice
    return {key: pick(steps) for key, steps in _storeys(found, _roots(found, graph), random).items()}


def _start(choice: Choice, number: int) -> Key:
    return (number, 1) if (number, 1) in choice else (number, 0)


def tree_cost(found: Saturated, choice: Choice, graph: Graph) -> int:
    """The number of operations of a choice, shared ones counted every time."""
    costs: dict[Key, int] = {}

    def cost(key: Key) -> int:
        if key not in costs:
            node, operands = choice[key]
            costs[key] = _cost(node) + sum(map(cost, operands))
        return costs[key]

    return sum(cost(_start(choice, root)) for root in _roots(found, graph))


class _Emission:
    """The nodes of a choice, each once, operands first."""

    def __init__(self, found: Saturated, choice: Choice, graph: Graph) -> None:
        self.types = found.egraph.types
        self.choice = choice
        self.names: dict[Key, str] = {}
        self.nodes: list[Node] = [node for node in graph.nodes if node.op == "input"]
        self.leaves = {node.name for node in self.nodes}
        self.counted = 0

    def name(self, key: Key) -> str:
        """The name of the node that computes a class, which is emitted if it was not."""
        known = self.names.get(key)
        if known is not None:
            return known
        (operation, _), operands = self.choice[key]
        if operation.leaf is not None:
            if operation.leaf.name not in self.leaves:
                self.leaves.add(operation.leaf.name)
                self.nodes.append(operation.leaf)
            self.names[key] = operation.leaf.name
            return operation.leaf.name
        given = iter([Ref(self.name(operand)) for operand in operands])
        args, kwargs = filled(operation, given.__next__)
        name = self.names[key] = f"t{self.counted}"
        self.counted += 1
        type_ = self.types[key[0]]
        known_type = type_ if isinstance(type_, TensorType) else None
        self.nodes.append(Node(name, "call", operation.target, args, kwargs, known_type))
        return name


def as_graph(found: Saturated, choice: Choice, graph: Graph) -> Graph:
    """The graph of a choice: the inputs, constants and outputs of ``graph``, computed in the chosen way."""
    find, emission = found.egraph.find, _Emission(found, choice, graph)
    outputs = tuple([
        Output(output.name, emission.name(_start(choice, find(found.classes[output.node]))))
        for output in graph.outputs
    ])  # fmt: skip
    nodes = tuple(emission.nodes)
    constants: dict[str, Constant] = {n.target: graph.constants[n.target] for n in nodes if n.op == "constant"}
    return Graph(nodes, outputs, constants, path=graph.path)
