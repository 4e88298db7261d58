"""The place first: where values stop corresponding, in the order of the data flow, forward and backward.

A value *corresponds* if it is a part of a tensor of the specification, if it and its siblings are summands of one, or
if it says nothing (zeros, what is made of no input). Walking up from a wrong output through values that do not
correspond gives the *apart*; right programs have such values, too, but what comes of them corresponds again, so that
the walk does not get there. The operators of the apart that read nothing but what corresponds are the *frontier*: the
first differences. Where the operator to blame reads or makes something that corresponds to the wrong tensor, the
frontier is below it: then the *boundary*, what the frontier reads, is looked at, and above it what only moves elements
or is made by the operator of a specification tensor that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cache

from tantamount.diagnosis.classes import Origin
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.ir.graph import Graph, Node, references

NO_FACTORS: Mapping[float, Origin] = {}

__all__ = ["Location", "corresponds", "locate", "reads", "whole_reads"]


@dataclass(frozen=True)
class Location:
    """Classes of the implementation by their numbers in ``matches.classes``, in the order of the data flow.

    ``ends``       are wrong outputs though they are parts of tensors, and what is moved there
    ``frontier``   do not correspond, though everything that they read does; ``at`` has the first place of each that is
                   there: others of the class, in layers above, may well be right
    ``apart``      do not correspond, and reach a wrong output through such values only
    ``summands``   of which the apart reads one summand
    ``boundary``   correspond, and are read by the frontier, or are moved there
    ``beside``     correspond, and are read by the rest of the apart, or are moved there
    ``scalings``   of the apart: numbers and reductions just above an output that is a multiple of what it should be;
                   then multiples of something that nothing read there is the same multiple of; where such an output
                   is, what has a number that the specification has nowhere in that operator
    ``silent``     of boundary and beside, what no input decides, and what that is made of
    ``twins``      correspond, and are made by an operator that also makes one of ``missing``
    ``missing``    tensors of the specification that nothing corresponds to, though something does to all they are
                   made of, or to what that only moves elements of, in order
    ``begun``      of these, the ones whose very operands have something that corresponds to them
    """

    ends: tuple[int, ...]
    frontier: tuple[int, ...]
    apart: tuple[int, ...]
    summands: tuple[int, ...]
    boundary: tuple[int, ...]
    beside: tuple[int, ...]
    scalings: tuple[int, ...]
    silent: tuple[int, ...]
    twins: tuple[int, ...]
    missing: tuple[str, ...]
    begun: frozenset[str]
    at: Mapping[int, Place]


def locate(
    matches: ValueMatches,
    wrong: Iterable[Place],
    output: str,
    right: Set[Place] = frozenset(),
    factors: Mapping[float, Origin] = NO_FACTORS,
    aside: Set[Place] = frozenset(),
    any_order: bool = False,
) -> Location:
    """The location at which the two sides part, above some wrong places; ``output`` is the specification's node that
    they should be. What is known to be ``right`` corresponds, and so do multiples by one of some ``factors`` of what is
    computed from the inputs that come with it; on what is ``aside`` they do not depend. ``any_order``: what has the
    elements of a tensor in another order corresponds to it."""

    @cache
    def known_to(place: Place) -> bool:
        if place in right or corresponds(matches, place, any_order) or matches.share(place) is not None:
            return True
        return bool(factors) and _is_one_of(matches, place, _factor(matches, place), factors)

    number = {place: k for k, c in enumerate(matches.classes) for place in c.places}
    time = matches.time
    apart: dict[Place, None] = {}
    frontier: dict[int, Place] = {}
    boundary: set[int] = set()
    beside: set[int] = set()
    ends = [place for place in wrong if place in number]
    pending = list(ends)
    while pending:
        place = pending.pop()
        if place in apart or place not in number:
            continue
        apart[place] = None
        read = [one for one in reads(matches, place) if one not in aside]
        open_ = [one for one in read if not known_to(one)]
        pending.extend(open_)
        known = [one for one in read if one in number and one not in open_]
        begins = not any(matches.value(one).dtype.kind == "f" for one in open_)
        if begins:  # masks and indices differ between right programs as well
            frontier[number[place]] = min(place, frontier.get(number[place], place), key=time.__getitem__)
        for one in known:
            moved = _moved(matches, one, known_to)
            (boundary if begins else beside).update(number[m] for m in moved if m in number)
            pending.extend(m for m in moved if not known_to(m))
    summands = _summands(matches, number, boundary | beside | {number[place] for place in ends})
    silent = _silent(matches, number, boundary | beside)
    several = [end for end in ends if _factor(matches, end) is not None or _is_multiple(matches, end)]
    scalings = [place for end in several for place in _scaled(matches, end, apart)]
    scalings += sorted((place for place in apart if _scales(matches, place)), key=number.__getitem__)
    scalings += [c.first for c in matches.classes if several and matches.other_number(c.first)]
    made = _multiplied(matches, factors) if factors or matches.averaged else frozenset[str]()
    missing, begun = _missing(matches, output, made, any_order)
    targets = {matches.job.specification.by_name[name].target for name in begun}
    above = {number[place] for place in matches.replay.above(apart) if place in number}
    here = {number[place] for place in apart}
    twins = {k for k in above - here - boundary - beside if matches.classes[k].target in targets}
    first = sorted(frontier, key=lambda k: time[frontier[k]])
    moving = [k for k in first if matches.facts(frontier[k]).layout]  # right programs move elements in other ways, too
    moved_there = [one for end in ends for one in _parts_above(matches, end, known_to)]
    return Location(
        ends=tuple(sorted({number[one] for one in moved_there if one in number})),
        frontier=(*(k for k in first if k not in moving), *moving),
        apart=tuple(sorted(here)),
        summands=tuple(sorted(summands)),
        boundary=tuple(sorted(boundary - here)),
        beside=tuple(sorted(beside - boundary - here)),
        scalings=tuple(dict.fromkeys(number[place] for place in scalings)),
        silent=tuple(sorted(silent)),
        twins=tuple(sorted(twins)),
        missing=missing,
        begun=begun,
        at=frontier,
    )


Known = Callable[[Place], bool]


def corresponds(matches: ValueMatches, place: Place, any_order: bool = False) -> bool:
    """True if a value corresponds to something, in ``any_order`` of its elements or as it is, or says nothing."""
    value = matches.value(place)
    if not value.size or not value.any() or matches.says_nothing(place):
        return True
    if matches.node(place).op == "input":
        return True  # the job says what it is
    if matches.aligned(place) is not None:
        wanted = matches.elsewhere(place)  # one rank may have another tensor than all others
        return not wanted or any(name in wanted for name, _ in matches.parts_at(place))
    if any_order and matches.rearranged(place) is not None:
        return True
    c = matches.class_of.get(place)
    return c is not None and matches.summands(c) is not None


def _summands(matches: ValueMatches, number: Mapping[Place, int], among: Iterable[int]) -> set[int]:
    """The classes whose members are summands of a tensor, and no parts of one; and those of which they are made."""
    found: set[int] = set()
    pending = list(among)
    while pending:
        k = pending.pop()
        c = matches.classes[k]
        if k in found or matches.summands(c) is None or all(matches.aligned(p) is not None for p in c.places):
            continue
        found.add(k)
        pending.extend(number[one] for one in reads(matches, c.first) if one in number)
    return found


def _silent(matches: ValueMatches, number: Mapping[Place, int], among: Iterable[int]) -> set[int]:
    """The classes that no input decides, and those of which they are made: masks, tables of positions."""
    found: set[int] = set()
    pending = list(among)
    while pending:
        k = pending.pop()
        first = matches.classes[k].first
        if k not in found and matches.says_nothing(first):
            found.add(k)
            pending.extend(number[one] for one in reads(matches, first) if one in number)
    return found


def _scaled(matches: ValueMatches, place: Place, apart: Mapping[Place, None]) -> list[Place]:
    """The places above one that multiply by a number, or reduce, the nearest first."""
    found: list[Place] = []
    for _ in range(matches.effort.bounds.repair_chain):
        facts = matches.facts(place)
        if facts.scale not in (None, 1) or facts.reduction:
            found.append(place)
        above = [one for one in reads(matches, place) if one in apart and one[0] == place[0]]
        if len(above) != 1:
            break
        place = above[0]
    else:
        matches.effort.hit("repair_chain")
    return found


def _scales(matches: ValueMatches, place: Place) -> bool:
    """True if a value is a multiple of a part of a tensor, and nothing that it is made of is the same multiple."""
    mine = _factor(matches, place)
    return mine is not None and all(_factor(matches, one) != mine for one in reads(matches, place))


def _is_multiple(matches: ValueMatches, end: Place) -> bool:
    """True of an output of one number that is a plain multiple of what it should be."""
    return matches.value(end).size == 1 and bool(matches.ratios)


def _factor(matches: ValueMatches, place: Place) -> float | None:
    value = matches.value(place)
    if value.dtype.kind != "f" or value.size < 2 or matches.aligned(place) is not None:
        return None
    return next((round(factor, 6) for _, factor in matches.multiples(value)), None)


def reads(matches: ValueMatches, place: Place) -> list[Place]:
    """The values that a place is computed from: of an operator with several results, what that one reads."""
    found: dict[Place, None] = {}
    pending = list(matches.depends(place))
    while pending:
        one = pending.pop()
        node = matches.node(one)
        if node.op == "call" and matches.replay.held(one) is None:
            pending.extend(matches.depends(one))
        else:
            found[one] = None
    return list(found)


def _moved(matches: ValueMatches, place: Place, known: Known) -> list[Place]:
    """The place, and those above it from which its elements only moved there, up to what corresponds to nothing."""
    found = [place]
    for _ in range(matches.effort.bounds.repair_chain):
        above = reads(matches, place)
        moves = matches.facts(place).layout or matches.node(place).target == "getitem"
        if not moves or len(above) != 1:
            break
        place = above[0]
        found.append(place)
        if not known(place):
            break
    return found


def _parts_above(matches: ValueMatches, end: Place, known: Known) -> list[Place]:
    """A wrong output and those above it from which its elements only moved there, as long as they are parts of
    tensors: buffers of several tensors are not."""
    found: list[Place] = []
    for one in _moved(matches, end, known):
        if matches.aligned(one) is None:
            break
        found.append(one)
    return found


def whole_reads(graph: Graph, node: Node) -> list[str]:
    """As :func:`reads`, in the specification."""
    found: list[str] = []
    for ref in references(node):
        one = graph.by_name[ref]
        picked = node.target == "getitem" and one.op == "call"
        found += whole_reads(graph, one) if picked else [ref]
    return found


def _is_one_of(matches: ValueMatches, place: Place, factor: float | None, factors: Mapping[float, Origin]) -> bool:
    return factor is not None and factor in factors and factors[factor] <= matches.origin[place]


def _multiplied(matches: ValueMatches, factors: Mapping[float, Origin]) -> frozenset[str]:
    """The specification's tensors of whose parts the implementation has one of some multiples."""
    found: set[str] = set()
    for c in matches.classes:
        for place in c.places:
            if matches.aligned(place) is None and matches.value(place).size > 1:
                parts = matches.multiples(matches.value(place)) if factors else ()
                found.update(part[0] for part, f in parts if _is_one_of(matches, place, round(f, 6), factors))
                share = matches.share(place)
                found.update(() if share is None else (share[0],))
    return frozenset(found)


def _missing(
    matches: ValueMatches, output: str, made: Set[str], any_order: bool
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Specification tensors above one, reached through such that nothing corresponds to, whose operands all have
    something that corresponds to them, or only move elements of such; to those ``made`` multiples do. And those of
    which all operands have."""
    graph = matches.job.specification
    order = {node.name: k for k, node in enumerate(graph.nodes)}
    found: set[str] = set()
    begun: set[str] = set()
    seen: set[str] = set()

    @cache
    def moved(name: str) -> bool:
        """True of what only moves elements of what is known: nothing has to correspond to every step of that."""
        known = name in made or _known(matches, name, any_order)
        return known or (matches.whole_facts(name).layout and all(map(moved, whole_reads(graph, graph.by_name[name]))))

    pending = [output]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        read = whole_reads(graph, graph.by_name[name])
        open_ = [ref for ref in read if ref not in made and not _known(matches, ref, any_order)]
        pending.extend(open_)
        if all(map(moved, open_)) and graph.by_name[name].op == "call":
            found.add(name)
            begun.update(() if open_ else (name,))
    return tuple(sorted(found, key=order.__getitem__)), frozenset(begun)


def _known(matches: ValueMatches, name: str, any_order: bool) -> bool:
    """True if something corresponds to a tensor of the specification, or nothing has to."""
    if name in matches.matched or matches.job.specification.by_name[name].op != "call":
        return True
    value = matches.replay.wanted(name)
    if value is None or not value.size or not value.any() or not matches.whole_origin[name]:
        return True
    return name in matches.summed or (any_order and name in matches.reordered)
