"""The smallest change that repairs the implementation, found by executing both programs.

A bug is where a small change makes everything right: leaving out one operator, another number, another shard, one more
all-reduce, another tensor of the specification in one place. Changes are tried on values: the programs run once, then
whatever depends on a change runs again. What repairs one input is tried on others. Nothing is proved by this: it says
where to look, and which change would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

import numpy as np

from tantamount.correspond.values import close
from tantamount.diagnosis.budget import Budget, budget_of
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, EditKind, replacements
from tantamount.diagnosis.kinds import GOOD, again, edits_of, moves, weight
from tantamount.diagnosis.locate import reads
from tantamount.diagnosis.nearby import Gain, gains
from tantamount.diagnosis.outcomes import all_right, is_gone, repaired_by
from tantamount.diagnosis.parted import Parted
from tantamount.diagnosis.passes import REDUCTIONS, VALUE, Pass, everywhere, first_passes
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.start import Start, start_on
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.execution.plans import Plan, Scale
from tantamount.ir.graph import references
from tantamount.semantics.reference import Array

__all__ = ["Repair", "find_repairs"]

T = TypeVar("T")
_TOGETHER = 16  # changes that are computed as one
_FIRST_SEED = 11
_SCALES = (
    Scale(),
    Scale(0.1),
    Scale(10.0),
    Scale(),
)  # one seed after the other: what an epsilon does, small numbers show
_RIGHT = 4  # outputs that seem right and are looked at before more wrong ones
_CONFIRMATIONS = 1  # more inputs that a change must repair


@dataclass(frozen=True)
class Repair:
    """``edit`` of the class ``c`` makes ``repaired`` outputs right; none, but what follows, if there is more to repair.
    ``matches`` has the values."""

    edit: Edit
    c: Class
    repaired: tuple[str, ...]
    matches: ValueMatches
    right: bool = False  # nothing is wrong any more: of all outputs, on every input that was tried
    first: bool = False  # though it repairs no output alone it says more than one that does
    proved: bool = False  # with its hint: then no other input was tried

    @property
    def of_input(self) -> bool:
        """True if it is an input that should be another part of its tensor."""
        return self.edit.replaces and self.matches.node(self.edit.places[0]).op == "input"


def find_repairs(
    plan: Plan, outputs: Sequence[str], seconds: float = 0.0, proves: Callable[[Repair], bool] = lambda _: False
) -> Iterator[Repair | Parted]:
    """The change that repairs the first of the failing ``outputs``, and more of them if it can; then one that makes
    most of what follows right; then the place alone. ``seconds`` of CPU time may be taken beyond the bound
    ``repair_seconds``. ``proves``: of a change by which all is right, whether the job is proved with its hint, which
    says more than another input."""
    effort = plan.store.effort
    every = list(dict.fromkeys((*outputs, *(o.name for o in plan.job.specification.outputs))))
    right = [name for name in every if name not in outputs][:_RIGHT]  # they say where the mistake is not
    most = max(effort.bounds.repair_outputs - len(right), 1)
    names = effort.first("repair_outputs", [*outputs[:most], *right, *(x for x in every if x not in outputs[:most])])
    names = [name for name in dict.fromkeys(names) if _checkable(plan, name)]
    seeds = range(_FIRST_SEED, _FIRST_SEED + effort.bounds.repair_inputs)
    budget = budget_of(plan, seconds)
    checkable = [name for name in every if _checkable(plan, name)]
    start = start_on(plan, names, [(seed, _SCALES[k % len(_SCALES)]) for k, seed in enumerate(seeds)], checkable)
    if start is None:
        effort.hit("repair_inputs")
        return

    @cache
    def second(seed: int) -> Start | None:
        return start_on(plan, names, ((seed, start.scale),))

    looked = _Looked(start, budget, lambda one: bool(_again(second(seeds[-1]), one)))
    found = looked.through(first_passes(start), sure=False)
    nearest = None if found else _nearest(start, budget)
    rest = [name for name in every if name not in names and _checkable(plan, name)]
    told = _told(start, found, budget)
    if not _enough(start, found):
        best = next((one for one in told[:1] if one.near and one.edit.kind is EditKind.VALUE), None)
        if best is not None and best.number in _first(start) and _proved(start, best, rest, proves):
            # what is wrong where values stop corresponding, and proved with a hint, needs nothing that says more
            yield replace(_repair(start, best, rest), proved=True)
            return
        told = _told(start, looked.through(everywhere(start)), budget)
    before = nearest is not None and bool(told) and _says_less(start, told[0], nearest)
    if nearest is not None and before:
        yield replace(nearest, first=True)
    for candidate in effort.first("repair_outputs", told):
        if _proved(start, candidate, rest, proves):
            yield replace(_repair(start, candidate, rest), proved=True)
            break
        repeated = [_again(second(seed), candidate) for seed in seeds[-_CONFIRMATIONS:]]
        if None not in repeated:
            repair = _repair(start, candidate, rest)
            yield replace(repair, right=repair.right and all(repeated))
            break
    if nearest is not None and not before:
        yield nearest
    yield Parted(start.matches, start.parting, start.suspects)


def _told(start: Start, found: Sequence[_Candidate], budget: Budget) -> list[_Candidate]:
    """The candidates in the order in which they are told, each where it repairs most and can be made first."""
    told = [_widened(start, one) for one in _placed(start, found)]  # at all runs of a line it may repair the most
    told = sorted(told, key=lambda one: one.cost)
    if told:
        told[0] = _widened(start, _hoisted(start, told[0], budget))
    return told


def _repair(start: Start, candidate: _Candidate, rest: Sequence[str]) -> Repair:
    """The candidate as a repair; of the ``rest`` of the outputs is known whether they are right by it."""
    right = all_right(start, candidate.edit, rest, candidate.repaired)
    return Repair(candidate.edit, candidate.c, candidate.repaired, start.matches, right)


def _proved(start: Start, candidate: _Candidate, rest: Sequence[str], proves: Callable[[Repair], bool]) -> bool:
    """True if all is right by a change, and the job is proved with its hint."""
    repair = _repair(start, candidate, rest)
    return repair.right and proves(repair)


def _nearest(start: Start, budget: Budget) -> Repair | None:
    """The change where values first stop corresponding that makes most of what follows right, though no output is:
    the same mistake may have been made in every layer."""
    matches, location = start.matches, start.location
    first = list(dict.fromkeys((*location.frontier, *location.boundary, *sorted(location.apart))))
    best: tuple[int, int, Edit, Class] | None = None
    for number in matches.effort.first("repair_promising", first):
        c = matches.classes[number]
        floats = matches.value(c.first).dtype.kind == "f"  # masks and indices differ between right programs as well
        for edit in edits_of(matches, c, _TOLD_ALONE) if floats else ():
            if budget.spent(matches.effort, matches):
                break
            if number in location.boundary and not moves(matches, edit):
                continue  # what corresponds is wrong as another part only
            (gain,) = gains(matches, start.ends, [edit])
            if gain.more > 1 and (best is None or gain.more > best[0]):
                best = (gain.more, number, edit, c)
    return None if best is None else Repair(best[2], best[3], (), matches)


def _says_less(start: Start, candidate: _Candidate, nearest: Repair) -> bool:
    """True of a change that puts what is wanted in place of what there is, though other outputs stay wrong: of several
    mistakes that says less than another function above it by which most becomes right; and the result of a twin of the
    operator less than whatever above it does that."""
    above = start.matches.replay.above(candidate.edit.places)
    telling = EditKind.FUNCTION is nearest.edit.kind or candidate.edit.kind is EditKind.LIKE
    lesser = telling and not above.isdisjoint(nearest.edit.places)
    return lesser and candidate.edit.replaces and candidate.cost[0] > 0


def _checkable(plan: Plan, name: str) -> bool:
    expectation = plan.job.outputs.get(name)  # a job need not say anything of an output
    return expectation is not None and (expectation.placements is not None or expectation.expression is not None)


@dataclass(frozen=True)
class _Candidate:
    edit: Edit
    c: Class
    number: int
    repaired: tuple[str, ...]
    cost: tuple[int, ...]
    near: bool = True  # something nearby becomes right, not only outputs far below


_TOLD_ALONE = (*REDUCTIONS, EditKind.REDUCTION, EditKind.BYPASS, EditKind.VALUE, EditKind.FUNCTION)
_FOLLOWED = (EditKind.EXCHANGE, EditKind.REDUCTION, EditKind.TOTAL)  # few, that may gain nothing nearby
_SMALL = 120  # nodes of all ranks: below changes of so small a program everything is computed again at once


def _around(start: Start, best: _Candidate) -> frozenset[Place]:
    """The places around a change that repairs everything: the mistake is there, or near, and what says more of it is
    another change of the same lines."""
    replay, reach = start.matches.replay, start.matches.effort.bounds.repair_reach
    around = set(best.edit.places)
    for edges in (replay.operands, replay.readers):
        edge = set(best.edit.places)
        for _ in range(reach):
            edge = {other for one in edge for other in edges.get(one, ())}
            around |= edge
    apart, pending = set[Place](), list(best.edit.places)
    while pending:  # what corresponds to nothing above it may be the cause, however far
        place = pending.pop()
        if place not in apart:
            apart.add(place)
            pending += [one for one in replay.operands.get(place, ()) if start.matches.aligned(one) is None]
    return frozenset(around | apart)


@dataclass
class _Looked:
    """The changes that were found to repair something, and all that were ``tried``. ``repairs``: of a change, whether
    it repairs everything on another input, too."""

    start: Start
    budget: Budget
    repairs: Callable[[_Candidate], bool]
    found: list[_Candidate] = field(default_factory=list[_Candidate])
    tried: set[object] = field(default_factory=set[object])
    around: dict[object, frozenset[Place] | None] = field(default_factory=dict[object, "frozenset[Place] | None"])

    def through(self, passes: Iterator[Pass], sure: bool = True) -> list[_Candidate]:
        """All that is found so far and in these passes, until that is enough or the budget is spent. Once a change
        repairs everything that is wrong (``sure``: on another input, too), only what is around it is looked at."""
        start, effort, found = self.start, self.start.matches.effort, self.found
        small = len(start.matches.replay.order) <= _SMALL
        for classes, kinds in passes:
            near = self._near(sure)
            here = [c for c in classes if near is None or not near.isdisjoint(c.places)]
            if len(here) < len(classes):
                effort.hit("repair_reach")
            changes = [*self._changes(here, kinds)]
            if small:
                found += _followed_all(start, changes, self.budget)
                changes = []
            lands = [_lands(start.matches, edit) for _, edit, _ in changes]
            for first in (True, False):  # what makes a missing tensor right there says most
                some = [one for one, landing in zip(changes, lands, strict=True) if landing is first]
                found += _promising(start, some, self.budget)
                if _enough(start, found) or self.budget.spent(effort, start.matches):
                    return found
        return found

    def _changes(self, classes: Sequence[Class], kinds: tuple[EditKind, ...]) -> Iterator[tuple[int, Edit, Class]]:
        """The changes of some kinds that were not tried yet, with the numbers of their classes."""
        matches, effort = self.start.matches, self.start.matches.effort
        best = min(self.found, key=lambda one: one.cost, default=None)
        for c in classes:
            number = self.start.number[c.first]
            if kinds == VALUE and best is not None and number >= best.number:
                break  # something later would not say more
            for edit in edits_of(matches, c, kinds):
                key = tuple(sorted((place, value.tobytes()) for place, value in edit.changes.items()))
                if key in self.tried:
                    continue
                self.tried.add(key)
                yield number, edit, c
                effort.check()
                if self.budget.spent(effort, matches):
                    break

    def _near(self, sure: bool) -> frozenset[Place] | None:
        """The places around the best change that repairs everything that is wrong, and something nearby; ``None``
        where none does: then the mistake may be anywhere."""
        some = (one for one in self.found if one.near and _all(self.start, one))
        best = min(some, key=lambda one: one.cost, default=None)
        if best is None:
            return None
        key = (id(best), sure)
        if key not in self.around:
            self.around[key] = _around(self.start, best) if not sure or self.repairs(best) else None
        return self.around[key]


def _enough(start: Start, found: Sequence[_Candidate]) -> bool:
    """True if some change repairs all that it can, and says why."""
    return any(one.cost[1] <= GOOD and _whole(start, one) for one in found)


def _lands(matches: ValueMatches, edit: Edit) -> bool:
    """True if a change makes a tensor of the specification that the implementation lacks."""
    values = [(place, value) for place, value in edit.changes.items() if value.size > 1]
    parts = (edit.wanted.get(place) if edit.replaces else matches.is_part(value) for place, value in values)
    return any(part is not None and part[0] not in matches.matched for part in parts)


def _promising(start: Start, some: Sequence[tuple[int, Edit, Class]], budget: Budget) -> list[_Candidate]:
    """The candidates among changes: those that help most nearby are followed to the outputs."""
    effort = start.matches.effort
    first = _first(start)
    # of an output that is a multiple of what it should be, what is near a wrong number may seem right by chance
    numbers = {one for one in start.location.scalings if start.matches.ratios}
    helping: list[tuple[int, int, int]] = []
    joined: list[tuple[int, int, int]] = []  # parts of a buffer in other orders: each is a tensor, in a wrong place
    found: list[_Candidate] = []
    at_ends = [not edit.replaces and start.ends.issuperset(edit.places) for _, edit, _ in some]
    # where nothing lies between the outputs say it at once
    found += _followed_all(start, [one for one, at_end in zip(some, at_ends, strict=True) if at_end], budget)
    known: dict[int, Gain] = {}
    for numbers_ in _few([k for k, at_end in enumerate(at_ends) if not at_end]):
        if budget.spent(effort, start.matches):
            break
        known |= zip(numbers_, gains(start.matches, start.ends, [some[k][1] for k in numbers_]), strict=True)
    for k, (more, _) in known.items():
        number, edit, _ = some[k]
        odd = edit.kind is EditKind.LITERAL and start.matches.other_number(edit.places[0])
        epsilon = odd and more == 0 and not start.matches.facts(edit.places[0]).combination  # it hardly shows nearby
        if epsilon or (odd and more < 0 and number in numbers):
            more, first = 0, first | {number}
        if more > 0 or (more == 0 and number in first):  # what helps may be further below
            helping.append((-more, number, k))
        elif edit.kind in _FOLLOWED:
            joined.append((0, number, k))  # as are messages; and the steps of a softmax by hand are no tensors
        elif edit.kind is EditKind.ORDER and "concat" in start.matches.facts(edit.places[0]).moves:
            moved = sum(at != j for at, j in enumerate(edit.order))
            joined.append((moved if edit.order != tuple(range(len(edit.order)))[::-1] else 0, number, k))
    for here in ([one for one in sorted(helping) if one[0]], [one for one in helping if not one[0]], sorted(joined)):
        most = effort.first("repair_promising", here)
        near = bool(most) and most[0][0] < 0  # all of them, or none
        tried = [some[k] for _, _, k in most]
        tried += _right_at_once(start, [some[k] for _, _, k in here[len(most) :] if known[k].reached], budget)
        found += [replace(one, near=near) for one in _followed_all(start, tried, budget)]
    return found


def _right_at_once(
    start: Start, some: Sequence[tuple[int, Edit, Class]], budget: Budget
) -> list[tuple[int, Edit, Class]]:
    """Those of some changes just above the first wrong output by which it becomes right."""
    found: list[tuple[int, Edit, Class]] = []
    output = start.matches.output
    for few in _few(some):
        if budget.spent(start.matches.effort, start.matches):
            break
        after = start.matches.replay.wrong_of_all([output], [edit.changes for _, edit, _ in few])
        found += [one for one, left in zip(few, after, strict=True) if left is not None and not left[output]]
    return found


def _first(start: Start) -> set[int]:
    """The classes where values stop corresponding."""
    return {*start.location.frontier, *(start.number[c.first] for c in start.suspects)}


def _placed(start: Start, found: Sequence[_Candidate]) -> list[_Candidate]:
    """The candidates without those that make a factor good far above the place where the same factor makes something
    nearby right, by a number that is there, or as many outputs: outputs become right wherever on its way a factor is
    made good, so that they do not say where."""
    replay = start.matches.replay
    factors = [_factor(start.matches, one.edit) for one in found]
    told = [(factor, one) for one, factor in zip(found, factors, strict=True) if one.near and factor is not None]

    def is_below(one: _Candidate, factor: float | None) -> bool:
        below = replay.below(one.edit.places)
        return any(
            factor == same
            and not below.isdisjoint(other.edit.places)
            and (other.edit.kind is EditKind.LITERAL or set(other.repaired) >= set(one.repaired))
            for same, other in told
        )

    return [one for one, factor in zip(found, factors, strict=True) if one.near or not is_below(one, factor)]


def _factor(matches: ValueMatches, edit: Edit) -> float | None:
    """The number that a change multiplies its first value by; ``None`` if it is no such change."""
    if edit.kind not in (EditKind.SCALE, EditKind.LITERAL):
        return None
    before = matches.value(edit.places[0])
    after = edit.changes[edit.places[0]]
    if before.shape != after.shape or before.dtype.kind != "f" or not before.any():
        return None
    at = np.unravel_index(np.argmax(np.abs(before)), before.shape)
    factor = float(after[at] / before[at])
    return round(factor, 6) if close(np.asarray(before * factor), np.asarray(after)) else None


def _whole(start: Start, candidate: _Candidate) -> bool:
    """True if a change repairs all wrong outputs that depend on where it is made."""
    below = start.matches.replay.below(candidate.edit.places)
    places = {name: start.matches.replay.output_places(name) for name in start.failing}
    return all(name in candidate.repaired for name, some in places.items() if not below.isdisjoint(some))


def _few(some: Sequence[T]) -> Iterator[Sequence[T]]:
    """Some of several at a time, as many as are computed as one."""
    for begin in range(0, len(some), _TOGETHER):
        yield some[begin : begin + _TOGETHER]


def _followed_all(start: Start, some: Sequence[tuple[int, Edit, Class]], budget: Budget) -> list[_Candidate]:
    """The changes as candidates by which outputs become right, those that do."""
    replay, found = start.matches.replay, list[_Candidate]()
    right = [name for name, count in start.wrong.items() if not count]
    for few in _few(some):
        if budget.spent(start.matches.effort, start.matches):
            break
        after = replay.wrong_of_all(start.failing, [edit.changes for _, edit, _ in few])
        mended = [
            (one, tuple(name for name in start.failing if not left[name]))
            for one, left in zip(few, after, strict=True)
            if left is not None and not all(left[name] for name in start.failing)
        ]
        others = replay.wrong_of_all(right, [edit.changes for (_, edit, _), _ in mended])
        for ((number, edit, c), repaired), left in zip(mended, others, strict=True):
            if left is not None and not any(left.values()):
                found.append(_Candidate(edit, c, number, repaired, _cost(start, edit, c, number, repaired)))
    return found


def _followed(start: Start, edit: Edit, c: Class, number: int) -> list[_Candidate]:
    """The change as a candidate, if outputs become right by it."""
    repaired = repaired_by(start, edit)
    return [_Candidate(edit, c, number, repaired, _cost(start, edit, c, number, repaired))] if repaired else []


def _hoisted(start: Start, best: _Candidate, budget: Budget) -> _Candidate:
    """The same change where it can be made first: where a part of a tensor stands in place of another, what is read
    there may be another already, be it through several operands."""
    matches = start.matches
    while moves(matches, best.edit) and not budget.spent(matches.effort, matches):
        first = _earliest(start, best, budget) or _one_above(start, best)
        if first is None:
            return best
        best = first
    return best


def _widened(start: Start, best: _Candidate) -> _Candidate:
    """The same change wherever the same line of the program ran, if that repairs more: a hook, say, of every
    parameter."""
    matches, place = start.matches, best.edit.places[0]
    source = matches.node(place).source
    aligned = (EditKind.PEER, EditKind.OPERAND, EditKind.VALUE, EditKind.LIKE)  # they say which tensor it should be
    if source is None or not source.file or _all(start, best) or best.edit.kind in aligned:
        return best
    line = (source.file, source.line)

    def same(one: Place) -> bool:
        node = matches.node(one)
        there = node.source is not None and (node.source.file, node.source.line) == line
        return there and node.op == "call" and matches.target(one) == best.c.target

    c = Class(best.c.target, tuple(one for one in matches.replay.order if same(one)))
    if len(c.places) == len(best.c.places):
        return best
    how = replace(best.edit, places=c.places, wanted={})
    for edit in edits_of(matches, c, (best.edit.kind,)):
        if replace(edit, places=c.places, wanted={}).signature == how.signature:
            for one in _followed(start, edit, c, best.number):
                if set(one.repaired) > set(best.repaired):
                    return one
    return best


def _all(start: Start, candidate: _Candidate) -> bool:
    """True if a change repairs all that is wrong."""
    return set(candidate.repaired) >= set(start.failing)


def _earliest(start: Start, best: _Candidate, budget: Budget) -> _Candidate | None:
    """The first change above that makes a missing tensor of the specification, above which nothing is missing, and by
    which the changed values become what they should be."""
    matches = start.matches
    end = {part[0] for part in best.edit.wanted.values()}
    missing = [name for name in start.location.missing if any(matches.follows(one, name) for one in end)]
    targets = {matches.job.specification.by_name[name].target for name in missing}
    above = matches.replay.above(best.edit.places)
    for number, c in enumerate(matches.classes[: best.number]):
        here = [place for place in c.places if place in above]
        if c.target not in targets or not here or not all(map(matches.aligned, here)):
            continue
        for edit in replacements(matches, Class(c.target, tuple(here)), set(missing)):
            if budget.spent(matches.effort, matches):
                return None
            if matches.replay.gives(edit.changes, best.edit.changes):
                for one in _followed(start, edit, c, number):
                    if set(one.repaired) >= set(best.repaired):
                        return one
    return None


def _one_above(start: Start, best: _Candidate) -> _Candidate | None:
    """The best change of what is read where a change is made that repairs as much."""
    matches = start.matches
    place = best.edit.places[0]
    above = reads(matches, place)
    if matches.facts(place).view and matches.node(place).op == "call":
        return _of_the_operand(start, best, 0)
    if best.edit.kind is EditKind.OPERAND:
        ref = list(references(matches.node(place)))[best.edit.position]
        above = [one for one in above if one[1] == ref]
    classes = [matches.class_of[one] for one in above if one in matches.class_of]
    found = [
        one
        for c in dict.fromkeys(classes)
        for edit in edits_of(matches, c, VALUE)
        if moves(matches, edit)
        for one in _followed(start, edit, c, matches.classes.index(c))
        if set(one.repaired) >= set(best.repaired)
    ]
    return min(found, key=lambda one: one.cost, default=None)


def _of_the_operand(start: Start, best: _Candidate, position: int) -> _Candidate | None:
    """The change of what a view shows, where that repairs as much as another view does."""
    matches = start.matches
    changes: dict[Place, Array] = {}
    wanted: dict[Place, Part] = {}
    for place in best.edit.places:
        sent = matches.replay.messages.sent.get(place)  # what another rank sends is what is received
        given = sent or (place[0], list(references(matches.node(place)))[position])
        part = matches.part_at(given, best.edit.wanted[place])
        if part is None or matches.node(given).op != "call" or given not in matches.class_of:
            return None
        changes[given], wanted[given] = part, best.edit.wanted[place]
    c = matches.class_of[next(iter(changes))]
    edit = Edit(EditKind.VALUE, tuple(changes), changes, wanted)
    found = _followed(start, edit, c, matches.classes.index(c))
    return next((one for one in found if set(one.repaired) >= set(best.repaired)), None)


def _again(second: Start | None, candidate: _Candidate) -> bool | None:
    """``None`` if the same change does not repair the same outputs on a ``second`` input; else True if nothing is wrong
    there any more."""
    if second is None:
        return True  # the two sides agree there
    edit = again(second.matches, candidate.edit, candidate.c)
    repaired = () if edit is None else repaired_by(second, edit)
    rest = {name for name, count in second.wrong.items() if not count}
    if edit is not None and set(candidate.repaired) - set(repaired) - rest:
        repaired = tuple(name for name in second.failing if name in repaired or is_gone(second, edit, name))
    return None if set(candidate.repaired) - set(repaired) - rest else not set(second.failing) - set(repaired)


def _cost(start: Start, edit: Edit, c: Class, number: int, repaired: tuple[str, ...]) -> tuple[int, ...]:
    """The least is said first: a change that repairs everything, says why, and is as early as possible."""
    left = len(start.failing) - len(repaired)
    return (left, weight(start.matches, edit, c), number, -len(edit.places))
