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
_Member = tuple[int, ENode, tuple[int, ...]]  # a class, an operation in it, and the classes of its operands
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
    find = found.egraph.find
    members = [(k, node, tuple(map(find, node[1]))) for k, nodes in found.egraph.nodes.items() for node in nodes]
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
    return {(k, 0): (node, tuple((find(operand), 0) for operand in node[1])) for k, node in best.items()}


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
        for number, node, operands in members:
            bits = (1 << number) if _cost(node) else 0
            for operand in operands:
                inner = below.get(operand)
                if inner is None or operand == number or (inner >> number) & 1:
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

    def visit(number: int) -> bool:
        if number in seen:
            return seen[number]
        seen[number] = False
        seen[number] = all(visit(found.egraph.find(operand)) for operand in choice[number][1])
        return seen[number]

    if not all(map(visit, roots)):
        return None
    return sum(_cost(choice[number]) for number in seen)


# ---------------------------------------------------------------------------------------------- most complex, random
def _storeys(found: Saturated, roots: Sequence[int], random: Random | None) -> dict[Key, list[Step]]:
    """The operations of each class that is reached, on both storeys, operands before what is computed of them."""
    egraph = found.egraph
    kept: dict[Key, list[Step]] = {}
    on_the_way: set[Key] = set()

    def visit(key: Key) -> bool:
        """True if the class can be computed on this storey."""
        if key in kept:
            return True
        on_the_way.add(key)
        number, storey = key
        nodes = list(egraph.nodes[number])
        if random is not None:
            random.shuffle(nodes)
        usable: list[Step] = []
        for node in nodes:
            operands: list[Key] = []
            for operand in node[1]:
                inner = (egraph.find(operand), storey)
                if inner in on_the_way and storey:
                    inner = (inner[0], 0)
                if inner in on_the_way or not visit(inner):
                    break
                operands.append(inner)
            else:
                usable.append((node, tuple(operands)))
        on_the_way.discard(key)
        if usable:
            kept[key] = usable
        return bool(usable)

    for root in roots:
        visit((root, 1))
    return kept


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


def as_graph(found: Saturated, choice: Choice, graph: Graph) -> Graph:
    """The graph of a choice: the inputs, constants and outputs of ``graph``, computed in the chosen way."""
    egraph = found.egraph
    names: dict[Key, str] = {}
    leaves: dict[str, None] = {}
    nodes: list[Node] = [node for node in graph.nodes if node.op == "input"]
    leaves.update(dict.fromkeys(node.name for node in nodes))
    counted = 0

    def emit(key: Key) -> str:
        nonlocal counted
        if key in names:
            return names[key]
        (operation, _), operands = choice[key]
        if operation.leaf is not None:
            if operation.leaf.name not in leaves:
                leaves[operation.leaf.name] = None
                nodes.append(operation.leaf)
            names[key] = operation.leaf.name
            return operation.leaf.name
        given = iter([emit(operand) for operand in operands])
        args, kwargs = filled(operation, lambda: Ref(next(given)))
        names[key] = f"t{counted}"
        counted += 1
        type_ = egraph.types[key[0]]
        known = type_ if isinstance(type_, TensorType) else None
        nodes.append(Node(names[key], "call", operation.target, args, kwargs, known))
        return names[key]

    outputs: list[Output] = []
    for output in graph.outputs:
        outputs.append(Output(output.name, emit(_start(choice, egraph.find(found.classes[output.node])))))
    constants: dict[str, Constant] = {n.target: graph.constants[n.target] for n in nodes if n.op == "constant"}
    return Graph(tuple(nodes), tuple(outputs), constants, path=graph.path)
