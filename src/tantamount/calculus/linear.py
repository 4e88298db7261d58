"""Systems of linear inequalities with rational coefficients: shown to have no solution, by elimination.

Fourier's method: a variable is eliminated by adding, with positive factors, every inequality that bounds it from below
to every one that bounds it from above. What follows so holds wherever the system does; a number that is not what it
should be shows that the system has no solution. Inequalities of whole numbers alone are divided by what their
coefficients share and rounded: ``2 x >= 1`` is ``x >= 1``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, gcd, lcm

__all__ = ["Inequality", "unsolvable"]


_Rows = dict[tuple[tuple[int, Fraction], ...], tuple[Fraction, bool]]


@dataclass(frozen=True, slots=True)
class Inequality:
    """``sum of coefficient * variable + constant >= 0``, or ``> 0`` if ``strict``; variables are numbers."""

    coefficients: tuple[tuple[int, Fraction], ...]
    constant: Fraction
    strict: bool = False

    @staticmethod
    def of(coefficients: Mapping[int, Fraction], constant: Fraction, strict: bool = False) -> Inequality:
        """The inequality without variables that do not matter."""
        return Inequality(tuple(sorted((v, c) for v, c in coefficients.items() if c)), constant, strict)


def unsolvable(rows: Iterable[Inequality], whole: Collection[int], most: int) -> bool | None:
    """True if no numbers, those of ``whole`` being integers, satisfy all inequalities; ``None`` if that took more than
    ``most`` inequalities to see, False if it was not seen."""
    tightest: _Rows = {}
    for row in rows:
        if not _added(tightest, _tightened(row, whole)):
            return True
    bounds = _bounds(tightest, whole)
    if bounds is None:
        return True
    for row in bounds:
        _added(tightest, row)
    made = len(tightest)
    while tightest:
        variable = _cheapest(tightest)
        if variable is None:
            return False
        below: list[tuple[Inequality, Fraction]] = []
        above: list[tuple[Inequality, Fraction]] = []
        rest: _Rows = {}
        for key, (constant, strict) in tightest.items():
            c = dict(key).get(variable, Fraction(0))
            if c:
                (below if c > 0 else above).append((Inequality(key, constant, strict), abs(c)))
            else:
                rest[key] = (constant, strict)
        made += len(below) * len(above)
        if made > most:
            return None
        tightest = rest
        for low, a in below:
            for high, b in above:
                if not _added(tightest, _tightened(_sum(low, 1 / a, high, 1 / b), whole)):
                    return True
    return False


_ROUNDS = 6  # of bounds from bounds


def _bounds(rows: _Rows, whole: Collection[int]) -> list[Inequality] | None:
    """Bounds of single variables that follow from the inequalities and from each other, of whole numbers rounded;
    ``None`` if some variable has none. Elimination alone does not round what it does not come across."""
    ends: dict[tuple[int, int], tuple[Fraction, bool]] = {}  # (variable, 1): at least; (variable, -1): at most, negated
    for _ in range(_ROUNDS):
        changed = False
        for key, (constant, strict) in rows.items():
            for v, c in key:
                # c v >= -constant - the most that the others are
                total, out = constant, strict
                for w, d in key:
                    if w == v:
                        continue
                    end = ends.get((w, -1 if d > 0 else 1))
                    if end is None:
                        break
                    total, out = total - abs(d) * end[0], out or end[1]
                else:
                    side = 1 if c > 0 else -1
                    row = _tightened(Inequality(((v, Fraction(side)),), total / abs(c), out), whole)
                    least = (-row.constant, row.strict)
                    if (v, side) not in ends or least > ends[v, side]:
                        ends[v, side] = least
                        changed = True
                        other = ends.get((v, -side))
                        if other is not None and (
                            least[0] > -other[0] or (least[0] == -other[0] and (least[1] or other[1]))
                        ):
                            return None
        if not changed:
            break
    return [Inequality(((v, Fraction(side)),), -least, out) for (v, side), (least, out) in ends.items()]


def _added(tightest: dict[tuple[tuple[int, Fraction], ...], tuple[Fraction, bool]], row: Inequality) -> bool:
    """False if the inequality is wrong whatever the numbers are."""
    if not row.coefficients:
        return row.constant > 0 or (row.constant == 0 and not row.strict)
    known = tightest.get(row.coefficients)
    if known is None or (row.constant, not row.strict) < (known[0], not known[1]):
        tightest[row.coefficients] = (row.constant, row.strict)
    return True


def _cheapest(rows: Iterable[tuple[tuple[int, Fraction], ...]]) -> int | None:
    """The variable whose elimination makes the fewest inequalities."""
    counts: dict[int, list[int]] = {}
    for row in rows:
        for v, c in row:
            counts.setdefault(v, [0, 0])[c < 0] += 1
    return min(counts, key=lambda v: (counts[v][0] * counts[v][1], v), default=None)


def _sum(x: Inequality, p: Fraction, y: Inequality, q: Fraction) -> Inequality:
    total = {v: p * c for v, c in x.coefficients}
    for v, c in y.coefficients:
        total[v] = total.get(v, Fraction(0)) + q * c
    return Inequality.of(total, p * x.constant + q * y.constant, x.strict or y.strict)


def _tightened(row: Inequality, whole: Collection[int]) -> Inequality:
    """The same with whole coefficients that share no divisor; of whole numbers, with a whole constant."""
    if not row.coefficients:
        return row
    factor = Fraction(lcm(*(c.denominator for _, c in row.coefficients)))
    factor /= gcd(*(int(c * factor) for _, c in row.coefficients))
    coefficients = tuple((v, c * factor) for v, c in row.coefficients)
    constant = row.constant * factor
    if not all(v in whole for v, _ in coefficients):
        return Inequality(coefficients, constant, row.strict)
    # s >= -constant for a whole number s (or s > -constant)
    least = floor(-constant) + 1 if row.strict else -floor(constant)
    return Inequality(coefficients, Fraction(-least))
