"""The places where two long programs are cut into pieces: a hint, on which nothing rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.runs import Run, runs

__all__ = ["places_of"]


def places_of(job: Job) -> list[tuple[int, int]]:
    """The places where both programs are cut: at the pieces of runs that have as many on both sides and look alike, in
    order, and at those of runs of one side between them (gradients that are reduced in the end), where what is before
    and behind looks most alike."""
    ours, theirs = job.specification, job.implementation[0]
    pairs = [_alike(a, b) for a, b in _paired(ours, runs(ours), theirs, runs(theirs))]
    out: list[tuple[int, int]] = []
    before, gap = (0, 0), list[Run]()
    ends: tuple[Run | None, Run | None] = (None, None)
    for a, b in [*pairs, ends]:
        if b is not None and a is None:
            gap.append(b)
            continue
        after = (len(ours.nodes), len(theirs.nodes)) if a is None or b is None else (a.start, b.start)
        for alone in gap:
            at = _split(ours, before[0], after[0], theirs, (before[1], alone.start), (alone.cuts[-1], after[1]))
            out += [(at, cut) for cut in alone.cuts]
            before = (at, alone.cuts[-1])
        gap = []
        if a is not None and b is not None:
            out += zip(a.cuts, b.cuts, strict=True)
            before = (a.cuts[-1], b.cuts[-1])
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
    """The runs of both programs in order, those that look most alike in pairs; of what is left the implementation's."""
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
            if i and j and _fit(first[i - 1], second[j - 1]):
                score, pairs = best[i - 1, j - 1]
                found.append((score + _likeness(left[i - 1], right[j - 1]), (*pairs, (i - 1, j - 1))))
            best[i, j] = max(found)
    out: list[tuple[Run | None, Run | None]] = []
    j = 0
    for a, b in (*best[len(first), len(second)][1], (len(first), len(second))):
        out += [(None, one) for one in second[j:b]]
        if a < len(first):
            out.append((first[a], second[b]))
        j = b + 1
    return out


def _fit(a: Run, b: Run) -> bool:
    """True if two runs can have as many pieces: of as many units, or of so many of one for each of the other."""
    return a.count == b.count or a.units % b.units == 0 or b.units % a.units == 0


def _alike(a: Run | None, b: Run | None) -> tuple[Run | None, Run | None]:
    """A pair of runs with as many pieces."""
    if a is None or b is None or a.count == b.count:
        return a, b
    units = min(a.units, b.units)
    first, second = a.in_units(units), b.in_units(units)
    each = max(-(-a.period // first.unit), -(-b.period // second.unit))
    return first.pieces_of(each), second.pieces_of(each)


def _operators(graph: Graph, run: Run) -> Counter[str]:
    return Counter(node.target for node in graph.nodes[run.start : run.start + run.period] if node.op == "call")


def _likeness(a: Counter[str], b: Counter[str]) -> float:
    """From 0 to 1: how many of their operators two pieces have in common."""
    return (a & b).total() / max(1, (a | b).total())
