"""The place alone, where no change repairs anything: the first value that does not correspond.

Nothing is tried here. Of the values that do not correspond those come first that no right output is computed from: what
right outputs read is probably right. Right programs move elements in other ways than their specifications, so that
operators that compute come before those that only move, but for movements that the specification misses.
"""

from __future__ import annotations

from dataclasses import dataclass

from tantamount.diagnosis.hints import NO_HINT
from tantamount.diagnosis.locate import Location, reads, whole_reads
from tantamount.diagnosis.naming import Account, listed, named
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches

__all__ = ["Parted", "unrepaired"]


@dataclass(frozen=True)
class Parted:
    """The values of both programs, and where they part above the first wrong output. ``suspects``: of the classes that
    do not correspond, those that no right output depends on."""

    matches: ValueMatches
    location: Location
    suspects: tuple[int, ...]

    def begins_at(self, place: Place) -> bool:
        """True if a place is where the two sides part: everything that it reads corresponds, or it is read there."""
        c = self.matches.class_of.get(place)
        return c is not None and self.matches.classes.index(c) in self.first

    @property
    def first(self) -> set[int]:
        """The classes at which the two sides may part: of the frontier, those that no right output is computed from,
        if there are any."""
        frontier = set(self.location.frontier)
        return frontier & set(self.suspects) or set(self.suspects[:1]) or frontier


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
    head = f"{_at(matches, place)} is the first value that is none of the specification's{made}"
    if theirs:
        node = named(matches.job.specification, theirs)
        at = f" ({node.source})" if node.source is not None and node.source.file else ""
        head += f"; the specification's {theirs}{at} is never made"
    return Account("different", head, "", NO_HINT, place, theirs, sure=False)


def _at(matches: ValueMatches, place: Place) -> str:
    node = named(matches.graph(place), place[1])
    return f"{place[1]} ({node.source})" if node.source is not None and node.source.file else place[1]


def _said(matches: ValueMatches, place: Place) -> str:
    part = matches.aligned(place)
    return place[1] if part is None or part[0] == place[1] else f"{place[1]} (the specification's {part[0]})"


def _first(parted: Parted) -> Place | None:
    """The first place of those that are the most likely."""
    matches, graph = parted.matches, parted.matches.job.specification
    targets = {graph.by_name[name].target for name in parted.location.missing}
    best: tuple[bool, int] | None = None
    for number in parted.first:
        c = matches.classes[number]
        if matches.node(c.first).op != "call" or matches.value(c.first).dtype.kind != "f":
            continue
        moves = matches.facts(c.first).layout and c.target not in targets
        best = (moves, number) if best is None else min(best, (moves, number))
    return None if best is None else matches.classes[best[1]].first


def of_nothing(matches: ValueMatches, location: Location) -> Place | None:
    """What no input decides, though what it is made of was drawn, or never written, and the specification has no such
    tensor: the first that something reads where the two sides part."""
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
                if matches.replay.affects({one: matches.value(one) + 1.0}, matches.output):
                    return one
    return None


def _sources(matches: ValueMatches, place: Place) -> list[str]:
    above = matches.replay.above([place])
    return [name for rank, name in matches.replay.order if (rank, name) in above and matches.facts((rank, name)).random]


def _counterpart(matches: ValueMatches, location: Location, place: Place) -> str:
    """The specification's tensor that is missing and most like a value: of the same operator, made of the same."""
    graph = matches.job.specification
    mine = {part[0] for one in reads(matches, place) if (part := matches.aligned(one)) is not None}
    target = matches.target(place)

    def unlike(name: str) -> tuple[int, bool]:
        node = graph.by_name[name]
        return -len(mine & set(whole_reads(graph, node))), node.target != target

    near = [name for name in location.missing if unlike(name) < (0, False) or graph.by_name[name].target == target]
    return min(near, key=unlike, default="")
