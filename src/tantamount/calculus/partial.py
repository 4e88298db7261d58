"""Booleans that say where a partial operation is undefined: zeros of divisors, negative numbers under roots and
logarithms.

What is not negative is zero where its indicator is: ``SUM_j m_j exp(s_j)`` with masks m is zero exactly where
``SUM_j m_j`` is, so that programs that weigh what they keep by other positive numbers agree in where nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product as choices
from math import lcm, prod

from tantamount.calculus.affine import Coordinate, coordinate, fixed, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.comparisons import bounds_of, compare, comparison, decide_interval, interval
from tantamount.calculus.infinities import infinity_atom, may_conceal
from tantamount.calculus.members import never_negative
from tantamount.calculus.polynomials import add, as_factors, iota, multiply, polynomial, scale, sum_over
from tantamount.calculus.powers import logarithm, maximum_of, nonnegative, power, set_of, strictly_positive, unbounded
from tantamount.calculus.products import (
    exact,
    is_boolean,
    is_nonnegative,
    known_positive,
    monomial,
    substitute_factors,
    substitute_polynomial,
)
from tantamount.calculus.sums import flatten
from tantamount.calculus.terms import ONE, ZERO, Factor, Factors, Flat, Polynomial, Ranges, Term, sole_number
from tantamount.sizes.symbolic import is_size

__all__ = [
    "always_positive",
    "contradictory",
    "holds_somewhere",
    "is_zero",
    "minus_infinite",
    "negative_parts",
    "vanishes_where",
    "zero_parts",
]


def zero_parts(store: Store, x: Polynomial, box: Ranges) -> list[Polynomial]:
    """Booleans that together tell where x is zero: one for every factor of x that may be. Empty: nowhere."""
    if not x:
        return [ONE]
    c, factors = as_factors(store, x)
    if not c:
        return [ONE]
    out: list[Polynomial] = []
    for a, e, index in factors:
        if e < 0 or known_positive(store, Factor(a, e, index)):
            store.fired["zeros-of-products"] += 1
            continue
        found = is_zero(store, polynomial(store, [Term((Factor(a, 1, index),), 1)], box), box)
        if found:
            out.append(found)
    return out


def negative_parts(store: Store, x: Polynomial, box: Ranges) -> list[Polynomial]:
    """Booleans that together tell where x is negative."""
    if not x or nonnegative(store, x):
        return []
    c, factors = as_factors(store, x)
    signed = tuple(f for f in factors if not known_positive(store, f))
    rest = polynomial(store, [Term(signed, 1 if c > 0 else -1)], box)
    if nonnegative(store, _without_spread(store, rest)):
        return []
    found = compare(store, "less", rest, ZERO, box)
    return [found] if found else []


def _without_spread(store: Store, x: Polynomial) -> Polynomial:
    """A lower bound of x: without as much of ``n SUM_j g_j^2 - (SUM_j g_j)^2`` as is in it, which is never negative for
    n numbers (a variance)."""
    if not any(c < 0 for _, c in x) or any(is_size(c) for _, c in x):
        return x
    left = {m: Fraction(c) for m, c in x}
    for m, c in x:
        if c > 0 or len(m) != 1 or m[0].exponent != 2:
            continue
        base = polynomial(store, [Term((m[0]._replace(exponent=1),), 1)])
        for n, d in list(left.items()):
            flat = flatten(store, n, 1)
            if d <= 0 or not flat.ranges or any(f.exponent % 2 for f in flat.factors) or any(map(is_size, flat.ranges)):
                continue
            fresh = store.fresh_axes(len(flat.ranges))
            away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(fresh)}
            roots = tuple(f._replace(exponent=exact(Fraction(f.exponent) / 2)) for f in flat.factors)
            summand = polynomial(store, [Term(substitute_factors(roots, away), 1)])
            total = sum_over(store, summand, {a: (0, k) for a, k in zip(fresh, flat.ranges, strict=True)})
            if not total or len(total) != len(base):
                continue
            ratio = Fraction(base[0].coefficient) / Fraction(total[0].coefficient)
            taken = -Fraction(c) * ratio**2 * prod(flat.ranges)
            if taken <= d and scale(total, ratio) == base:
                left[n] = d - taken
                del left[m]
                store.fired["spread"] += 1
                break
    return polynomial(store, [Term(m, exact(c)) for m, c in left.items() if c]) if len(left) < len(x) else x


def is_zero(store: Store, x: Polynomial, box: Ranges) -> Polynomial:
    """``[x == 0]``. A sum of numbers that are not negative is zero where none of its masks holds."""
    if x and not unbounded(store, x) and nonnegative(store, x):
        if strictly_positive(store, x):
            return ZERO
        if is_boolean(store, x):
            return add(store, ONE, scale(x, -1))
        flats = [flatten(store, m, 1) for m, _ in x]
        if any(_kept_somewhere(store, flat, box) for flat in flats):
            return ZERO
        masks = [(tuple(f for f in flat.factors if not known_positive(store, f)), flat.ranges) for flat in flats]
        found = _none_holds(store, masks, box)
        if found is not None:
            store.fired["zeros-of-sums"] += 1
            return found
    if _is_logarithm_of_other_than_one(store, x):
        store.fired["logarithms-of-integers"] += 1
        return ZERO
    if not unbounded(store, x) and strictly_positive(store, _without_spread(store, x)):
        return ZERO
    exponents = _difference_of_exponents(store, x)
    if exponents is None:
        return compare(store, "equal", x, ZERO, box)
    store.fired["equal-exponents"] += 1
    differs = ONE
    for part in zero_parts(store, exponents, box):
        differs = multiply(store, differs, add(store, ONE, scale(part, -1)), box)
    return add(store, ONE, scale(differs, -1))


def vanishes_where(store: Store, x: Polynomial, conditions: Factors, box: Ranges) -> bool:
    """True if x is 0 wherever some comparisons hold: one says that a number is 0 which the magnitude of a factor of x,
    or its square, never exceeds. So every element of a row is 0 where the greatest magnitude of them is."""
    for condition in conditions:
        guard = comparison(store, condition) if condition.exponent == 1 else None
        if guard is None or guard.op != "equal":
            continue
        number = add(store, guard.rest, iota(guard.affine))
        for factor in as_factors(store, x)[1] if number else ():
            if factor.exponent <= 0:
                continue
            part = polynomial(store, [Term((factor._replace(exponent=1),), 1)], box)
            if part == scale(number, Fraction(1, number[0].coefficient)):
                return True
            square = power(store, part, 2)
            for size in (power(store, square, Fraction(1, 2)), square):
                if never_negative(store, add(store, number, scale(size, -1), box=box), box):
                    return True
    return False


def _difference_of_exponents(store: Store, x: Polynomial) -> Polynomial | None:
    """A polynomial that is zero exactly where x is, for a difference of two products of exponentials and of roots of
    numbers: ``s - t`` for ``a exp(s) - a exp(t)``. ``None`` for anything else, and for a sum."""
    if len(x) != 2 or unbounded(store, x) or any(is_size(c) for _, c in x):
        return None
    (m, c), (n, d) = x
    ratio, quotient = monomial(store, Fraction(c) / -Fraction(d), (*m, *(Factor(a, -e, at) for a, e, at in n)))
    if quotient <= 0 or not any(store.atoms[a].op == "exp" for a, _, _ in ratio):
        return None
    if any(store.atoms[a].op != "exp" and store.atoms[a].attributes[:1] != ("prime",) for a, _, _ in ratio):
        return None
    return logarithm(store, (Term(ratio, quotient),))


def _is_logarithm_of_other_than_one(store: Store, x: Polynomial) -> bool:
    """True if x is a rational number plus rational multiples of logarithms of integers, and not 0: it is the logarithm
    of an algebraic number times a power of e, which is 1 only if the exponent is 0 and the other number is 1."""
    bases: dict[int, Fraction] = {}
    number = Fraction(0)
    for m, c in x:
        if is_size(c):
            return False
        if not m:
            number = Fraction(c)
            continue
        atom = store.atoms[m[0].atom]
        base = sole_number(atom.arguments[0]) if len(m) == 1 and atom.op == "log" and m[0].exponent == 1 else None
        if base is None or is_size(base) or Fraction(base).denominator != 1 or base <= 1:
            return False
        bases[int(base)] = Fraction(c)
    if not bases:
        return False
    if number:
        return True  # a power of e with a rational exponent other than 0 is not algebraic
    common = lcm(*(q.denominator for q in bases.values()))
    bits = sum(int(abs(q * common)) * base.bit_length() for base, q in bases.items())
    if store.effort.exceeds("number_bits", bits):
        return False
    above = prod(base ** int(q * common) for base, q in bases.items() if q > 0)
    return above != prod(base ** int(-q * common) for base, q in bases.items() if q < 0)


def _none_holds(store: Store, masks: list[tuple[Factors, tuple[int, ...]]], box: Ranges) -> Polynomial | None:
    """1 where all of these products of booleans, over their ranges, are 0: ``1 - max``, for the maximum of sets does
    not depend on how often, in what parts, and in what order they were put together. ``None`` for other products."""
    members: list[Polynomial] = []
    for factors, ranges in masks:
        fresh = store.fresh_axes(len(ranges))
        away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(fresh)}
        span = {axis: (0, n) for axis, n in zip(fresh, ranges, strict=True)}
        member = polynomial(store, [Term(substitute_factors(factors, away), 1)])
        if member == ONE:
            return ZERO
        if not is_boolean(store, member):
            return None
        members.append(set_of(store, member, span, box))
    return add(store, ONE, scale(maximum_of(store, add(store, *members, box=box)), -1), box=box)


def always_positive(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if some summand of a sum of numbers that are not negative is positive everywhere on the box: for one value
    of its bound variables every mask in it holds (the diagonal of a causal mask, for one)."""
    return all(c > 0 and is_nonnegative(store, m) for m, c in x) and any(
        _kept_somewhere(store, flatten(store, m, 1), box) for m, _ in x
    )


def holds_somewhere(store: Store, x: Polynomial, axes: Mapping[int, tuple[int, int]], box: Box) -> bool:
    """True if a boolean holds for some values of these axes, each from its half-open interval, wherever in the box."""
    if not x:
        return False
    replace: dict[int, Coordinate] = {v: variable(-1 - j, 1, low) for j, (v, (low, _)) in enumerate(axes.items())}
    ranges = tuple(high - low for low, high in axes.values())
    return _kept_somewhere(store, Flat(1, substitute_factors(as_factors(store, x)[1], replace), ranges), box)


def _kept_somewhere(store: Store, flat: Flat, box: Ranges) -> bool:
    """True if a product over ranges is positive for some values of its bound variables, wherever in the box: all masks
    in it hold there. Tried are the ends of the ranges, where comparisons of positions change, and where both sides of a
    comparison read one tensor at one place (the diagonal of ``[document[i] == document[j]]``)."""
    if any(n < 1 for n in flat.ranges):
        return False
    masks = [f for f in flat.factors if not known_positive(store, f)]
    masks, found = _without_indices(store, masks, flat.ranges, box)
    bound = [-1 - j for j in range(len(flat.ranges)) if -1 - j not in found]
    options = [list(_candidates(store, masks, v, flat.ranges[-1 - v])) for v in bound]
    for count, chosen in enumerate(choices(*options)):
        if store.effort.exceeds("mask_candidates", count + 1):
            return False
        at = dict(zip(bound, chosen, strict=True))
        spans = [(interval(c, box, ()), flat.ranges[-1 - v]) for v, c in at.items()]
        if any(span is None or span[0] < 0 or span[1] >= n for span, n in spans):
            continue
        if all(_truth(store, f, box) == 1 for f in substitute_factors(tuple(masks), at)):
            return True
    return False


def _without_indices(
    store: Store, masks: list[Factor], ranges: tuple[int, ...], box: Ranges
) -> tuple[list[Factor], set[int]]:
    """The masks without those that say which index a bound variable is, if nothing else depends on it and the index is
    known to be in its range; and these variables."""
    found: set[int] = set()
    for mask in list(masks):
        reach = {v for parts, _ in mask.at for v, _ in parts if v < 0}
        for v in reach:
            others = [f for f in masks if f is not mask and any(w == v for parts, _ in f.at for w, _ in parts)]
            if others or mask not in masks or store.atoms[mask.atom].op != "equal":
                continue
            (moved,) = substitute_factors((mask,), {v: variable(-1), -1: variable(v)})
            if store.covered(moved, ranges[-1 - v], box):
                masks = [f for f in masks if f is not mask]
                found.add(v)
    return masks, found


def _candidates(store: Store, masks: list[Factor], v: int, size: int) -> dict[Coordinate, None]:
    """Values of a bound variable, as functions of the axes, at which masks may hold."""
    values: dict[Coordinate, None] = {fixed(0): None, fixed(size - 1): None}

    def solved(parts: Mapping[int, int], offset: int) -> None:
        stride = parts.get(v, 0)
        if abs(stride) == 1 and all(w >= 0 or w == v for w in parts):
            rest = {w: -stride * s for w, s in parts.items() if w != v}
            for shift in (0, -1, 1):
                values[coordinate(rest, -stride * offset + shift)] = None

    pending = list(masks)
    while pending:
        factor = pending.pop()
        negated = _factors_inside(store, factor)
        if negated is not None:
            pending.extend(negated)
            continue
        guard = comparison(store, factor)
        if guard is None:
            continue
        if not guard.rest:
            solved(dict(guard.affine.parts), guard.affine.offset)
        places = [f for m, _ in guard.rest for f in m]
        for one in places:
            for other in places:
                if one.atom == other.atom and one.at < other.at:
                    for x, y in zip(one.at, other.at, strict=True):
                        parts = dict(x.parts)
                        for w, s in y.parts:
                            parts[w] = parts.get(w, 0) - s
                        solved({w: s for w, s in parts.items() if s}, x.offset - y.offset)
    middle: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for value in values:
        middle.setdefault(value.parts, []).append(value.offset)
    for parts, offsets in middle.items():
        values[Coordinate(parts, (min(offsets) + max(offsets)) // 2)] = None
    return values


def _factors_inside(store: Store, factor: Factor) -> Factors | None:
    """The factors of a boolean that is written as a product, or as 1 minus one; ``None`` for any other."""
    atom = store.atoms[factor.atom]
    if atom.op not in ("polynomial", "not") or not atom.facts.boolean:
        return None
    m, c = atom.arguments[0][-1]
    if len(atom.arguments[0]) > 2 or abs(c) != 1 or (len(atom.arguments[0]) == 2) != (c == -1):
        return None
    return substitute_factors(m, dict(enumerate(factor.at)))


def _truth(store: Store, factor: Factor, box: Ranges) -> int | None:
    """The value of a boolean everywhere on the box, if it is the same."""
    if known_positive(store, factor):
        return 1
    inside = _factors_inside(store, factor)
    if inside is not None:
        values = [_truth(store, f, box) for f in inside]
        value = 0 if 0 in values else None if None in values else 1
        negated = len(store.atoms[factor.atom].arguments[0]) == 2
        return 1 - value if negated and value is not None else value
    guard = comparison(store, factor) if factor.exponent == 1 else None
    if guard is None:
        return None
    known = bounds_of(store, guard.rest, box) if guard.rest else (0, 0)
    span = interval(guard.affine, box, ())
    if known is None or span is None:
        return None
    return decide_interval(guard.op, known[0] + span[0], known[1] + span[1])


# ------------------------------------------------------------------------------------------------ infinities
def minus_infinite(store: Store, x: Polynomial, box: Ranges) -> Polynomial | None:
    """``[x == -inf]`` of a Polynomial whose finite part is defined; ``None`` where that is not known, or where an
    infinity may be concealed by a maximum of what masks leave."""
    infinite = infinity_atom(store)
    conditions: list[Polynomial] = []
    seen: list[Term] = []
    for m, c in x:
        if any(f.atom == infinite for f in m):
            rest: Polynomial = (Term(tuple(f for f in m if f.atom != infinite), 1),)
            if c > 0 or len(rest[0].monomial) != len(m) - 1 or not is_boolean(store, rest):
                return None
            conditions.append(polynomial(store, rest, box) if rest[0][0] else ONE)
        elif unbounded(store, (Term(m, c),)):
            return None
        else:
            seen.append(Term(m, c))
    if len(x) == 1 and len(x[0][0]) == 1 and x[0][1] == 1 and x[0][0][0][1] == 1:
        a, _, index = x[0][0][0]
        if store.atoms[a].op == "max":
            elements = substitute_polynomial(store.atoms[a].arguments[0], dict(enumerate(index)))
            return nothing_finite(store, elements, box)
    elif (
        may_conceal(store, tuple(seen)) if conditions else any(store.atoms[f.atom].op == "max" for m, _ in x for f in m)
    ):
        return None
    finite = ONE
    store.fired["minus-infinite"] += bool(conditions)
    for condition in conditions:
        finite = multiply(store, finite, add(store, ONE, scale(condition, -1)), box)
    return add(store, ONE, scale(finite, -1))


def nothing_finite(store: Store, elements: Polynomial, box: Ranges) -> Polynomial | None:
    """The condition, as a boolean, that all members of a formal set of ``element`` atoms are minus infinity; ``None``
    if it is not known."""
    masks: list[tuple[Factors, tuple[int, ...]]] = []
    for m, _ in elements:
        flat = flatten(store, m, 1)
        if len(flat.factors) != 1 or store.atoms[flat.factors[0][0]].op != "element":
            return None
        a, _, index = flat.factors[0]
        fresh = store.fresh_axes(len(flat.ranges))
        away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(fresh)}
        back: dict[int, Coordinate] = {axis: variable(-1 - j) for j, axis in enumerate(fresh)}
        inside = dict(enumerate(substitute_factors((Factor(a, 1, index),), away)[0][2]))
        terms = substitute_polynomial(store.atoms[a].arguments[0], inside)
        member = polynomial(store, [monomial(store, c, n) for n, c in terms])
        condition = minus_infinite(store, member, None)
        if condition is None:
            return None
        finite = add(store, ONE, scale(condition, -1))
        if not finite:
            continue
        factors = substitute_factors(as_factors(store, finite)[1], back)
        if _kept_somewhere(store, Flat(1, factors, flat.ranges), box):
            return ZERO
        masks.append((factors, flat.ranges))
    return _none_holds(store, masks, box) if masks else ONE


# ------------------------------------------------------------------------------------------------ contradictions
def contradictory(store: Store, m: Factors) -> bool:
    """True if a product of booleans contains comparisons of one quantity with numbers that cannot hold together: ``[0 <
    x]`` and ``[x == 0]``."""
    bounds: dict[object, list[tuple[str, int, Fraction, bool]]] = {}
    for factor in m:
        value = 1
        atom = store.atoms[factor.atom]
        inner = factor
        if atom.op == "polynomial" and atom.facts.boolean:
            found = atom.arguments[0]
            if len(found) != 2 or found[0] != Term((), 1) or found[1][1] != -1 or len(found[1][0]) != 1:
                continue
            inner = substitute_factors(found[1][0], dict(enumerate(factor.at)))[0]
            value = 0
        guard = comparison(store, inner) if factor.exponent == 1 else None
        if guard is None:
            continue
        constant = sum((Fraction(c) for n, c in guard.rest if not n), Fraction(0)) + guard.affine[1]
        rest = tuple((n, Fraction(c)) for n, c in guard.rest if n)
        if not rest:
            continue
        head = rest[0][1]
        key = (tuple((n, c / head) for n, c in rest), tuple((v, Fraction(s) / head) for v, s in guard.affine[0]))
        # head * (t + constant / head) < 0: t < -constant/head, or > for a negative head
        bounds.setdefault(key, []).append((guard.op, value, -constant / head, head > 0))
    empty = any(_empty(found) for found in bounds.values())
    store.fired["contradictory-comparisons"] += empty
    return empty


def _empty(found: list[tuple[str, int, Fraction, bool]]) -> bool:
    low: tuple[Fraction, bool] | None = None  # the greatest lower bound, and whether it is excluded
    high: tuple[Fraction, bool] | None = None
    points: list[Fraction] = []
    holes: list[Fraction] = []
    for op, value, at, upward in found:
        if op == "equal":
            (points if value else holes).append(at)
            continue
        if (value == 1) == upward:  # t < at, or t <= at
            bound = (at, value == 1)
            if high is None or bound[0] < high[0] or (bound[0] == high[0] and bound[1]):
                high = bound
        else:  # t > at, or t >= at
            bound = (at, value == 1)
            if low is None or bound[0] > low[0] or (bound[0] == low[0] and bound[1]):
                low = bound
    if low is not None and high is not None and low[0] >= high[0]:
        one = low[0] == high[0] and not low[1] and not high[1]
        if not one or low[0] in holes:
            return True
    for point in points:
        if point in holes or any(other != point for other in points):
            return True
        if low is not None and (point < low[0] or (point == low[0] and low[1])):
            return True
        if high is not None and (point > high[0] or (point == high[0] and high[1])):
            return True
    return False
