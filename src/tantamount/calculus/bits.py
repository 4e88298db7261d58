"""Bitwise operators on integers, as sums of conjunctions and as remainders.

In two's complement every integer is a sum of its bits, so that a function of bits that is a sum of conjunctions is the
same sum of integers: ``x | y = x + y - (x & y)``, ``x ^ y = x + y - 2 (x & y)``, ``~x = -1 - x``; -1 has every bit.
Read back, ``sum of c_S (& of S)`` is bitwise if ``sum of c_S over the S in T`` is 0 or 1 for every set T of what it is
made of; the conjunction of two such is the product of these. Bits a to b - 1 are what is left of a number modulo 2^b,
less what is left of it modulo 2^a.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations

from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.polynomials import add, constant, polynomial, scale
from tantamount.calculus.products import is_integer, leading_sign, substitute_polynomial
from tantamount.calculus.terms import Polynomial, Term, single, sole_number
from tantamount.sizes.symbolic import is_size

__all__ = ["bitwise", "told_apart"]

_Parts = frozenset[Polynomial]
_Bits = Mapping[_Parts, int]  # a sum of conjunctions; of nothing: -1


def bitwise(store: Store, name: str, *operands: Polynomial) -> Polynomial:
    """``x & y``, ``x | y`` or ``x ^ y`` of two integers."""
    x, y = operands
    both = _conjunction(store, x, y)
    if name == "bitwise_and":
        return both
    return add(store, x, y, scale(both, -1 if name == "bitwise_or" else -2))


def told_apart(store: Store, x: Polynomial) -> Polynomial | None:
    """``p - q``, if x is a multiple of ``p ^ q = p + q - 2 (p & q)``, which is 0 exactly if p and q are equal;
    ``None`` for anything else."""
    found = [(m[0], c) for m, c in x if len(m) == 1 and store.atoms[m[0].atom].op == "bitwise_and"]
    if len(found) != 1 or is_size(found[0][1]) or found[0][0].exponent != 1:
        return None
    (atom, _, at), c = found[0]
    p, q = (substitute_polynomial(y, dict(enumerate(at))) for y in store.atoms[atom].arguments)
    whole = scale(add(store, p, q, single(atom, at, coefficient=-2)), -Fraction(c) / 2)
    return None if add(store, x, scale(whole, -1)) else add(store, p, scale(q, -1))


def _conjunction(store: Store, x: Polynomial, y: Polynomial) -> Polynomial:
    for mask, value in ((x, y), (y, x)):
        number = sole_number(mask)
        if number is not None and not is_size(number) and Fraction(number).denominator == 1:
            found = _masked(store, value, int(number))
            store.fired["low-bits"] += found is not None
            return _atom(store, frozenset((x, y))) if found is None else found
    store.fired["conjunctions-of-bits"] += 1
    f, g = _read(store, x), _read(store, y)
    parts = frozenset(p for bits in (f, g) for conjunction in bits for p in conjunction)
    if store.effort.exceeds("bit_parts", len(parts)):
        f, g = _one_part(store, x), _one_part(store, y)
        parts = frozenset(p for bits in (f, g) for conjunction in bits for p in conjunction)
    values = {chosen: _at(f, chosen) * _at(g, chosen) for chosen in _subsets(parts)}
    total: list[Polynomial] = []
    for chosen in values:  # Moebius inversion
        c = sum((-1) ** (len(chosen) - len(inner)) * values[inner] for inner in _subsets(chosen))
        if c:
            total.append(scale(_atom(store, chosen), c))
    return add(store, *total)


def _masked(store: Store, x: Polynomial, mask: int) -> Polynomial | None:
    """The bits of x that a number has; ``None`` if it has too many runs of ones."""
    if mask < 0:
        rest = _masked(store, x, -1 - mask)
        return None if rest is None else add(store, x, scale(rest, -1))
    number = sole_number(x)
    if number is not None and not is_size(number) and Fraction(number).denominator == 1:
        return constant(int(number) & mask)
    total: list[Polynomial] = []
    at = 0
    while mask >> at:
        start = at + ((mask >> at) & -(mask >> at)).bit_length() - 1
        ones = ~(mask >> start)
        at = start + (ones & -ones).bit_length() - 1
        total += [_modulo(store, x, at), scale(_modulo(store, x, start), -1)]
        if store.effort.exceeds("mask_runs", len(total) // 2):
            return None
    return add(store, *total)


def _modulo(store: Store, x: Polynomial, bits: int) -> Polynomial:
    """``x - 2^k floor(x / 2^k)``."""
    if not bits:
        return ()
    a, index = store.apply("floor_divide", (), (x, constant(1 << bits)), ValueFacts(integer=True))
    return add(store, x, single(a, index, coefficient=-(1 << bits)))


def _read(store: Store, x: Polynomial) -> _Bits:
    """An integer as a function of bits: of the parts of its terms where that is one, else of itself."""
    found: dict[_Parts, int] = {}
    for m, c in x:
        if is_size(c) or Fraction(c).denominator != 1:
            return _one_part(store, x)
        chosen, sign = (frozenset[Polynomial](), -1) if not m else (_parts(store, (Term(m, 1),)), 1)
        if chosen is None:
            return _one_part(store, x)
        found[chosen] = found.get(chosen, 0) + sign * int(c)
    parts = frozenset(p for conjunction in found for p in conjunction)
    if store.effort.exceeds("bit_parts", len(parts)) or any(
        _at(found, chosen) not in (0, 1) for chosen in _subsets(parts)
    ):
        return _one_part(store, x)
    return found


def _one_part(store: Store, x: Polynomial) -> _Bits:
    """x, or -1 less what is its own part: of a number and what negates its bits one is kept."""
    rest = tuple(term for term in x if term.monomial)
    if not rest or leading_sign(rest) > 0:
        return {frozenset((x,)): 1}
    return {frozenset(): 1, frozenset((add(store, constant(-1), scale(x, -1)),)): -1}


def _parts(store: Store, x: Polynomial) -> _Parts | None:
    """The parts that x is the conjunction of: itself, if it is none; ``None`` if it is no integer."""
    if not is_integer(store, x):
        return None
    (m, _) = x[0]
    if len(m) == 1 and m[0].exponent == 1 and store.atoms[m[0].atom].op == "bitwise_and":
        operands = [
            polynomial(store, substitute_polynomial(p, dict(enumerate(m[0].at))))
            for p in store.atoms[m[0].atom].arguments
        ]
        found = [frozenset((p,)) if sole_number(p) is not None or len(p) > 1 else _parts(store, p) for p in operands]
        return None if None in found else frozenset(p for part in found if part is not None for p in part)
    return frozenset((x,))


def _atom(store: Store, parts: Iterable[Polynomial]) -> Polynomial:
    """The conjunction of integers: of none -1, of one that one."""
    ordered = sorted(parts, key=repr)
    if not ordered:
        return constant(-1)
    found = ordered[0]
    for part in ordered[1:]:
        a, index = store.apply("bitwise_and", (), (found, part), ValueFacts(integer=True))
        found = single(a, index)
    return found


def _at(bits: _Bits, chosen: _Parts) -> int:
    """The bit where the bits of the chosen parts are 1, and of all others 0."""
    return sum(c for conjunction, c in bits.items() if conjunction <= chosen)


def _subsets(parts: _Parts) -> Iterator[_Parts]:
    ordered = sorted(parts, key=repr)
    for count in range(len(ordered) + 1):
        yield from map(frozenset, combinations(ordered, count))
