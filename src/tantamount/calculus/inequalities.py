"""Systems of polynomial inequalities of which it is shown that no numbers satisfy them.

Every product of variables counts as a variable: what has no solution then has none. First bounds of single products
follow from each other, then products are eliminated one after the other (Fourier and Motzkin; Dantzig and Eaves,
*Fourier-Motzkin elimination and its dual*); what is between whole numbers is rounded to the next one (Gomory's cuts).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from tantamount.effort import Effort
from tantamount.sizes.polynomials import Polynomial, Powers

__all__ = ["Row", "Steps", "impossible"]


class Row(NamedTuple):
    """``value > 0`` if ``strict``, else ``value >= 0``."""

    value: Polynomial
    strict: bool = False


class Steps:
    """The steps that one search may still take of the bound ``case_steps``: a step is a case, or an inequality in
    one."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self.left = effort.bounds.case_steps

    def take(self, count: int) -> bool:
        """True if there were that many steps left, and counts them; otherwise the bound has been hit."""
        if count > self.left:
            self.effort.hit("case_steps")
            return False
        self.left -= count
        return True


_Terms = tuple[tuple[int, int], ...]  # (product, coefficient), sorted; coefficients without a common divisor
_End = tuple[Fraction, bool]  # a constant, and whether the inequality is strict


def impossible(rows: Iterable[Row], whole: Collection[str], steps: Steps) -> bool:
    """True if no numbers satisfy all rows, those named ``whole`` being whole numbers. ``False`` claims nothing."""
    numbers: dict[Powers, int] = {}
    system = _System(set())
    pending = list(rows)
    for row in pending:
        for m, _ in row.value:
            if m and m not in numbers:
                numbers[m] = len(numbers)
                if all(e > 0 and name in whole for name, e in m):
                    system.whole.add(numbers[m])
    pending.extend(Row(((m, 1),)) for m in numbers if all(e % 2 == 0 for _, e in m))
    if not steps.take(len(pending)):
        return False
    for value, strict in pending:
        terms = {numbers[m]: Fraction(c) for m, c in value if m}
        if system.add(terms, next((Fraction(c) for m, c in value if not m), Fraction(0)), strict):
            return True
    return system.bounds(steps) or system.eliminated(steps)


class _System:
    """Inequalities ``sum of coefficient * product + constant >= 0`` (or ``> 0``), of each sum the strongest."""

    def __init__(self, whole: set[int]) -> None:
        self.whole = whole
        self.lines: dict[_Terms, _End] = {}

    def add(self, terms: Mapping[int, Fraction], constant: Fraction, strict: bool) -> bool:
        """Add an inequality; True if that cannot be, by itself or with the bound of its negation."""
        found = [(v, c) for v, c in terms.items() if c]
        if not found:
            return constant < 0 or (strict and constant == 0)
        scale = Fraction(math.lcm(*(c.denominator for _, c in found)), math.gcd(*(c.numerator for _, c in found)))
        line = tuple(sorted((v, int(c * scale)) for v, c in found))
        constant *= scale
        if all(v in self.whole for v, _ in line):  # s >= -constant for a whole s, or s > -constant
            constant = Fraction(math.ceil(constant) - 1 if strict else math.floor(constant))
            strict = False
        known = self.lines.get(line)
        if known is None or (constant, not strict) < (known[0], not known[1]):
            self.lines[line] = (constant, strict)
            other = self.lines.get(tuple((v, -c) for v, c in line))
            if other is not None:
                return constant + other[0] < 0 or (constant + other[0] == 0 and (strict or other[1]))
        return False

    # -- bounds from bounds
    def bounds(self, steps: Steps) -> bool:
        """Add bounds of single products that follow from the inequalities and from each other, as long as there are
        more, but not more often than products; True if some product has none. Elimination alone does not round what
        it does not come across."""
        ends: dict[tuple[int, int], _End] = {}  # (product, 1): at least; (product, -1): minus it, at least
        for line, end in self.lines.items():
            if len(line) == 1:
                ((v, c),) = line
                ends[v, c] = (-end[0], end[1])
        long = [line for line in self.lines if len(line) > 1]
        for _ in range(min(6, len(long) + 1)):
            changed = False
            if not steps.take(len(long)):
                return False
            for line in long:
                for k, (v, c) in enumerate(line):
                    found = self._end(line, k, ends)
                    if found is None:
                        continue
                    side = 1 if c > 0 else -1
                    if self.add({v: Fraction(side)}, found[0], found[1]):
                        return True
                    at, strict = self.lines[((v, side),)]
                    if ends.get((v, side)) != (-at, strict):
                        ends[v, side] = (-at, strict)
                        changed = True
            if not changed:
                break
        return False

    def _end(self, line: _Terms, k: int, ends: Mapping[tuple[int, int], _End]) -> _End | None:
        """``c v + others + constant >= 0``: the constant of ``v + constant >= 0`` (of ``-v``, for a negative c), where
        the others are as great as they may be; ``None`` if they may be as great as they like."""
        total, strict = self.lines[line]
        for j, (w, d) in enumerate(line):
            if j == k:
                continue
            end = ends.get((w, -1 if d > 0 else 1))
            if end is None:
                return None
            total, strict = total - abs(d) * end[0], strict or end[1]
        return total / abs(line[k][1]), strict

    # -- elimination
    def eliminated(self, steps: Steps) -> bool:
        """Eliminate the products, the cheapest first; True if a contradiction was left. One system takes a quarter of
        the steps at most, so that the others have some, too."""
        most = steps.left // 4
        while self.lines:
            counts: dict[int, list[int]] = {}
            for line in self.lines:
                for v, c in line:
                    counts.setdefault(v, [0, 0])[c > 0] += 1
            product = min(counts, key=lambda v: (counts[v][0] * counts[v][1] - sum(counts[v]), v))
            made = counts[product][0] * counts[product][1]
            most -= made + 1
            if not steps.take(made + 1 if most >= 0 else steps.left + 1):
                return False
            before, self.lines = self.lines, {}
            above: list[tuple[_Terms, int, _End]] = []
            below: list[tuple[_Terms, int, _End]] = []
            for line, end in before.items():
                c = next((c for v, c in line if v == product), 0)
                if not c:
                    self.lines[line] = end
                else:
                    (above if c > 0 else below).append((line, abs(c), end))
            for p, c, (at, one) in above:
                for q, d, (other_at, other) in below:
                    total = {v: Fraction(d * e) for v, e in p}
                    for v, e in q:
                        total[v] = total.get(v, Fraction(0)) + c * e
                    if self.add(total, d * at + c * other_at, one or other):
                        return True
        return False
