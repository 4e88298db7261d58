"""The place alone, where no change repairs anything: the first value that does not correspond.

Nothing is tried here. Of the values that do not correspond those come first that no right output is computed from: what
right outputs read is probably right. Right programs move elements in other ways than their specifications, so that
operators that compute come before those that only move, but for movements that the specification misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.hints import NO_HINT
from tantamount.diagnosis.locate import Location, corresponds, reads, whole_reads
from tantamount.diagnosis.naming import Account, listed, named
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part, ValueMatches

__all__ = ["Parted", "first_value", "unrepaired"]

_NAMED = 6  # values that may be wrong as well


@dataclass(frozen=True)
class Parted:
    """The values of both programs, and where they part above the first wrong output. ``suspects``: what no right output
    is computed from, each a node on all ranks; first what does not correspond."""

    matches: ValueMatches
    location: Location
    suspects: tuple[Class, ...]

    @cached_property
    def suspected(self) -> tuple[int, ...]:
        """The classes of the suspects that do not correspond, by number."""
        number = {place: k for k, c in enumerate(self.matches.classes) for place in c.places}
        found = dict.fromkeys(number[c.first] for c in self.suspects)
        return tuple(k for k in found if k in set(self.location.apart))

    def may_be(self, name: str) -> bool:
        """True if something may be missing at the node ``name`` of some rank: it does not correspond, or is read where
        the two sides part. Right programs compute with summands, too, where all that comes of it is right."""
        location = self.location
        here = {*location.apart, *location.boundary, *location.summands, *location.ends}
        return any(one[1] == name for number in here for one in self.matches.classes[number].places)

    def begins_at(self, name: str) -> bool:
        """True if the two sides part at the node ``name`` of some rank: everything that it reads corresponds, but for
        what only moves elements of what corresponds."""
        matches = self.matches
        number = {c: k for k, c in enumerate(matches.classes)}
        same = ((rank, name) for rank in range(len(matches.job.implementation)))
        classes = {matches.class_of[place] for place in same if place in matches.class_of}
        return any(self._reaches(number, c) for c in classes if number[c] in self.location.apart)

    def _reaches(self, number: Mapping[Class, int], c: Class) -> bool:
        """True if a class is where the two sides part, or computes, and only movements lie between; ``number`` has that
        of each class."""
        matches, first = self.matches, self.first
        doubtful = set(self.suspected or self.location.apart)  # what right outputs depend on is right
        pending, reached = [c], set[int]()
        while pending:
            one = pending.pop()
            if number[one] in reached:
                continue
            reached.add(number[one])
            if number[one] in first and (one is c or matches.facts(self.place(number[one])).layout):
                continue
            if (one is c) is matches.facts(one.first).layout:
                return False
            read = (matches.class_of[p] for p in reads(matches, one.first) if p in matches.class_of)
            pending += [a for a in read if number[a] in doubtful]
        return not first.isdisjoint(reached)

    def in_other_steps(self, place: Place, name: str) -> bool:
        """True if the implementation makes the tensor ``name`` of the specification, which is missing, in other steps,
        of which that at ``place`` is one: the specification has none like it, so that it may well be right."""
        matches, missing = self.matches, self.location.begun
        targets = {matches.job.specification.by_name[one].target for one in missing}
        read = {tensor for one in reads(matches, place) if (tensor := _tensor(matches, one)) is not None}
        made = not read or any(matches.follows(name, tensor) for tensor in read)
        return name in missing and made and matches.target(place) not in targets

    @cached_property
    def _direct(self) -> Mapping[int, Place]:
        """The first place of each class of the frontier that a wrong output is computed from through values that do not
        correspond; on one device only."""
        matches = self.matches
        number = {place: k for k, c in enumerate(matches.classes) for place in c.places}
        seen: set[Place] = set()
        pending = [place for place in matches.ends if place in number] if matches.job.mesh.world_size == 1 else []
        while pending:
            place = pending.pop()
            if place not in seen:
                seen.add(place)
                pending += [
                    one for one in reads(matches, place) if one in number and not corresponds(matches, one, True)
                ]
        found: dict[int, Place] = {}
        for place in matches.replay.order:
            if place in seen and number[place] in self.location.frontier:
                found.setdefault(number[place], place)
        return found

    def after(self, place: Place) -> list[str]:
        """The values that are computed from one, on the way to a wrong output, and do not correspond either."""
        matches = self.matches
        below = matches.replay.below([place]) - {place}
        found = (one for number in self.location.apart for one in matches.classes[number].places if one in below)
        computed = (one for one in found if not matches.facts(one).layout and matches.value(one).dtype.kind == "f")
        return list(dict.fromkeys(name for _, name in sorted(computed, key=matches.time.__getitem__)))

    def place(self, number: int) -> Place:
        """The place of a class of the frontier that is the first one: on the way to a wrong output, if it is known."""
        return self._direct.get(number) or self.location.at.get(number, self.matches.classes[number].first)

    @cached_property
    def first(self) -> set[int]:
        """The classes at which the two sides may part: of the frontier, those that no right output is computed from,
        if there are any. On one device, of those on the way to a wrong output, the first that computes, and what only
        moves elements before it: what it leads to reads steps that the specification does not have, right ones, too."""
        frontier = set(self.location.frontier)
        early: set[int] = set()
        for number, place in self._direct.items():
            early.add(number)
            if not self.matches.facts(place).layout:
                frontier = early
                break
        return frontier & set(self.suspected) or set(self.suspected[:1]) or frontier


def unrepaired(parted: Parted) -> Account | None:
    """The account of the place where two sides part that no change was found to bring together; ``None`` if nothing
    parts above the output."""
    matches, location = parted.matches, parted.location
    place = of_nothing(matches, location) or _first(parted)
    if place is None:
        return None
    read = list(dict.fromkeys(reads(matches, place)))
    if matches.says_nothing(place) and place in matches.drawn:
        source = next((name for name in _sources(matches, place)), place[1])
        users = matches.graph(place).users.get(place[1], ())
        head = f"{_at(matches, place)} is read by {listed(list(users))}, and no input decides it: it comes of {source}"
        return Account("missing", head, head, NO_HINT, place, _counterpart(matches, location, place))
    known = [_said(matches, one) for one in read if matches.aligned(one) is not None]
    theirs = _counterpart(matches, location, place)
    made = f", though what it is computed from is: {listed(known)}" if known else ""
    head = f"{first_value(matches, place)}{made}"
    if theirs:
        node = named(matches.job.specification, theirs)
        at = f" ({node.source})" if node.source is not None and node.source.file else ""
        head += f"; the specification's {theirs}{at} is never made"
    later = ""
    if theirs and parted.in_other_steps(place, theirs) and (after := parted.after(place)):
        more = f" and {len(after) - _NAMED} more" if len(after) > _NAMED else ""
        later = f"both sides go on in steps of their own, and what is wrong may come later: {', '.join(after[:_NAMED])}"
        later += f"{more}, up to {matches.end} of the specification, correspond to nothing either"
    return Account("different", head, later, NO_HINT, place, theirs, sure=False)


def first_value(matches: ValueMatches, place: Place) -> str:
    """The sentence that says that nothing corresponds to the value at a place, and that it is the first one."""
    return f"{_at(matches, place)} is the first value that is none of the specification's"


def _at(matches: ValueMatches, place: Place) -> str:
    node = named(matches.graph(place), place[1])
    return f"{place[1]} ({node.source})" if node.source is not None and node.source.file else place[1]


def _tensor(matches: ValueMatches, place: Place) -> str | None:
    """The specification's tensor that a value is a part of, or has the elements of; ``None`` if there is none."""
    part = matches.aligned(place)
    return matches.rearranged(place) if part is None else part[0]


def _said(matches: ValueMatches, place: Place) -> str:
    part = matches.aligned(place)
    return place[1] if part is None or part[0] == place[1] else f"{place[1]} (the specification's {part[0]})"


def _first(parted: Parted) -> Place | None:
    """The first place of those that are the most likely."""
    matches, graph = parted.matches, parted.matches.job.specification
    targets = {graph.by_name[name].target for name in parted.location.begun}
    best: tuple[bool, int, int] | None = None
    for number in parted.first:
        c, place = matches.classes[number], parted.place(number)
        if matches.node(place).op != "call" or matches.value(place).dtype.kind != "f":
            continue
        moved = matches.facts(place).layout
        given = moved and all(matches.node(one).op == "input" for one in reads(matches, place))
        moves = given or (moved and c.target not in targets)  # a shard laid out in another way is no part of its tensor
        here = moves, matches.time[place], number
        best = here if best is None else min(best, here)
    if best is None:
        return None
    found = matches.classes[best[-1]]
    suspects = [c.first for c in parted.suspects if matches.class_of[c.first] == found]
    return suspects[0] if suspects else parted.place(best[-1])


def of_nothing(matches: ValueMatches, location: Location) -> Place | None:
    """The first value that something reads where the two sides part, and that no input decides, though what it is made
    of was drawn, or never written, and the specification has no such tensor; ``None`` if there is none."""
    tried: set[Place] = set()
    for number in location.apart:
        for place in matches.classes[number].places:
            for one in reads(matches, place) if place in matches.cone else ():
                silent = matches.says_nothing(one) and one in matches.drawn and matches.aligned(one) is None
                if not silent or matches.value(one).dtype.kind != "f" or one in tried:
                    continue
                tried.add(one)
                if matches.effort.exceeds("repair_suspects", len(tried)):
                    return None
                if matches.replay.affected({one: matches.value(one) + 1.0}, [matches.output]):
                    return one
    return None


def _sources(matches: ValueMatches, place: Place) -> list[str]:
    above = matches.replay.above([place])
    return [name for rank, name in matches.replay.order if (rank, name) in above and matches.facts((rank, name)).random]


def _counterpart(matches: ValueMatches, location: Location, place: Place) -> str:
    """The specification's tensor that is missing and most like a value: of the same operator, made of the same."""
    graph = matches.job.specification
    mine = {part[0] for one in reads(matches, place) for part in matches.parts_at(one)}
    target, moves = matches.target(place), matches.facts(place).layout

    def unlike(name: str) -> tuple[int, bool, bool]:
        node = graph.by_name[name]
        shared = mine & set(whole_reads(graph, node))
        return -len(shared), node.target != target, matches.whole_facts(name).layout != moves

    same = ((rank, place[1]) for rank in range(len(matches.job.implementation)))
    sibling = next((part[0] for one in same if (part := _made(matches, one)) is not None), "")  # other ranks do well
    near = [name for name in location.missing if unlike(name)[0] or graph.by_name[name].target == target]
    return min(near, key=unlike, default=sibling)


def _made(matches: ValueMatches, place: Place) -> Part | None:
    """The part of a specification tensor that a node has, if it has it and a value."""
    return matches.aligned(place) if place in matches.class_of else None
