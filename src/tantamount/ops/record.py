"""The record of a value that ``ops.recording`` makes, and the arithmetic of polynomials, bounds and signs in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Union

from tantamount.ir.types import Shape

__all__ = [
    "HIDDEN", "MAX_FACTORS", "Bound", "Monomial", "Recorded", "Terms", "blurred", "hidden", "no_axes", "product_of",
    "product_of_terms", "sign_of", "signs_of", "sum_of", "sum_of_terms",
]  # fmt: skip

Monomial = tuple[str, ...]  # names of operands, sorted, one for each factor; HIDDEN + name: some function of it
Terms = Mapping[Monomial, "Fraction | None"]  # the factor of each; None: not one number
HIDDEN = "~"
Bound = Union[float, Fraction]
_MAX_TERMS = 16  # of a polynomial that is followed; longer ones are some function of their operands
MAX_FACTORS = 8


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of how a tensor came about.

    ``key``: equal only of equal values (of one shape). ``terms``: its polynomial in operands, position by position
    after whatever moved them; empty: zero. ``moved``: the operands whose elements, or constants, it consists of, as
    ``moves`` put them and ``deciders`` (operands that are indices or conditions) chose; ``None``: they are computed.
    ``axes``: for every dimension the one, counted from the end, at which the operands are read (``None``: at none);
    no tuple at all where they are read elsewhere. ``positional``: the function differs from place to place. ``signs``:
    by operand 1 where it grows with it, -1 where it falls, 0 where neither is known. ``low`` and ``high`` bound the
    elements. ``uniform``: all elements are equal; ``consecutive``: whole numbers, counting up by one along the one
    dimension along which they vary.
    """

    key: int
    shape: Shape
    terms: Terms
    moved: frozenset[str] | None = None
    moves: frozenset[str] = frozenset()
    deciders: frozenset[str] = frozenset()
    axes: tuple[int | None, ...] | None = None
    positional: bool = False
    signs: Mapping[str, int] = field(default_factory=dict[str, int])
    low: Bound = -inf
    high: Bound = inf
    whole: bool = False
    uniform: bool = False
    consecutive: bool = False
    reduction: str = ""
    count: int = 0  # of elements that were summed
    comparison: str = ""
    exponent: Fraction | None = None

    @property
    def leaves(self) -> frozenset[str]:
        """The operands that it depends on."""
        return frozenset(name.removeprefix(HIDDEN) for term in self.terms for name in term) | self.deciders

    @property
    def number(self) -> Fraction | None:
        """The number that all elements are, if they are one that is known."""
        if not self.terms:
            return Fraction(0)
        return self.terms.get(()) if self.uniform and set(self.terms) == {()} else None


def hidden(*xs: Recorded) -> Terms:
    """Some function of these."""
    names = frozenset[str]().union(*(x.leaves for x in xs))
    return {tuple(HIDDEN + name for name in sorted(names)): None}


def _times(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else a * b


def product_of_terms(a: Terms, b: Terms) -> Terms | None:
    """The product of two polynomials; ``None`` if it is too long to follow."""
    out: dict[Monomial, Fraction | None] = {}
    for m, c in a.items():
        for n, d in b.items():
            hidden = {name for name in (*m, *n) if name.startswith(HIDDEN)}
            plain = [name for name in (*m, *n) if not name.startswith(HIDDEN)]
            key = (*sorted(plain), *sorted(hidden))
            if len(key) > MAX_FACTORS:
                return None
            _add_term(out, key, _times(c, d))
    return out if len(out) <= _MAX_TERMS else None


def sum_of_terms(xs: Sequence[Terms]) -> Terms | None:
    """The sum of polynomials; ``None`` if it is too long to follow."""
    out: dict[Monomial, Fraction | None] = {}
    for x in xs:
        for m, c in x.items():
            _add_term(out, m, c)
    return out if len(out) <= _MAX_TERMS else None


def _add_term(out: dict[Monomial, Fraction | None], key: Monomial, factor: Fraction | None) -> None:
    before = out.get(key, Fraction(0))
    if any(name.startswith(HIDDEN) for name in key):
        out[key] = None  # two functions of the same operands are two functions
        return
    total = None if factor is None or before is None else before + factor
    if total == 0 and not key:
        out.pop(key, None)
    else:
        out[key] = total or None  # x - y where x and y are the same elements in two orders: not zero


def blurred(terms: Terms) -> Terms:
    """The polynomial without its factors: which operands' products there are sums of."""
    return dict.fromkeys(terms, None)


def signs_of(*parts: tuple[Recorded, int]) -> dict[str, int]:
    """The signs of a function that grows (1) or falls (-1) with each part, or neither is known (0)."""
    out: dict[str, int] = {}
    for x, sign in parts:
        for name in x.leaves:
            found = x.signs.get(name, 0) * sign
            out[name] = found if out.get(name, found) == found else 0
    return out


def sign_of(x: Recorded) -> int:
    """1 where no element is negative, -1 where none is positive, else 0."""
    return 1 if x.low >= 0 else -1 if x.high <= 0 else 0


def product_of(a: Bound, b: Bound) -> Bound:
    """The product of two bounds; zero times infinity is zero, as of numbers that may be as large as one likes."""
    return Fraction(0) if a == 0 or b == 0 else a * b


def sum_of(a: Bound, b: Bound) -> Bound:
    """The sum of two lower, or of two upper bounds."""
    return a if a in (inf, -inf) else b if b in (inf, -inf) else a + b


def no_axes(x: Recorded, shape: Shape) -> tuple[int | None, ...] | None:
    """The axes of a value whose elements were moved: those of one that depends on no operand still are none."""
    if x.axes is not None and (not x.leaves or all(axis is None for axis in x.axes)):
        return (None,) * len(shape)
    return None
