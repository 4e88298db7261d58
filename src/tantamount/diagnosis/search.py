"""The smallest change that repairs the implementation, found by executing both programs.

A bug is where a small change makes everything right: leaving out one operator, another number, another shard, one more
all-reduce, another tensor of the specification in one place. Changes are tried on values: the programs run once, then
whatever depends on a change runs again. What repairs one input is tried on others. Nothing is proved by this: it says
where to look, and which change would do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tantamount.correspond.values import rows_of
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, edits_of
from tantamount.diagnosis.locate import Location, locate, reads
from tantamount.diagnosis.replay import Place, Replay
from tantamount.diagnosis.value_matches import Part, ValueMatches, summable
from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.execution.plans import Plan, Scale, draw
from tantamount.ir.graph import references
from tantamount.ops.algebra import Tensor
from tantamount.semantics.reference import Array

__all__ = ["Repair", "find_repairs"]

_NEAR = 48  # places of every rank below a change that say whether it helps; the outputs say it anyway

_FIRST_SEED = 11
_CONFIRMATIONS = 1  # more inputs that a change must repair


@dataclass(frozen=True)
class Repair:
    """``edit`` of the class ``c`` makes ``repaired`` outputs right; none, but what follows, if there is more to repair.
    ``matches`` has the values."""

    edit: Edit
    c: Class
    repaired: tuple[str, ...]
    matches: ValueMatches

    @property
    def of_input(self) -> bool:
        """True if it is an input that should be another part of its tensor."""
        return self.edit.kind == "value" and self.matches.node(self.edit.places[0]).op == "input"


def find_repairs(plan: Plan, outputs: Sequence[str], seconds: float = 0.0) -> Iterator[Repair]:
    """The change that repairs the first of the failing ``outputs``, and more of them if it can; then one that makes
    most of what follows right. ``seconds`` of CPU time may be taken beyond the bound ``repair_seconds``."""
    effort = plan.store.effort
    every = list(dict.fromkeys((*outputs, *(o.name for o in plan.job.specification.outputs))))
    names = effort.first("repair_outputs", every)
    names = [name for name in names if _checkable(plan, name)]
    seeds = range(_FIRST_SEED, _FIRST_SEED + effort.bounds.repair_inputs)
    budget = _budget(plan, seconds)
    start = _start(plan, names, seeds)
    if start is None:
        effort.hit("repair_inputs")
        return
    found = sorted(_accepted(start, effort, budget), key=lambda one: one.cost)
    if found:
        found[0] = _hoisted(start, found[0], budget)
    for candidate in effort.first("repair_outputs", found):
        if all(_again(plan, names, candidate, seed) for seed in seeds[-_CONFIRMATIONS:]):
            yield Repair(candidate.edit, candidate.c, candidate.repaired, start.matches)
            break
    nearest = _nearest(start, budget)
    if nearest is not None:
        yield nearest


def _nearest(start: _Start, budget: Budget) -> Repair | None:
    """The change where values first stop corresponding that makes most of what follows right, though no output is:
    the same mistake may have been made in every layer."""
    matches, location = start.matches, start.location
    first = list(dict.fromkeys((*location.frontier, *sorted(location.apart))))
    best: tuple[int, int, Edit, Class] | None = None
    for number in matches.effort.first("repair_promising", first):
        c = matches.classes[number]
        for edit in edits_of(matches, c, ("reduce", "bypass", "value")):
            if budget.spent(matches.effort, matches):
                break
            gain = _gain(start, edit)
            if gain > 1 and (best is None or gain > best[0]):
                best = (gain, number, edit, c)
    return None if best is None else Repair(best[2], best[3], (), matches)


@dataclass(frozen=True)
class Budget:
    """The effort that all changes together may take: nodes, by the bound that says so, and CPU seconds until a time."""

    nodes: int
    bound: str
    until: float

    def spent(self, effort: Effort, matches: ValueMatches) -> bool:
        """True if nothing is left, which counts as a hit."""
        if matches.replay.effort > self.nodes:
            effort.hit(self.bound)
            return True
        if time.process_time() > self.until:
            effort.hit("repair_seconds")
            return True
        return False


def _budget(plan: Plan, seconds: float) -> Budget:
    bounds = plan.store.effort.bounds
    nodes = len(plan.job.specification.nodes) + sum(len(graph.nodes) for graph in plan.job.implementation)
    most = min((bounds.repair_nodes, "repair_nodes"), (bounds.repair_executions * nodes, "repair_executions"))
    return Budget(*most, time.process_time() + bounds.repair_seconds + seconds)


def _checkable(plan: Plan, name: str) -> bool:
    expectation = plan.job.outputs.get(name)  # a job need not say anything of an output
    return expectation is not None and (expectation.placements is not None or expectation.expression is not None)


@dataclass
class _Start:
    """One input on which outputs differ: how many elements of each are wrong."""

    matches: ValueMatches
    wrong: dict[str, int]

    @property
    def failing(self) -> list[str]:
        return [name for name, count in self.wrong.items() if count]

    @cached_property
    def ends(self) -> frozenset[Place]:
        """The nodes of wrong outputs."""
        return frozenset(place for name in self.failing for place in self.matches.replay.output_places(name))

    @cached_property
    def location(self) -> Location:
        """The places above the first failing output at which the two sides part."""
        replay, first = self.matches.replay, self.failing[0]
        node = next(output.node for output in self.matches.job.specification.outputs if output.name == first)
        return locate(self.matches, replay.output_places(first), node)


@dataclass(frozen=True)
class _Candidate:
    edit: Edit
    c: Class
    number: int
    repaired: tuple[str, ...]
    cost: tuple[int, ...]


def _start(plan: Plan, names: Sequence[str], seeds: Sequence[int]) -> _Start | None:
    for seed in seeds:
        try:
            replay = Replay(plan, draw(plan, seed, Scale()), seed)
            wrong = dict(replay.wrong(names))
        except TantamountError:
            continue
        first = next((name for name in names if wrong[name]), None)
        if first is not None:
            return _Start(ValueMatches(replay, first), wrong)
    return None


_REDUCTIONS = ("reduce", "average", "maximum")
_SIMPLE = ("bypass", "literal", "scale")
_GOOD = 2  # a change of this weight says why: nothing further is looked for
_SMALL = 120  # nodes of all ranks: below changes of so small a program everything is computed again at once

Pass = tuple[Sequence[int], tuple[str, ...]]  # classes by number, and the kinds of changes that are tried there


def _passes(matches: ValueMatches, location: Location) -> Iterator[Pass]:
    """The passes of the search, in order: the place where values stop corresponding before any other place, and edits
    that can be said simply before those that only say what should be there."""
    yield location.summands, ("reduce", *_SIMPLE)
    yield location.frontier, ("reduce", *_SIMPLE, "operand")
    yield location.scalings, _SIMPLE
    yield location.silent, _SIMPLE
    yield location.frontier, ("value",)
    yield location.boundary, ("value",)
    yield location.twins, ("like",)
    yield location.beside, ("value",)
    yield location.apart, _SIMPLE
    yield location.apart, ("operand", "like")
    yield location.apart, ("value",)
    every = range(len(matches.classes))
    unmatched = [k for k in every if matches.unmatched(matches.classes[k])]
    yield [k for k in every if matches.summands(matches.classes[k]) is not None], ("reduce",)
    yield unmatched, _SIMPLE
    yield [k for k in every if k not in set(unmatched)], ("value",)
    yield unmatched, ("operand", "like")
    yield unmatched, ("value",)


def _accepted(start: _Start, effort: Effort, budget: Budget) -> list[_Candidate]:
    """Changes that repair something."""
    matches = start.matches
    small = len(matches.replay.order) <= _SMALL
    found: list[_Candidate] = []
    tried: set[object] = set()
    for classes, kinds in _passes(matches, start.location):
        best = min(found, key=lambda one: one.cost, default=None)
        landing: list[tuple[int, Edit, Class]] = []  # what makes a missing tensor right there says most
        others: list[tuple[int, Edit, Class]] = []
        for number in classes:
            c = matches.classes[number]
            if kinds == ("value",) and best is not None and number >= best.number:
                break  # something later would not say more
            for edit in edits_of(matches, c, kinds):
                key = tuple(sorted((place, value.tobytes()) for place, value in edit.changes.items()))
                if key in tried:
                    continue
                tried.add(key)
                if small:
                    found += _followed(start, edit, c, number)
                else:
                    (landing if _lands(matches, edit) else others).append((number, edit, c))
                effort.check()
                if budget.spent(effort, matches):
                    break
        for some in (landing, others):
            found += _promising(start, some, budget)
            if any(one.cost[1] <= _GOOD and _whole(start, one) for one in found) or budget.spent(effort, matches):
                return found
    return found


def _lands(matches: ValueMatches, edit: Edit) -> bool:
    """True if a change makes a tensor of the specification that the implementation lacks."""
    parts = (matches.is_part(value) for value in edit.changes.values() if value.size > 1)
    return any(part is not None and part[0] not in matches.matched for part in parts)


def _promising(start: _Start, some: Sequence[tuple[int, Edit, Class]], budget: Budget) -> list[_Candidate]:
    """The candidates among changes: those that help most nearby are followed to the outputs."""
    effort = start.matches.effort
    gains: list[tuple[int, int, int]] = []
    for k, (number, edit, _) in enumerate(some):
        if budget.spent(effort, start.matches):
            break
        gain = _gain(start, edit)
        if gain > 0 or (gain == 0 and number in start.location.frontier):  # what helps may be further below
            gains.append((-gain, number, k))
    found: list[_Candidate] = []
    for _, number, k in effort.first("repair_promising", sorted(gains)):
        found += _followed(start, some[k][1], some[k][2], number)
    return found


def _whole(start: _Start, candidate: _Candidate) -> bool:
    """True if a change repairs all wrong outputs that depend on where it is made."""
    below = start.matches.replay.below(candidate.edit.places)
    places = {name: start.matches.replay.output_places(name) for name in start.failing}
    return all(name in candidate.repaired for name, some in places.items() if not below.isdisjoint(some))


def _followed(start: _Start, edit: Edit, c: Class, number: int) -> list[_Candidate]:
    """The change as a candidate, if outputs become right by it."""
    repaired = _repaired(start, edit)
    return [_Candidate(edit, c, number, repaired, _cost(start, edit, c, number, repaired))] if repaired else []


def _hoisted(start: _Start, best: _Candidate, budget: Budget) -> _Candidate:
    """The same change where it can be made first: where a part of a tensor stands in place of another, what is read
    there may be another already."""
    matches = start.matches
    while _moves(matches, best.edit) and not budget.spent(matches.effort, matches):
        place = best.edit.places[0]
        above = reads(matches, place)
        if best.edit.kind == "operand":
            ref = list(references(matches.node(place)))[best.edit.position]
            above = [one for one in above if one[1] == ref]
        classes = [matches.class_of[one] for one in above if one in matches.class_of]
        found = [
            one
            for c in dict.fromkeys(classes)
            for edit in edits_of(matches, c, ("value",))
            if _moves(matches, edit)
            for one in _followed(start, edit, c, matches.classes.index(c))
            if set(one.repaired) >= set(best.repaired)
        ]
        if not found:
            return best
        best = min(found, key=lambda one: one.cost)
    return best


def _moves(matches: ValueMatches, edit: Edit) -> bool:
    """True if a change gives places parts of tensors in place of others."""
    return edit.kind == "operand" or (
        edit.kind == "value" and all(matches.aligned(place) is not None for place in edit.places)
    )


def _gain(start: _Start, edit: Edit) -> int:
    """The number of tensors of the specification that the implementation lacked and has below a change, less the number
    of places that correspond to something only without the change."""
    matches = start.matches
    near = matches.replay.nearby(edit.changes, _NEAR)
    if near is None:
        return 1  # unknown: the outputs will tell
    gained: set[str] = set()
    lost = 0
    for place, tensor in near.items():
        value = np.asarray(tensor.value)
        if place in start.ends:
            gained.add("")  # the outputs will tell
        if place in edit.changes or value.dtype.kind != "f" or value.size < 2 or not value.any():
            continue
        part = matches.is_part(value)
        if part is not None and part[0] not in matches.matched:
            gained.add(part[0])
        elif part is None and (part := _summand(matches, near, place)) is not None and part[0] not in matches.summed:
            gained.update({part[0]} - matches.matched)
        elif part is None and matches.aligned(place) is not None:
            lost += 1
    return len(gained) - lost


def _summand(matches: ValueMatches, near: Mapping[Place, Tensor], place: Place) -> Part | None:
    """The part of a specification tensor that the values of a node on several ranks add up to."""
    c = matches.class_of.get(place)
    if c is None or matches.job.mesh.world_size == 1:
        return None
    for _, groups in matches.groups(c):
        members = next((group for group in groups if place in group), None)
        if members is None or place != members[0]:
            continue
        values = [np.asarray(near[one].value) if one in near else matches.value(one) for one in members]
        if summable(values):
            with np.errstate(invalid="ignore"):  # an infinity of a mask on one rank, another one on the next
                total = np.sum(np.stack(values), axis=0)
            part = matches.is_part(total)
            if part is not None:
                return part
    return None


def _repaired(start: _Start, edit: Edit) -> tuple[str, ...]:
    """The outputs that become right, if none becomes wrong."""
    replay = start.matches.replay
    try:
        after = replay.wrong(start.failing, edit.changes)
        repaired = tuple(name for name in start.failing if not after[name])
        right = [name for name, count in start.wrong.items() if not count]
        return () if not repaired or any(replay.wrong(right, edit.changes).values()) else repaired
    except TantamountError:
        return ()


def _again(plan: Plan, names: Sequence[str], candidate: _Candidate, seed: int) -> bool:
    """True if the same change repairs the same outputs on another input, or nothing is wrong there."""
    start = _start(plan, names, (seed,))
    if start is None:
        return True  # the two sides agree there
    rest = set(names) - set(start.failing)
    if candidate.edit.kind == "value":
        again = _same(start.matches, candidate.edit)
        return again is not None and not set(candidate.repaired) - set(_repaired(start, again)) - rest
    c = next((c for c in start.matches.classes if c.places == candidate.c.places), None)
    if c is None:
        return False
    kind = "reduce" if candidate.edit.kind in _REDUCTIONS else candidate.edit.kind
    for edit in edits_of(start.matches, c, (kind,)):
        if edit.signature == candidate.edit.signature:
            return not set(candidate.repaired) - set(_repaired(start, edit)) - rest
    return False


def _same(matches: ValueMatches, edit: Edit) -> Edit | None:
    """The same parts in the same places, on another input."""
    changes: dict[Place, Array] = {}
    for place in edit.places:
        value = matches.part(edit.wanted[place], matches.value(place).shape)
        if value is None:
            return None
        changes[place] = value
    return replace(edit, changes=changes)


def _cost(start: _Start, edit: Edit, c: Class, number: int, repaired: tuple[str, ...]) -> tuple[int, ...]:
    """The least is said first: a change that repairs everything, says why, and is as early as possible."""
    left = len(start.failing) - len(repaired)
    return (left, _weight(start.matches, edit, c), number, -len(edit.places))


def _weight(matches: ValueMatches, edit: Edit, c: Class) -> int:
    if edit.kind == "literal":
        return 1 if edit.number in matches.literals(matches.node(c.first).target, edit.slot) else 3
    if edit.kind in ("bypass", "scale"):
        return 1 if edit.kind == "bypass" else 3
    if edit.kind in _REDUCTIONS:
        return 6 if _summed(matches, c) else 1
    if edit.kind == "operand":
        return 4
    places = [place for place in edit.places if matches.aligned(place) is not None]
    if len(places) < len(edit.places):
        return 5 if all(_rearranged(matches, edit, place) for place in edit.places) else 4
    return 2


def _rearranged(matches: ValueMatches, edit: Edit, place: Place) -> bool:
    """True if a value has some rows of the tensor, others than are wanted: such a change moves what came out right."""
    if matches.chooses(place):
        return False
    whole = matches.replay.wanted(edit.wanted[place][0]) if place in edit.wanted else None
    value = matches.value(place)
    if whole is None or value.ndim == 0 or whole.ndim != value.ndim or whole.shape[1:] != value.shape[1:]:
        return False
    rows = rows_of(whole, value)
    return rows is not None and len(set(rows)) < len(whole)


def _summed(matches: ValueMatches, c: Class) -> bool:
    """True if the class's members are added up later on, wherever they are used: then no sum is missing there."""
    pending, seen = list(c.places), set(c.places)
    added = False
    while pending:
        for reader in matches.replay.readers.get(pending.pop(), ()):
            if reader in seen or reader not in matches.cone:
                continue
            seen.add(reader)
            if reader not in matches.class_of or _still_summands(matches, reader):
                pending.append(reader)
            elif not matches.facts(reader).sums or not _known(matches, reader):
                return False
            else:
                added = True
    return added


def _known(matches: ValueMatches, place: Place) -> bool:
    """True if a value is a part of a tensor, or a multiple of one."""
    return any(True for _ in matches.multiples(matches.value(place)))


def _still_summands(matches: ValueMatches, place: Place) -> bool:
    """True if a place is one of several summands of something, and no part of a tensor."""
    return matches.aligned(place) is None and matches.summands(matches.class_of[place]) is not None
