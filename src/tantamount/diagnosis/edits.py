"""Small changes of the implementation that may make it right, class by class.

Which are tried depends on whether a tensor is *sick*: no part of any tensor of the specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, permutations

import numpy as np

from tantamount.correspond.values import Box, close, placements, windows
from tantamount.diagnosis.classes import Class, Origin
from tantamount.diagnosis.replay import Changes, Place, typed
from tantamount.diagnosis.value_matches import Part, Slot, ValueMatches, given, slots, summable, with_number
from tantamount.ir.graph import Argument, Node, Ref, references
from tantamount.semantics.reference import Array

__all__ = ["LAYOUT", "Edit", "edits_of"]

LAYOUT = re.compile(  # operators that choose positions
    r"input$|getitem|(aten|hlo)\.(slice|select|narrow|split|split_with_sizes|chunk|unbind|dynamic-slice|cat|stack"
    r"|concatenate|index|gather|index_select|roll|flip)($|\.)"
)
REDUCTION = re.compile(r"aten\.(sum|mean|mse_loss|nll_loss|_foreach_div|norm)|.*(all_reduce|reduce_scatter)")
_MAX_WHOLES = 8  # classes of the specification that are tried for one of the implementation
_MAX_ORDERS = 6  # in which tensors are exchanged for each other
_MAX_MEMBERS = 4  # members of a class that are changed alone


@dataclass(frozen=True)
class Edit:
    """One change. ``kind``:

    ``bypass``   the operator is left out: its result is its operand number ``position``
    ``literal``  the argument at ``slot`` is ``number``
    ``scale``    the result is ``number`` times as large
    ``reduce``, ``average``, ``maximum``  that over the class's members or the mesh axis ``axis``
    ``operand``  the operand number ``position`` is the part ``wanted`` of the specification's tensor
    ``value``    the result is the part ``wanted``
    """

    kind: str
    places: tuple[Place, ...]
    changes: Changes
    wanted: Mapping[Place, Part] = field(default_factory=dict[Place, Part])
    position: int = -1
    slot: Slot = -1
    number: int | float = 0
    axis: str = ""

    @property
    def signature(self) -> object:
        """What stays the same on other inputs."""
        wanted = tuple((place, self.wanted[place]) for place in sorted(self.wanted))
        return self.kind, frozenset(self.places), wanted, self.position, self.slot, self.number, self.axis


def edits_of(land: ValueMatches, c: Class, kinds: Sequence[str]) -> Iterator[Edit]:
    """The changes of some kinds that are tried at a class; ``average`` and ``maximum`` go with ``reduce``."""
    call = land.node(c.first).op == "call"
    finders: dict[str, Callable[[ValueMatches, Class], Iterator[Edit]]] = {
        "reduce": _reduced,
        "bypass": _bypassed,
        "literal": _literals,
        "scale": _scaled,
        "operand": _operands,
        "value": _replaced,
        "like": _likened,
    }
    for kind in kinds:
        if kind in ("value", "like") or call:
            yield from finders[kind](land, c)


def _subsets(land: ValueMatches, changes: dict[Place, Array]) -> Iterator[dict[Place, Array]]:
    """All members of a class that would change; the sick ones; single nodes; without a mesh, all but the first."""
    yield changes
    sick = {place: value for place, value in changes.items() if land.aligned(place) is None}
    if 0 < len(sick) < len(changes):
        yield sick
    if land.job.mesh.world_size > 1:  # one node, on all ranks
        names = list(dict.fromkeys(name for _, name in changes))
        for name in names[:_MAX_MEMBERS] if len(names) > 1 else ():
            yield {place: value for place, value in changes.items() if place[1] == name}
        return
    changed = list(changes)
    if len(changed) > 2:
        yield {place: changes[place] for place in changed[1:]}
    if len(changed) > 1:
        for place in changed[:_MAX_MEMBERS]:
            yield {place: changes[place]}


def _bypassed(land: ValueMatches, c: Class) -> Iterator[Edit]:
    for k in range(len(list(references(land.node(c.first))))):
        changes: dict[Place, Array] = {}
        for place in c.places:
            value, operand = land.value(place), _operand(land, place, k)
            if operand.size == value.size and operand.dtype.kind == value.dtype.kind:
                operand = operand.reshape(value.shape)
                if not close(operand, value):
                    changes[place] = operand
        if changes:
            for some in _subsets(land, changes):
                yield Edit("bypass", tuple(some), some, position=k)


def _operand(land: ValueMatches, place: Place, k: int) -> Array:
    refs = list(references(land.node(place)))
    return land.value((place[0], refs[k])) if k < len(refs) else np.zeros(0)


def _literals(land: ValueMatches, c: Class) -> Iterator[Edit]:
    """Another number among the arguments: one that the specification has, one more or less, some ranks' worth."""
    first = land.node(c.first)
    if any(close(_operand(land, c.first, k), land.value(c.first)) for k in range(len(list(references(first))))):
        return  # adds 0, multiplies by 1: the number is not there for its value
    for slot in slots(first):
        values = {place: given(land.node(place), slot) for place in c.places}
        for argument in dict.fromkeys(values.values()):
            same = [place for place, value in values.items() if value == argument]
            for number in _numbers(land, first.target, slot, argument, len(same)) if argument is not None else ():
                changes: dict[Place, Array] = {}
                for place in same:
                    value = land.replay.computed(place, with_number(land.node(place), slot, number))
                    if value is not None and not close(value, land.value(place)):
                        changes[place] = value
                if changes:
                    for some in _subsets(land, changes):
                        yield Edit("literal", tuple(some), some, slot=slot, number=number)


def _numbers(land: ValueMatches, target: str, slot: Slot, argument: int | float, members: int) -> list[int | float]:
    """What may be right there: what the specification has, times or over some size, one more or less."""
    sizes = sorted({2, *land.job.mesh.sizes, members} - {0, 1})
    options = land.literals(target, slot)
    options += [argument * n for n in sizes]
    options += [argument // n if isinstance(argument, int) and argument % n == 0 else argument / n for n in sizes]
    options += [argument + 1, argument - 1] if isinstance(argument, int) else []
    return [x for x in dict.fromkeys(options) if x != argument]


def _reduced(land: ValueMatches, c: Class) -> Iterator[Edit]:
    """The members are summands of something that the specification has, or means over shares."""
    if land.value(c.first).dtype.kind != "f":
        return
    for kind, reduction in (("reduce", np.sum), ("average", np.mean), ("maximum", np.max)):
        for axis, groups in land.groups(c):
            changes: dict[Place, Array] = {}
            for members in groups:
                values = [land.value(place) for place in members]
                if summable(values):
                    total = reduction(np.stack(values), axis=0)
                    if land.is_part(total) is not None and not any(close(total, v) for v in values):
                        changes |= {place: total for place in members if not close(total, land.value(place))}
            if changes:
                yield Edit(kind, tuple(changes), changes, axis=axis)


def _scaled(land: ValueMatches, c: Class) -> Iterator[Edit]:
    """A reduction with another factor: the sum for the mean, or the other way round."""
    if land.value(c.first).dtype.kind != "f" or not REDUCTION.match(c.target):
        return
    names = {name for _, name in c.places}  # of micro-batches, for instance
    sizes = sorted({*land.job.mesh.sizes, land.job.mesh.world_size, len(c.places), len(names)} - {0, 1})
    for factor in (*(1 / n for n in sizes), *sizes):
        changes = {place: land.value(place) * factor for place in c.places}
        yield Edit("scale", tuple(changes), changes, number=factor)


# ------------------------------------------------------------------------------------------ parts of other tensors
Assigned = tuple[dict[Place, Part], dict[Place, Array]]


def _likened(land: ValueMatches, c: Class) -> Iterator[Edit]:
    """As :func:`_replaced`, with tensors that the same operator makes."""
    yield from _replaced(land, c, only_alike=True)


def _replaced(land: ValueMatches, c: Class, only_alike: bool = False) -> Iterator[Edit]:
    """The class should have parts of other tensors of the specification: of ones that the implementation does not have
    so far, or other parts of the same."""
    sick = land.sick(c)
    parts = [land.aligned(place) for place in c.places]
    matched = {part[0] for part in parts if part is not None}
    layout = LAYOUT.match(c.target) is not None or len(set(parts)) < sum(
        part is not None and part[1] is not None for part in parts
    )
    if sick and LAYOUT.match(c.target):
        operands = (land.aligned(operand) for place in c.places for operand in land.replay.operands[place])
        matched |= {part[0] for part in operands if part is not None}
    tried = 0
    for whole in sorted(land.wholes, key=lambda w: (w.target != c.target, w.first[1] in land.matched)):
        names = {name for _, name in whole.places}
        alike = whole.target == c.target
        if only_alike and not alike:
            continue
        same = layout and names & matched
        if not same:
            names -= land.matched - matched  # some ranks may have what others should
        other = alike and LAYOUT.match(c.target)  # an operator that cuts may have cut out something else
        if not names or not (sick or same or other or _inserts(land, c, names, matched)):
            continue
        found = False
        for wanted, changes in _assignments(land, c.places, names):
            found = True
            for some in _subsets(land, changes):
                yield Edit("value", tuple(some), some, {place: wanted[place] for place in some})
        tried += found
        if tried >= _MAX_WHOLES:
            return


def _inserts(land: ValueMatches, c: Class, names: set[str], matched: set[str]) -> bool:
    """Whether these tensors may stand where the matched ones do: as what something missing makes of them, or as the
    input that is not used."""
    if any(land.follows(name, m) for name in names for m in matched):
        return True
    return land.node(c.first).op == "input" and bool(land.unused & names)  # an input in another's stead


def _assignments(land: ValueMatches, places: Sequence[Place], names: set[str]) -> Iterator[Assigned]:
    """Parts of some tensors, one for each place, in sensible orders; what would not change is left out."""
    groups: dict[Origin, list[Place]] = {}
    for place in places:
        groups.setdefault(land.origin[place], []).append(place)
    options: list[list[Assigned]] = []
    for origin, some in groups.items():
        found = [a for a in _parts(land, some, _candidates(land, origin, names)) if a[1]]
        if found:
            options.append(found)
    for k in range(max(map(len, options), default=0)):
        wanted: dict[Place, Part] = {}
        changes: dict[Place, Array] = {}
        for found in options:
            one, more = found[min(k, len(found) - 1)]
            wanted |= one
            changes |= more
        yield wanted, changes


def _candidates(land: ValueMatches, origin: Origin, names: set[str]) -> list[str]:
    """Tensors made of the same inputs; else of these and more, or of fewer."""
    ordered = [node.name for node in land.job.specification.nodes if node.name in names]
    same = [name for name in ordered if land.whole_origin[name] == origin]
    if same or not origin:
        return same
    return [
        name
        for name in ordered
        if (origin < land.whole_origin[name] and land.whole_origin[name] - origin <= land.unused)
        or (land.whole_origin[name] and land.whole_origin[name] < origin)
        or name in land.unused
    ]


def _parts(land: ValueMatches, places: Sequence[Place], names: Sequence[str]) -> Iterator[Assigned]:
    value = land.value(places[0])
    wholes = {name: whole for name in names if (whole := land.replay.wanted(name)) is not None}
    wholes = {name: whole for name, whole in wholes.items() if whole.dtype.kind == value.dtype.kind}
    nodes = list(dict.fromkeys(places if land.job.mesh.world_size == 1 else (name for _, name in places)))
    if 1 < len(nodes) == len(wholes) and (
        land.job.mesh.world_size > 1 or all(whole.size == value.size for whole in wholes.values())
    ):
        for order in islice(permutations(wholes), _MAX_ORDERS):
            yield from _matched(land, places, dict(zip(nodes, order, strict=True)), wholes)
        return
    for name, whole in list(wholes.items())[:2]:
        for rows in layouts(land, places, whole):
            yield _changed(land, [(place, name, *row) for place, row in zip(places, rows, strict=True) if row])


def _matched(
    land: ValueMatches, places: Sequence[Place], chosen: Mapping[str | Place, str], wholes: Mapping[str, Array]
) -> Iterator[Assigned]:
    """Every node its own tensor: as a whole, or laid out over the ranks, alike for all."""
    if land.job.mesh.world_size == 1:
        shape = land.value(places[0]).shape
        yield _changed(land, [(p, chosen[p], None, wholes[chosen[p]].reshape(shape)) for p in places])
        return
    laid = [list(layouts(land, [p], wholes[chosen[p[1]]])) for p in places]
    for one in zip(*laid, strict=False):
        rows = [(p, chosen[p[1]], *row[0]) for p, row in zip(places, one, strict=True) if row[0] is not None]
        yield _changed(land, rows)


def layouts(
    land: ValueMatches, places: Sequence[Place], whole: Array
) -> Iterator[list[tuple[Box | None, Array] | None]]:
    """How a tensor may be laid out over places: under placements; without a mesh, in blocks."""
    shape = land.value(places[0]).shape
    mesh = land.job.mesh
    if mesh.world_size > 1:
        everything = tuple((0, n) for n in whole.shape)
        for boxes, parts in placements(whole, shape, mesh):
            yield [(None if boxes[rank] == everything else boxes[rank], parts[rank]) for rank, _ in places]
        return
    pieces = list(windows(whole, shape))
    count, total = len(pieces), len(places)
    if not count:
        return
    orders: dict[tuple[int, ...], None] = {}
    if total % count == 0:
        orders[tuple(i * count // total for i in range(total))] = None
        orders[tuple(i % count for i in range(total))] = None
    if total <= 4:
        for i in range(total):
            orders |= {tuple(w if j == i else -1 for j in range(total)): None for w in range(min(count, _MAX_MEMBERS))}
    for order in orders:
        yield [None if k < 0 else pieces[k] for k in order]


def _changed(land: ValueMatches, rows: Sequence[tuple[Place, str, Box | None, Array]]) -> Assigned:
    changes = {place: part for place, _, _, part in rows if not close(part, land.value(place))}
    return {place: (name, box) for place, name, box, _ in rows}, changes


def _operands(land: ValueMatches, c: Class) -> Iterator[Edit]:
    """Operands should be other parts of what they are parts of."""
    for k in range(len(list(references(land.node(c.first))))):
        sources = [(place[0], list(references(land.node(place)))[k]) for place in c.places]
        part = next((found for source in sources if (found := land.aligned(source)) is not None), None)
        whole = None if part is None else land.replay.wanted(part[0])
        if part is None or whole is None:
            continue
        for rows in layouts(land, sources, whole):
            changes: dict[Place, Array] = {}
            wanted: dict[Place, Part] = {}
            for place, row in zip(c.places, rows, strict=True):
                value = None if row is None else _recomputed(land, place, k, row[1])
                if row is not None and value is not None and not close(value, land.value(place)):
                    changes[place] = value
                    wanted[place] = (part[0], row[0])
            if changes:
                yield Edit("operand", tuple(changes), changes, wanted, position=k)


def _recomputed(land: ValueMatches, place: Place, operand: int, value: Array) -> Array | None:
    """The value of one node with another operand."""
    node = land.node(place)
    old = land.replay.tensor((place[0], list(references(node))[operand]))
    if old is None:
        return None
    fresh = f"{node.name}.operand"
    return land.replay.computed(place, _substituted(node, operand, fresh), {fresh: typed(value, old)})


def _substituted(node: Node, operand: int, name: str) -> Node:
    seen = -1

    def one(argument: Argument) -> Argument:
        nonlocal seen
        if isinstance(argument, Ref):
            seen += 1
            return Ref(name) if seen == operand else argument
        return tuple(map(one, argument)) if isinstance(argument, tuple) else argument

    args = tuple(map(one, node.args))
    return replace(node, args=args, kwargs={key: one(value) for key, value in node.kwargs.items()})
