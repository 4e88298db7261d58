"""Products multiplied out on demand, and equality of Polynomials up to that.

Only what differs is touched: common terms cancel first, sums are multiplied out at the top and inside the summands
there, and two atoms of one operator are taken for equal if their arguments are, by the same procedure. All of it is
bounded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count

from tantamount.calculus import powers
from tantamount.calculus.affine import Coordinate, Index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.cells import common_cells
from tantamount.calculus.choices import settled
from tantamount.calculus.polynomials import add, as_factors, constant, multiply, pinned, polynomial, scale
from tantamount.calculus.products import exact, monomial, substitute_factors
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.sums import close, flatten
from tantamount.calculus.terms import Factor, Factors, Flat, Polynomial, Rational, Term, single
from tantamount.errors import Unsupported

__all__ = ["distribute", "equal_polynomials"]

_MAX_POWER = 4  # whole powers of a sum up to which it is multiplied out
_MAX_TERMS = 256  # terms that one Polynomial may grow to
_MAX_DEPTH = 6  # atoms inside atoms that are compared
_MAX_PAIRS = 200  # pairs of atoms compared for one pair of Polynomials
_MAX_RECOMPUTED = 200  # factors computed anew before two Polynomials are said to differ
_CELL_EFFORT = 250  # that computing terms anew in one cell counts as
_MAX_EFFORT = 10_000  # factors of all products that are made for one pair of Polynomials: some seconds
Axes = Box | Mapping[int, tuple[int, int]]  # the intervals of axes 0, 1, ..., or of some by number
_MAX_NESTED = 3  # sums inside sums that are compared cell by cell
_BOUND_AS_AXIS = 1 << 26


def distribute(store: Store, x: Polynomial, box: Axes = ()) -> Polynomial:
    """The Polynomial with products of sums multiplied out, also inside its summands and the exponents of exp: a
    polynomial in atoms. What would grow beyond a bound stays as it is. ``box`` bounds the axes, for what guards may
    conclude."""
    out = x
    for _ in range(_MAX_DEPTH):
        new = _once(store, out, box)
        if new is None or new == out:
            return out
        out = new
    return out


def _once(store: Store, x: Polynomial, box: Axes) -> Polynomial | None:
    """Every term multiplied out by one level; ``None`` if that would be too long."""
    parts: list[Polynomial] = []
    total = 0
    for m, c in x:
        part = _term(store, m, c, box)
        total += len(part)
        if total > _MAX_TERMS:
            return None
        parts.append(part)
    return polynomial(store, (t for part in parts for t in part))


def _term(store: Store, m: Factors, c: Rational, box: Axes) -> Polynomial:
    exponentials = [f for f in m if store.atoms[f.atom].op == "exp"]
    others = tuple(f for f in m if store.atoms[f.atom].op != "exp")
    out = _polynomial(store, others, c, box)
    for a, e, index in exponentials:
        argument = pinned(store, store.atoms[a].arguments[0], dict(enumerate(index)))
        expanded = _once(store, argument, box)
        factor: Polynomial = single(a, index, exponent=e)
        if expanded is not None and expanded != argument:
            with contextlib.suppress(Unsupported):
                factor = powers.exponential(store, scale(expanded, e))
        out = (
            multiply(store, out, factor) if len(out) == 1 else add(store, *(multiply(store, (t,), factor) for t in out))
        )
    return out


def _polynomial(store: Store, m: Factors, c: Rational, box: Axes) -> Polynomial:
    if not any(_sum_like(store, f) for f in m):
        return (Term(m, c),)
    flat = flatten(store, m, c)
    pending: list[Flat] = [flat]
    done: list[Flat] = []
    while pending:
        current = pending.pop()
        chosen = next((f for f in current.factors if _is_sum(store, f)), None)
        if chosen is None:
            done.append(current)
            continue
        store.fired["multiplying-out"] += 1
        a, e, index = chosen
        rest = list(current.factors)
        rest.remove(chosen)
        if e != 1:
            rest.append(Factor(a, exact(e - 1), index))
        replace = dict(enumerate(index))
        for n, d in store.atoms[a].arguments[0]:
            factors = (*rest, *substitute_factors(n, replace))
            pending.append(flatten(store, factors, exact(current.coefficient * d), current.ranges))
        if len(pending) + len(done) > _MAX_TERMS:
            return (Term(m, c),)
    _spend(store, sum(len(f.factors) + len(f.ranges) for f in done))
    return polynomial(store, (t for f in done for t in close(store, f, box or None)))


def _spend(store: Store, effort: int) -> None:
    """Give a search up that becomes too long (outside of a search nothing is counted)."""
    searching = store.cache("effort")
    if searching:
        searching["left"] -= effort
        if searching["left"] < 0:
            raise Unsupported("a search that is too long")


def _is_sum(store: Store, f: Factor) -> bool:
    return store.atoms[f.atom].op == "polynomial" and isinstance(f.exponent, int) and 1 <= f.exponent <= _MAX_POWER


def _sum_like(store: Store, f: Factor) -> bool:
    if _is_sum(store, f):
        return True
    atom = store.atoms[f.atom]
    return atom.op == "sum" and f.exponent == 1 and any(_is_sum(store, g) for g in atom.summand)


def _cleared(store: Store, x: Polynomial) -> Polynomial | None:
    """A Polynomial times the denominators of its terms, ``None`` if there are none: where the Polynomial is defined,
    both are 0 or neither is."""
    below: dict[tuple[int, Index], int] = {}
    for m, _ in x:
        for a, e, index in m:
            if e < 0 and e.denominator == 1 and store.atoms[a].op in ("polynomial", "sum"):
                below[a, index] = min(int(e), below.get((a, index), 0))
    if not below or len(x) < 2:
        return None
    factors = tuple(Factor(a, -e, index) for (a, index), e in below.items())
    return polynomial(store, [monomial(store, c, (*m, *factors)) for m, c in x])


# ------------------------------------------------------------------------------------------------ equality
@dataclass
class _Search:
    """``proved`` remembers pairs of factors and their ratio (0: unknown); ``left`` is how many more pairs may be
    compared."""

    store: Store
    box: Axes
    proved: dict[tuple[Factor, Factor], Rational] = field(default_factory=dict[tuple[Factor, Factor], Rational])
    left: int = _MAX_PAIRS
    fresh: count[int] = field(default_factory=lambda: count(_BOUND_AS_AXIS))

    def polynomials(self, x: Polynomial, y: Polynomial, depth: int) -> bool:
        """Whether ``x - y`` vanishes."""
        store = self.store
        difference = add(store, x, scale(y, -1))
        if not difference:
            return True
        difference = distribute(store, difference, self.box)
        for _ in range(16):
            if not difference:
                return True
            pair = self._equal_pair(difference, depth)
            if pair is None:
                return False
            store.fired["equal-arguments"] += 1
            difference = distribute(store, self._replaced(difference, *pair), self.box)
        return False

    def _equal_pair(self, difference: Polynomial, depth: int) -> tuple[Factor, Factor, Rational] | None:
        """Two different factors f, g of the difference and q with f's atom = q * g's atom, in terms that could then
        cancel."""
        if depth >= _MAX_DEPTH or len(difference) > 32:
            return None
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
                        if f.exponent != g.exponent or not atoms[f.atom].op == atoms[g.atom].op != "leaf":
                            continue
                        ratio = self.ratio(f, g, depth + 1)
                        if ratio > 0 or (ratio and f.exponent.denominator == 1):
                            return f, g, ratio
        return None

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
        unknown."""
        if f == g:
            return 1
        known = self.proved.get((f, g))
        if known is not None:
            return known
        self.proved[f, g] = 0
        if self.left <= 0:
            return 0
        self.left -= 1
        if self.store.atoms[f.atom].op == "polynomial":
            result = self._proportion(f, g, depth)
        else:
            result = int(self._compare(f, g, depth))
        self.proved[f, g] = result
        return result

    def _proportion(self, f: Factor, g: Factor, depth: int) -> Rational:
        """The ratio of two sums, read off a term that they share once multiplied out."""
        x, y = (
            distribute(self.store, self._argument(self.store.atoms[h.atom].arguments[0], h), self.box) for h in (f, g)
        )
        other = dict(y)
        q: Rational = next((exact(Fraction(c) / other[m]) for m, c in x if m in other), 1)
        return q if self.polynomials(x, scale(y, q), depth) else 0

    def _compare(self, f: Factor, g: Factor, depth: int) -> bool:
        a, b = self.store.atoms[f.atom], self.store.atoms[g.atom]
        if a.attributes != b.attributes or len(a.arguments) != len(b.arguments) or a.op in ("element", "max"):
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
        axes: dict[int, Coordinate] = {
            -1 - j: variable(next(self.fresh)) for j in range(len(self.store.atoms[f.atom].ranges))
        }
        return self._summand(f, axes), self._summand(g, axes)

    def _summand(self, f: Factor, axes: Mapping[int, Coordinate]) -> Polynomial:
        replace = {**dict(enumerate(f.at)), **axes}
        return polynomial(
            self.store, (monomial(self.store, 1, substitute_factors(self.store.atoms[f.atom].summand, replace)),)
        )


def equal_polynomials(store: Store, x: Polynomial, y: Polynomial, box: Axes = ()) -> bool:
    """Whether two Polynomials are equal on a box of the axes once products are multiplied out, at any (bounded) depth.
    False means unknown."""
    memo = store.cache("equal")
    key = (x, y, tuple(sorted(box.items())) if isinstance(box, Mapping) else box)
    found = memo.get(key)
    if found is None:
        found = memo[key] = any(way() for way in _ways(store, x, y, box))
    return found


def _ways(store: Store, x: Polynomial, y: Polynomial, box: Axes) -> Iterator[Callable[[], bool]]:
    """What is tried: products multiplied out (not in a cell, where more is known); the terms that differ computed anew
    at the positions where they are compared (operands that coincide there, guards that are decided there); elements at
    chosen positions whatever the choice; sums cut into cells; denominators cleared."""

    def search(left: Polynomial, right: Polynomial) -> Callable[[], bool]:
        return lambda: _within_effort(store, lambda: _Search(store, box).polynomials(left, right, 0))

    in_cell = isinstance(box, Mapping)
    if in_cell:
        _spend(store, _CELL_EFFORT)
    else:
        yield search(x, y)
    common = set(x) & set(y)
    x, y = (tuple(t for t in side if t not in common) for side in (x, y))
    rebuild = Rebuild(store, budget=_MAX_RECOMPUTED, box=box)
    try:
        left, right = rebuild.polynomial(x), rebuild.polynomial(y)
    except Unsupported:
        return
    store.fired["computed-anew"] += (left, right) != (x, y)
    yield lambda: left == right
    if in_cell or (left, right) != (x, y):
        yield search(left, right)
    chosen = settled(store, x, box), settled(store, y, box)
    if chosen != (x, y):
        yield search(*chosen)
    yield lambda: _equal_in_cells(store, x, y, box)
    cleared = _cleared(store, add(store, left, scale(right, -1)))
    if cleared is not None:
        store.fired["cleared-denominators"] += 1
        yield search(cleared, ())


def _within_effort(store: Store, search: Callable[[], bool]) -> bool:
    """A search within the effort that is left of the one that it is a part of, if it is."""
    searching = store.cache("effort")
    outermost = "left" not in searching
    searching.setdefault("left", _MAX_EFFORT)
    try:
        return search()
    except Unsupported:
        return False
    finally:
        if outermost:
            del searching["left"]


def _equal_in_cells(store: Store, x: Polynomial, y: Polynomial, box: Axes) -> bool:
    """Whether two Polynomials are sums over common cells, in each of which the summands are equal."""
    if store.nested_cells >= _MAX_NESTED:
        return False
    store.nested_cells += 1
    known = dict(box if isinstance(box, Mapping) else enumerate(box))
    try:
        return _within_effort(
            store,
            lambda: any(
                all(
                    equal_polynomials(store, cell.left, cell.right, {**known, cell.axis: cell.interval})
                    for cell in cells
                )
                for cells in common_cells(store, x, y)
            ),
        )
    finally:
        store.nested_cells -= 1
