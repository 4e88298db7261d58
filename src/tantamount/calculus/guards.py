"""Products simplified by their boolean factors.

A boolean is a 0/1-valued factor. In a product ``g * f`` with g boolean, f matters only where g = 1, so f may be
simplified under that assumption. An equality ``[t == v]`` replaces t by v in every other comparison of t, which
intervals then decide. This is what makes a vocabulary-parallel embedding a slice of the whole one-hot contraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, Index, coordinate, fixed, substitute_index, variable
from tantamount.calculus.atoms import BOOLEAN, Store
from tantamount.calculus.comparisons import Comparison, compare, comparison, decide_interval, interval
from tantamount.calculus.counts import counted
from tantamount.calculus.joint_conditions import one_condition
from tantamount.calculus.masks import some_hold
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add, as_factors, iota, polynomial, product, scale
from tantamount.calculus.products import exact, substitute_factors, substitute_polynomial
from tantamount.calculus.sums import close, flatten
from tantamount.calculus.terms import (
    IOTA,
    Factor,
    Factors,
    Flat,
    Monomial,
    Polynomial,
    Ranges,
    Rational,
    Term,
    factors_of,
    position,
)
from tantamount.sizes.symbolic import common_divisor

__all__ = ["absorb", "simplify"]

Known = Mapping[tuple[int, Index], int]  # the truth values of booleans: atoms at places


class _Literal(NamedTuple):
    """A boolean factor as an atom and its value where the product is not 0: it is 1, or P of ``1 - P`` is 0."""

    atom: Factor
    value: int


def _literal(store: Store, factor: Factor) -> _Literal | None:
    """A boolean factor read as a comparison (or another boolean atom) that must hold or must not; ``None`` if it is
    composite."""
    atom = store.atoms[factor.atom]
    if not atom.facts.boolean or factor.exponent.denominator != 1 or factor.exponent <= 0:
        return None
    if atom.op != "polynomial":
        return _Literal(factor, 1)
    inner = atom.arguments[0]
    if len(inner) == 2 and inner[0] == Term((), 1) and inner[1].coefficient == -1 and len(inner[1].monomial) == 1:
        return _Literal(substitute_factors(inner[1].monomial, dict(enumerate(factor.at)))[0], 0)
    return None


def absorb(store: Store, m: Monomial, c: Rational, box: Ranges) -> Polynomial | None:
    """The product simplified by its boolean factors, or ``None`` if they cannot help."""
    booleans: set[int] = set()
    choices: list[str] = []
    for a, _, _ in m:
        atom = store.atoms[a]
        if atom.facts.boolean:
            booleans |= atom.guards
            choices.append(atom.op)
    if not choices or len(m) < 2:
        return None
    spread = _spread_over(store, m, c, box)
    if spread is not None:
        return spread
    useful = len(choices) > 1 and "equal" in choices  # [t == v] decides other comparisons of t
    opened: list[Factor] = []
    closed: list[Factor] = []
    for factor in m:
        atom = store.atoms[factor.atom]
        if _is_one_hot(store, factor):
            opened.append(factor)
            useful = True
        else:
            closed.append(factor)
            useful = useful or (atom.op != "leaf" and _mentions_maximum(store, factor[0]))
            useful = useful or bool(atom.op != "leaf" and (atom.guards - {atom.number}) & (booleans - {atom.number}))
    if not useful:
        return None
    flat = flatten(store, tuple(opened), c)
    return polynomial(store, close(store, Flat(c, (*closed, *flat.factors), flat.ranges), box), box)


def _spread_over(store: Store, m: Monomial, c: Rational, box: Ranges) -> Polynomial | None:
    """A guard times a sum of one-hot contractions: each summand may absorb the guard by itself."""
    for factor in m:
        atom = store.atoms[factor.atom]
        if atom.op != "polynomial" or factor.exponent != 1 or atom.facts.boolean:
            continue
        inner = substitute_polynomial(atom.arguments[0], dict(enumerate(factor.at)))
        if any(_is_one_hot(store, f) for term, _ in inner for f in term):
            rest = tuple(f for f in m if f is not factor)
            return add(store, *(product(store, exact(c * d), (*rest, *term), box) for term, d in inner), box=box)
    return None


def _is_one_hot(store: Store, factor: Factor) -> bool:
    atom = store.atoms[factor.atom]
    return atom.op == "sum" and factor.exponent == 1 and any(store.atoms[a].op == "equal" for a, _, _ in atom.summand)


def simplify(store: Store, flat: Flat, box: Ranges) -> list[Flat] | None:
    """One step of simplification by the boolean factors; ``None`` if there is none, no flats if the product is zero."""
    literals = [(f, found) for f in flat.factors if (found := _literal(store, f)) is not None]
    composite = [
        f for f in flat.factors if store.atoms[f.atom].facts.boolean and store.atoms[f.atom].op == "polynomial"
    ]
    if not literals and not composite:
        return None
    guards: dict[Factor, Comparison | None] = {}

    def read(factor: Factor) -> Comparison | None:
        """The comparison that a literal is: each is read back once, though it is held against all others."""
        if factor not in guards:
            guards[factor] = comparison(store, factor)
        return guards[factor]

    alike: dict[Polynomial, list[tuple[Factor, Comparison, int]]] = {}  # comparisons of one quantity, once it is asked
    known: dict[tuple[int, tuple[Coordinate, ...]], int] = {}
    for _, (factor, value) in literals:
        key = (factor.atom, factor.at)
        if known.setdefault(key, value) != value:
            return []  # P * (1 - P)
    for factor, (inner, value) in literals:
        cut = _cut(store, flat, factor, read(inner), value, box)
        if cut is not None:
            store.fired["cut-ranges"] += 1
            return cut
        number = counted(store, flat, factor, read(inner), value, box)
        if number is not None:
            return number
    for factor, (inner, value) in literals:
        guard = read(inner) if value else None
        if guard is None or guard.op != "equal":
            continue
        solved = _eliminate(store, flat, factor, guard, box)
        if solved is not None:
            store.fired["solved-equalities"] += 1
            return solved
        if not guard.rest:
            continue
        solved = _position(store, flat, factor, guard)
        solved = _through(store, flat, factor, guard, box) if solved is None else solved
        if solved is not None:
            store.fired["solved-equalities"] += 1
            return solved
        if not alike:
            for other, (other_inner, other_value) in literals:
                if (held_against := read(other_inner)) is not None:
                    alike.setdefault(held_against.rest, []).append((other, held_against, other_value))
        for other, found, other_value in alike[guard.rest]:
            if other is factor:
                continue
            together = _same_place(store, flat, guard, other, found) if other_value else None
            if together is not None:
                store.fired["solved-equalities"] += 1
                return together
            decided = _decide_under(store, guard, found, box, flat.ranges)
            if decided is None:
                continue
            if decided != other_value:
                return []
            return [Flat(flat.coefficient, tuple(f for f in flat.factors if f is not other), flat.ranges)]
        selected = _selected_twice(store, flat, factor, guard, box)
        if selected is None and isinstance(box, Mapping):
            selected = _under_selection(store, flat, factor, guard, box)
        if selected is not None:
            store.fired["lifted-selections"] += 1
            return selected
        for boolean in composite:
            if _literal(store, boolean) is not None:
                continue
            facts = _guards_inside(store, boolean, guard, box, flat.ranges)
            if facts:
                return _assume(store, flat, boolean, facts, box)
    held = some_hold(store, flat, [(inner, value) for _, (inner, value) in literals], box)
    for factor in flat.factors if held else ():
        if (factor[0], factor[2]) in held:
            return [Flat(flat.coefficient, tuple(f for f in flat.factors if f is not factor), flat.ranges)]
        replaced = _assume(store, flat, factor, held, box)
        if replaced is not None:
            return replaced
    for factor in flat.factors:
        own = (factor.atom, factor.at)
        reach = _variables(
            factor.at
        )  # inside the factor an index has no other variables but those that it binds itself
        inside = {key: value for key, value in known.items() if key != own and _variables(key[1]) <= reach}
        if not store.atoms[factor.atom].guards & ({a for a, _ in inside} - {factor.atom}):
            continue
        literal = _literal(store, factor)
        if literal is not None and literal.atom is not factor:
            continue  # 1 - P: replacing P by the value that this very factor gives it would lose the factor
        replaced = _assume(store, flat, factor, inside, box)
        if replaced is not None:
            return replaced
    return one_condition(store, flat, box)  # last: the others know a condition by its atom


def _selected_twice(store: Store, flat: Flat, factor: Factor, guard: Comparison, box: Ranges) -> list[Flat] | None:
    """Two selections ``[o = b] [o = d]`` by one quantity, b a bound variable, are ``[o = d] [b = d]``, which gives b
    where d is known to lie in its range."""
    if not any(v < 0 for v, _ in guard.affine.parts):
        return None
    bound = _bound(factor.at)
    for other in flat.factors:
        holds = other is not factor and other.exponent > 0 and bound & _bound(other.at)  # 1 / [o = d] selects nothing
        same = comparison(store, other) if holds else None
        if same is None or same.op != "equal" or same.rest != guard.rest:
            continue
        difference = _between(guard, same)
        if not any(v < 0 for v, _ in difference.parts):
            continue
        affine = _raw_equal(store, difference)
        rest = tuple(f for f in flat.factors if f is not other)
        merged = Flat(flat.coefficient, (*rest, affine), flat.ranges)
        solved = _eliminate(store, merged, affine, Comparison("equal", (), difference), box)
        if solved is not None:
            return solved
    return None


def _under_selection(
    store: Store, flat: Flat, factor: Factor, guard: Comparison, box: Mapping[int, tuple[int, int]]
) -> list[Flat] | None:
    """A guard ``[o = b]`` with a bound variable b: what compares o inside another factor that shares a bound variable
    compares b. That is done only where two Polynomials are compared: as it stands, a sum keeps apart what it selects
    and what it selects it for."""
    if not any(v < 0 for v, _ in guard.affine.parts):
        return None
    bound = _bound(factor.at)
    for other in flat.factors:
        if other is factor or not bound & _bound(other.at) or factor.atom not in store.atoms[other.atom].guards:
            continue
        if comparison(store, other) is not None or not _few_atoms(store, other.atom):
            continue
        result = store.under(factor, other, box, flat.ranges)
        if result is None:
            continue
        if not result:
            return []
        c, factors = as_factors(store, result)
        rest = [f for f in flat.factors if f is not other]
        return [Flat(exact(flat.coefficient * c), (*rest, *factors), flat.ranges)]
    return None


def _few_atoms(store: Store, number: int) -> bool:
    """True if an atom is made of few others: of a whole model, computing it anew costs more than it shows."""
    seen, pending = {number}, [number]
    while pending:
        inside = {f.atom for f in factors_of(*store.atoms[pending.pop()].arguments)} - seen
        seen |= inside
        pending += inside
        if store.effort.exceeds("lifted_atoms", len(seen)):
            return False
    return True


def _between(one: Comparison, other: Comparison) -> Coordinate:
    """How much more another comparison of the same quantity adds to it."""
    parts = dict(other.affine.parts)
    for v, s in one.affine.parts:
        parts[v] = parts.get(v, 0) - s
    return coordinate(parts, other.affine.offset - one.affine.offset)


def _interval(store: Store, c: Coordinate, box: Ranges, ranges: tuple[int, ...]) -> tuple[int, int] | None:
    """The least and greatest value of a coordinate, if the interval of every variable is known; an axis that poses has
    its own."""
    posing = {v: store.posed_interval(v) for v, _ in c.parts if store.is_posing(v)}
    if posing:
        box = {**(box if isinstance(box, Mapping) else dict(enumerate(box or ()))), **posing}
    return interval(c, box, ranges)


def _bound(index: Index) -> set[int]:
    return {v for v in _variables(index) if v < 0}


def _mentions_maximum(store: Store, number: int) -> bool:
    """True if a maximum of booleans is inside an atom."""
    known = store.memo.boolean_maxima
    return bool(known) and any(a in known for a in store.atoms[number].guards)


def _variables(index: Index) -> set[int]:
    return {v for parts, _ in index for v, _ in parts}


def _decide_under(
    store: Store, equal: Comparison, guard: Comparison | None, box: Ranges, ranges: tuple[int, ...]
) -> int | None:
    """The truth of another comparison of the same quantity, given that ``equal`` holds."""
    if guard is None or guard.rest != equal.rest:
        return None
    span = _interval(store, _between(equal, guard), box, ranges)
    return None if span is None else decide_interval(guard.op, *span)


def _guards_inside(
    store: Store, boolean: Factor, equal: Comparison, box: Ranges, ranges: tuple[int, ...]
) -> dict[tuple[int, tuple[Coordinate, ...]], int]:
    """The comparisons inside a composite boolean (such as ``1 - P Q``) that an equality decides."""
    found: dict[tuple[int, tuple[Coordinate, ...]], int] = {}
    pending = [boolean]
    seen = {(boolean.atom, boolean.at)}  # what is inside of several is looked at once: there are as many ways to it as
    while pending:  # a tree has leaves
        factor = pending.pop()
        atom = store.atoms[factor.atom]
        if atom.op == "polynomial":
            replace = dict(enumerate(factor.at))
            for m, _ in atom.arguments[0]:
                for f in substitute_factors(m, replace):
                    if (f.atom, f.at) not in seen:
                        seen.add((f.atom, f.at))
                        pending.append(f)
            continue
        decided = _decide_under(store, equal, comparison(store, factor), box, ranges)
        if decided is not None:
            found[factor.atom, factor.at] = decided
    return found


def _booleans_inside(store: Store, number: int) -> frozenset[tuple[int, Index]]:
    """The booleans inside an atom, at indices in its coordinates; without those that depend on what it binds, of which
    nothing outside can know the value."""
    memo = store.memo.booleans_inside
    found = memo.get(number)
    if found is None:
        inside: set[tuple[int, Index]] = set()
        for x in store.atoms[number].arguments:
            for a, _, index in factors_of(x):
                if store.atoms[a].facts.boolean:
                    inside.add((a, index))
                if store.atoms[a].guards:
                    replace = dict(enumerate(index))
                    inside.update((b, substitute_index(at, replace)) for b, at in _booleans_inside(store, a))
        found = memo[number] = frozenset(key for key in inside if all(v >= 0 for v in _variables(key[1])))
    return found


def _assume(store: Store, flat: Flat, factor: Factor, known: Known, box: Ranges) -> list[Flat] | None:
    """``factor`` rebuilt with the known truth values put in; ``None`` if that changes nothing."""
    replace = dict(enumerate(factor.at))
    if not any((a, substitute_index(index, replace)) in known for a, index in _booleans_inside(store, factor.atom)):
        return None
    posing = store.fresh_axes(len(flat.ranges))
    away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(posing)}
    back: dict[int, Coordinate] = {axis: variable(-1 - j) for j, axis in enumerate(posing)}
    moved = substitute_factors((factor,), away)[0]
    values = {(a, substitute_index(index, away)): value for (a, index), value in known.items()}
    result = store.assuming(values, moved)
    if result == (Term((moved,), 1),):
        return None
    if not result:
        return []
    c, factors = as_factors(store, result)
    others = list(flat.factors)
    others.remove(factor)
    new = Flat(c * flat.coefficient, (*others, *substitute_factors(factors, back)), flat.ranges)
    return None if sorted(new.factors) == sorted(flat.factors) else [new]


def _eliminate(store: Store, flat: Flat, factor: Factor, guard: Comparison, box: Ranges) -> list[Flat] | None:
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
            span = _interval(store, Coordinate(small, rest), box, flat.ranges)
            if span is not None and -modulus < span[0] and span[1] < modulus:
                # big is a multiple of the modulus and small is nearer to 0 than that: both vanish
                guards = [_raw_equal(store, Coordinate(small, rest)), _raw_equal(store, Coordinate(big, offset - rest))]
                return [Flat(flat.coefficient, (*others, *guards), flat.ranges)]
    for v, s in parts:
        if v >= 0 or abs(s) != 1:
            continue
        solution: Coordinate = Coordinate(tuple((w, -s * t) for w, t in parts if w != v), -s * offset)
        span = _interval(store, solution, box, flat.ranges)
        size = flat.ranges[-1 - v]
        if span is None:
            continue
        if span[1] < 0 or span[0] >= size:
            return []
        if span[0] >= 0 and span[1] < size:
            ranges = tuple(1 if -1 - j == v else n for j, n in enumerate(flat.ranges))
            return [Flat(flat.coefficient, substitute_factors(others, {v: solution}), ranges)]
    return None


def _position(store: Store, flat: Flat, factor: Factor, guard: Comparison) -> list[Flat] | None:
    """``SUM_v v [t + s v + r == 0]``: where the guard holds, the position v is ``-s (t + r)``, for s = 1 or -1."""
    if any(map(bound_variables, factors_of(guard.rest))) or sum(v < 0 for v, _ in guard.affine.parts) != 1:
        return None  # of two bound variables each would be written with the other, for ever
    for v, s in guard.affine.parts:
        if v >= 0 or abs(s) != 1:
            continue
        for place in flat.factors:
            stride = dict(place.at[0].parts).get(v) if place.atom == IOTA else None
            if stride is None or place.exponent != 1:
                continue
            others = coordinate({w: t for w, t in guard.affine.parts if w != v}, guard.affine.offset)
            rest = coordinate({w: t for w, t in place.at[0].parts if w != v}, place.at[0].offset)
            terms = [(t.monomial, -s * stride * t.coefficient) for t in guard.rest]
            terms += [((Factor(IOTA, 1, (others,)),), -s * stride), ((Factor(IOTA, 1, (rest,)),), 1)]
            kept = tuple(f for f in flat.factors if f is not place)
            return [Flat(exact(flat.coefficient * c), (*kept, *m), flat.ranges) for m, c in terms]
    return None


def _through(store: Store, flat: Flat, factor: Factor, guard: Comparison, box: Ranges) -> list[Flat] | None:
    """``SUM_v [t + s v + r == 0] [u + q v == 0]`` is ``[u - q s (t + r) == 0]`` where one v is known to fit, s = 1 or
    -1, and v occurs nowhere else: a window of a window. No flats where none is known to fit."""
    if any(map(bound_variables, factors_of(guard.rest))) or len(bound_variables(factor)) != 1:
        return None
    ((v, s),) = ((v, s) for v, s in guard.affine.parts if v < 0)
    users = [f for f in flat.factors if f is not factor and v in bound_variables(f)]
    if abs(s) != 1:
        return None
    alone = substitute_factors((factor,), {v: variable(-1)})[0]
    if store.missed(alone, flat.ranges[-1 - v], box):
        return []
    if not users or any(store.atoms[f.atom].op != "equal" or f.exponent != 1 for f in users):
        return None
    if not store.covered(alone, flat.ranges[-1 - v], box):
        return None
    others = coordinate({w: t for w, t in guard.affine.parts if w != v}, guard.affine.offset)
    place = scale(add(store, guard.rest, iota(others)), -s)
    kept = [f for f in flat.factors if f is not factor and f not in users]
    for user in users:
        lifted = dict(zip(sorted(bound_variables(user)), store.fresh_axes(len(bound_variables(user))), strict=True))
        away: dict[int, Coordinate] = {w: variable(axis) for w, axis in lifted.items()}
        back: dict[int, Coordinate] = {axis: variable(w) for w, axis in lifted.items()}
        read = comparison(store, substitute_factors((user,), away)[0])
        if read is None or any(lifted[v] in {w for parts, _ in f.at for w, _ in parts} for f in factors_of(read.rest)):
            return None
        parts = dict(read.affine.parts)
        q = parts.pop(lifted[v], 0)
        there = add(store, read.rest, iota(coordinate(parts, read.affine.offset)), scale(place, q))
        found = compare(store, "equal", there, (), None)
        if len(found) != 1 or found[0].coefficient != 1:
            return None
        kept.extend(substitute_factors(found[0].monomial, back))
    ranges = tuple(1 if -1 - j == v else n for j, n in enumerate(flat.ranges))
    return [Flat(flat.coefficient, tuple(kept), ranges)]


def _same_place(store: Store, flat: Flat, guard: Comparison, other: Factor, found: Comparison) -> list[Flat] | None:
    """``[t + a == 0] [t + b == 0]`` is ``[t + a == 0] [b - a == 0]``, which gives a bound variable of b that occurs
    nowhere in a: what is read where it was written. ``found``: the comparison that the factor ``other`` is."""
    if found.op != "equal" or found.rest != guard.rest:
        return None
    own = [v for v, s in found.affine.parts if v < 0 and abs(s) == 1 and v not in dict(guard.affine.parts)]
    if not own or any(map(bound_variables, factors_of(guard.rest))):
        return None
    between = _raw_equal(store, _between(guard, found))
    return [flat._replace(factors=(*(f for f in flat.factors if f is not other), between))]


def _cut(
    store: Store, flat: Flat, factor: Factor, guard: Comparison | None, value: int, box: Ranges
) -> list[Flat] | None:
    """A guard ``[s v + r < 0]`` (or its complement) cuts the range of a bound variable v to the part where it may hold,
    and splits off the part where it always does.

    Where r has no other variables, both parts are the same. Where it has, they depend on the box; a shard would then be
    summed in other parts than the whole, so that is done only where two Polynomials are compared (the box is a
    mapping)."""
    if guard is None or guard.rest:
        return None
    if guard.op == "equal":
        return _reached(flat, guard.affine, box) if value and isinstance(box, Mapping) else None
    if guard.op != "less":
        return None
    for v, s in guard.affine.parts:
        if v >= 0:
            continue
        others: Coordinate = Coordinate(tuple(p for p in guard.affine.parts if p[0] != v), guard.affine.offset)
        if others.parts and not isinstance(box, Mapping):
            continue
        span = interval(others, box, flat.ranges)
        if span is None:
            continue
        size = flat.ranges[-1 - v]
        possible = _holds(s, span[0] if value else span[1], value, size)
        certain = _holds(s, span[1] if value else span[0], value, size)
        if possible == (0, size) and certain[0] >= certain[1]:
            continue
        rest = tuple(f for f in flat.factors if f is not factor)
        parts = [_narrowed(flat, rest, v, certain)]
        parts.append(_narrowed(flat, flat.factors, v, (possible[0], min(possible[1], certain[0]))))
        if certain[0] < certain[1]:
            parts.append(_narrowed(flat, flat.factors, v, (max(possible[0], certain[1]), possible[1])))
        return [part for part in parts if part is not None]
    return None


def _reached(flat: Flat, affine: Coordinate, box: Mapping[int, tuple[int, int]]) -> list[Flat] | None:
    """A guard ``[s v + r == 0]`` cuts the range of a bound variable v to what ``-r / s`` reaches on the box: all other
    terms are 0. A part of a convolution, which was given a part of the rows, so becomes the convolution there."""
    for v, s in affine.parts:
        if v >= 0:
            continue
        span = interval(Coordinate(tuple(p for p in affine.parts if p[0] != v), affine.offset), box, flat.ranges)
        if span is None:
            continue
        ends = (-span[1], -span[0]) if s > 0 else span  # abs(s) v lies between
        low, high = max(-(-ends[0] // abs(s)), 0), min(ends[1] // abs(s) + 1, flat.ranges[-1 - v])
        if (low, high) != (0, flat.ranges[-1 - v]):
            part = _narrowed(flat, flat.factors, v, (low, high))
            return [] if part is None else [part]
    return None


def _holds(s: int, r: int, value: int, size: int) -> tuple[int, int]:
    """The part of ``0..size`` where ``[s v + r < 0]`` has the given value; empty as ``(size, size)``."""
    first = (
        -(r // s) if s > 0 else r // -s + 1
    )  # s > 0: the least v with s v + r >= 0; s < 0: the least with s v + r < 0
    low, high = (first, size) if (s > 0) == (value == 0) else (0, first)
    low, high = max(low, 0), min(high, size)
    return (low, high) if low < high else (size, size)


def _narrowed(flat: Flat, factors: Factors, v: int, span: tuple[int, int]) -> Flat | None:
    """The flat with bound variable v restricted to an interval."""
    low, high = span
    if low >= high:
        return None
    ranges = tuple(high - low if -1 - j == v else n for j, n in enumerate(flat.ranges))
    return Flat(flat.coefficient, substitute_factors(factors, {v: variable(v, 1, low)}), ranges)


def _raw_equal(store: Store, c: Coordinate) -> Factor:
    sign = -1 if c.parts[0][1] < 0 else 1
    divisor = 0
    for _, s in c.parts:
        divisor = common_divisor(divisor, s)
    if c.offset % divisor:
        return _never(store)
    index: Coordinate = Coordinate(tuple((v, sign * s // divisor) for v, s in c.parts), sign * c.offset // divisor)
    bound = [v for v, _ in index.parts if v < 0]
    axes = dict(zip(bound, store.fresh_axes(len(bound)), strict=True))
    lifted = coordinate({axes.get(v, v): s for v, s in index.parts}, index.offset)
    atom, where = store.apply("equal", (), ((), position(lifted)), BOOLEAN)
    back: dict[int, Coordinate] = {lifted_v: variable(v) for v, lifted_v in axes.items()}
    return substitute_factors((Factor(atom, 1, where),), back)[0]


def _never(store: Store) -> Factor:
    """The guard ``[1 == 0]``."""
    atom, where = store.apply("equal", (), ((), position(fixed(1))), BOOLEAN)
    return Factor(atom, 1, where)
