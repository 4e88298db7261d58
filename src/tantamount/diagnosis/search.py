"""The smallest change that repairs the implementation, found by executing both programs.

A bug is where a small change makes everything right: leaving out one operator, another number, another shard, one more
all-reduce, another tensor of the specification in one place. Changes are tried on values: the programs run once, then
whatever depends on a change runs again. What repairs one input is tried on others. Nothing is proved by this: it says
where to look, and which change would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tantamount.correspond.values import rows_of
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, edits_of
from tantamount.diagnosis.replay import Place, Replay
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.execution.plans import Plan, Scale, draw

__all__ = ["Repair", "find_repair"]

_FIRST_SEED = 11
_CONFIRMATIONS = 2  # more inputs that a change must repair


@dataclass(frozen=True)
class Repair:
    """``edit`` of the class ``c`` makes ``repaired`` outputs right. ``matches`` has the values."""

    edit: Edit
    c: Class
    repaired: tuple[str, ...]
    matches: ValueMatches

    @property
    def of_input(self) -> bool:
        """True if it is an input that should be another part of its tensor."""
        return self.edit.kind == "value" and self.matches.node(self.edit.places[0]).op == "input"


def find_repair(plan: Plan, outputs: Sequence[str]) -> Repair | None:
    """The change that repairs the first of the failing ``outputs``, and more of them if it can."""
    effort = plan.store.effort
    every = list(dict.fromkeys((*outputs, *(o.name for o in plan.job.specification.outputs))))
    names = effort.first("repair_outputs", every)
    names = [name for name in names if _checkable(plan, name)]
    seeds = range(_FIRST_SEED, _FIRST_SEED + effort.bounds.repair_inputs)
    start = _start(plan, names, seeds)
    if start is None:
        effort.hit("repair_inputs")
        return None
    found = sorted(_accepted(start, effort, _budget(plan)), key=lambda one: one.cost)
    for candidate in effort.first("repair_outputs", found):
        if all(_again(plan, names, candidate, seed) for seed in seeds[-_CONFIRMATIONS:]):
            return Repair(candidate.edit, candidate.c, candidate.repaired, start.matches)
    return None


def _budget(plan: Plan) -> tuple[int, str]:
    """Nodes that all changes together may take, and the bound that says so."""
    bounds = plan.store.effort.bounds
    nodes = len(plan.job.specification.nodes) + sum(len(graph.nodes) for graph in plan.job.implementation)
    return min((bounds.repair_nodes, "repair_nodes"), (bounds.repair_executions * nodes, "repair_executions"))


def _checkable(plan: Plan, name: str) -> bool:
    expectation = plan.job.outputs.get(name)  # a job need not say anything of an output
    return expectation is not None and (expectation.placements is not None or expectation.expression is not None)


@dataclass(frozen=True)
class _Start:
    """One input on which outputs differ: how many elements of each are wrong."""

    matches: ValueMatches
    wrong: dict[str, int]

    @property
    def failing(self) -> list[str]:
        return [name for name, count in self.wrong.items() if count]


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


def _accepted(start: _Start, effort: Effort, budget: tuple[int, str]) -> list[_Candidate]:
    """Changes that repair something: first what can be said simply, where values stop being known ones before anywhere
    else; then where something may be missing; then any value."""
    matches = start.matches
    numbered = list(enumerate(matches.classes))
    frontier = [(k, c) for k, c in numbered if matches.frontier(c)]
    unmatched = [(k, c) for k, c in numbered if matches.unmatched(c)]
    passes: list[tuple[list[tuple[int, Class]], tuple[str, ...]]] = [
        ([(k, c) for k, c in numbered if matches.summands(c) is not None], ("reduce",)),
        (frontier, ("reduce", *_SIMPLE, "operand")),
        (unmatched, _SIMPLE),
        (frontier, ("value",)),
        ([(k, c) for k, c in numbered if not matches.unmatched(c)], ("value",)),
        (unmatched, ("operand", "like")),
        (unmatched, ("value",)),
    ]
    found: list[_Candidate] = []
    seen: set[object] = set()
    for step, (classes, kinds) in enumerate(passes):
        best = min(found, key=lambda one: one.cost, default=None)
        for number, c in classes:
            if step == len(passes) - 1 and best is not None and number >= best.number:
                break  # something later would not say more
            for edit in edits_of(matches, c, kinds):
                key = tuple(sorted((place, value.tobytes()) for place, value in edit.changes.items()))
                if key in seen:
                    continue
                seen.add(key)
                repaired = _repaired(start, edit)
                if repaired:
                    found.append(_Candidate(edit, c, number, repaired, _cost(start, edit, c, number, repaired)))
                effort.check()
                if matches.replay.effort > budget[0]:
                    effort.hit(budget[1])
                    return found
        if any(one.cost[0] == 0 and one.cost[1] <= _GOOD for one in found):
            return found
    return found


def _repaired(start: _Start, edit: Edit) -> tuple[str, ...]:
    """The outputs that become right, if none becomes wrong."""
    try:
        after = start.matches.replay.wrong(list(start.wrong), edit.changes)
    except TantamountError:
        return ()
    if any(after[name] and not count for name, count in start.wrong.items()):
        return ()
    return tuple(name for name in start.failing if not after[name])


def _again(plan: Plan, names: Sequence[str], candidate: _Candidate, seed: int) -> bool:
    """True if the same change repairs the same outputs on another input, or nothing is wrong there."""
    start = _start(plan, names, (seed,))
    if start is None:
        return True  # the two sides agree there
    c = next((c for c in start.matches.classes if c.places == candidate.c.places), None)
    if c is None:
        return False
    kind = "reduce" if candidate.edit.kind in _REDUCTIONS else candidate.edit.kind
    for edit in edits_of(start.matches, c, (kind,)):
        if edit.signature == candidate.edit.signature:
            return not set(candidate.repaired) - set(_repaired(start, edit)) - (set(names) - set(start.failing))
    return False


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
    """True if the class's members are added up later on: then no sum is missing there."""
    if len(c.places) < 2:
        return False
    places = matches.effort.first("repair_followed", c.places)
    first, *rest = (matches.replay.below([place]) for place in places)
    common = first.intersection(*rest)
    return any(matches.facts(place).sums for place in common)
