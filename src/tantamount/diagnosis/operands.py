"""Other values that an operator should read: other parts of what it does, and values that nothing reads.

Whoever reads a wrong tensor leaves the right one unread, as a rule; compilers remove what is unread, captures keep it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tantamount.correspond.values import close
from tantamount.diagnosis.arguments import renamed
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, EditKind, held_at, layouts, recomputed
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.ir.graph import Graph, references
from tantamount.semantics.reference import Array

__all__ = ["operands", "unread", "unread_of"]


def operands(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits that give nodes other parts of the tensors that one of their operands is a part of."""
    for k in range(len(list(references(matches.node(c.first))))):
        sources = [(place[0], list(references(matches.node(place)))[k]) for place in c.places]
        part = next((found for source in sources if (found := matches.aligned(source)) is not None), None)
        whole = None if part is None else matches.replay.wanted(part[0])
        if part is None or whole is None:
            continue
        for rows in layouts(matches, sources, whole):
            changes: dict[Place, Array] = {}
            wanted: dict[Place, Part] = {}
            for place, source, row in zip(c.places, sources, rows, strict=True):
                value = None if row is None else recomputed(matches, place, k, held_at(matches, source, row[1]))
                if row is not None and value is not None and not close(value, matches.value(place)):
                    changes[place] = value
                    wanted[place] = (part[0], row[0])
            if changes:
                yield Edit(EditKind.OPERAND, tuple(changes), changes, wanted, position=k)


def unread(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which a node reads a value that nothing reads instead of one of its operands, of the same shape."""
    tried = 0
    for name in dict.fromkeys(name for _, name in c.places):
        places = [place for place in c.places if place[1] == name and place in matches.used]
        if not places or matches.node(places[0]).op != "call":
            continue
        below = matches.replay.below(places)
        for k, ref in enumerate(references(matches.node(places[0]))):
            shape = matches.value((places[0][0], ref)).shape
            for other in unread_of(matches.graph(places[0])):
                one = places[0][0], other
                if one in below or matches.value(one).shape != shape or not matches.value(one).size:
                    continue
                tried += 1
                if matches.effort.exceeds("repair_operands", tried):
                    return
                changes = _reading(matches, places, k, other)
                if changes:
                    yield Edit(EditKind.UNREAD, tuple(changes), changes, position=k, target=other)


def _reading(matches: ValueMatches, places: list[Place], k: int, other: str) -> dict[Place, Array]:
    """The values of the places of one line once their operand number k is another one; of those that change."""
    changes: dict[Place, Array] = {}
    for place in places:
        node = matches.node(place)
        known = (place[0], other) in matches.replay.position and k < len(list(references(node)))
        value = matches.replay.computed(place, renamed(node, {k: other})) if known else None
        if value is not None and value.shape == matches.value(place).shape and not close(value, matches.value(place)):
            changes[place] = value
    return changes


def unread_of(graph: Graph) -> list[str]:
    """The results of operators that nothing reads, and that are put out under no name."""
    put_out = {output.node for output in graph.outputs}
    return [
        node.name for node in graph.nodes
        if node.op == "call" and node.type is not None and not graph.users.get(node.name) and node.name not in put_out
    ]  # fmt: skip
