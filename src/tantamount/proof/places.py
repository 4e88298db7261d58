"""The places where two long programs are cut into pieces: a hint, on which nothing rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.runs import Run, runs

__all__ = ["places_of", "stretched"]

_ALIKE = 0.7  # how much of its operators a piece of another length has in common with those of a run

_END = 3  # operators at either end of a piece that say more than others
_PER_END = 0.03  # how much more, each

Cuts = tuple[int, ...]  # positions in a program
Place = tuple[int, int]  # a position in each


def places_of(job: Job) -> list[tuple[int, int]]:
    """The places where both programs are cut: at the pieces of runs that have as many on both sides and look alike, in
    order, and at those of runs of one side between them (gradients that are reduced in the end), where what is before
    and behind looks most alike."""
    ours, theirs = job.specification, job.implementation[0]
    pairs = _whole(ours, theirs, _paired(ours, runs(ours), theirs, runs(theirs)))
    out: list[tuple[int, int]] = []
    before, gap = (0, 0), list[tuple[int, ...]]()
    for a, b in [*pairs, ((), ())]:
        if b and not a:
            gap.append(b)
            continue
        after = (a[0], b[0]) if a and b else (len(ours.nodes), len(theirs.nodes))
        for alone in gap:
            at = _split(ours, before[0], after[0], theirs, (before[1], alone[0]), (alone[-1], after[1]))
            out += [(at, cut) for cut in alone]
            before = (at, alone[-1])
        gap = []
        if a and b:
            out += zip(a, b, strict=True)
            before = (a[-1], b[-1])
    out = sorted(set(out))
    fits = all(a[1] <= b[1] for a, b in pairwise(out))
    return out if fits and any(a and b for a, b in pairs) else []


def _split(graph: Graph, start: int, stop: int, other: Graph, before: tuple[int, int], behind: tuple[int, int]) -> int:
    """The position between two others of one program at which it looks most like two stretches of another one."""
    first, second = (Counter(node.target for node in other.nodes[a:b]) for a, b in (before, behind))
    left, right = Counter[str](), Counter(node.target for node in graph.nodes[start:stop])
    best, chosen = -1.0, start
    for at in range(start, stop + 1):
        score = _likeness(left, first) + _likeness(right, second)
        if score > best:
            best, chosen = score, at
        if at < stop:
            left[graph.nodes[at].target] += 1
            right[graph.nodes[at].target] -= 1
    return chosen


def _paired(
    ours: Graph, first: Sequence[Run], theirs: Graph, second: Sequence[Run]
) -> list[tuple[Run | None, Run | None]]:
    """The runs of both programs in order, those that look most alike in pairs; what is left is alone."""
    left = [_operators(ours, one) for one in first]
    right = [_operators(theirs, one) for one in second]
    best: dict[tuple[int, int], tuple[float, tuple[tuple[int, int], ...]]] = {}
    for i in range(len(first) + 1):
        for j in range(len(second) + 1):
            found: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
            if i:
                found.append(best[i - 1, j])
            if j:
                found.append(best[i, j - 1])
            likeness = _likeness(left[i - 1], right[j - 1]) if i and j else 0.0
            if i and j and _fit(first[i - 1], second[j - 1], likeness):
                score, pairs = best[i - 1, j - 1]
                found.append((score + likeness, (*pairs, (i - 1, j - 1))))
            best[i, j] = max(found)
    out: list[tuple[Run | None, Run | None]] = []
    i = j = 0
    for a, b in (*best[len(first), len(second)][1], (len(first), len(second))):
        out += [(one, None) for one in first[i:a]]
        out += [(None, one) for one in second[j:b]]
        if a < len(first):
            out.append((first[a], second[b]))
        i, j = a + 1, b + 1
    return out


def _fit(a: Run, b: Run, likeness: float) -> bool:
    """True if two runs can have as many pieces: of as many units, or of so many of one for each of the other. If their
    pieces look alike, one is interrupted, and what is left of it may be half of the other by chance."""
    several = a.units % b.units == 0 or b.units % a.units == 0
    return a.count == b.count or (several and likeness < _ALIKE)


def _alike(a: Run | None, b: Run | None) -> tuple[Run | None, Run | None]:
    """A pair of runs with as many pieces."""
    if a is None or b is None or a.count == b.count:
        return a, b
    units = min(a.units, b.units)
    first, second = a.in_units(units), b.in_units(units)
    each = max(-(-a.period // first.unit), -(-b.period // second.unit))
    return first.pieces_of(each), second.pieces_of(each)


# ---------------------------------------------------------------------------------------------- interrupted runs
def _whole(ours: Graph, theirs: Graph, pairs: Sequence[tuple[Run | None, Run | None]]) -> list[tuple[Cuts, Cuts]]:
    """The cuts of pairs of runs, and of what is left of the implementation's. Where runs are left of both programs, a
    run of the one may be interrupted: a layer that is wrong looks like the others but for a few nodes."""
    out: list[tuple[Cuts, Cuts]] = []
    left: list[Run] = []
    right: list[Run] = []
    begun = (0, 0)
    for a, b in [*pairs, (None, None)]:
        if (a is None) != (b is None):
            left += [] if a is None else [a]
            right += [] if b is None else [b]
            continue
        ended = (len(ours.nodes), len(theirs.nodes)) if a is None or b is None else (a.start, b.start)
        found = _interrupted(ours, left, theirs, right, begun, ended)
        rest = [one.cuts for one in right]
        if found is not None:
            rest = [one for one in rest if one[-1] <= found[1][0] or found[1][-1] <= one[0]]
        before = [one for one in rest if found is None or one[0] < found[1][0]]
        out += [((), one) for one in before]
        out += [] if found is None else [found, *(((), one) for one in rest[len(before) :])]
        left, right = [], []
        if a is not None and b is not None:
            one, other = _alike(a, b)
            out.append((() if one is None else one.cuts, () if other is None else other.cuts))
            begun = (a.cuts[-1], b.cuts[-1])
    return out


def _interrupted(
    ours: Graph, left: Sequence[Run], theirs: Graph, right: Sequence[Run], begun: Place, ended: Place
) -> tuple[Cuts, Cuts] | None:
    """The cuts of the longest run of either program and of one of the other that looks most like it, whose pieces are
    fewer: others before and behind them look alike."""
    alone = [(ours, one, 0) for one in left] + [(theirs, one, 1) for one in right]
    graph, most, side = max(alone, key=lambda one: one[1].count, default=(ours, None, 0))
    if most is None or most.period != most.unit:
        return None
    other, rest = (theirs, right) if side == 0 else (ours, left)
    pattern = _operators(graph, most)
    alike = [one for one in rest if one.period == one.unit and _likeness(pattern, _operators(other, one)) >= _ALIKE]
    if not alike:
        return None
    longest = max(alike, key=lambda one: one.count)
    cuts = _stretched(other, _in_step(graph, most, other, longest), most.count, begun[1 - side], ended[1 - side])
    if cuts is None:
        return None
    return (most.cuts, cuts) if side == 0 else (cuts, most.cuts)


def _in_step(graph: Graph, run: Run, other: Graph, interrupted: Run) -> Run:
    """The second run from where on its pieces begin and end as those of the first one do: it may have been cut
    elsewhere, behind what interrupts it."""
    start, period = interrupted.start, interrupted.period
    ours = [node.target for node in graph.nodes[run.start : run.start + run.period]]
    theirs = [node.target for node in other.nodes[start : start + period]]

    def score(shift: int) -> int:
        turned = [*theirs[shift:], *theirs[:shift]]
        return _agreeing(ours, turned) + _agreeing(ours[::-1], turned[::-1])

    shift = max(range(period), key=lambda shift: (score(shift), -shift))
    return replace(interrupted, start=start + shift, count=interrupted.count - bool(shift))


def _agreeing(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """The number of operators that are the same in both, from the first on."""
    return next((k for k, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))


def _stretched(graph: Graph, run: Run, count: int, begun: int, ended: int) -> Cuts | None:
    """The cuts of a run with pieces before and behind it that look like its own, until there are so many."""
    cuts = stretched(graph, run.cuts, run.period, (begun, ended), count)
    return cuts if len(cuts) - 1 == count else None


def stretched(graph: Graph, cuts: Sequence[int], period: int, room: tuple[int, int], count: int | None = None) -> Cuts:
    """The cuts with further ones before and behind them, between two positions, at the ends of pieces that look like
    the first one of so many nodes: until there are ``count``, or as long as there are any."""
    out = list(cuts)
    piece = [node.target for node in graph.nodes[out[0] : out[0] + period]]
    for step in (-1, 1):
        while count is None or len(out) - 1 < count:
            edge = out[0] if step < 0 else out[-1]
            length = _next(graph, piece, edge, step, edge - room[0] if step < 0 else room[1] - edge)
            if not length:
                break
            out = [edge - length, *out] if step < 0 else [*out, edge + length]
    return tuple(out)


def _next(graph: Graph, piece: Sequence[str], edge: int, step: int, room: int) -> int:
    """The length of the stretch from a position on, forwards or backwards, that looks most like a piece, above all
    where it begins and ends; 0 if none does."""
    wanted, found, period = Counter(piece), Counter[str](), len(piece)
    best, chosen = 0.0, 0
    for length in range(1, min(room, period + period // 2) + 1):
        found[graph.nodes[edge + length - 1 if step > 0 else edge - length].target] += 1
        likeness = _likeness(found, wanted) if 2 * length >= period else 0.0
        if likeness < _ALIKE:
            continue
        start = edge if step > 0 else edge - length
        here = [node.target for node in graph.nodes[start : start + length]]
        ends = min(_END, _agreeing(piece, here)) + min(_END, _agreeing(piece[::-1], here[::-1]))
        score = likeness + _PER_END * ends
        if (score, -abs(length - period)) > (best, -abs(chosen - period)):
            best, chosen = score, length
    return chosen


def _operators(graph: Graph, run: Run) -> Counter[str]:
    return Counter(node.target for node in graph.nodes[run.start : run.start + run.period] if node.op == "call")


def _likeness(a: Counter[str], b: Counter[str]) -> float:
    """From 0 to 1: how many of their operators two pieces have in common."""
    return (a & b).total() / max(1, (a | b).total())
