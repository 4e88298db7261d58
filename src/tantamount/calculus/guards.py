"""Booleans: comparisons as atoms, and what a product may conclude from its boolean factors.

A boolean is a 0/1-valued factor. In a product ``g * f`` with g boolean, f matters only where g = 1, so f may be
simplified under that assumption. An equality ``[t == v]`` replaces t by v in every other comparison of t, which
intervals then decide. This is what makes a vocabulary-parallel embedding a slice of the whole one-hot contraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product as cases
from math import floor, gcd
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, Index, content, coordinate, substitute, substitute_index
from tantamount.calculus.atoms import IOTA, Factor, Facts, Lin, Monomial, Rational, Store
from tantamount.calculus.lins import ONE, ZERO, add, as_factors, constant, lin, product, scale
from tantamount.calculus.products import exact, is_boolean, is_integer, monomial, substitute_factors, substitute_lin
from tantamount.calculus.sums import Flat, Ranges, close, flatten
from tantamount.errors import Unsupported

__all__ = ["absorb", "compare", "covered", "in_range", "record_range", "simplify"]

_LIFTED = 1 << 40  # a bound variable v poses as axis _LIFTED - v, inside one function only
_MAX_CASES = 5  # guards split on when bounding an index: at most 2**5 cases
Known = Mapping[tuple[int, tuple[Coordinate, ...]], int]


# ------------------------------------------------------------------------------------------------ construction
def compare(store: Store, op: str, x: Lin, y: Lin, box: Ranges = None) -> Lin:
    """``[x < y]`` (op ``less``) or ``[x == y]`` (op ``equal``): the sign of ``x - y``, its affine part kept apart in
    one index."""
    difference = add(store, x, scale(y, -1))
    if x != y:
        from tantamount.calculus.powers import unbounded

        if (unbounded(store, x) and unbounded(store, y)) or sum(unbounded(store, (term,)) for term in difference) > 1:
            raise Unsupported("a comparison of infinities")
    rest, parts, offset = _split_affine(difference)
    if not rest:
        return _affine_guard(store, op, parts, offset, box)
    if not parts and len(rest) == 1 and is_boolean(store, ((rest[0][0], 1),)):
        low, high = (_decide(op, offset), _decide(op, offset + rest[0][1]))
        return add(store, constant(low), scale(((rest[0][0], 1),), high - low))
    g: Rational = content([*(c for _, c in rest), *parts.values()])
    sign = _leading_sign(rest)
    whole = is_integer(store, scale(rest, Fraction(1) / g))
    negated = False
    if sign < 0 and (op == "equal" or whole):
        g = -g
        negated = op == "less"
    rest = scale(rest, Fraction(1) / g)
    parts = {v: s / Fraction(g) for v, s in parts.items()}
    at = offset / Fraction(g)
    if whole:
        if op == "equal" and at.denominator != 1:
            return ZERO
        if negated:  # -K < 0  is  not (K <= 0)  is  not (K < 1), for whole K = rest + parts + at
            at = Fraction(-floor(-at)) - 1
        at = Fraction(floor(at))
    fraction = at - floor(at)
    if fraction:
        rest = add(store, rest, constant(fraction))
    index = coordinate({v: int(s) for v, s in parts.items()}, floor(at))
    bounds = _bounds(store, rest, box)
    if bounds is not None:
        span = _interval(index, box, ())
        if span is not None:
            decided = _decide_interval(op, bounds[0] + span[0], bounds[1] + span[1])
            if decided is not None:
                return constant(decided ^ int(negated))
    atom, where = store.apply(
        op, (), (rest, ((((IOTA, 1, (index,)),), 1),)), Facts(integer=True, boolean=True, nonnegative=True)
    )
    guard: Lin = ((((atom, 1, where),), 1),)
    return add(store, ONE, scale(guard, -1)) if negated else guard


def _split_affine(x: Lin) -> tuple[Lin, dict[int, Fraction], Fraction]:
    rest: list[tuple[Monomial, Rational]] = []
    parts: dict[int, Fraction] = {}
    offset = Fraction(0)
    for m, c in x:
        if not m:
            offset += c
        elif len(m) == 1 and m[0][0] == IOTA and m[0][1] == 1:
            index = m[0][2][0]
            offset += c * index[1]
            for v, s in index[0]:
                parts[v] = parts.get(v, Fraction(0)) + c * s
        else:
            rest.append((m, c))
    return tuple(rest), {v: q for v, q in parts.items() if q}, offset


def _leading_sign(x: Lin) -> int:
    total: Rational = 0
    head: object = None
    for m, c in x:
        key = tuple((a, e) for a, e, _ in m)
        if key != head and total:
            break
        head = key
        total += c
    return -1 if total < 0 else 1


def _decide(op: str, value: Rational) -> int:
    return int(value < 0 if op == "less" else value == 0)


def _decide_interval(op: str, low: Rational, high: Rational) -> int | None:
    """The truth of ``value < 0`` or ``value == 0`` for all values in [low, high], if it is the same for all."""
    if op == "less":
        return 1 if high < 0 else 0 if low >= 0 else None
    if low > 0 or high < 0:
        return 0
    return 1 if low == high == 0 else None


def _affine_guard(store: Store, op: str, parts: Mapping[int, Fraction], offset: Fraction, box: Ranges) -> Lin:
    if not parts:
        return constant(_decide(op, offset))
    g = content(list(parts.values()))
    at = offset / g
    if op == "equal" and at.denominator != 1:
        return ZERO
    flip = op == "equal" and next(iter(sorted(parts.items())))[1] < 0
    if flip:
        g, at = -g, -at
    index = coordinate({v: int(s / g) for v, s in parts.items()}, floor(at))
    span = _interval(index, box, ())
    if span is not None:
        decided = _decide_interval(op, *span)
        if decided is not None:
            return constant(decided)
    atom, where = store.apply(
        op, (), ((), ((((IOTA, 1, (index,)),), 1),)), Facts(integer=True, boolean=True, nonnegative=True)
    )
    return ((((atom, 1, where),), 1),)


def _interval(c: Coordinate, box: Ranges, ranges: tuple[int, ...]) -> tuple[int, int] | None:
    """The least and greatest value of a coordinate, if the interval of every variable is known."""
    low = high = c[1]
    for v, s in c[0]:
        if v < 0 and -1 - v < len(ranges):
            a, b = 0, ranges[-1 - v] - 1
        elif v >= 0 and box is not None and v < len(box):
            a, b = box[v][0], box[v][1] - 1
        else:
            return None
        low += s * (a if s > 0 else b)
        high += s * (b if s > 0 else a)
    return low, high


# ------------------------------------------------------------------------------------------------ facts about indices
def record_range(store: Store, x: Lin, size: int, box: Ranges) -> None:
    """Assume ``0 <= x < size`` for all axes in the box (an index of the specification)."""
    if not x or box is None:
        return
    atom, index = store.apply("fact", (), (x,), Facts())
    covered_box: list[tuple[int, int]] = []
    seen: set[int] = set()
    for c in index:
        if len(c[0]) > 1 or any(abs(s) != 1 or v in seen for v, s in c[0]):
            return  # the points known are not a box of coordinates: forget the fact
        seen.update(v for v, _ in c[0])
        span = _interval(c, box, ())
        if span is None:
            return
        covered_box.append((span[0], span[1]))
    store.index_facts.setdefault(atom, []).append((tuple(covered_box), 0, size - 1))


def _fact(store: Store, x: Lin, box: Ranges, ranges: tuple[int, ...] = ()) -> tuple[int, int] | None:
    if not x or not store.index_facts:
        return None
    atom, index = store.apply("fact", (), (x,), Facts())
    spans = [_interval(c, box, ranges) for c in index]
    for known, low, high in store.index_facts.get(atom, ()):
        if all(s is not None and k[0] <= s[0] and s[1] <= k[1] for s, k in zip(spans, known, strict=True)):
            return low, high
    return None


def _bounds(store: Store, x: Lin, box: Ranges) -> tuple[Rational, Rational] | None:
    """An interval that contains every value of x: from facts, booleans and constants."""
    known = _fact(store, x, box)
    if known is not None:
        return known
    low: Rational = 0
    high: Rational = 0
    for m, c in x:
        if not m:
            a, b = 1, 1
        elif is_boolean(store, ((m, 1),)):
            a, b = 0, 1
        else:
            span = _fact(store, ((m, 1),), box) if len(x) > 1 else None
            if span is None and len(m) == 1 and m[0][0] == IOTA and m[0][1] == 1:
                span = _interval(m[0][2][0], box, ())
            if span is None:
                return None
            a, b = span
        low += c * (a if c > 0 else b)
        high += c * (b if c > 0 else a)
    return low, high


def covered(store: Store, factor: Factor, size: int, box: Ranges) -> bool:
    """Whether ``SUM_{v < size} [t + s v + r == 0] = 1``: exactly one v fits, because of what is known of t."""
    guard = _guard(store, factor)
    if guard is None:
        return False
    stride = dict(guard.affine[0]).get(-1, 0)
    if abs(stride) != 1 or any(-1 in dict(parts) for m, _ in guard.rest for _, _, index in m for parts, _ in index):
        return False
    other: Coordinate = (tuple(p for p in guard.affine[0] if p[0] != -1), guard.affine[1])
    span = _interval(other, box, ())
    bounds = _fact(store, guard.rest, box) if guard.rest else (0, 0)
    if span is None or bounds is None:
        return False
    low, high = span[0] + bounds[0], span[1] + bounds[1]  # t + r
    return (-high >= 0 and -low < size) if stride == 1 else (low >= 0 and high < size)


# ------------------------------------------------------------------------------------------------ products
class _Guard(NamedTuple):
    """A comparison factor: ``[rest + affine < 0]`` or ``[rest + affine == 0]``."""

    op: str
    rest: Lin
    affine: Coordinate


def _guard(store: Store, factor: Factor) -> _Guard | None:
    atom = store.atoms[factor[0]]
    if atom.op not in ("less", "equal"):
        return None
    # a sum must not be normalised while it has free bound variables (those of its own would capture them)
    bound = sorted({v for c in factor[2] for v, _ in c[0] if v < 0})
    away: dict[int, Coordinate] = {v: (((_LIFTED - v, 1),), 0) for v in bound}
    back: dict[int, Coordinate] = {_LIFTED - v: (((v, 1),), 0) for v in bound}
    replace = dict(enumerate(substitute_index(factor[2], away)))
    rest = lin(store, (monomial(store, c, substitute_factors(m, replace)) for m, c in atom.arguments[0]))
    affine = substitute_factors(atom.arguments[1][0][0], replace)[0][2][0]
    return _Guard(atom.op, substitute_lin(rest, back), substitute(affine, back))


def _literal(store: Store, factor: Factor) -> tuple[Factor, int] | None:
    """A boolean factor as (atom factor, value): the factor itself is 1, or a factor P of ``1 - P`` is 0."""
    atom = store.atoms[factor[0]]
    if not atom.facts.boolean or factor[1].denominator != 1 or factor[1] <= 0:
        return None
    if atom.op != "lin":
        return factor, 1
    inner = atom.arguments[0]
    if len(inner) == 2 and not inner[0][0] and inner[0][1] == 1 and inner[1][1] == -1 and len(inner[1][0]) == 1:
        return substitute_factors(inner[1][0], dict(enumerate(factor[2])))[0], 0
    return None


def absorb(store: Store, m: Monomial, c: Rational, box: Ranges) -> Lin | None:
    """The product simplified by its boolean factors, or ``None`` if they cannot help."""
    booleans: set[int] = set()
    comparisons = False
    for a, _, _ in m:
        atom = store.atoms[a]
        if atom.facts.boolean:
            booleans |= atom.guards
            comparisons = True
    if not comparisons or len(m) < 2:
        return None
    spread = _spread_over(store, m, c, box)
    if spread is not None:
        return spread
    useful = False
    opened: list[Factor] = []
    closed: list[Factor] = []
    for factor in m:
        atom = store.atoms[factor[0]]
        if _is_one_hot(store, factor):
            opened.append(factor)
            useful = True
        else:
            closed.append(factor)
            useful = useful or bool(atom.op not in ("leaf", "less", "equal") and atom.guards & booleans and len(m) > 1)
    if not useful:
        return None
    flat = flatten(store, tuple(opened), c)
    return lin(store, close(store, Flat(c, (*closed, *flat.factors), flat.ranges), box), box)


def _spread_over(store: Store, m: Monomial, c: Rational, box: Ranges) -> Lin | None:
    """A guard times a sum of one-hot contractions: each summand may absorb the guard by itself."""
    for factor in m:
        atom = store.atoms[factor[0]]
        if atom.op != "lin" or factor[1] != 1 or atom.facts.boolean:
            continue
        inner = substitute_lin(atom.arguments[0], dict(enumerate(factor[2])))
        if any(_is_one_hot(store, f) for term, _ in inner for f in term):
            rest = tuple(f for f in m if f is not factor)
            return add(store, *(product(store, exact(c * d), (*rest, *term), box) for term, d in inner), box=box)
    return None


def _is_one_hot(store: Store, factor: Factor) -> bool:
    atom = store.atoms[factor[0]]
    return (
        atom.op == "sum" and factor[1] == 1 and any(store.atoms[a].op == "equal" for a, _, _ in atom.arguments[0][0][0])
    )


def simplify(store: Store, flat: Flat, box: Ranges) -> list[Flat] | None:
    """One step of simplification by the boolean factors; ``None`` if there is none, no flats if the product is zero."""
    literals = [(f, found) for f in flat.factors if (found := _literal(store, f)) is not None]
    composite = [f for f in flat.factors if store.atoms[f[0]].facts.boolean and store.atoms[f[0]].op == "lin"]
    if not literals and not composite:
        return None
    known: dict[tuple[int, tuple[Coordinate, ...]], int] = {}
    for _, (factor, value) in literals:
        key = (factor[0], factor[2])
        if known.setdefault(key, value) != value:
            return []  # P * (1 - P)
    for factor, (inner, value) in literals:
        cut = _cut(store, flat, factor, _guard(store, inner), value)
        if cut is not None:
            return cut
    for factor, (inner, value) in literals:
        guard = _guard(store, inner) if value else None
        if guard is None or guard.op != "equal":
            continue
        solved = _eliminate(store, flat, factor, guard, box)
        if solved is not None:
            return solved
        if not guard.rest:
            continue
        for other, (other_inner, other_value) in literals:
            if other is factor:
                continue
            decided = _decide_under(store, guard, other_inner, box, flat.ranges)
            if decided is None:
                continue
            if decided != other_value:
                return []
            return [Flat(flat.coefficient, tuple(f for f in flat.factors if f is not other), flat.ranges)]
        for boolean in composite:
            if _literal(store, boolean) is not None:
                continue
            facts = _guards_inside(store, boolean, guard, box, flat.ranges)
            if facts:
                return _assume(store, flat, boolean, facts, box)
    for factor in flat.factors:
        own = (factor[0], factor[2])
        reach = _variables(
            factor[2]
        )  # inside the factor an index has no other variables but those that it binds itself
        inside = {key: value for key, value in known.items() if key != own and _variables(key[1]) <= reach}
        if not store.atoms[factor[0]].guards & ({a for a, _ in inside} - {factor[0]}):
            continue
        literal = _literal(store, factor)
        if literal is not None and literal[0] is not factor:
            continue  # 1 - P: replacing P by the value that this very factor gives it would lose the factor
        replaced = _assume(store, flat, factor, inside, box)
        if replaced is not None:
            return replaced
    return None


def _variables(index: Index) -> set[int]:
    return {v for parts, _ in index for v, _ in parts}


def _decide_under(store: Store, equal: _Guard, other: Factor, box: Ranges, ranges: tuple[int, ...]) -> int | None:
    """The truth of another comparison of the same quantity, given that ``equal`` holds."""
    guard = _guard(store, other)
    if guard is None or guard.rest != equal.rest:
        return None
    parts = dict(guard.affine[0])
    for v, s in equal.affine[0]:
        parts[v] = parts.get(v, 0) - s
    span = _interval(coordinate(parts, guard.affine[1] - equal.affine[1]), box, ranges)
    return None if span is None else _decide_interval(guard.op, *span)


def _guards_inside(
    store: Store, boolean: Factor, equal: _Guard, box: Ranges, ranges: tuple[int, ...]
) -> dict[tuple[int, tuple[Coordinate, ...]], int]:
    """The comparisons inside a composite boolean (such as ``1 - P Q``) that an equality decides."""
    found: dict[tuple[int, tuple[Coordinate, ...]], int] = {}
    pending = [boolean]
    while pending:
        factor = pending.pop()
        atom = store.atoms[factor[0]]
        if atom.op == "lin":
            replace = dict(enumerate(factor[2]))
            pending.extend(f for m, _ in atom.arguments[0] for f in substitute_factors(m, replace))
            continue
        decided = _decide_under(store, equal, factor, box, ranges)
        if decided is not None:
            found[factor[0], factor[2]] = decided
    return found


def _assume(store: Store, flat: Flat, factor: Factor, known: Known, box: Ranges) -> list[Flat] | None:
    """``factor`` rebuilt with the known truth values put in; ``None`` if that changes nothing."""
    from tantamount.calculus.rebuild import Rebuild

    posing = store.fresh_axes(len(flat.ranges))
    away: dict[int, Coordinate] = {-1 - j: (((axis, 1),), 0) for j, axis in enumerate(posing)}
    back: dict[int, Coordinate] = {axis: (((-1 - j, 1),), 0) for j, axis in enumerate(posing)}
    moved = substitute_factors((factor,), away)[0]
    values = {(a, substitute_factors(((a, 1, index),), away)[0][2]): value for (a, index), value in known.items()}
    result = Rebuild(store, known=values).factor(moved)
    if result == (((moved,), 1),):
        return None
    if not result:
        return []
    c, factors = as_factors(store, result)
    others = list(flat.factors)
    others.remove(factor)
    new = Flat(c * flat.coefficient, (*others, *substitute_factors(factors, back)), flat.ranges)
    return None if sorted(new.factors) == sorted(flat.factors) else [new]


def _eliminate(store: Store, flat: Flat, factor: Factor, guard: _Guard, box: Ranges) -> list[Flat] | None:
    """Use an affine equality over bound variables: split it into independent digits, or solve it for a variable."""
    if guard.rest:
        return None
    parts, offset = guard.affine
    others = tuple(f for f in flat.factors if f is not factor)
    for modulus in sorted({abs(s) for _, s in parts}, reverse=True):
        small = tuple(p for p in parts if p[1] % modulus)
        big = tuple(p for p in parts if p[1] % modulus == 0)
        if not small or not big:
            continue
        low = offset % modulus
        for rest in (low, low - modulus):
            span = _interval((small, rest), box, flat.ranges)
            if span is not None and -modulus < span[0] and span[1] < modulus:
                # big is a multiple of the modulus and small is nearer to 0 than that: both vanish
                guards = [_raw_equal(store, (small, rest)), _raw_equal(store, (big, offset - rest))]
                return [Flat(flat.coefficient, (*others, *guards), flat.ranges)]
    for v, s in parts:
        if v >= 0 or abs(s) != 1:
            continue
        solution: Coordinate = (tuple((w, -s * t) for w, t in parts if w != v), -s * offset)
        span = _interval(solution, box, flat.ranges)
        size = flat.ranges[-1 - v]
        if span is None:
            continue
        if span[1] < 0 or span[0] >= size:
            return []
        if span[0] >= 0 and span[1] < size:
            ranges = tuple(1 if -1 - j == v else n for j, n in enumerate(flat.ranges))
            return [Flat(flat.coefficient, substitute_factors(others, {v: solution}), ranges)]
    return None


def _cut(store: Store, flat: Flat, factor: Factor, guard: _Guard | None, value: int) -> list[Flat] | None:
    """A guard over one bound variable alone, ``[s v + r < 0]`` or its complement, is the part of the range where it
    holds."""
    if guard is None or guard.op != "less" or guard.rest or len(guard.affine[0]) != 1 or guard.affine[0][0][0] >= 0:
        return None
    (v, s), r = guard.affine[0][0], guard.affine[1]
    size = flat.ranges[-1 - v]
    first = (
        -(r // s) if s > 0 else r // -s + 1
    )  # s > 0: the least v with s v + r >= 0; s < 0: the least with s v + r < 0
    low, high = (first, size) if (s > 0) == (value == 0) else (0, first)
    low, high = max(low, 0), min(high, size)
    if low >= high:
        return []
    others = tuple(f for f in flat.factors if f is not factor)
    shifted = substitute_factors(others, {v: (((v, 1),), low)})
    ranges = tuple(high - low if -1 - j == v else n for j, n in enumerate(flat.ranges))
    return [Flat(flat.coefficient, shifted, ranges)]


def _raw_equal(store: Store, c: Coordinate) -> Factor:
    sign = -1 if c[0][0][1] < 0 else 1
    divisor = 0
    for _, s in c[0]:
        divisor = gcd(divisor, s)
    if c[1] % divisor:
        return _never(store)
    index: Coordinate = (tuple((v, sign * s // divisor) for v, s in c[0]), sign * c[1] // divisor)
    bound = [v for v, _ in index[0] if v < 0]
    axes = dict(zip(bound, store.fresh_axes(len(bound)), strict=True))
    lifted = coordinate({axes.get(v, v): s for v, s in index[0]}, index[1])
    atom, where = store.apply(
        "equal", (), ((), ((((IOTA, 1, (lifted,)),), 1),)), Facts(integer=True, boolean=True, nonnegative=True)
    )
    back: dict[int, Coordinate] = {lifted_v: (((v, 1),), 0) for v, lifted_v in axes.items()}
    return substitute_factors(((atom, 1, where),), back)[0]


def _never(store: Store) -> Factor:
    """The guard ``[1 == 0]``."""
    atom, where = store.apply(
        "equal", (), ((), ((((IOTA, 1, (((), 1),)),), 1),)), Facts(integer=True, boolean=True, nonnegative=True)
    )
    return (atom, 1, where)


# ------------------------------------------------------------------------------------------------ indices in range
def in_range(store: Store, x: Lin, size: int, box: Ranges) -> bool:
    """Whether ``0 <= x < size`` on the whole box, by cases over the comparisons that x contains."""
    direct = _bounds(store, x, box)
    if direct is not None and direct[0] >= 0 and direct[1] < size:
        return True
    guards = sorted(_comparisons(store, x))
    if len(guards) > _MAX_CASES:
        return False
    from tantamount.calculus.rebuild import Rebuild

    for values in cases((0, 1), repeat=len(guards)):
        known = {(a, index): value for (a, index), value in zip(guards, values, strict=True)}
        constraints: dict[Lin, list[tuple[bool, Coordinate]]] = {}
        for (a, index), value in known.items():
            guard = _guard(store, (a, 1, index))
            if guard is not None and guard.op == "less":
                constraints.setdefault(guard.rest, []).append((value == 1, guard.affine))
        if any(_contradictory(found, box) for found in constraints.values()):
            continue
        value = Rebuild(store, known=known).lin(x)
        if not _case_in_range(store, value, size, constraints, box):
            return False
    return True


def _comparisons(store: Store, x: Lin) -> set[tuple[int, tuple[Coordinate, ...]]]:
    """The comparison atoms that are factors of x, also inside sums of booleans."""
    found: set[tuple[int, tuple[Coordinate, ...]]] = set()
    pending: list[Factor] = [f for m, _ in x for f in m]
    while pending:
        a, _, index = pending.pop()
        atom = store.atoms[a]
        if atom.op in ("less", "equal"):
            found.add((a, index))
        elif atom.op == "lin" and atom.facts.boolean:
            replace = dict(enumerate(index))
            pending.extend(f for m, _ in atom.arguments[0] for f in substitute_factors(m, replace))
    return found


def _contradictory(found: list[tuple[bool, Coordinate]], box: Ranges) -> bool:
    """``t + a < 0`` together with ``t + b >= 0``, where ``b <= a`` always."""
    for below, a in found:
        for above, b in found:
            if below and not above:
                span = _interval(_minus(a, b), box, ())
                if span is not None and span[0] >= 0:
                    return True
    return False


def _minus(a: Coordinate, b: Coordinate) -> Coordinate:
    parts = dict(a[0])
    for v, s in b[0]:
        parts[v] = parts.get(v, 0) - s
    return coordinate(parts, a[1] - b[1])


def _case_in_range(
    store: Store, x: Lin, size: int, constraints: Mapping[Lin, list[tuple[bool, Coordinate]]], box: Ranges
) -> bool:
    direct = _bounds(store, x, box)
    if direct is not None and direct[0] >= 0 and direct[1] < size:
        return True
    rest, parts, offset = _split_affine(x)
    known = constraints.get(rest)
    if known is None or any(s.denominator != 1 for s in parts.values()) or offset.denominator != 1:
        return False
    shift = coordinate({v: int(s) for v, s in parts.items()}, int(offset))  # x = t + shift
    low = high = False
    for below, a in known:
        span = _interval(_minus(shift, a), box, ())  # t + a < 0: x < shift - a; t + a >= 0: x >= shift - a
        if span is None:
            continue
        if below and span[1] <= size:
            high = True
        if not below and span[0] >= 0:
            low = True
    fact = _fact(store, rest, box)
    if fact is not None:
        span = _interval(shift, box, ())
        if span is not None:
            low = low or fact[0] + span[0] >= 0
            high = high or fact[1] + span[1] < size
    return low and high
