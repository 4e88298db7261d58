"""Integers that remember where they come from: a polynomial over the sizes of a job.

The operators' definitions run on them as on any other integer. Whatever a definition concludes from such an integer
(a comparison, a remainder, how often a list is repeated) is written down as a *fact* about the polynomial. Other sizes
for which all facts hold take the same way through every definition: concolic execution (Godefroid, Klarlund and Sen,
*DART*) of the type rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

__all__ = [
    "FIXED", "HUGE", "Polynomial", "Size", "SizeFact", "SizeFacts", "constant", "evaluate", "polynomial", "plus",
    "product",
    "times", "variables",
]  # fmt: skip

FIXED = 4  # integers up to this one stay what they are: most are dimensions, counts and small sizes
HUGE = 1 << 31  # integers from here on are no sizes ("to the end")

Monomial = tuple[int, ...]  # a sorted product of variables; variables are numbered
Polynomial = tuple[tuple[Monomial, int], ...]  # sorted, without zero coefficients
SizeFact = tuple[str, Polynomial]  # "==": it is 0; "!=": it is not; ">=": it is not negative


def constant(value: int) -> Polynomial:
    """The polynomial that is ``value`` everywhere."""
    return (((), value),) if value else ()


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
    total: dict[Monomial, int] = {}
    for m, c in terms:
        total[m] = total.get(m, 0) + c
    return tuple(sorted((m, c) for m, c in total.items() if c))


def plus(p: Polynomial, q: Polynomial, factor: int = 1) -> Polynomial:
    """``p + factor * q``"""
    return _sum((*p, *((m, factor * c) for m, c in q)))


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p * q``"""
    return _sum((tuple(sorted((*m, *n))), c * d) for m, c in p for n, d in q)


def variables(p: Polynomial) -> set[int]:
    """The variables that occur."""
    return {v for m, _ in p for v in m}


def evaluate(p: Polynomial, values: Mapping[int, int]) -> int:
    """The value where every variable has the value given."""
    total = 0
    for m, c in p:
        for v in m:
            c *= values[v]
        total += c
    return total


def divided(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """``p / q`` for a ``q`` of one term that divides every term of ``p``."""
    if len(q) != 1:
        return None
    (divisor, factor), terms = q[0], dict[Monomial, int]()
    for m, c in p:
        rest = list(m)
        for v in divisor:
            if v not in rest:
                return None
            rest.remove(v)
        if c % factor:
            return None
        terms[tuple(rest)] = c // factor
    return _sum(terms.items())


class SizeFacts:
    """Conclusions, without repetition, about variables that are known by a name each. Variables that were found
    equal are one from then on."""

    def __init__(self) -> None:
        self.values: list[int] = []  # of each variable, at the sizes of the job
        self._found: dict[SizeFact, None] = {}
        self._names: dict[Hashable, int] = {}
        self._parents: list[int] = []

    @property
    def found(self) -> list[SizeFact]:
        """The facts, about one variable of each class."""
        return list(dict.fromkeys((kind, self.settled(p)) for kind, p in self._found))

    def representative(self, variable: int) -> int:
        """The variable that stands for all that equal it."""
        while self._parents[variable] != variable:
            self._parents[variable] = variable = self._parents[self._parents[variable]]
        return variable

    def settled(self, p: Polynomial) -> Polynomial:
        """The polynomial in these."""
        if all(self._parents[v] == v for m, _ in p for v in m):
            return p
        return _sum((tuple(sorted(map(self.representative, m))), c) for m, c in p)

    def variable(self, name: Hashable, value: int) -> int:
        """The integer ``value`` as the variable of that name (and value), if it is one that may change at all."""
        if isinstance(value, Size) or not FIXED < abs(value) < HUGE:
            return value
        if value < 0:
            return -self.variable(name, -value)
        key = (name, value)
        if key not in self._names:
            self._names[key] = len(self.values)
            self._parents.append(len(self.values))
            self.values.append(value)
        return Size.of(value, (((self._names[key],), 1),), self)

    def add(self, kind: str, p: Polynomial) -> None:
        """Note a fact, unless it holds or fails whatever the sizes are."""
        p = self.settled(p)
        if not variables(p):
            return
        if kind == "==" and len(p) == 2 and {(len(m), abs(c)) for m, c in p} == {(1, 1)} and p[0][1] + p[1][1] == 0:
            first, second = p[0][0][0], p[1][0][0]
            self._parents[max(first, second)] = min(first, second)
            return
        self._found[kind, p] = None

    def tie(self, size: int) -> int:
        """A variable for a size that was computed. A plain integer that may change was made from others in a way that
        leaves no trace: it must stay what it is."""
        p = self.settled(polynomial(size))
        if isinstance(size, Size):
            if len(p) == 1 and len(p[0][0]) == p[0][1] == 1:
                return Size.of(int(size), p, self)
            tied = self.variable(("computed", p), int(size))
        else:
            tied = self.variable("fixed", size)
        self.add("==", plus(polynomial(tied), p, -1))
        return tied

    def pin(self, size: int) -> None:
        """A size that must stay what it is."""
        self.add("==", plus(polynomial(size), constant(int(size)), -1))


def polynomial(value: int) -> Polynomial:
    """The polynomial of an integer."""
    return value.polynomial if isinstance(value, Size) else constant(int(value))


class Size(int):
    """An integer with a polynomial; arithmetic follows it, comparisons note facts."""

    polynomial: Polynomial
    facts: SizeFacts

    @staticmethod
    def of(value: int, p: Polynomial, facts: SizeFacts) -> Size:
        """``value``, which is ``p`` at the sizes of the job."""
        size = int.__new__(Size, value)
        size.polynomial = p
        size.facts = facts
        return size

    def _new(self, value: int, p: Polynomial) -> int:
        return Size.of(value, p, self.facts) if variables(p) else value

    # -- arithmetic
    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self._new(int(self) + int(other), plus(self.polynomial, polynomial(other)))

    __radd__ = __add__

    def __neg__(self) -> int:
        return self._new(-int(self), plus((), self.polynomial, -1))

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return -self if self < 0 else self

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self._new(int(self) - int(other), plus(self.polynomial, polynomial(other), -1))

    def __rsub__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self._new(int(other) - int(self), plus(polynomial(other), self.polynomial, -1))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (tuple, list, str)):  # a repetition: how often is part of the structure
            self.facts.add("==", plus(self.polynomial, constant(int(self)), -1))
            return other * int(self)  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(other, int):
            return NotImplemented
        return self._new(int(self) * int(other), times(self.polynomial, polynomial(other)))

    __rmul__ = __mul__

    def __divmod__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return _divided(self, other, self.facts)

    def __rdivmod__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return _divided(other, self, self.facts)

    def __floordiv__(self, other: Any) -> Any:
        found = self.__divmod__(other)
        return found if found is NotImplemented else found[0]

    def __rfloordiv__(self, other: Any) -> Any:
        found = self.__rdivmod__(other)
        return found if found is NotImplemented else found[0]

    def __mod__(self, other: Any) -> Any:
        found = self.__divmod__(other)
        return found if found is NotImplemented else found[1]

    def __rmod__(self, other: Any) -> Any:
        found = self.__rdivmod__(other)
        return found if found is NotImplemented else found[1]

    # -- comparisons
    def _compare(self, other: int, result: bool, yes: tuple[str, int, int], no: tuple[str, int, int]) -> bool:
        """``(kind, sign, shift)``: the fact is about ``sign * (self - other) + shift``."""
        kind, sign, shift = yes if result else no
        difference = plus(self.polynomial, polynomial(other), -1)
        self.facts.add(kind, plus(constant(shift), difference, sign))
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            return False
        return self is other or self._compare(other, int(self) == int(other), ("==", 1, 0), ("!=", 1, 0))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return self._compare(other, int(self) < int(other), (">=", -1, -1), (">=", 1, 0))

    def __ge__(self, other: Any) -> bool:
        return NotImplemented if not isinstance(other, int) else not self < other

    def __le__(self, other: Any) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return self._compare(other, int(self) <= int(other), (">=", -1, 0), (">=", 1, -1))

    def __gt__(self, other: Any) -> bool:
        return NotImplemented if not isinstance(other, int) else not self <= other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return int.__hash__(self)


def _divided(a: int, b: int, facts: SizeFacts) -> tuple[int, int]:
    """Quotient and remainder. What divided exactly does so again, what did not does not, and a number of parts or a
    remainder up to FIXED stays that number."""
    low, rest = divmod(int(a), int(b))
    p, q = facts.settled(polynomial(a)), facts.settled(polynomial(b))
    whole = divided(p, q) if not rest else None
    if whole is not None:
        return (Size.of(low, whole, facts) if variables(whole) else low), 0
    quotient, remainder = facts.variable(("quotient", p, q), low), facts.variable(("remainder", p, q), rest)
    facts.add("==", plus(plus(p, times(polynomial(quotient), q), -1), polynomial(remainder), -1))
    if rest:
        sign = 1 if int(b) > 0 else -1
        facts.add(">=", plus(plus(constant(-1), q, sign), polynomial(remainder), -sign))
        facts.add(">=", plus(constant(-1), polynomial(remainder), sign))
    return quotient, remainder


def product(shape: Iterable[int]) -> Polynomial:
    """The number of elements of a shape."""
    p = constant(1)
    for size in shape:
        p = times(p, polynomial(size))
    return p
