"""Between which numbers a value lies, and what it never reaches: ``exp(x) > 0``, ``1 / (1 + exp(-x)) < 1``.

An interval of :mod:`tantamount.calculus.spans` with ends that may be excluded. Wherever the value is defined it lies in
it: sums and products of enclosures enclose sums and products, an even power is not negative, and a bounded function
(``tanh``, ``erf``) does not reach its bounds.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import NamedTuple

from tantamount.calculus import spans
from tantamount.calculus.atoms import Store
from tantamount.calculus.products import known_positive
from tantamount.calculus.terms import IOTA, Factor, Factors, Polynomial, Ranges
from tantamount.sizes.symbolic import is_size

__all__ = ["Enclosure", "between", "decided", "enclosure", "multiplied", "raised"]

_NOT_REACHED = frozenset({"tanh", "erf"})  # -1 and 1


class _End(NamedTuple):
    """An end of an interval: a number or an infinity, and whether it is excluded."""

    at: Fraction | int | float
    out: bool


class Enclosure(NamedTuple):
    """All numbers between two ends."""

    low: _End
    high: _End


_MOST_DIGITS = 1 << 12  # binary ones, of the end of an interval
_ALL = Enclosure(_End(-inf, True), _End(inf, True))
_ONE = Enclosure(_End(1, False), _End(1, False))


def between(low: Fraction | int | float, high: Fraction | int | float, *, out: bool = False) -> Enclosure:
    """All numbers from ``low`` to ``high``; without these if ``out``. Infinities are excluded."""
    return Enclosure(_End(low, out or low == -inf), _End(high, out or high == inf))


def decided(store: Store, op: str, x: Polynomial, box: Ranges) -> int | None:
    """The truth of ``x < 0`` or ``x == 0`` wherever x is defined, if it is the same everywhere on the box."""
    low, high = enclosure(store, x, box)
    above, below = low.at > 0 or (low.at == 0 and low.out), high.at < 0 or (high.at == 0 and high.out)
    if op == "less":
        return 1 if below else 0 if above or low.at == 0 else None
    return 0 if above or below else None


def enclosure(store: Store, x: Polynomial, box: Ranges = None) -> Enclosure:
    """An enclosure of all values of x on the box of its axes."""
    low, high = _End(0, False), _End(0, False)
    for m, c in x:
        if is_size(c) or (low.at == -inf and high.at == inf):
            return _ALL
        one = _product(store, m, box)
        ends = [_End(_times(end.at, c), end.out) for end in one]
        a, b = ends if c > 0 else ends[::-1]
        low, high = _End(low.at + a.at, low.out or a.out), _End(high.at + b.at, high.out or b.out)
    return Enclosure(low, high)


def _times(a: Fraction | int | float, b: Fraction | int | float) -> Fraction | int | float:
    return 0 if a == 0 or b == 0 else a * b


def _product(store: Store, m: Factors, box: Ranges) -> Enclosure:
    out = _ONE
    for factor in m:
        out = multiplied(out, _of_factor(store, factor, box))
        if out == _ALL and not any(f.exponent % 2 == 0 for f in m):
            break
    return out


def multiplied(x: Enclosure, y: Enclosure) -> Enclosure:
    """An enclosure of all products of a number of each."""
    corners: list[_End] = []
    for a in x:
        for b in y:
            zero = (a.at == 0 and not a.out) or (b.at == 0 and not b.out)  # reached, whatever the other is
            corners.append(_End(_times(a.at, b.at), not zero and (a.out or b.out)))
    lowest, highest = min(c.at for c in corners), max(c.at for c in corners)
    return Enclosure(
        _End(lowest, all(c.out for c in corners if c.at == lowest)),
        _End(highest, all(c.out for c in corners if c.at == highest)),
    )


def _of_factor(store: Store, factor: Factor, box: Ranges) -> Enclosure:
    a, e, index = store.follow(factor)
    if a == IOTA:
        found = spans.interval(index[0], box, ())
        base = _ALL if found is None or any(map(is_size, found)) else between(*found)
        if known_positive(store, Factor(a, e, index)) and base == _ALL:
            base = Enclosure(_End(0, True), _End(inf, True))
    else:
        base = _of_atom(store, a)
    return raised(base, e)


def _of_atom(store: Store, number: int) -> Enclosure:
    known = store.memo.enclosures.get(number)
    if known is None:
        known = store.memo.enclosures[number] = _computed(store, number)
    return known


def _computed(store: Store, number: int) -> Enclosure:
    atom = store.atoms[number]
    least, most = spans.of_atom(store, number)
    low, high = between(-inf if is_size(least) else least, inf if is_size(most) else most)
    if atom.op in _NOT_REACHED:
        low, high = _End(-1, True), _End(1, True)
    elif atom.op == "polynomial":
        low, high = enclosure(store, atom.arguments[0])
    if atom.facts.below and atom.facts.span is not None and high.at == atom.facts.span[1]:
        high = _End(high.at, True)
    if atom.facts.positive and low.at <= 0:
        low = _End(0, True)
    elif atom.facts.nonnegative and low.at < 0:
        low = _End(0, False)
    return Enclosure(low, high)


def raised(x: Enclosure, e: Fraction | int) -> Enclosure:
    """An enclosure of the powers of these numbers, where they are defined."""
    low, high = x
    if e == 1:
        return x
    if e < 0:
        return _reciprocal(raised(x, -e))
    if e.denominator != 1:  # of what is not negative, and monotone: its ends are irrational, as a rule
        return Enclosure(_End(0, low.at > 0 or (low.at == 0 and low.out)), _End(inf, True))
    even = e % 2 == 0
    if max(_digits(end.at) for end in x) * e > _MOST_DIGITS:
        return Enclosure(_End(0, False), _End(inf, True)) if even else _ALL
    ends = [_End(_raised(end.at, int(e)), end.out) for end in x]
    if not even:
        return Enclosure(ends[0], ends[1])
    top = max(ends, key=lambda end: (end.at, not end.out))
    if low.at > 0 or high.at < 0:
        return Enclosure(min(ends, key=lambda end: (end.at, end.out)), top)
    reached = (low.at < 0 or not low.out) and (high.at > 0 or not high.out)
    return Enclosure(_End(0, not reached), top)


def _digits(x: Fraction | int | float) -> int:
    return 0 if isinstance(x, float) else max(Fraction(x).numerator.bit_length(), Fraction(x).denominator.bit_length())


def _raised(x: Fraction | int | float, e: int) -> Fraction | int | float:
    if isinstance(x, float):
        return inf if x > 0 or e % 2 == 0 else -inf
    return x**e


def _reciprocal(x: Enclosure) -> Enclosure:
    """Of a number that is not 0, for it is defined."""
    low, high = x
    if low.at < 0 < high.at:
        return _ALL
    if low.at == high.at == 0:
        return _ALL

    def inverse(end: _End, sign: int) -> _End:
        if end.at == 0:
            return _End(sign * inf, True)
        return _End(0, True) if isinstance(end.at, float) else _End(1 / Fraction(end.at), end.out)

    sign = 1 if low.at >= 0 and high.at > 0 else -1
    return Enclosure(inverse(high, sign), inverse(low, sign))
