"""Twins: nodes of two programs that play the same part, by their operators, their order and what they are made of."""

from __future__ import annotations

from tantamount.ir.graph import Graph, Node, references
from tantamount.ops.functionalized import unwrapped

__all__ = ["kind_of", "other_number", "twin_of"]


def twin_of(specification: Graph, implementation: Graph, name: str) -> str | None:
    """The implementation node with the same operator as one of the specification, at the same place in its order;
    preferably from the same source line, else made of inputs of the same names."""
    node = specification.by_name[name]
    kind = kind_of(specification, node)
    same = [n for n in implementation.nodes if n.op == node.op and kind_of(implementation, n) == kind]
    mine = [n for n in specification.nodes if kind_of(specification, n) == kind]
    here = None if node.source is None else (node.source.file, node.source.line)
    lined = [n for n in same if n.source is not None and (n.source.file, n.source.line) == here]
    if lined:
        same = lined
        mine = [n for n in mine if n.source is not None and (n.source.file, n.source.line) == here]
    else:
        made_of, theirs = _inputs_above(specification), _inputs_above(implementation)
        close = [n for n in same if theirs[n.name] == made_of[name]]
        if close:
            same, mine = close, [n for n in mine if made_of[n.name] == made_of[name]]
    position = [n.name for n in mine].index(name)
    return same[position].name if position < len(same) else None


def kind_of(graph: Graph, node: Node) -> tuple[object, ...]:
    """Equal for nodes that play the same part: the operator, and for one of several results its number."""
    items: list[object] = []
    while node.target == "getitem":
        items.append(node.args[1])
        node = graph.by_name[next(iter(references(node)))]
    return (unwrapped(node.target, node.args), *items)


def other_number(mine: Node, theirs: Node) -> tuple[float, float] | None:
    """The first number with a point, among the arguments of calls of one operator, in which they differ: an epsilon, a
    scale, a probability. Integers are sizes and positions, which differ between right programs."""
    if mine.target != theirs.target:
        return None
    pairs = [*zip(mine.args, theirs.args, strict=False)]
    pairs += [(mine.kwargs[key], theirs.kwargs[key]) for key in mine.kwargs if key in theirs.kwargs]
    return next(((a, b) for a, b in pairs if isinstance(a, float) and isinstance(b, float) and a != b), None)


def _inputs_above(graph: Graph) -> dict[str, frozenset[str]]:
    """The names of the inputs that each node is made of."""
    found: dict[str, frozenset[str]] = {}
    for node in graph.nodes:
        own = frozenset((node.name,)) if node.op == "input" else frozenset[str]()
        found[node.name] = own.union(*(found[ref] for ref in references(node)))
    return found
