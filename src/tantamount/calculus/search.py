"""Equality of Polynomials by pairs of functions that are equal.

Two atoms of one operator are taken for equal if their arguments are, by the same procedure, at any (bounded) depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.angles import linear_in_angles
from tantamount.calculus.atoms import Store
from tantamount.calculus.cases import vanishes
from tantamount.calculus.multiplied import MANY, Axes, distribute, products_out
from tantamount.calculus.polynomials import add, as_factors, constant, polynomial, scale
from tantamount.calculus.products import exact, monomial, substitute_factors
from tantamount.calculus.terms import Factor, Polynomial, Rational, Term
from tantamount.limits import COMPARISON

__all__ = ["Search"]


@dataclass
class Search:
    """``known`` remembers pairs of factors and their ratio (0: it has none), ``given_up`` the depth at which the search
    for one ended early; ``left`` is how many more pairs may be compared; ``residual`` what was left of the outermost
    difference."""

    store: Store
    box: Axes
    known: dict[tuple[Factor, Factor], Rational] = field(default_factory=dict[tuple[Factor, Factor], Rational])
    given_up: dict[tuple[Factor, Factor], int] = field(default_factory=dict[tuple[Factor, Factor], int])
    left: int = -1
    residual: Polynomial = ()
    turning: bool = False  # products of sines and cosines are written as sums
    allowed: int = 0  # steps that showed something
    most: int = MANY  # terms up to which products are multiplied out; where they are bounded, nothing else is done

    def __post_init__(self) -> None:
        self.left = self.store.effort.bounds.compared_pairs

    def polynomials(self, x: Polynomial, y: Polynomial, depth: int) -> bool:
        """True if ``x - y`` was shown to vanish."""
        store = self.store
        difference = add(store, x, scale(y, -1))
        if not difference:
            return True
        if self.most < MANY:
            difference = self._without_pairs(difference, x, depth)
        difference = self._multiplied_out(difference)
        for _ in range(store.effort.bounds.replaced_functions):
            if not difference:
                return True
            replaced = self._with_equal_pair(difference, difference, depth)
            if replaced is None and self.most == MANY and vanishes(store, difference, self.box):
                return True
            if replaced is None:
                self._note(difference, depth)
                return False
            difference = self._multiplied_out(replaced)
        if difference:
            store.effort.hit("replaced_functions")
            self._note(difference, depth)
        return not difference

    def _without_pairs(self, difference: Polynomial, x: Polynomial, depth: int) -> Polynomial:
        """``x - y`` without the terms that cancel once equal functions are written alike, looked for among terms of
        which x and y have as many."""
        terms = frozenset(x)
        for _ in range(self.store.effort.bounds.replaced_functions):
            among = self._balanced(difference, terms)
            replaced = self._with_equal_pair(difference, among, depth) if among else None
            if replaced is None:
                break
            difference = replaced
        return difference

    def _balanced(self, difference: Polynomial, x: frozenset[Term]) -> Polynomial:
        """The terms of ``x - y`` of which x and y have as many that have one coefficient and functions of one kind."""
        atoms = self.store.atoms
        alike: dict[object, list[Term]] = {}
        for term in difference:
            kinds = [
                (a if atoms[a].op == "leaf" else -1, atoms[a].op, e, atoms[a].ranges if atoms[a].op == "sum" else ())
                for a, e, _ in term.monomial
            ]
            c = term.coefficient if term in x else -term.coefficient
            alike.setdefault((c, frozenset(Counter(kinds).items())), []).append(term)
        even = {t for same in alike.values() if 2 * sum(t in x for t in same) == len(same) for t in same}
        return tuple(t for t in difference if t in even)

    def _with_equal_pair(self, difference: Polynomial, among: Polynomial, depth: int) -> Polynomial | None:
        """The difference with one function, in some of its terms, written as another one that was shown to be equal;
        ``None`` if none was. What it took to show that does not count: only what shows nothing does."""
        effort = self.store.effort
        begun, allowed = effort.steps, self.allowed
        pair = self._equal_pair(among, depth)
        if pair is None:
            return None
        self.store.fired["equal-arguments"] += 1
        taken = effort.steps - begun - (self.allowed - allowed)
        effort.allow(taken)
        self.allowed += taken
        return self._replaced(difference, *pair)

    def _multiplied_out(self, x: Polynomial) -> Polynomial:
        if self.most < MANY:
            return products_out(self.store, x, self.box, self.most)
        out = distribute(self.store, x, self.box)
        return linear_in_angles(self.store, out, self.box or None) if self.turning else out

    def _note(self, difference: Polynomial, depth: int) -> None:
        if depth == 0:
            self.residual = difference

    def _equal_pair(self, difference: Polynomial, depth: int) -> tuple[Factor, Factor, Rational] | None:
        """Two different factors f, g of the difference and q with f's atom = q * g's atom, in terms that could then
        cancel."""
        effort = self.store.effort
        if effort.exceeds("compared_terms", len(difference)):
            return None
        for f, g in self._pairs(difference):
            if effort.exceeds("compared_depth", depth + 1):
                return None
            ratio = self.ratio(f, g, depth + 1)
            if ratio > 0 or (ratio and f.exponent.denominator == 1):
                return f, g, ratio
        return None

    def _pairs(self, difference: Polynomial) -> Iterator[tuple[Factor, Factor]]:
        """Factors of one operator and exponent, of two terms that would cancel if all their factors were equal."""
        atoms = self.store.atoms
        for i, (m, c) in enumerate(difference):
            for n, d in difference[:i]:
                if c * d >= 0:  # only terms of opposite sign cancel
                    continue
                left = [f for f in m if f not in n and not self._is_prime(f)]
                right = [f for f in n if f not in m and not self._is_prime(f)]
                if not left or len(left) != len(right):
                    continue
                for f in left:
                    for g in right:
                        if f.exponent == g.exponent and atoms[f.atom].op == atoms[g.atom].op != "leaf":
                            yield f, g

    def _is_prime(self, f: Factor) -> bool:
        attributes = self.store.atoms[f.atom].attributes
        return bool(attributes) and attributes[0] == "prime"

    def _replaced(self, x: Polynomial, old: Factor, new: Factor, ratio: Rational) -> Polynomial:
        """``old -> ratio ** e * new`` in every term."""
        q, roots = as_factors(self.store, constant(ratio), old.exponent)
        terms = [
            monomial(self.store, c * q, (*(new if f == old else f for f in m), *roots)) if old in m else Term(m, c)
            for m, c in x
        ]
        return polynomial(self.store, terms)

    def ratio(self, f: Factor, g: Factor, depth: int) -> Rational:
        """The known q with ``atom of f = q * atom of g`` at their indices, for two atoms of one operator; 0 if
        there is none, or none was found."""
        if f == g:
            return 1
        effort = self.store.effort
        known = self.known.get((f, g))
        if known is not None:
            return known
        if self.given_up.get((f, g), depth + 1) <= depth:
            return 0
        if self.left <= 0:
            effort.hit("compared_pairs")
            return 0
        self.left -= 1
        self.given_up[f, g] = depth
        before = effort.counts()
        if self.store.atoms[f.atom].op == "polynomial":
            result = self._proportion(f, g, depth)
        else:
            result = int(self._compare(f, g, depth))
        if result or not effort.since(before, COMPARISON):
            self.known[f, g] = result
        return result

    def _proportion(self, f: Factor, g: Factor, depth: int) -> Rational:
        """The ratio of two sums, read off a term that they share, once multiplied out if need be."""
        x, y = (self._argument(self.store.atoms[h.atom].arguments[0], h) for h in (f, g))
        q = _ratio_of_shared(x, y) if self.most < MANY else None
        if q is None:
            x, y = self._multiplied_out(x), self._multiplied_out(y)
            q = _ratio_of_shared(x, y) or 1
        return q if self.polynomials(x, scale(y, q), depth) else 0

    def _compare(self, f: Factor, g: Factor, depth: int) -> bool:
        a, b = self.store.atoms[f.atom], self.store.atoms[g.atom]
        if a.attributes != b.attributes or len(a.arguments) != len(b.arguments):
            return False
        if a.op == "sum":
            return a.ranges == b.ranges and self.polynomials(*self._summands(f, g), depth)
        return all(
            self.polynomials(self._argument(p, f), self._argument(q, g), depth)
            for p, q in zip(a.arguments, b.arguments, strict=True)
        )

    def _argument(self, x: Polynomial, f: Factor) -> Polynomial:
        replace = dict(enumerate(f.at))
        return polynomial(self.store, [monomial(self.store, c, substitute_factors(m, replace)) for m, c in x])

    def _summands(self, f: Factor, g: Factor) -> tuple[Polynomial, Polynomial]:
        """Both summands over the same fresh axes in place of their bound variables."""
        mentioned = {v for parts, _ in (*f.at, *g.at) for v, _ in parts}
        posing = self.store.posing_axes(((0, n) for n in self.store.atoms[f.atom].ranges), mentioned)
        axes: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(posing)}
        out: list[Polynomial] = []
        for a, _, index in (f, g):
            replace = {**dict(enumerate(index)), **axes}
            m, c = monomial(self.store, 1, substitute_factors(self.store.atoms[a].summand, replace))
            out.append(polynomial(self.store, (Term(m, c),)))
        return out[0], out[1]


def _ratio_of_shared(x: Polynomial, y: Polynomial) -> Rational | None:
    """The ratio of the coefficients of a product that two sums share; ``None`` if they share none."""
    other = dict(y)
    return next((exact(Fraction(c) / other[m]) for m, c in x if m in other), None)
