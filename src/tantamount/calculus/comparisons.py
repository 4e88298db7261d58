"""Comparisons as atoms, and what is known of the values that they compare.

``[x < y]`` and ``[x == y]`` are kept as ``[rest + position < 0]``: the affine part is one index, so that shifted
positions are the same atom at an offset. Intervals of axes and recorded facts decide comparisons where they can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, isqrt
from typing import NamedTuple

from tantamount.calculus import bits, signs, spans
from tantamount.calculus.affine import Coordinate, content, coordinate, substitute, substitute_index, variable
from tantamount.calculus.atoms import BOOLEAN, LAST_AXIS, KnownRange, Store, ValueFacts
from tantamount.calculus.exponents import exponent_of
from tantamount.calculus.infinities import Split, split_infinity, unbounded
from tantamount.calculus.members import never_negative
from tantamount.calculus.monotone import members_of, with_sign_of
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add, constant, iota, multiply, polynomial, scale
from tantamount.calculus.products import (
    affine_part,
    is_boolean,
    is_integer,
    leading_sign,
    monomial,
    substitute_factors,
    substitute_polynomial,
)
from tantamount.calculus.spans import interval
from tantamount.calculus.terms import (
    IOTA,
    ONE,
    ZERO,
    Factor,
    Polynomial,
    Ranges,
    Rational,
    Term,
    factors_of,
    position,
    single,
)
from tantamount.errors import Unsupported
from tantamount.ops.functions import POSITIONS_IN_A_ROW
from tantamount.sizes.symbolic import is_size, rational, whole

__all__ = [
    "Comparison",
    "bounds_of",
    "compare",
    "comparison",
    "covered",
    "decide_interval",
    "fact_about",
    "is_bounded",
    "permuted",
    "interval",
    "positions_of",
    "record_range",
    "split_affine",
]

_LIFTED = LAST_AXIS  # a bound variable v poses as axis _LIFTED - v, inside one function only


def compare(
    store: Store, op: str, x: Polynomial, y: Polynomial, box: Ranges = None, *, oriented: bool = False
) -> Polynomial:
    """``[x < y]`` (op ``less``) or ``[x == y]`` (op ``equal``): the sign of ``x - y``, its affine part kept apart in
    one index."""
    difference = add(store, x, scale(y, -1))
    if x != y and (
        (unbounded(store, x) and unbounded(store, y)) or sum(unbounded(store, (term,)) for term in difference) > 1
    ):
        return _of_infinities(store, op, x, y, box, oriented)
    infinite = split_infinity(store, difference, box) if unbounded(store, difference) else None
    if infinite is not None and infinite.where != ONE:
        store.fired["infinity"] += 1
        finite = compare(store, op, infinite.finite, ZERO, box, oriented=oriented)
        there = constant(int(op == "less" and infinite.sign < 0))
        return add(
            store, multiply(store, infinite.where, there, box), multiply(store, infinite.nowhere(store), finite, box)
        )
    if (difference and difference[0].monomial) or len(difference) > 1:
        sign = signs.decided(store, op, difference, box)
        if sign is None:
            given, difference = difference, with_sign_of(store, difference)
            sign = signs.decided(store, op, difference, box) if difference != given else None
        if sign is not None:
            store.fired["decided-comparisons"] += 1
            return constant(sign)
        if op == "less" and never_negative(store, difference, box):
            store.fired["decided-comparisons"] += 1
            return ZERO
        apart = bits.told_apart(store, difference) if op == "equal" else None
        if apart is not None:
            store.fired["conjunctions-of-bits"] += 1
            return compare(store, "equal", apart, ZERO, box, oriented=oriented)
        bounded = _bounded_square(store, difference) if op == "less" else None
        if bounded is not None:
            u, most, inside = bounded
            store.fired["monotone-functions"] += 1
            low = compare(store, "less", u, constant(-most), box, oriented=oriented)
            high = compare(store, "less", u, constant(most + 1), box, oriented=oriented)
            between = multiply(store, high, add(store, ONE, scale(low, -1)), box)
            return between if inside else add(store, ONE, scale(between, -1))
        root = _even_root(difference)
        if root is not None:  # c a^2 == 0; and c a^2 < 0, which is nowhere for c > 0
            if op == "less" and difference[0].coefficient > 0:
                return ZERO
            where = compare(store, "equal", root, ZERO, box, oriented=oriented)
            return where if op == "equal" else add(store, ONE, scale(where, -1))
        several = _with_maximum(store, difference, box, oriented) if op == "less" else None
        if several is not None:
            store.fired["compared-maxima"] += 1
            return several
    rest, parts, offset = split_affine(difference)
    if not rest:
        return _affine_guard(store, op, parts, offset, box, oriented)
    if not parts and len(rest) == 1 and rest[0].coefficient == -offset:
        exponent = exponent_of(store, rest[0].monomial)
        if exponent is not None:  # c exp(u) - c, which has the sign of c u
            return compare(store, op, scale(exponent, 1 if offset < 0 else -1), ZERO, box, oriented=oriented)
    if (
        not parts
        and all(is_boolean(store, (Term(m, 1),)) for m, _ in rest)
        and not store.effort.exceeds("compared_booleans", len(rest))
    ):
        return _of_booleans(store, op, rest, offset, box)
    g: Rational = content([*(c for _, c in rest), *parts.values()])
    sign = leading_sign(rest)
    integral = is_integer(store, scale(rest, Fraction(1) / g))
    negated = False
    if sign < 0 and (op == "equal" or integral):
        g = -g
        negated = op == "less"
    rest = scale(rest, Fraction(1) / g)
    parts = {v: s / Fraction(g) for v, s in parts.items()}
    at = rational(offset) / Fraction(g)
    if integral:
        if op == "equal" and at.denominator != 1:
            return ZERO
        if negated:  # -K < 0  is  not (K <= 0)  is  not (K < 1), for whole K = rest + parts + at
            at = rational(-floor(-at)) - 1
        at = rational(floor(at))
    fraction = at - floor(at)
    if fraction:
        rest = add(store, rest, constant(fraction))
    index = coordinate({v: whole(s) for v, s in parts.items()}, floor(at))
    bounds = bounds_of(store, rest, box)
    if bounds is not None:
        span = interval(index, box, ())
        if span is not None:
            decided = decide_interval(op, bounds[0] + span[0], bounds[1] + span[1])
            if decided is not None:
                store.fired["decided-comparisons"] += 1
                return constant(decided ^ int(negated))
    atom, where = store.apply(op, (), (rest, position(index)), BOOLEAN)
    guard: Polynomial = single(atom, where)
    return add(store, ONE, scale(guard, -1)) if negated else guard


def _with_maximum(store: Store, x: Polynomial, box: Ranges, oriented: bool) -> Polynomial | None:
    """``[c max(u, v) + r < 0]``: of both u and v for c > 0, of one of them for c < 0; ``None`` for another x."""
    found: tuple[Term, list[Polynomial]] | None = None
    for term in x:
        members = members_of(store, term.monomial[0]) if len(term.monomial) == 1 else None
        if members is not None and found is not None:
            return None
        found = found if members is None else (term, members)
    if found is None or any(unbounded(store, member) for member in found[1]):
        return None
    (m, c), members = found
    rest = tuple(term for term in x if term.monomial != m)
    out = ONE
    for member in members:
        one = compare(store, "less", add(store, scale(member, c), rest), ZERO, box, oriented=oriented)
        out = multiply(store, out, one if c > 0 else add(store, ONE, scale(one, -1)), box)
    return out if c > 0 else add(store, ONE, scale(out, -1))


def _of_booleans(store: Store, op: str, x: Polynomial, offset: Rational, box: Ranges) -> Polynomial:
    """``[c p + d q + offset < 0]`` of booleans p, q, ...: what it is for each of their values, put together."""
    if not x:
        return constant(_decide(op, offset))
    (m, c), *rest = x
    low, high = (_of_booleans(store, op, tuple(rest), offset + k * c, box) for k in range(2))
    step = add(store, high, scale(low, -1))
    return add(store, low, multiply(store, (Term(m, 1),), step, box))


def _of_infinities(store: Store, op: str, x: Polynomial, y: Polynomial, box: Ranges, oriented: bool) -> Polynomial:
    """The comparison of two values, each of which is an infinity of one sign where a boolean holds, and a number
    elsewhere: by which of both are. Infinities of one sign are equal. Raises :class:`Unsupported` if that is not
    known of them."""
    a, b = (_apart(store, value, box) for value in (x, y))
    if a is None or b is None:
        raise Unsupported("a comparison of infinities")
    store.fired["infinity"] += 1
    less = op == "less"
    both = int(a.sign < b.sign if less else a.sign == b.sign)
    first, second = int(less and a.sign < 0), int(less and b.sign > 0)  # where the first (second) one alone is infinite
    finite = compare(store, op, a.finite, b.finite, box, oriented=oriented)
    cases = (
        (a.where, b.where, constant(both)),
        (a.where, b.nowhere(store), constant(first)),
        (a.nowhere(store), b.where, constant(second)),
        (a.nowhere(store), b.nowhere(store), finite),
    )
    return add(store, *(multiply(store, multiply(store, p, q, box), holds, box) for p, q, holds in cases), box=box)


def _apart(store: Store, x: Polynomial, box: Ranges) -> Split | None:
    return split_infinity(store, x, box) if unbounded(store, x) else Split(1, ZERO, x)


def _even_root(x: Polynomial) -> Polynomial | None:
    """a, if x is a number times an even positive power of an atom a."""
    if len(x) != 1 or len(x[0].monomial) != 1:
        return None
    a, e, index = x[0].monomial[0]
    if a == IOTA or e.denominator != 1 or e % 2 or e < 0:
        return None
    return single(a, index)


def _bounded_square(store: Store, x: Polynomial) -> tuple[Polynomial, int, bool] | None:
    """u, s, and whether ``x < 0`` says that ``-s <= u <= s`` or the opposite, for x that is a number times the square
    of one whole factor u, plus another number: ``u^2 < k`` and ``k < u^2``."""
    constants = [c for m, c in x if not m]
    terms = [(m, c) for m, c in x if m]
    if len(constants) != 1 or len(terms) != 1 or len(terms[0][0]) != 1 or is_size(constants[0]) or is_size(terms[0][1]):
        return None
    ((a, e, index),), c = terms[0]
    u = single(a, index)
    if a == IOTA or e != 2 or not is_integer(store, u):
        return None
    k = -rational(constants[0]) / Fraction(c)  # c u^2 < c k
    least = ceil(k) - 1 if c > 0 else floor(k)  # u^2 <= that, or the opposite
    return None if least < 0 else (u, isqrt(least), c > 0)


def split_affine(x: Polynomial) -> tuple[Polynomial, dict[int, Fraction], Fraction]:
    """A Polynomial as what is not affine in the positions, the strides, and the constant."""
    rest: list[Term] = []
    parts: dict[int, Fraction] = {}
    offset = Fraction(0)
    for m, c in x:
        found = None if m and m[-1].atom != IOTA else affine_part(m, c)
        if found is None:
            rest.append(Term(m, c))
        else:
            strides, start = found
            offset += start
            for v, s in strides:
                parts[v] = parts.get(v, Fraction(0)) + s
    return tuple(rest), {v: q for v, q in parts.items() if q}, offset


def _decide(op: str, value: Rational) -> int:
    return int(value < 0 if op == "less" else value == 0)


def decide_interval(op: str, low: Rational, high: Rational) -> int | None:
    """The truth of ``value < 0`` or ``value == 0`` for all values in [low, high], if it is the same for all."""
    if op == "less":
        return 1 if high < 0 else 0 if low >= 0 else None
    if low > 0 or high < 0:
        return 0
    return 1 if low == high == 0 else None


def _affine_guard(
    store: Store, op: str, parts: Mapping[int, Fraction], offset: Fraction, box: Ranges, oriented: bool
) -> Polynomial:
    """``oriented`` makes the first stride positive: ``[-k + q < 0]`` is ``1 - [k - q - 1 < 0]``. Which axis comes first
    depends on their numbers, so that is done only where two Polynomials are compared."""
    if not parts:
        return constant(_decide(op, offset))
    g = content(list(parts.values()))
    at = rational(offset) / g
    if op == "equal" and at.denominator != 1:
        return ZERO
    flip = op == "equal" and next(iter(sorted(parts.items())))[1] < 0
    if flip:
        g, at = -g, -at
    index = coordinate({v: whole(s / g) for v, s in parts.items()}, floor(at))
    span = interval(index, box, ())
    if span is not None:
        decided = decide_interval(op, *span)
        if decided is not None:
            store.fired["decided-comparisons"] += 1
            return constant(decided)
    digits = _digits(index, box) if op == "equal" else None
    if digits is not None:
        store.fired["digits"] += 1
        found = ONE
        for one in digits:
            found = multiply(store, found, compare(store, "equal", iota(one), ZERO, box), box)
        return found
    reverse = oriented and op == "less" and index.parts[0][1] < 0
    if reverse:
        index = coordinate({v: -s for v, s in index.parts}, -index.offset - 1)
    atom, where = store.apply(op, (), ((), position(index)), BOOLEAN)
    guard: Polynomial = single(atom, where)
    return add(store, ONE, scale(guard, -1)) if reverse else guard


def _digits(index: Coordinate, box: Ranges) -> tuple[Coordinate, ...] | None:
    """The coordinates that have to be 0 for ``s v + r`` to be 0, if the values of r on the box span less than s.

    At most one of them is a multiple m of s then: they are ``s v + m`` and ``r - m``, or 1, which never is 0, if there
    is none; ``None`` without such a v."""
    v, s = max(index.parts, key=lambda part: abs(part[1]))
    if is_size(s) or len(index.parts) == 1:
        return None
    rest = coordinate({u: q for u, q in index.parts if u != v}, index.offset)
    span = interval(rest, box, ())
    if span is None or is_size(span[0]) or is_size(span[1]) or span[1] - span[0] >= abs(s):
        return None
    multiple = ceil(Fraction(span[0]) / abs(s)) * abs(s)
    if multiple > span[1]:
        return (coordinate({}, 1),)
    return coordinate({v: s}, multiple), coordinate(dict(rest.parts), rest.offset - multiple)


# ------------------------------------------------------------------------------------------------ facts about indices
def record_range(store: Store, x: Polynomial, size: int, box: Ranges) -> None:
    """Assume ``0 <= x < size`` for all axes in the box (an index of the specification)."""
    if not x or box is None or any(map(_is_empty, box.values() if isinstance(box, Mapping) else box)):
        return
    if isinstance(box, tuple):
        store.ranges.assumed[x, size, box] = -1  # a form that was made before a join may still have what was joined
    atom, index = store.apply("fact", (), (x,), ValueFacts())
    covered_box: list[tuple[int, int]] = []
    seen: set[int] = set()
    for c in index:
        span = interval(c, box, ())
        if span is None or any(v in seen for v, _ in c.parts) or not _takes_all(c, box):
            return  # the points known are not a box of coordinates: forget the fact
        seen.update(v for v, _ in c.parts)
        covered_box.append((span[0], span[1]))
    _add_range(store.ranges.of_atoms.setdefault(atom, []), KnownRange(tuple(covered_box), 0, size - 1))


def _is_empty(interval: tuple[int, int]) -> bool:
    """True of an interval without a number, where nothing is said; of sizes with names it is not asked."""
    return not any(map(is_size, interval)) and interval[0] >= interval[1]


def _takes_all(c: Coordinate, box: Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]]) -> bool:
    """True if a coordinate takes all whole numbers between its least and greatest value on a box that has all of its
    variables: if no step is longer than what the shorter ones fill, as of the digits of a number."""
    if len(c.parts) < 2 or any(is_size(n) for v, s in c.parts for n in (s, *box[v])):
        return all(not is_size(s) and abs(s) == 1 for _, s in c.parts) and len(c.parts) < 2
    filled = 1
    for s, v in sorted((abs(s), v) for v, s in c.parts):
        if s > filled:
            return False
        filled += s * (box[v][1] - box[v][0] - 1)
    return True


def _add_range(known: list[KnownRange], new: KnownRange) -> None:
    """Record a fact. Facts that say the same of two boxes that are one together are one: of a tensor that was put
    together of blocks, what is asked may lie in several of them."""
    while True:
        for old in known:
            joined = _joined(old, new)
            if joined is not None:
                known.remove(old)
                new = joined
                break
        else:
            known.append(new)
            return


def _joined(one: KnownRange, other: KnownRange) -> KnownRange | None:
    """The fact of both boxes, if these are a box together and the facts say the same."""
    if (one.low, one.high) != (other.low, other.high) or len(one.spans) != len(other.spans):
        return None
    apart = [k for k, (a, b) in enumerate(zip(one.spans, other.spans, strict=True)) if a != b]
    if not apart:
        return one
    (low, high), (start, end) = one.spans[apart[0]], other.spans[apart[0]]
    if len(apart) > 1 or any(map(is_size, (low, high, start, end))):  # to ask would make it a condition on sizes
        return None
    if max(low, start) > min(high, end) + 1:
        return None
    spans = (*one.spans[: apart[0]], (min(low, start), max(high, end)), *one.spans[apart[0] + 1 :])
    return one._replace(spans=spans)


def fact_about(store: Store, x: Polynomial, box: Ranges, ranges: tuple[int, ...] = ()) -> tuple[int, int] | None:
    """The recorded least and greatest value of x where the box (and bound ranges) lie in the recorded box; what is a
    position in a row lies in the row."""
    length = positions_of(store, x)
    if length is not None:
        return 0, length - 1
    if not x or not store.ranges.of_atoms:
        return None
    atom, index = store.apply("fact", (), (x,), ValueFacts())
    spans = [interval(c, box, ranges) for c in index]
    said = [
        (low, high)
        for known, low, high in store.ranges.of_atoms.get(atom, ())
        if all(s is not None and k[0] <= s[0] and s[1] <= k[1] for s, k in zip(spans, known, strict=True))
    ]
    return (max(low for low, _ in said), min(high for _, high in said)) if said else None


def positions_of(store: Store, x: Polynomial) -> int | None:
    """The length of the row, if x is the value of a row function that gives positions in it."""
    if len(x) != 1 or x[0][1] != 1 or len(x[0][0]) != 1 or x[0][0][0][1] != 1:
        return None
    atom = store.atoms[x[0][0][0][0]]
    if atom.op not in POSITIONS_IN_A_ROW:
        return None
    return spans.row_length(store, atom)


def bounds_of(store: Store, x: Polynomial, box: Ranges) -> tuple[Rational, Rational] | None:
    """An interval that contains every value of x: from facts, booleans and constants, and what operators give."""
    known = fact_about(store, x, box)
    if known is not None:
        return known
    found = _added_up(store, x, box)
    if found is None:
        low, high = spans.of_polynomial(store, x, box)
        if not isinstance(low, float) and not isinstance(high, float):
            return low, high
    return found


def is_bounded(store: Store, x: Polynomial, size: int | None, box: Ranges) -> bool:
    """True if ``0 <= x < size`` is known without cases; ``None``: no matter how large x is."""
    bounds = bounds_of(store, x, box)
    return bounds is not None and bounds[0] >= 0 and (size is None or bounds[1] < size)


def _added_up(store: Store, x: Polynomial, box: Ranges) -> tuple[Rational, Rational] | None:
    low: Rational = 0
    high: Rational = 0
    for m, c in x:
        if not m:
            a, b = 1, 1
        elif is_boolean(store, (Term(m, 1),)):
            a, b = 0, 1
        else:
            span = fact_about(store, (Term(m, 1),), box) if len(x) > 1 else None
            if span is None and len(m) == 1 and m[0].atom == IOTA and m[0].exponent == 1:
                span = interval(m[0].at[0], box, ())
            if span is None:
                return None
            a, b = span
        low += c * (a if c > 0 else b)
        high += c * (b if c > 0 else a)
    return low, high


def covered(store: Store, factor: Factor, size: int, box: Ranges) -> bool:
    """True if ``SUM_{v < size} [t + s v + r == 0] = 1``: exactly one v fits, because of what is known of t."""
    guard = comparison(store, factor)
    if guard is None:
        return False
    stride = dict(guard.affine.parts).get(-1, 0)
    if abs(stride) != 1 or any(-1 in bound_variables(factor) for factor in factors_of(guard.rest)):
        return False
    other: Coordinate = Coordinate(tuple(p for p in guard.affine.parts if p[0] != -1), guard.affine.offset)
    span = interval(other, box, ())
    bounds = fact_about(store, guard.rest, box) if guard.rest else (0, 0)
    if span is None or bounds is None:
        return False
    low, high = span[0] + bounds[0], span[1] + bounds[1]  # t + r
    return (-high >= 0 and -low < size) if stride == 1 else (low >= 0 and high < size)


def permuted(store: Store, factor: Factor, v: int, size: int, box: Ranges, ranges: tuple[int, ...] = ()) -> bool:
    """True if ``[O_v == u]`` holds for exactly one ``v < size``: O puts the positions of a whole row in order, v is all
    that its place depends on, and u, which does not depend on v, is a position in the row."""
    guard = comparison(store, factor) if store.atoms[factor.atom].op == "equal" and factor.exponent == 1 else None
    if guard is None or len(guard.rest) != 1 or abs(guard.rest[0].coefficient) != 1:
        return False
    m, c = guard.rest[0]
    if len(m) != 1 or m[0].exponent != 1 or store.atoms[m[0].atom].op not in ("argsort", "order"):
        return False
    if positions_of(store, (Term(m, 1),)) != size or any(w == v for w, _ in guard.affine.parts):
        return False
    place, row = (substitute_polynomial(x, dict(enumerate(m[0].at))) for x in store.atoms[m[0].atom].arguments)
    if place != position(variable(v)) or any(w == v for f in factors_of(row) for p, _ in f.at for w, _ in p):
        return False
    span = interval(guard.affine, box, ranges)  # -c u
    if span is None:
        return False
    low, high = (span[0], span[1]) if c < 0 else (-span[1], -span[0])
    return low >= 0 and high < size


# ------------------------------------------------------------------------------------------------ reading them back
class Comparison(NamedTuple):
    """A comparison factor: ``[rest + affine < 0]`` or ``[rest + affine == 0]``."""

    op: str
    rest: Polynomial
    affine: Coordinate


def comparison(store: Store, factor: Factor) -> Comparison | None:
    """A comparison atom at an index, read back; ``None`` for any other factor."""
    atom = store.atoms[factor.atom]
    if atom.op not in ("less", "equal"):
        return None
    # a sum must not be normalised while it has free bound variables (those of its own would capture them)
    bound = sorted({v for c in factor.at for v, _ in c.parts if v < 0})
    away: dict[int, Coordinate] = {v: variable(_LIFTED - v) for v in bound}
    back: dict[int, Coordinate] = {_LIFTED - v: variable(v) for v in bound}
    replace = dict(enumerate(substitute_index(factor.at, away)))
    rest = polynomial(store, (monomial(store, c, substitute_factors(m, replace)) for m, c in atom.arguments[0]))
    affine = substitute(atom.position, replace)
    return Comparison(atom.op, substitute_polynomial(rest, back), substitute(affine, back))
