"""Small changes of the implementation that may make it right, class by class: which are tried depends on whether a
tensor is *unmatched*, no part of any tensor of the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice, permutations
from math import factorial

import numpy as np

from tantamount.correspond.values import Box, close, cut, placements, summable, windows
from tantamount.diagnosis.arguments import Slot, argument_at, renamed, with_argument
from tantamount.diagnosis.classes import Class, Origin
from tantamount.diagnosis.locate import reads
from tantamount.diagnosis.replay import Changes, Place, typed
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.ir.graph import Ref, references
from tantamount.semantics.reference import Array

__all__ = [
    "Edit", "EditKind", "averaged", "bypassed", "from_peers", "functions", "held_at", "layouts", "likened",
    "literals", "maximal", "once", "permuted", "recomputed", "replaced", "replacements", "scaled", "summed", "totals",
]  # fmt: skip


class EditKind(Enum):
    """The ways in which a change acts on the result of a node. ``kinds.KINDS`` has a row for each: where it is tried,
    how it is made on another input, how much it says, and in which words."""

    BYPASS = "the operator is left out: its result is its operand number ``position``"
    LITERAL = "the argument at ``slot`` is ``number``"
    SCALE = "the result is ``number`` times as large"
    SUM = "the sum over the class's members or the mesh axis ``axis``"
    MEAN = "the mean over these"
    MAXIMUM = "the maximum over these"
    TOTAL = "the sum over the mesh axis ``axis``, though the specification has no such tensor"
    ORDER = "the operands are read in the order ``order``"
    PEER = "the operand number ``position`` is that of the rank ``number`` further along ``axis``, in a ring"
    OPERAND = "the operand number ``position`` is the part ``wanted`` of the specification's tensor"
    VALUE = "the result is the part ``wanted``"
    LIKE = "the same, of tensors that the same operator makes"
    FUNCTION = "the operator is ``target``, of the same operands"
    BLOCK = "another block of the same size is cut out of the operand"
    EXCHANGE = "what is received as one message is what is received as another"
    REDUCTION = "the collective reduces as ``target`` says, over the mesh axes ``axis``"
    UNREAD = "the operand number ``position`` is the implementation's ``target``, which nothing reads"
    ONCE = "the operand number ``position`` is added on one rank along ``axis`` only: a share of it on each"


@dataclass(frozen=True)
class Edit:
    """One change of the values of some places."""

    kind: EditKind
    places: tuple[Place, ...]
    changes: Changes
    wanted: Mapping[Place, Part] = field(default_factory=dict[Place, Part])
    position: int = -1
    slot: Slot = -1
    number: int | float = 0
    axis: str = ""
    order: tuple[int, ...] = ()
    target: str = ""

    @property
    def signature(self) -> object:
        """Equal for the same change on other inputs."""
        wanted = tuple((place, self.wanted[place]) for place in sorted(self.wanted))
        how = self.position, self.slot, self.number, self.axis, self.order, self.target
        return self.kind, frozenset(self.places), wanted, how

    @property
    def replaces(self) -> bool:
        """True if the result is to be a part of a tensor of the specification, whatever the operands are."""
        return self.kind in (EditKind.VALUE, EditKind.LIKE)


def _subsets(matches: ValueMatches, changes: dict[Place, Array]) -> Iterator[dict[Place, Array]]:
    """All members of a class that would change; the unmatched ones; single nodes; without a mesh, all but the first."""
    changes = {place: value for place, value in changes.items() if place in matches.used}
    if not changes:
        return
    yield changes
    unmatched = {place: value for place, value in changes.items() if matches.aligned(place) is None}
    if 0 < len(unmatched) < len(changes):
        yield unmatched
    if matches.job.mesh.world_size > 1:  # one node, on all ranks
        names = list(dict.fromkeys(name for _, name in changes))
        for name in matches.effort.first("repair_members", names) if len(names) > 1 else ():
            yield {place: value for place, value in changes.items() if place[1] == name}
        return
    changed = list(changes)
    if len(changed) > 2:
        yield {place: changes[place] for place in changed[1:]}
    if len(changed) > 1:
        for place in matches.effort.first("repair_members", changed):
            yield {place: changes[place]}


def bypassed(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits that leave out the operator of a class: its results are one of its operands."""
    for k in range(len(list(references(matches.node(c.first))))):
        changes: dict[Place, Array] = {}
        for place in c.places:
            value, operand = matches.value(place), _operand(matches, place, k)
            if operand.size == value.size and operand.dtype.kind == value.dtype.kind:
                operand = operand.reshape(value.shape)
                if not close(operand, value):
                    changes[place] = operand
        if changes:
            for some in _subsets(matches, changes):
                yield Edit(EditKind.BYPASS, tuple(some), some, position=k)


def _operand(matches: ValueMatches, place: Place, k: int) -> Array:
    refs = list(references(matches.node(place)))
    return matches.value((place[0], refs[k])) if k < len(refs) else np.zeros(0)


def literals(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """Another number among the arguments: one that the specification has, one more or less, some ranks' worth."""
    first = matches.node(c.first)
    neutral = any(close(_operand(matches, c.first, k), matches.value(c.first)) for k, _ in enumerate(references(first)))
    numbers = [matches.number_at(c.first, slot) for slot in matches.slots(c.first)]
    if neutral and not (matches.facts(c.first).scale == 1 and 1 in numbers and matches.other_number(c.first)):
        return  # adds 0, multiplies by 1: the number is not there for its value
    same_as = np.array_equal if matches.other_number(c.first) else close  # an epsilon does little
    for slot in matches.slots(c.first):
        values = {place: matches.number_at(place, slot) for place in c.places}
        for argument in dict.fromkeys(values.values()):
            same = [place for place, value in values.items() if value == argument]
            for number in _numbers(matches, c.first, slot, argument, len(same)) if argument is not None else ():
                changes: dict[Place, Array] = {}
                for place in same:
                    value = _with_number(matches, place, slot, number)
                    if value is not None and not same_as(value, matches.value(place)):
                        changes[place] = value
                if changes:
                    for some in _subsets(matches, changes):
                        yield Edit(EditKind.LITERAL, tuple(some), some, slot=slot, number=number)


def _with_number(matches: ValueMatches, place: Place, slot: Slot, number: float) -> Array | None:
    """The value of one node with another number there, or with a tensor of that number."""
    node = matches.node(place)
    argument = argument_at(node, slot)
    if not isinstance(argument, Ref):
        return matches.replay.computed(place, with_argument(node, slot, number))
    if matches.value((place[0], argument.name)).dtype.kind != "f" and not float(number).is_integer():
        return None
    full = np.full_like(matches.value((place[0], argument.name)), number)
    return recomputed(matches, place, list(references(node)).index(argument.name), full)


def _numbers(matches: ValueMatches, place: Place, slot: Slot, argument: int | float, members: int) -> list[int | float]:
    """Numbers that may be right there: those that the specification has, the argument times or over a size, and one
    more or less."""
    sizes = sorted({2, *matches.job.mesh.sizes, members} - {0, 1})
    options = [number for ratio in matches.ratios for number in (argument * ratio, argument / ratio)]
    options += matches.literals(matches.node(place).target, slot)
    options += [argument * n for n in sizes]
    options += [argument // n if isinstance(argument, int) and argument % n == 0 else argument / n for n in sizes]
    options += [argument + 1, argument - 1] if isinstance(argument, int) else []
    facts = matches.facts(place)
    real = not isinstance(argument, int) or facts.combination or facts.exponent is not None  # else a size, a position
    return [x for x in dict.fromkeys(options) if x != argument and (real or float(x).is_integer())]


def summed(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits that add up the members, summands of something that the specification has."""
    return _reduced(matches, c, EditKind.SUM, np.sum)


def averaged(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits that take the mean of the members, means over shares."""
    return _reduced(matches, c, EditKind.MEAN, np.mean)


def maximal(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits that take the maximum of the members, maxima over shares."""
    return _reduced(matches, c, EditKind.MAXIMUM, np.max)


def totals(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits that add up the members over ranks though the specification has no such tensor: squares of a norm."""
    if matches.job.mesh.world_size > 1 and matches.value(c.first).dtype.kind == "f":
        for axis, groups in matches.groups(c):
            changes: dict[Place, Array] = {}
            for members in groups:
                values = [matches.value(place) for place in members]
                if summable(values) and matches.is_part(np.sum(np.stack(values), axis=0)) is None:
                    changes |= dict.fromkeys(members, np.asarray(np.sum(np.stack(values), axis=0)))
            if changes:
                yield Edit(EditKind.TOTAL, tuple(changes), changes, axis=axis)


def once(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which what every rank adds alike before a sum over ranks, a bias, is added once."""
    first = matches.node(c.first)
    if matches.job.mesh.world_size == 1 or not matches.facts(c.first).sums or matches.value(c.first).dtype.kind != "f":
        return
    refs = list(references(first))
    for k in range(len(refs)) if len(refs) > 1 else ():
        without: dict[Place, Array] = {}
        for place in c.places:
            operand = _operand(matches, place, k)
            if not operand.any() or operand.dtype.kind != "f":
                break
            base = recomputed(matches, place, k, np.zeros_like(operand))
            if base is None or base.shape != matches.value(place).shape:
                break
            without[place] = base
        for axis, groups in matches.groups(c) if len(without) == len(c.places) else ():
            changes: dict[Place, Array] = {}
            for members in groups:
                added = matches.value(members[0]) - without[members[0]]
                alike = all(close(matches.value(place) - without[place], added) for place in members[1:])
                if not alike or not added.any() or not summable([without[place] for place in members]):
                    continue
                total = np.asarray(np.sum(np.stack([without[place] for place in members]), axis=0) + added)
                if matches.is_part(total) is not None:
                    changes |= {place: without[place] + added / len(members) for place in members}
            if changes:
                yield Edit(EditKind.ONCE, tuple(changes), changes, position=k, axis=axis)


def permuted(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which operators read their operands in another order."""
    refs = list(references(matches.node(c.first)))
    if not 2 <= len(set(refs)) == len(refs) or matches.value(c.first).dtype.kind != "f":
        return
    if matches.effort.exceeds("repair_permuted", len(refs)):
        return
    for order in list(permutations(range(len(refs))))[1:]:
        changes: dict[Place, Array] = {}
        for place in c.places:
            names = list(references(matches.node(place)))
            if len(names) == len(refs):
                other = renamed(matches.node(place), {k: names[j] for k, j in enumerate(order)})
                value = matches.replay.computed(place, other)
                if value is not None and value.shape == matches.value(place).shape:
                    changes |= {} if close(value, matches.value(place)) else {place: value}
        for some in _subsets(matches, changes):
            yield Edit(EditKind.ORDER, tuple(some), some, order=order)


_FUNCTIONS = (
    ("exp", "exponential"), ("log",), ("tanh",), ("sigmoid", "logistic"), ("relu",), ("gelu",), ("silu",),
    ("sqrt",), ("rsqrt",), ("sin", "sine"), ("cos", "cosine"), ("neg", "negate"), ("abs",), ("reciprocal",),
)  # fmt: skip
_OVERLOADS = {1: "default", 2: "Tensor"}
_BINARY = (("add",), ("sub", "subtract"), ("mul", "multiply"), ("div", "divide"), ("maximum",), ("minimum",))


def functions(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which operators, element by element and without other arguments, are another such function."""
    node, facts = matches.node(c.first), matches.facts(c.first)
    refs = list(references(node))
    plain = len(node.args) == len(refs) and not node.kwargs and facts.elementwise and not facts.layout
    if not plain or len(refs) not in (1, 2) or matches.value(c.first).dtype.kind != "f":
        return
    dialect, mine = node.target.partition(".")[0], node.target.split(".")[1:2]
    for names in _FUNCTIONS if len(refs) == 1 else _BINARY:
        if set(names) & set(mine):
            continue
        target = f"hlo.{names[-1]}" if dialect == "hlo" else f"aten.{names[0]}.{_OVERLOADS[len(refs)]}"
        changes: dict[Place, Array] = {}
        for place in c.places:
            other = replace(matches.node(place), target=target)
            value = matches.replay.computed(place, other)
            if value is not None and value.shape == matches.value(place).shape and np.isfinite(value).all():
                changes |= {} if close(value, matches.value(place)) else {place: value}
        for some in _subsets(matches, changes) if changes else ():
            yield Edit(EditKind.FUNCTION, tuple(some), some, target=target)


def from_peers(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which operators read, in place of what a rank has itself, what the next, or last, rank along a mesh
    axis has: what should have been sent."""
    mesh = matches.job.mesh
    for position in range(len(list(references(matches.node(c.first))))) if mesh.world_size > 1 else ():
        read = {place: (place[0], list(references(matches.node(place)))[position]) for place in c.places}
        if not matches.drawn.isdisjoint(read.values()):
            continue  # ranks that draw for themselves have other numbers: nothing is sent
        for axis, k in zip(mesh.names, range(len(mesh.sizes)), strict=True):
            for step in dict.fromkeys((1, mesh.sizes[k] - 1)) if mesh.sizes[k] > 1 else ():
                changes: dict[Place, Array] = {}
                wanted: dict[Place, Part] = {}
                for place, given in read.items():
                    at = mesh.coordinates(place[0])
                    other = (mesh.rank((*at[:k], (at[k] + step) % mesh.sizes[k], *at[k + 1 :])), given[1])
                    part, theirs = matches.aligned(other), matches.value(other)
                    mine = matches.value(given)
                    odd = part is None or theirs.shape != mine.shape or close(theirs, mine)
                    value = None if odd else recomputed(matches, place, position, theirs)
                    if part is not None and value is not None and not close(value, matches.value(place)):
                        changes[place], wanted[place] = value, part
                for some in _subsets(matches, changes):
                    parts = {place: wanted[place] for place in some}
                    yield Edit(EditKind.PEER, tuple(some), some, parts, position=position, number=step, axis=axis)


def _reduced(matches: ValueMatches, c: Class, kind: EditKind, reduction: Callable[..., Array]) -> Iterator[Edit]:
    if matches.value(c.first).dtype.kind != "f":
        return
    for axis, groups in matches.groups(c):
        if " and " in axis and not matches.reduced_later.isdisjoint(c.places):
            return  # what follows reduces over some of the axes: the others are missing there
        changes: dict[Place, Array] = {}
        for members in groups:
            values = [matches.value(place) for place in members]
            if summable(values):
                total = np.asarray(reduction(np.stack(values), axis=0))
                known = matches.is_part(total) is not None or matches.share(members[0], total) is not None
                known = known or (kind is EditKind.MAXIMUM and _are_maxima(matches, members))
                if known and kind is EditKind.MAXIMUM:  # one rank may have them all
                    changes |= dict.fromkeys(members, total)
                elif known and not any(close(total, v) for v in values):
                    changes |= {place: total for place in members if not close(total, matches.value(place))}
        if changes:
            yield Edit(kind, tuple(changes), changes, axis=axis)


def _are_maxima(matches: ValueMatches, members: Sequence[Place]) -> bool:
    """True if values are the maxima along dimensions of what is read there, also if each is one of several results, and
    these may be shares of one tensor. Maxima over blocks of other rows have none in common: ranks that hold other
    queries need not agree in a maximum."""
    for k in range(len(reads(matches, members[0]))):
        read = [above[k] if len(above := reads(matches, place)) > k else place for place in members]
        reduced = _reduced_dimensions(matches, members[0], read[0])
        rows = {tuple(one for d, one in enumerate(_box(matches, place)) if d not in reduced) for place in read}
        if reduced and len(rows) == 1:
            return True
    return False


def _box(matches: ValueMatches, place: Place) -> Box:
    """The positions of the specification's tensor that a value has, dimension by dimension; none where not known."""
    part, shape = matches.aligned(place), matches.value(place).shape
    whole = None if part is None else matches.replay.wanted(part[0])
    if part is None or part[1] is None or whole is None or whole.ndim != len(shape):
        return ()
    full = [d for d, n in enumerate(whole.shape) if n != 1]  # the others need not be in the box
    if len(part[1]) == whole.ndim:
        return part[1]
    boxes = dict(zip(full, part[1], strict=True))
    return tuple(boxes.get(d, (0, 1)) for d in range(whole.ndim))


def _reduced_dimensions(matches: ValueMatches, place: Place, read: Place) -> set[int]:
    """The dimensions along which a value may be the maximum of what is ``read`` there; none if it is none."""
    mine, x = matches.value(place).reshape(-1), matches.value(read)
    if not mine.size < x.size:
        return set()
    picked = matches.node(place).target == "getitem" or matches.facts(place).reduction == "max"
    return {k for k in range(x.ndim) if picked and np.array_equal(np.max(x, axis=k).reshape(-1), mine)}


def scaled(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """A reduction with another factor: the sum for the mean, or the other way round; or one of several tensors that
    are multiplied by one number."""
    facts = matches.facts(c.first)
    averages = facts.reduction in ("sum", "mean", "norm")
    several = matches.node(c.first).target == "getitem" and facts.elementwise and bool(facts.linear)
    if matches.value(c.first).dtype.kind != "f" or not (averages or several):
        return
    names = {name for _, name in c.places}  # of micro-batches, for instance
    sizes = sorted({*matches.job.mesh.sizes, matches.job.mesh.world_size, len(c.places), len(names)} - {0, 1})
    for factor in (*(1 / n for n in sizes), *sizes):
        changes = {place: matches.value(place) * factor for place in c.places}
        yield Edit(EditKind.SCALE, tuple(changes), changes, number=factor)


# ------------------------------------------------------------------------------------------ parts of other tensors
Assigned = tuple[dict[Place, Part], dict[Place, Array]]


def likened(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """As :func:`_replaced`, with tensors that the same operator makes."""
    yield from replaced(matches, c, EditKind.LIKE)


def replaced(matches: ValueMatches, c: Class, kind: EditKind = EditKind.VALUE) -> Iterator[Edit]:
    """The class should have parts of other tensors of the specification: of ones that the implementation does not have
    so far, or other parts of the same."""
    unmatched = matches.unmatched(c)
    parts = [matches.aligned(place) for place in c.places]
    there = frozenset[str]().union(*map(matches.elsewhere, c.places))  # what other ranks have
    matched = {part[0] for part in parts if part is not None} | there
    chooses = matches.chooses(c.first)
    layout = chooses or len(set(parts)) < sum(part is not None and part[1] is not None for part in parts)
    if unmatched and chooses:
        operands = (matches.aligned(operand) for place in c.places for operand in matches.replay.operands[place])
        matched |= {part[0] for part in operands if part is not None}
    puts_out = {matches.end} if matches.ends.issuperset(c.places) else set[str]()  # nothing else makes it right
    end = matches.end if not unmatched and puts_out else ""  # another tensor is put out
    tried = 0
    wholes = sorted(matches.wholes, key=lambda w: (w.target != c.target, w.first[1] in matches.matched))
    for whole in sorted(wholes, key=lambda w: there.isdisjoint(name for _, name in w.places)):
        names = {n for _, n in whole.places if n in matches.unused or c.first not in matches.summands_as_stated}
        names = names & there or names
        names &= puts_out or names
        alike = whole.target == c.target
        if kind is EditKind.LIKE and not alike:
            continue
        same = layout and names & matched
        if not same:
            names -= matches.matched - matched  # some ranks may have what others should
        other = chooses and whole.target == c.target  # an operator that cuts may have cut out something else
        if not names or not (unmatched or same or other or end in names or _inserts(matches, c, names, matched)):
            continue
        found = False
        for wanted, changes in _assignments(matches, c.places, names):
            found = True
            for some in _subsets(matches, changes):
                yield Edit(kind, tuple(some), some, {place: wanted[place] for place in some})
        tried += found
        if matches.effort.exceeds("repair_wholes", tried + 1):
            return


def replacements(matches: ValueMatches, c: Class, names: set[str]) -> Iterator[Edit]:
    """The changes that give a class parts of some tensors that its own operator makes."""
    for whole in matches.wholes:
        some = names & {name for _, name in whole.places}
        if whole.target == c.target and some:
            for wanted, changes in _assignments(matches, c.places, some):
                if changes:
                    yield Edit(EditKind.VALUE, tuple(changes), changes, {place: wanted[place] for place in changes})


def _inserts(matches: ValueMatches, c: Class, names: set[str], matched: set[str]) -> bool:
    """True if tensors may stand where matched ones do: as what is missing makes of them, or an input that is unused."""
    if any(matches.follows(name, m) for name in names for m in matched):
        return True
    return matches.node(c.first).op == "input" and bool(matches.unused & names)  # an input in another's stead


def _assignments(matches: ValueMatches, places: Sequence[Place], names: set[str]) -> Iterator[Assigned]:
    """Parts of some tensors, one for each place, in sensible orders; what would not change is left out."""
    groups: dict[Origin, list[Place]] = {}
    for place in places:
        groups.setdefault(matches.origin[place], []).append(place)
    peers = {part[0] for place in places if (part := matches.aligned(place)) is not None}
    peers.update(*map(matches.elsewhere, places))
    options: list[list[Assigned]] = []
    for origin, some in groups.items():
        found = [a for a in _parts(matches, some, _candidates(matches, origin, names, peers)) if a[1]]
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


def _candidates(matches: ValueMatches, origin: Origin, names: set[str], peers: set[str]) -> list[str]:
    """Tensors made of the same inputs; else of fewer, or of inputs that nothing else is made of; positions, made of
    none; and what others of the class have. The fewer inputs are in question, the earlier. In place of what no input
    decides: what is made of the like, and what is lost."""
    ordered = sorted(names, key=matches.order.__getitem__)
    same = [name for name in ordered if matches.whole_origin[name] == origin]
    if not origin:
        lost = (x for x in ordered if x not in matches.matched or any(matches.follows(x, one) for one in peers))
        return list(dict.fromkeys((*same, *lost)))
    if same:
        return same
    found = [
        name
        for name in ordered
        if (not matches.whole_origin[name] and matches.counts(name))
        or (matches.whole_origin[name] and matches.whole_origin[name] - origin <= matches.unused)
        or name in matches.unused
        or name in peers
    ]
    return sorted(found, key=lambda name: len(matches.whole_origin[name] ^ origin))


def _parts(matches: ValueMatches, places: Sequence[Place], names: Sequence[str]) -> Iterator[Assigned]:
    value = matches.value(places[0])
    wholes = {name: whole for name in names if (whole := matches.replay.wanted(name)) is not None}
    wholes = {name: whole for name, whole in wholes.items() if whole.dtype.kind == value.dtype.kind}
    nodes = list(dict.fromkeys(places if matches.job.mesh.world_size == 1 else (name for _, name in places)))
    if 1 < len(nodes) == len(wholes) and (
        matches.job.mesh.world_size > 1 or all(whole.size == value.size for whole in wholes.values())
    ):
        matches.effort.exceeds("repair_orders", factorial(len(wholes)))
        for order in islice(permutations(wholes), matches.effort.bounds.repair_orders):
            yield from _matched(matches, places, dict(zip(nodes, order, strict=True)), wholes)
        return
    for name, whole in matches.effort.first("repair_layouts", list(wholes.items())):
        for rows in layouts(matches, places, whole):
            yield _changed(matches, [(place, name, *row) for place, row in zip(places, rows, strict=True) if row])


def _matched(
    matches: ValueMatches, places: Sequence[Place], chosen: Mapping[str | Place, str], wholes: Mapping[str, Array]
) -> Iterator[Assigned]:
    """Every node its own tensor: as a whole, or laid out over the ranks, alike for all."""
    if matches.job.mesh.world_size == 1:
        shape = matches.value(places[0]).shape
        yield _changed(matches, [(p, chosen[p], None, wholes[chosen[p]].reshape(shape)) for p in places])
        return
    laid = [list(layouts(matches, [p], wholes[chosen[p[1]]])) for p in places]
    for one in zip(*laid, strict=False):
        rows = [(p, chosen[p[1]], *row[0]) for p, row in zip(places, one, strict=True) if row[0] is not None]
        yield _changed(matches, rows)


def layouts(
    matches: ValueMatches, places: Sequence[Place], whole: Array
) -> Iterator[list[tuple[Box | None, Array] | None]]:
    """Layouts of a tensor over places, under placements or, without a mesh, in blocks: for every place the box and its
    values, or ``None`` where it stays as it is."""
    shape = matches.value(places[0]).shape
    mesh = matches.job.mesh
    if mesh.world_size > 1:
        same = [_same_part(matches, place, whole) for place in places]
        if all(row is not None for row in same):
            yield same
        everything = tuple((0, n) for n in whole.shape)
        for one in (shape, *matches.seen_as.get(shape, ())):
            found = False
            for boxes, parts in placements(whole, one, mesh):
                found = True
                boxed = [None if box == everything else box for box in boxes]
                yield [(boxed[rank], parts[rank].reshape(shape)) for rank, _ in places]
            if found:
                return
        return
    pieces = list(windows(matches.effort, whole, shape))
    count, total = len(pieces), len(places)
    if not count:
        return
    orders: dict[tuple[int, ...], None] = {}
    if total % count == 0:
        orders[tuple(i * count // total for i in range(total))] = None
        orders[tuple(i % count for i in range(total))] = None
    members = matches.effort.bounds.repair_members
    if not matches.effort.exceeds("repair_members", total):
        for i in range(total):
            orders |= {tuple(w if j == i else -1 for j in range(total)): None for w in range(min(count, members))}
    for order in orders:
        yield [None if k < 0 else pieces[k] for k in order]


def _same_part(matches: ValueMatches, place: Place, whole: Array) -> tuple[Box | None, Array] | None:
    """The block of a tensor that a place has of another one of its shape: the same rows, those of a microbatch say."""
    part = matches.aligned(place)
    held = None if part is None else matches.replay.wanted(part[0])
    if part is None or part[1] is None or held is None or held.shape != whole.shape or len(part[1]) != whole.ndim:
        return None
    return part[1], cut(whole, part[1]).reshape(matches.value(place).shape)


def held_at(matches: ValueMatches, place: Place, part: Array) -> Array:
    """The values of a part as a place should hold them: a share of a mean is a multiple."""
    return part if part.dtype.kind != "f" else np.asarray(part * matches.times(place))


def _changed(matches: ValueMatches, rows: Sequence[tuple[Place, str, Box | None, Array]]) -> Assigned:
    wanted: dict[Place, Part] = {place: (name, box) for place, name, box, _ in rows}
    other = [(place, held_at(matches, place, x)) for place, *_, x in rows if matches.aligned(place) != wanted[place]]
    return wanted, {place: value for place, value in other if not close(value, matches.value(place))}


def recomputed(matches: ValueMatches, place: Place, operand: int, value: Array) -> Array | None:
    """The value of one node with another operand; ``None`` if it cannot be computed."""
    node = matches.node(place)
    old = matches.replay.tensor((place[0], list(references(node))[operand]))
    if old is None:
        return None
    fresh = f"{node.name}.operand"
    return matches.replay.computed(place, renamed(node, {operand: fresh}), {fresh: typed(value, old)})
