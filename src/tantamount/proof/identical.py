"""Tests whether ranks compute a tensor by the very operators by which the specification does, of the very same inputs.

Then they have its value, whatever that is: also where it comes of infinities of which no normal form says anything.
Records of where both are undefined, which may be equal, do not show that: ``tanh(1 / y)`` and ``tanh(y / y^2)`` are not
defined at y = 0, where one is 1 and the other NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, RankTensor, Replicate
from tantamount.ops.calls import operator_of

__all__ = ["same_calls", "same_program"]

_OF_ITS_OWN = frozenset({"random", "collective"})  # what other ranks, or nothing, decides


def same_program(job: Job, specification: str, implementation: Sequence[str], expectation: Expectation) -> bool:
    """True if the specification's node and those of these names, one per rank, are the same calls of the same operators
    down to inputs that are the specification's and numbers that are recorded."""
    if expectation.equal:
        return False
    if expectation.placements is not None:
        if not all(isinstance(p, Replicate) for p in expectation.placements):
            return False
    elif not isinstance(expectation.expression, RankTensor) or job.mesh.world_size > 1:
        return False
    pairs = {(id(graph), name): graph for graph, name in zip(job.implementation, implementation, strict=True)}
    return all(same_calls(job, graph, specification, name) for (_, name), graph in pairs.items())


def same_calls(
    job: Job,
    graph: Graph,
    specification: str,
    implementation: str,
    equal: Callable[[str, str], bool] = lambda ours, theirs: False,
) -> bool:
    """True if a node of the specification and one of a rank's graph are the same calls of the same operators down to
    inputs that are the specification's, numbers that are recorded and other tensors that are ``equal``."""
    pending = [(specification, implementation)]
    seen: set[tuple[str, str]] = set()
    while pending:
        pair = pending.pop()
        if pair in seen:
            continue
        seen.add(pair)
        operands = _operands(job, graph, *pair)
        if operands is not None:
            pending += operands
        elif not equal(*pair):
            return False
    return True


def _operands(job: Job, graph: Graph, specification: str, implementation: str) -> list[tuple[str, str]] | None:
    """The pairs of nodes that have to be the same for two nodes to be; ``None`` if these are not the same call."""
    ours, theirs = job.specification.by_name.get(specification), graph.by_name.get(implementation)
    if ours is None or theirs is None or ours.op != theirs.op or ours.type != theirs.type:
        return None
    if ours.op == "input":
        return [] if _same_input(job, ours.name, theirs.name) else None
    if ours.op == "constant":
        recorded = job.specification.constants.get(ours.name)
        return None if recorded is None or repr(recorded) != repr(graph.constants.get(theirs.name)) else []
    pairs: list[tuple[str, str]] = []
    if not _same_call(job.specification, ours, graph, theirs):
        return None
    return pairs if _matched(_arguments(ours), _arguments(theirs), pairs) else None


def _same_call(specification: Graph, ours: Node, graph: Graph, theirs: Node) -> bool:
    if ours.target != theirs.target:
        return False
    if ours.target == "getitem":
        return True
    if specification.operators.get(ours.target) != graph.operators.get(theirs.target):
        return False
    return operator_of(graph, theirs).category not in _OF_ITS_OWN


def _arguments(node: Node) -> Argument:
    return (node.args, tuple(sorted(node.kwargs.items())))


def _matched(ours: Argument, theirs: Argument, pending: list[tuple[str, str]]) -> bool:
    """True if two arguments are the same but for the nodes that they use, which are put down as pairs."""
    if isinstance(ours, Ref) and isinstance(theirs, Ref):
        pending.append((ours.name, theirs.name))
        return True
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(_matched(x, y, pending) for x, y in zip(ours, theirs, strict=True))
    return type(ours) is type(theirs) and repr(ours) == repr(theirs)


def _same_input(job: Job, ours: str, theirs: str) -> bool:
    relation = job.inputs.get(ours)
    if relation is None:
        return False
    if relation.placements is not None:
        return relation.name == theirs and all(isinstance(p, Replicate) for p in relation.placements)
    found = relation.expression
    return job.mesh.world_size == 1 and isinstance(found, RankTensor) and (found.name or relation.name) == theirs
