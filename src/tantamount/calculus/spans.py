"""Intervals that contain every value of a polynomial, wherever it is defined; their ends may be infinite.

Bounds of atoms come from what they are: a tensor of a narrow integer type, a remainder, a maximum, a rounding, a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor, inf, prod

from tantamount.calculus.affine import Coordinate, substitute, substitute_index
from tantamount.calculus.atoms import Atom, Store
from tantamount.calculus.products import is_integer
from tantamount.calculus.terms import IOTA, Factor, Factors, Polynomial, Ranges, factors_of, sole_number
from tantamount.ops.functions import DISTINCT_IN_A_ROW, MODULI, POSITIONS_IN_A_ROW
from tantamount.sizes.symbolic import is_size

__all__ = ["Span", "interval", "of_atom", "of_polynomial", "row_length"]

Bound = Fraction | int | float  # a float is an infinity
Span = tuple[Bound, Bound]

_ALL: Span = (-inf, inf)
_MOST_DIGITS = 1 << 12  # binary ones, of the end of an interval
_BOUNDED = frozenset({"sin", "cos", "tanh", "erf", "sign"})  # by -1 and 1
_ROUNDINGS: Mapping[str, Callable[[Bound], int]] = {"floor": floor, "round": round, "trunc": int}  # all monotone
_BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})


def interval(c: Coordinate, box: Ranges, ranges: tuple[int, ...]) -> tuple[int, int] | None:
    """The least and greatest value of a coordinate, if the interval of every variable is known."""
    low = high = c.offset
    for v, s in c.parts:
        if v < 0 and -1 - v < len(ranges):
            a, b = 0, ranges[-1 - v] - 1
        elif v >= 0 and box is not None and (v in box if isinstance(box, Mapping) else v < len(box)):
            a, b = box[v][0], box[v][1] - 1
        else:
            return None
        low += s * (a if s > 0 else b)
        high += s * (b if s > 0 else a)
    return low, high


def of_polynomial(store: Store, x: Polynomial, box: Ranges, ranges: tuple[int, ...] = ()) -> Span:
    """An interval of x, whose axes lie in the box and whose bound variables -1, -2, ... in ``ranges``."""
    low: Bound = 0
    high: Bound = 0
    for m, c in x:
        if not _is_number(c):
            return _ALL
        a, b = _product(_of_factors(store, m, box, ranges), (c, c))
        low, high = _plus(low, a), _plus(high, b)
        if low == -inf and high == inf:
            return _ALL
    return low, high


def _is_number(value: object) -> bool:
    """True if this is a number, not a symbolic size."""
    return isinstance(value, (int, Fraction))


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _plus(a: Bound, b: Bound) -> Bound:
    """The sum of two ends, of which one may be infinite and the other a symbolic size."""
    return a if isinstance(a, float) else b if isinstance(b, float) else a + b


def _product(x: Span, y: Span) -> Span:
    ends = (*x, *y)
    if any(isinstance(end, float) for end in ends) and any(map(is_size, ends)):
        return _ALL  # a symbolic size beside what has no end
    corners = [_times(a, b) for a in x for b in y]
    return min(corners), max(corners)


def _of_factors(store: Store, m: Factors, box: Ranges, ranges: tuple[int, ...]) -> Span:
    out: Span = (1, 1)
    for factor in m:
        out = _product(out, _of_factor(store, factor, box, ranges))
        if out == _ALL:
            break
    return out


def _of_factor(store: Store, factor: Factor, box: Ranges, ranges: tuple[int, ...]) -> Span:
    a, e, index = store.follow(factor)
    if a == IOTA:
        found = interval(index[0], box, ranges)
        span: Span = found if found is not None and all(map(_is_number, found)) else _ALL
    else:
        span = of_atom(store, a)
    return _power(span, e)


def _power(span: Span, e: Fraction | int) -> Span:
    low, high = span
    if e == 1:
        return span
    if e.denominator != 1:
        return 0, inf
    if e < 0:
        return _reciprocal(_power(span, -e))
    even = e % 2 == 0
    if max(map(_digits, span)) * e > _MOST_DIGITS:  # a number that is too long to be worth knowing
        return (0, inf) if even else _ALL
    out = [_raised(end, int(e)) for end in span]
    if even:
        return (0 if low <= 0 <= high else min(out)), max(out)
    return out[0], out[1]


def _digits(end: Bound) -> int:
    return 0 if isinstance(end, float) else max(abs(end.numerator).bit_length() - 1, end.denominator.bit_length() - 1)


def _raised(end: Bound, e: int) -> Bound:
    if isinstance(end, float):  # an infinity
        return inf if end > 0 or e % 2 == 0 else -inf
    return end**e


def _reciprocal(span: Span) -> Span:
    low, high = span
    if low <= 0 <= high:
        return _ALL
    ends = [0 if isinstance(end, float) else 1 / Fraction(end) for end in (high, low)]
    return ends[0], ends[1]


def of_atom(store: Store, number: int) -> Span:
    """An interval of all values of an atom."""
    known = store.memo.spans.get(number)
    if known is None:
        atom = store.atoms[number]
        known = (0, 1) if atom.facts.boolean else atom.facts.span or _computed(store, atom)
        if atom.facts.nonnegative or atom.facts.positive:
            known = (max(known[0], 0), known[1])
        store.memo.spans[number] = known
    return known


def _computed(store: Store, atom: Atom) -> Span:
    if atom.op == "leaf":
        meaning = store.leaves.definitions.get(atom.number)
        return _ALL if meaning is None else of_polynomial(store, meaning, None)
    if atom.op == "polynomial":
        return of_polynomial(store, atom.arguments[0], None)
    if atom.op == "sum":
        return _of_sum(store, atom)
    if atom.op == "max":
        return _of_maximum(store, atom)
    if atom.op in POSITIONS_IN_A_ROW:
        return 0, row_length(store, atom) - 1
    if atom.op in MODULI:
        return 0, (1 << MODULI[atom.op]) - 1
    if atom.op in _BOUNDED:
        return -1, 1
    if atom.op in _ROUNDINGS:
        ends = of_polynomial(store, atom.arguments[0], None)
        return tuple(end if isinstance(end, float) else _ROUNDINGS[atom.op](end) for end in ends)  # type: ignore[return-value]
    if atom.op in _BITWISE:
        return _of_bits([of_polynomial(store, x, None) for x in atom.arguments])
    if atom.op == "floor_divide":  # no further from 0 than what is divided by 1 or -1, but for the sign
        low, high = of_polynomial(store, atom.arguments[0], None)
        divisor = sole_number(atom.arguments[1])
        if _is_number(divisor) and divisor is not None and divisor > 0:
            low, high = (end if isinstance(end, float) else floor(end / Fraction(divisor)) for end in (low, high))
            return low, high
        if not is_integer(store, atom.arguments[1]):
            return _ALL
        most = max(abs(low), abs(high))
        return -most, most
    return _ALL


def _of_sum(store: Store, atom: Atom) -> Span:
    if not all(map(_is_number, atom.ranges)):
        return _ALL
    for guard in atom.summand:
        once = _at_most_once(store, guard, atom.ranges)
        if once:
            rest = tuple(f for f in atom.summand if f is not guard)
            low, high = _of_factors(store, rest, None, atom.ranges)
            count = prod(n for j, n in enumerate(atom.ranges) if j not in once)
            return _product((min(low, 0), max(high, 0)), (count, count))
    count = prod(atom.ranges)
    return _product(_of_factors(store, atom.summand, None, atom.ranges), (count, count))


def _at_most_once(store: Store, guard: Factor, ranges: tuple[int, ...]) -> set[int]:
    """Bound variables (0 is the first) at one place of which, at most, ``[t + position == 0]`` holds, whatever the
    others are: t does not depend on them and the strides, in order, each exceed all that the smaller ones can add up
    to; or t is a position in an order of a row, of which no two are equal."""
    atom = store.atoms[guard.atom]
    if atom.op != "equal" or guard.exponent != 1:
        return set()
    here = dict(enumerate(guard.at))
    position = substitute(atom.position, here)
    inside = [Factor(f.atom, f.exponent, substitute_index(f.at, here)) for m, _ in atom.arguments[0] for f in m]
    within = {v for f in inside for c in f.at for v, _ in c.parts if v < 0}
    along = [(v, s) for v, s in position.parts if v < 0]
    if not within:
        reach = 0
        for v, stride in sorted(along, key=lambda part: abs(part[1])):
            if abs(stride) <= reach:
                return set()
            reach += abs(stride) * (ranges[-1 - v] - 1)
        return {-1 - v for v, _ in along}
    if along or len(within) != 1 or len(atom.arguments[0]) != 1 or len(inside) != 1 or inside[0].exponent != 1:
        return set()
    (v,) = within
    order = store.atoms[inside[0].atom]
    if order.op not in DISTINCT_IN_A_ROW:
        return set()
    there = dict(enumerate(inside[0].at))
    place, row = (
        [Factor(f.atom, f.exponent, substitute_index(f.at, there)) for m, _ in x for f in m] for x in order.arguments
    )
    if any(w == v for f in row for c in f.at for w, _ in c.parts) or len(order.arguments[0]) != 1:
        return set()
    alone = len(place) == 1 and place[0].atom == IOTA and any(w == v for w, _ in place[0].at[0].parts)
    return {-1 - v} if alone else set()


def row_length(store: Store, atom: Atom) -> int:
    """The length of the row in which the value of an atom is a position."""
    length = 0
    for m, _ in atom.arguments[1]:  # a formal sum of the row's elements, one of them or those of a range
        last = store.atoms[m[0][0]]
        length += prod(last.ranges) if last.op == "sum" else 1
    return length


def _of_maximum(store: Store, atom: Atom) -> Span:
    """The greatest lower bound and the greatest upper bound of the members of the set."""
    members: list[Span] = []
    for factor in factors_of(atom.arguments[0]):
        inner = store.atoms[factor.atom]
        if inner.op == "sum" and len(inner.summand) == 1:  # with a condition there may be no member at all
            inner = store.atoms[inner.summand[0].atom]
        if inner.op != "element":
            return _ALL
        members.append(of_polynomial(store, inner.arguments[0], None))
    return max(low for low, _ in members), max(high for _, high in members)


def _of_bits(operands: list[Span]) -> Span:
    """Both operands are numbers of k bits (and a sign): so is what is made of their bits."""
    if any(isinstance(end, float) for span in operands for end in span):
        return _ALL
    lowest, highest = min(low for low, _ in operands), max(high for _, high in operands)
    bits = max(ceil(highest).bit_length(), (-floor(lowest) - 1).bit_length() if lowest < 0 else 0)
    return (-(1 << bits) if lowest < 0 else 0), (1 << bits) - 1
