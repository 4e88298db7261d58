"""Products of sines and cosines as sums: ``cos x cos y = (cos(x - y) + cos(x + y)) / 2`` and the like.

A rotary embedding turns queries and keys by their positions, and their product depends on the difference alone: from
products, ``x - y`` comes out by these formulas. Each sum of angles is one atom then, so equal functions are equal.
"""

from __future__ import annotations

from fractions import Fraction

from tantamount.calculus import powers
from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import add, constant, multiply, pinned, polynomial, scale, sum_over
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.sums import flatten
from tantamount.calculus.terms import IOTA, Factor, Factors, Polynomial, Ranges, Rational, Term, factors_of

__all__ = ["angles_in", "linear_in_angles"]

_TURNS = ("cos", "sin")
_Part = tuple[Polynomial, tuple[str, Polynomial] | tuple[()]]  # a coefficient, and a sine or cosine of an angle


def angles_in(store: Store, x: Polynomial) -> frozenset[int]:
    """The atoms that are sines and cosines, at any depth."""
    return frozenset[int]().union(*(_angles(store, f.atom) for f in factors_of(x)))


def _angles(store: Store, number: int) -> frozenset[int]:
    memo = store.memo.angles
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        own = frozenset((number,)) if atom.op in _TURNS else frozenset[int]()
        inner = factors_of(*atom.arguments) if atom.op != "leaf" else ()
        found = memo[number] = own.union(*(_angles(store, f.atom) for f in inner))
    return found


def linear_in_angles(store: Store, x: Polynomial, box: Ranges = None) -> Polynomial:
    """The polynomial with every product of sines and cosines as a sum, in its summands and exponents, too."""
    if not any(_angles(store, f.atom) for f in factors_of(x)):
        return x
    return add(store, *(_term(store, m, c, box) for m, c in x), box=box)


def _term(store: Store, m: Factors, c: Rational, box: Ranges) -> Polynomial:
    flat = flatten(store, m, c)
    turns = sum(int(f.exponent) for f in flat.factors if _is_turn(store, f))
    exponents = [f for f in flat.factors if store.atoms[f.atom].op == "exp" and _angles(store, f.atom)]
    if (not turns and not exponents) or store.effort.exceeds("multiplied_angles", turns):
        return (Term(m, c),)
    store.fired["sums-of-angles"] += 1
    axes = {axis: (0, n) for axis, n in zip(store.fresh_axes(len(flat.ranges)), flat.ranges, strict=True)}
    posed: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(axes)}
    out, total = constant(flat.coefficient), list[Polynomial]()
    sums: list[_Part] = [(constant(1), ())]
    for factor in substitute_factors(flat.factors, posed):
        atom = store.atoms[factor.atom]
        if _is_turn(store, factor):
            angle = pinned(store, atom.arguments[0], dict(enumerate(factor.at)))
            for _ in range(int(factor.exponent)):
                sums = _turned(store, sums, atom.op, angle)
        elif atom.op == "exp" and _angles(store, factor.atom):
            total.append(scale(pinned(store, atom.arguments[0], dict(enumerate(factor.at))), factor.exponent))
        else:
            out = multiply(store, out, (Term((factor,), 1),))
    if turns:
        turned = add(store, *(_of(store, part, angle) for part, angle in sums))
        out = _distributed(store, out, turned)
    if total:
        inside = linear_in_angles(store, polynomial(store, (t for x in total for t in x)), box)
        out = _distributed(store, out, powers.exponential(store, inside))
    return sum_over(store, out, axes, box) if axes else out


def _turned(store: Store, sums: list[_Part], op: str, y: Polynomial) -> list[_Part]:
    """A sum of sines and cosines times another one."""
    out: list[_Part] = []
    for c, turn in sums:
        if not turn:
            out.append((c, (op, y)))
            continue
        kind, x = turn
        half, minus = scale(c, Fraction(1, 2)), add(store, x, scale(y, -1))
        plus = add(store, x, y)
        if kind == op:  # cos x cos y, sin x sin y
            out += [(half, ("cos", minus)), (scale(half, 1 if op == "cos" else -1), ("cos", plus))]
        else:  # sin x cos y = (sin(x + y) + sin(x - y)) / 2, cos x sin y = (sin(x + y) - sin(x - y)) / 2
            out += [(half, ("sin", plus)), (scale(half, 1 if kind == "sin" else -1), ("sin", minus))]
    return out


def _of(store: Store, c: Polynomial, turn: tuple[str, Polynomial] | tuple[()]) -> Polynomial:
    if not turn:
        return c
    op, angle = turn
    back = _backwards(angle)
    value = powers.function(store, op, (angle if back is None else back,))
    return multiply(store, c, scale(value, -1) if back is not None and op == "sin" else value)


def _backwards(x: Polynomial) -> Polynomial | None:
    """``-x`` for a position that runs backwards along its first axis, times something; ``None`` for any other x."""
    if len(x) != 1:
        return None
    for k, (atom, exponent, index) in enumerate(x[0].monomial):
        if atom == IOTA and exponent == 1 and index[0].parts and index[0].parts[0][1] < 0:
            turned = Coordinate(tuple((v, -s) for v, s in index[0].parts), -index[0].offset)
            others = x[0].monomial[:k] + x[0].monomial[k + 1 :]
            return (Term(tuple(sorted((*others, Factor(IOTA, 1, (turned,))))), x[0].coefficient),)
    return None


def _distributed(store: Store, x: Polynomial, y: Polynomial) -> Polynomial:
    """The product, term by term of the second."""
    return add(store, *(multiply(store, x, (term,)) for term in y))


def _is_turn(store: Store, factor: Factor) -> bool:
    return store.atoms[factor.atom].op in _TURNS and isinstance(factor.exponent, int) and factor.exponent > 0
