"""One graph with size symbols, of several that were captured at numbers.

A program that is captured at some sizes has numbers in the place of what the sizes decide. Captured at several sizes,
the numbers that change say how: as a sum of products of the sizes, each at most once, which one more capture confirms.
A graph that is made so is what its writer gives; a proof about it is about that graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from operator import mul
from typing import Any, cast

from tantamount.errors import UserError

__all__ = ["POINTS", "with_symbols"]

POINTS = ((2, 2), (3, 2), (2, 3), (3, 3), (5, 7))  # the last one confirms


def with_symbols(
    documents: Mapping[tuple[int, ...], Mapping[str, Any]], symbols: Sequence[str], hints: Sequence[int], place: str
) -> dict[str, Any]:
    """The document (``fx-nodes/1``) with ``symbols`` whose values give the ``documents`` back, which are by those
    values: two for every symbol, in all combinations, and one more. Raises :class:`UserError` where there is none."""
    points = list(documents)
    found = _Merged(points, symbols, place).value([documents[point] for point in points], "")
    table = {name: {"hint": hint, "min": 1} for name, hint in zip(symbols, hints, strict=True)}
    return {**cast("dict[str, Any]", found), "sizes": {"symbols": table, "conditions": []}}


class _Merged:
    def __init__(self, points: Sequence[tuple[int, ...]], symbols: Sequence[str], place: str) -> None:
        self.points, self.symbols, self.place = points, symbols, place
        self.monomials = list(product((0, 1), repeat=len(symbols)))

    def value(self, values: Sequence[Any], key: str) -> Any:
        """One value for those at the points."""
        first = values[0]
        if all(type(value) is type(first) and value == first for value in values):
            return first
        if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
            return {name: self.value([value[name] for value in values], name) for name in first}
        lists = cast("Sequence[list[Any]]", values)
        if all(isinstance(value, list) for value in values) and len({len(value) for value in lists}) == 1:
            return [self.value(items, key) for items in zip(*values, strict=True)]
        if all(type(value) is int for value in values):
            text = self._text(values)
            return text if key == "shape" else {"size": text}
        raise UserError(
            "plan-rows", place=self.place, found=f"{str(first)[:60]} and {str(values[-1])[:60]} at other sizes",
            needed="programs that differ in whole numbers alone",
        )  # fmt: skip

    def _text(self, values: Sequence[int]) -> str:
        """The numbers as an expression over the symbols."""
        rows = [
            [Fraction(prod(x for x, used in zip(point, monomial, strict=True) if used)) for monomial in self.monomials]
            for point in self.points
        ]
        coefficients = _solved([row[:] for row in rows[: len(self.monomials)]], values[: len(self.monomials)])
        exact = all(sum(map(mul, coefficients, row)) == value for row, value in zip(rows, values, strict=True))
        if not exact or any(c.denominator > 1 for c in coefficients):
            raise UserError(
                "plan-rows", place=self.place, found=f"numbers {', '.join(map(str, values))} at other sizes",
                needed=f"sums of products of {' and '.join(self.symbols)}",
            )  # fmt: skip
        terms: list[str] = []
        for c, monomial in zip(coefficients, self.monomials, strict=True):
            names = [name for name, used in zip(self.symbols, monomial, strict=True) if used]
            if c:
                terms.append("*".join([str(c), *names] if c != 1 or not names else names))
        return " + ".join(terms)


def _solved(rows: list[list[Fraction]], values: Sequence[int]) -> list[Fraction]:
    """The solution of as many linear equations as unknowns, which have one."""
    table = [[*row, Fraction(value)] for row, value in zip(rows, values, strict=True)]
    for k in range(len(table)):
        pivot = next(i for i in range(k, len(table)) if table[i][k])
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [x / table[k][k] for x in table[k]]
        for i in range(len(table)):
            if i != k and table[i][k]:
                table[i] = [x - table[i][k] * y for x, y in zip(table[i], table[k], strict=True)]
    return [row[-1] for row in table]
