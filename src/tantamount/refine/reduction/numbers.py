"""Numbers that programs compute with and that are functions of sizes: ``1 / sqrt(head_dim)``, ``1 / numel``, bounds of
a vocabulary shard.

A number that equals a function of sizes must go with them, or a program that writes ``0.0721687836`` where the other
has the size 192 would be broken by the reduction. A *plain* number (0.125, 16) may be a function of a size, or may
be just that: then every size of which it might be a function stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isclose, isfinite, prod, sqrt

from tantamount.ir.types import Shape
from tantamount.refine.reduction.literals import Number
from tantamount.refine.reduction.sizes import (
    HUGE,
    Fact,
    Polynomial,
    constant,
    evaluate,
    monomial,
    plus,
    variables,
)

__all__ = ["Reading", "readings", "rewritten"]

_ROUNDING = 1e-7  # a literal may be the float32 nearest to the function's value
_PLAIN = 32  # whole numbers up to this one are plain,
_DIGITS = 4  # and fractions with at most so many significant digits

_FUNCTIONS: tuple[Callable[[float], float], ...] = (
    lambda n: n,
    lambda n: 1 / n,
    lambda n: 1 / sqrt(n),
    sqrt,
    lambda n: 2 / n,
    lambda n: n - 1,
    lambda n: 1 / (n - 1),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A number as ``sign * function(size)``, where ``size`` is a polynomial."""

    number: Number
    sign: int
    function: int
    size: Polynomial

    def at(self, sizes: Mapping[int, int]) -> Number:
        """The number at other sizes, of the same type as the original."""
        value = self.sign * _FUNCTIONS[self.function](evaluate(self.size, sizes))
        return round(value) if isinstance(self.number, int) else float(value)


def readings(
    numbers: Iterable[Number], known: Iterable[int], shapes: Iterable[Shape], ranks: int
) -> tuple[list[Reading], list[Fact]]:
    """Every way to read each number as a function of sizes, and the sizes that plain ones fix. ``known``: the sizes;
    products of some dimensions of ``shapes`` count where no single size does."""
    single = {monomial((size,)): size for size in known}
    products: dict[Polynomial, int] = {}
    for shape in shapes:
        for part in (shape, shape[:-1], shape[:2]):
            products[monomial(part)] = prod(part)
    products = {p: n for p, n in products.items() if len(variables(p)) > 1}
    found: list[Reading] = []
    fixed: list[Fact] = []
    for number in numbers:
        if isinstance(number, bool) or not isfinite(number) or not 0 < abs(number) < HUGE:
            continue
        here = _readings(number, single) or _multiple(number, single, ranks) or _readings(number, products)
        if _plain(number):
            fixed += [("==", plus(r.size, constant(-evaluate(r.size, _Itself())))) for r in here]
        else:
            found += here
    return found, fixed


class _Itself(dict[int, int]):
    """Every variable at the integer that it stands for."""

    def __missing__(self, key: int) -> int:
        return key


def _readings(number: Number, sizes: Mapping[Polynomial, int]) -> list[Reading]:
    sign, size = (-1 if number < 0 else 1), abs(number)
    out: list[Reading] = []
    for k, function in enumerate(_FUNCTIONS):
        for p, n in sizes.items():
            value = function(n)
            if value == size if float(size).is_integer() else isclose(value, size, rel_tol=_ROUNDING):
                out.append(Reading(number, sign, k, p))
        if out and k == 0:  # a size is that size
            break
    return out


def _multiple(number: Number, sizes: Mapping[Polynomial, int], ranks: int) -> list[Reading]:
    """A whole number as the smallest multiple of a size: where a rank's shard begins or ends."""
    if not isinstance(number, int):
        return []
    best: tuple[int, Polynomial] | None = None
    for p, n in sizes.items():
        if len(p) == 1 and len(p[0][0]) == 1 and abs(number) % n == 0 and 1 < abs(number) // n <= ranks:
            factor = abs(number) // n
            if best is None or factor < best[0]:
                best = factor, p
    if best is None:
        return []
    (m, c), factor = best[1][0], best[0]
    return [Reading(number, -1 if number < 0 else 1, 0, ((m, c * factor),))]


def _plain(number: Number) -> bool:
    if float(number).is_integer():
        return abs(number) <= _PLAIN
    return len(f"{abs(number):.15e}".split("e")[0].replace(".", "").rstrip("0")) <= _DIGITS


def rewritten(found: Iterable[Reading], sizes: Mapping[int, int]) -> dict[str, Number] | Number:
    """The new value of every number (by its ``repr``) that follows sizes; a number alone if its readings contradict
    each other there."""
    out: dict[str, Number] = {}
    for reading in found:
        value = reading.at(sizes)
        if not isclose(out.setdefault(repr(reading.number), value), value, rel_tol=_ROUNDING):
            return reading.number
    return out
