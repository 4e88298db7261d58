"""Runs of equal pieces in a program: the layers of a model, forward and backward, its parameters in an optimizer.

Two stretches of a program look equal if their nodes have the same operators, attributes and types; what they read is
not looked at. Where a program is cut is a hint: pieces are compared with all that they read before one is taken for
another (:mod:`tantamount.proof.lemmas`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tantamount.ir.graph import Argument, Graph, Node, Ref, references

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Run", "runs", "written"]

_GRAM = 8  # nodes by which equal places are recognised
_SHORTEST = 16  # nodes of a piece that is worth a proof of its own
_LEAST = 2  # pieces of a run
_PERIODS = 64  # distances between equal places that are looked at, the most frequent ones


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` consecutive pieces of ``period`` nodes each, from position ``start`` of the program on. What repeats
    may be shorter than a piece: ``unit`` nodes, ``units`` times, the last of which may belong to no piece."""

    start: int
    period: int
    count: int
    unit: int
    units: int

    @property
    def cuts(self) -> tuple[int, ...]:
        """The positions of the nodes at which pieces begin, and the one behind the last piece."""
        return tuple(self.start + k * self.period for k in range(self.count + 1))

    def in_units(self, units: int) -> Run:
        """The run as so many units, which divide those that it has."""
        return Run(self.start, self.period, self.count, self.unit * (self.units // units), units)

    def pieces_of(self, units: int) -> Run:
        """The run with pieces of so many units."""
        return Run(self.start, units * self.unit, self.units // units, self.unit, self.units)


def written(argument: Argument) -> Any:
    """An attribute as a key that keeps 1, 1.0 and True apart; of what is read, only that it is."""
    if isinstance(argument, Ref):
        return Ref
    if isinstance(argument, tuple):
        return tuple(map(written, argument))
    return type(argument), repr(argument) if isinstance(argument, (float, complex)) else argument


def runs(graph: Graph) -> list[Run]:
    """The runs of equal pieces, without overlaps, in order. They are cut where the least is handed on."""
    import numpy as np  # here: most programs are too short to be looked at

    known: dict[object, int] = {}
    tokens = np.array([known.setdefault(_token(node), len(known)) for node in graph.nodes], dtype=np.int64)
    found: list[tuple[int, int, int]] = []  # minus the length, period, start
    for period in _periods(tokens.tolist()):
        same = np.concatenate(([False], tokens[:-period] == tokens[period:], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if stop - start >= (_LEAST - 1) * period:
                found.append((start - stop - period, period, start))
    out: list[Run] = []
    for length, period, start in sorted(found):
        stop = start - length
        if not any(node.op == "call" for node in graph.nodes[start : start + period]):
            continue  # inputs: nothing is computed there
        if all(stop <= one.start or one.cuts[-1] <= start for one in out):
            unit = _unit(tokens[start:stop], period)
            out.append(_placed(graph, start, stop, period, unit))
    return sorted(out, key=lambda one: one.start)


def _token(node: Node) -> object:
    kwargs = tuple((key, written(value)) for key, value in node.kwargs.items())
    return node.op, node.target if node.op == "call" else "", written(node.args), kwargs, node.type


def _unit(tokens: np.ndarray[tuple[int], np.dtype[np.int64]], period: int) -> int:
    """The shortest stretch that a run repeats."""
    divisors = (d for d in range(1, period) if period % d == 0)
    return next((d for d in divisors if bool((tokens[:-d] == tokens[d:]).all())), period)


def _periods(tokens: Sequence[int]) -> list[int]:
    """The most frequent distances between a stretch of a few nodes and the next one like it; of those that are too
    short for a piece, multiples that are not."""
    last: dict[tuple[int, ...], int] = {}
    distances: Counter[int] = Counter()
    for k in range(len(tokens) - _GRAM + 1):
        gram = tuple(tokens[k : k + _GRAM])
        if gram in last:
            distance = k - last[gram]
            distances[distance * -(-_SHORTEST // distance)] += 1
        last[gram] = k
    return [d for d, _ in distances.most_common(_PERIODS)]


def _placed(graph: Graph, start: int, stop: int, period: int, unit: int) -> Run:
    """The run, moved to where a piece hands the least on to the next one."""
    count = (stop - start) // period
    best = min(range(min(stop - start - count * period, period - 1) + 1),
               key=lambda shift: (_handed_on(graph, start + shift, period), shift))  # fmt: skip
    return Run(start + best, period, count, unit, (stop - start - best) // unit)


def _handed_on(graph: Graph, start: int, period: int) -> int:
    first = {node.name for node in graph.nodes[start : start + period]}
    second = graph.nodes[start + period : start + 2 * period]
    return len({name for node in second for name in references(node)} & first)
