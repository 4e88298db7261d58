"""Collectives that reduce in another way than they should, or over other ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from tantamount.correspond.values import close
from tantamount.diagnosis.arguments import Slot, argument_at, with_argument
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.hints import Line, Lines
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.ir.graph import Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ops.calls import operator_of
from tantamount.semantics.reference import Array

__all__ = ["REDUCTIONS", "Reduction", "reducing", "reduction_at", "reductions"]

REDUCTIONS = {"sum": "sum", "avg": "mean", "max": "maximum", "min": "minimum"}  # as operators call them, in words
_COMPUTED = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}
_PARAMETER = "reduce_op"


@dataclass(frozen=True)
class Reduction:
    """A collective of one tensor that reduces as ``how`` says, over mesh axes."""

    how: str
    axes: tuple[str, ...]


def reduction_at(matches: ValueMatches, place: Place) -> Reduction | None:
    """The reduction over ranks that a place is; ``None`` if it is none that can be another one."""
    graph, node = matches.graph(place), matches.node(place)
    slots = _slots(graph, node)
    if slots is None or len(list(references(node))) != 1:
        return None
    how, group = (argument_at(node, slot) for slot in slots)
    if not isinstance(how, str) or how.lower() not in _COMPUTED or not isinstance(group, str):
        return None
    return Reduction(how.lower(), matches.job.mesh.groups.get(group, ()))


def reductions(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which collectives, line by line, reduce in another way over the same ranks, or in the same way over
    other ranks."""
    if matches.node(c.first).op != "call" or matches.value(c.first).dtype.kind != "f":
        return
    for name in matches.effort.first("repair_members", list(dict.fromkeys(name for _, name in c.places))):
        line = [place for place in c.places if place[1] == name]
        mine = reduction_at(matches, line[0])
        if mine is None or any(reduction_at(matches, place) != mine for place in line[1:]):
            continue
        for other in _others(matches, mine):
            changes = {place: value for place in line if (value := _reduced(matches, place, other)) is not None}
            if len(changes) == len(line):
                changes = {place: value for place, value in changes.items() if not close(value, matches.value(place))}
                if changes:
                    axis = " and ".join(other.axes)
                    yield Edit(EditKind.REDUCTION, tuple(changes), changes, axis=axis, target=other.how)


def _others(matches: ValueMatches, mine: Reduction) -> Iterator[Reduction]:
    """The reductions that differ in one of the two: in how, then in the axes, few first."""
    yield from (replace(mine, how=how) for how in _COMPUTED if how != mine.how)
    mesh = matches.job.mesh
    axes = [name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1]
    several = [some for n in range(1, len(axes) + 1) for some in combinations(axes, n)]
    yield from (replace(mine, axes=some) for some in several if set(some) != set(mine.axes))


def _reduced(matches: ValueMatches, place: Place, how: Reduction) -> Array | None:
    """The result of a place as another reduction: all of it, or the part that is scattered there; ``None`` where some
    rank does not call it, or where parts would be of another size."""
    (ref,) = references(matches.node(place))
    mesh = replace(matches.job.mesh, groups={"": how.axes})
    members = mesh.members("", place[0])
    read = [(rank, ref) for rank in members]
    if any((rank, place[1]) not in matches.replay.position or one not in matches.replay.position
           for rank, one in zip(members, read, strict=True)):  # fmt: skip
        return None
    values = [matches.value(one) for one in read]
    shape = matches.value(place).shape
    if not values[0].size or any(value.shape != values[0].shape for value in values):
        return None
    total = np.asarray(_COMPUTED[how.how](np.stack(values), axis=0))
    if total.shape == shape:
        return total
    if total.size != prod(shape) * len(members):
        return None
    return np.asarray(total.reshape(len(members), *shape)[members.index(place[0])])


def reducing(how: str, axes: Sequence[str]) -> Line:
    """A collective that reduces in this way over these mesh axes."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        slots = _slots(graph, node)
        if slots is None:
            return (node,)
        given = with_argument(node, slots[0], how)
        group = argument_at(node, slots[1])
        same = isinstance(group, str) and set(job.mesh.groups.get(group, ())) == set(axes)
        given = given if same else with_argument(given, slots[1], f"over {' and '.join(axes)}")
        return (replace(given, type=None),)

    return line


def _slots(graph: Graph, node: Node) -> tuple[Slot, Slot] | None:
    """The positions of the reduction and of the group among the arguments of a collective; ``None`` of other nodes."""
    if node.op != "call" or node.target == "getitem" or isinstance(argument_at(node, 0), tuple):
        return None
    row = operator_of(graph, node)
    if row.group_parameter is None or _PARAMETER not in row.signature.parameters:
        return None
    if not isinstance(argument_at(node, 0), Ref):
        return None
    names = list(row.signature.parameters)

    def slot(name: str) -> Slot:
        return name if name in node.kwargs else names.index(name)

    return slot(_PARAMETER), slot(row.group_parameter)
