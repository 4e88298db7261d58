"""Classes of tensors that play the same part: on other ranks, in other micro-batches, for another projection.

A *class* has the nodes that the same operators compute from the same kinds of inputs, whatever numbers appear among
their arguments. A tensor's *origin* is the set of specification inputs that it is computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tantamount.diagnosis.replay import Place, Replay
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import rank_tensors
from tantamount.ops.functionalized import unwrapped

__all__ = ["Class", "Origin", "classes_of", "origins", "specification_origins", "target_of"]

Origin = frozenset[str]


@dataclass(frozen=True)
class Class:
    """``places`` in the order of execution, rank by rank; ``target`` is their operator."""

    target: str
    places: tuple[Place, ...]

    @property
    def first(self) -> Place:
        return self.places[0]


def classes_of(
    graphs: Sequence[Graph],
    shapes: Mapping[Place, tuple[int, ...]],
    cuts: Callable[[Place], bool],
    times: Mapping[Place, int] | None = None,
) -> list[Class]:
    """The classes of all nodes with one result (whose shapes are given), in the order of their first nodes. Nodes that
    compute something else from the very same operands are no siblings: then the numbers count, but for those that
    ``cuts`` says cut out a part of their operand. ``times`` has when nodes run, if not by their positions."""
    colours: dict[Place, int] = {}
    numbers: dict[object, int] = {}
    members: dict[int, list[tuple[int, Place]]] = {}
    first = {id(graph): rank for rank, graph in reversed([*enumerate(graphs)])}  # of those that run one program
    for rank, graph in enumerate(graphs):
        leader = first[id(graph)]
        as_leader = rank != leader  # all shapes so far are those of the leader
        for position, node in enumerate(graph.nodes):
            place, same = (rank, node.name), (leader, node.name)
            shape = shapes.get(place) if node.type is None else node.type.shape
            as_leader = as_leader and (node.type is not None or shape == shapes.get(same))
            if as_leader:
                colour = colours[place] = colours[same]
            else:
                key = (node.op, target_of(graph, node), shape, _skeleton(node, rank, colours))
                colour = colours[place] = numbers.setdefault(key, len(numbers))
            if place in shapes:
                at = position if times is None else times.get(place, position)
                members.setdefault(colour, []).append((at, place))
    found: list[tuple[tuple[int, Place], Class]] = []
    for some in members.values():
        for group in _alike(graphs, some, cuts):
            first = group[0][1]
            target = target_of(graphs[first[0]], graphs[first[0]].by_name[first[1]])
            found.append((group[0], Class(target, tuple(place for _, place in group))))
    return [c for _, c in sorted(found, key=lambda item: item[0])]


def _alike(
    graphs: Sequence[Graph], some: list[tuple[int, Place]], cuts: Callable[[Place], bool]
) -> list[list[tuple[int, Place]]]:
    """One list, or one for each choice of numbers."""
    nodes = {place: graphs[place[0]].by_name[place[1]] for _, place in some}
    texts = {place: repr((node.args, sorted(node.kwargs.items()))) for place, node in nodes.items()}
    operands = {place: (place[0], *references(node)) for place, node in nodes.items()}
    distinct = set(operands.values())
    if cuts(some[0][1]) or len(distinct) == len({(operands[p], texts[p]) for p in operands}):
        return [some]
    split: dict[object, list[tuple[int, Place]]] = {}
    for position, place in some:
        numbers = tuple(a for a in nodes[place].args if isinstance(a, (int, float)))
        split.setdefault(numbers, []).append((position, place))
    return list(split.values())


def target_of(graph: Graph, node: Node) -> str:
    """The operator; of a node that picks a result, the operator that has several."""
    if node.target == "getitem":
        return target_of(graph, graph.by_name[next(iter(references(node)))])
    return unwrapped(node.target, node.args) if node.op == "call" else node.op


def _skeleton(node: Node, rank: int, colours: Mapping[Place, int]) -> object:
    def one(argument: Argument) -> object:
        if isinstance(argument, Ref):
            return ("node", colours[rank, argument.name])
        if isinstance(argument, tuple):
            return tuple(map(one, argument))
        return "number" if isinstance(argument, (int, float)) and not isinstance(argument, bool) else "other"

    keywords = tuple((key, one(value)) for key, value in sorted(node.kwargs.items()))
    return one(node.args), keywords


def specification_origins(graph: Graph) -> dict[str, Origin]:
    """The origin of every node."""
    found: dict[str, Origin] = {}
    for node in graph.nodes:
        found[node.name] = (
            frozenset((node.name,))
            if node.op == "input"
            else frozenset[str]().union(*(found[ref] for ref in references(node)))
        )
    return found


def origins(job: Job, replay: Replay) -> dict[Place, Origin]:
    """The origin of every node of every rank."""
    related: dict[str, set[str]] = {}
    for name, relation in job.inputs.items():
        names = [relation.name]
        if relation.expression is not None:
            names += [tensor.name or relation.name for tensor in rank_tensors(relation.expression)]
        for one in names:
            related.setdefault(one, set()).add(name)
    found: dict[Place, Origin] = {}
    pending = list(replay.order)
    while pending:  # several rounds where ranks read what others computed
        later: list[Place] = []
        for place in pending:
            node = job.implementation[place[0]].by_name[place[1]]
            operands = replay.operands[place]
            if node.op == "input":
                found[place] = frozenset(related.get(node.name, ()))
            elif all(operand in found for operand in operands):
                found[place] = frozenset[str]().union(*(found[operand] for operand in operands))
            else:
                later.append(place)
        if len(later) == len(pending):  # messages: unknown
            return found | dict.fromkeys(later, frozenset[str]())
        pending = later
    return found
