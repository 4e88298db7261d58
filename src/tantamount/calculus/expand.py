"""Products multiplied out on demand, and equality of Polynomials up to that.

Only what differs is touched: common terms cancel first, sums are multiplied out at the top and inside the summands
there, and two atoms of one operator are taken for equal if their arguments are, by the same procedure. All of it is
bounded, and which bound ended a search is part of its answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import prod

from tantamount.calculus import powers
from tantamount.calculus.affine import Coordinate, Index, variable
from tantamount.calculus.angles import angles_in, linear_in_angles
from tantamount.calculus.answers import EQUAL, Answer, Different, GaveUp, Remembered, Undecided
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.cases import vanishes
from tantamount.calculus.cells import common_cells
from tantamount.calculus.choices import settled
from tantamount.calculus.exponential_forms import as_exponentials
from tantamount.calculus.extremes import tidied
from tantamount.calculus.lookups import looked_up
from tantamount.calculus.polynomials import add, as_factors, constant, multiply, pinned, polynomial, scale
from tantamount.calculus.products import exact, monomial, substitute_factors
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.sums import close, flatten
from tantamount.calculus.terms import Factor, Factors, Flat, Polynomial, Rational, Term, factors_of, single
from tantamount.calculus.unrolled import unrolled
from tantamount.errors import Unsupported
from tantamount.limits import COMPARISON

__all__ = ["distribute", "equal_polynomials"]

_CELL_EFFORT = 250  # that computing terms anew in one cell counts as
_APART = 4  # parts of one sum from which on it is cut into cells before products are multiplied out
_MANY = 1 << 64  # terms: nobody counts further
Axes = Box | Mapping[int, tuple[int, int]]  # the intervals of axes 0, 1, ..., or of some by number


def distribute(store: Store, x: Polynomial, box: Axes = ()) -> Polynomial:
    """The Polynomial with products of sums multiplied out, also inside its summands and the exponents of exp: a
    polynomial in atoms. What would grow beyond a bound stays as it is. ``box`` bounds the axes, for what guards may
    conclude."""
    out = x
    for _ in range(store.effort.bounds.expansion_depth):
        new = _once(store, out, box)
        if new is None or new == out:
            return out
        out = new
    store.effort.hit("expansion_depth")
    return out


def _once(store: Store, x: Polynomial, box: Axes) -> Polynomial | None:
    """Every term multiplied out by one level; ``None`` if that would be too long."""
    parts: list[Polynomial] = []
    total = 0
    for m, c in x:
        part = _term(store, m, c, box)
        total += len(part)
        if store.effort.exceeds("expanded_terms", total):
            return None
        parts.append(part)
    return polynomial(store, (t for part in parts for t in part))


def _term(store: Store, m: Factors, c: Rational, box: Axes) -> Polynomial:
    exponentials = [f for f in m if store.atoms[f.atom].op == "exp"]
    others = tuple(f for f in m if store.atoms[f.atom].op != "exp")
    out = _polynomial(store, others, c, box)
    for factor in _exponentials(store, exponentials, box):
        out = (
            multiply(store, out, factor) if len(out) == 1 else add(store, *(multiply(store, (t,), factor) for t in out))
        )
    return out


def _exponentials(store: Store, factors: list[Factor], box: Axes) -> list[Polynomial]:
    """Exponentials with their exponents multiplied out. Exponents of which parts merge become one:
    ``exp(sum[b<2] x[b]) exp(-x[0]) = exp(x[1])``."""
    out: list[Polynomial] = []
    exponents: list[Polynomial] = []
    for a, e, index in factors:
        argument = pinned(store, store.atoms[a].arguments[0], dict(enumerate(index)))
        expanded = _once(store, argument, box)
        factor: Polynomial = single(a, index, exponent=e)
        if expanded is not None and expanded != argument:
            with contextlib.suppress(Unsupported):
                factor = powers.exponential(store, scale(expanded, e))
                argument = expanded
        out.append(factor)
        exponents.append(scale(argument, e))
    if len(factors) > 1:
        together = add(store, *exponents)
        if len(together) < sum(map(len, exponents)):
            with contextlib.suppress(Unsupported):
                return [powers.exponential(store, together)]
    return out


def _polynomial(store: Store, m: Factors, c: Rational, box: Axes) -> Polynomial:
    if not any(_sum_like(store, f) for f in m):
        return (Term(m, c),)
    if store.effort.exceeds("expanded_terms", _count(store, m)):
        return (Term(m, c),)
    pending: list[Flat] = [flatten(store, m, c)]
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
    _spend(store, sum(len(f.factors) + len(f.ranges) for f in done))
    return polynomial(store, (t for f in done for t in close(store, f, box or None)))


def _spend(store: Store, effort: int) -> None:
    """Give a search up that becomes too long (outside of a search nothing is counted)."""
    store.effort.check()
    if store.left is None:
        return
    store.left -= effort
    if store.left < 0:
        most = store.effort.bounds.search_effort
        store.effort.hit("search_effort", most - store.left)
        raise GaveUp(f"a search that takes more than {most} factors")


def _count(store: Store, m: Factors) -> int:
    """The number of terms that a product multiplied out has, before equal ones are added; at most :data:`_MANY`."""
    opened = [(_terms_of(store, f.atom), int(f.exponent)) for f in m if _opens(store, f)]
    return min(_MANY, prod(n**e for n, e in opened if n > 1))


def _opens(store: Store, f: Factor) -> bool:
    """True if what is inside a factor is multiplied out with it: that of a sum to a whole power, or of a summed product
    that is made part of another one (:func:`flatten`)."""
    atom = store.atoms[f.atom]
    if atom.op == "sum":
        return f.exponent == 1 and len(atom.summand) <= store.effort.bounds.opened_factors
    return _is_sum(store, f)


def _terms_of(store: Store, number: int) -> int:
    """The number of terms that an atom which is multiplied out has."""
    memo = store.memo.terms_inside
    found = memo.get(number)
    if found is None:
        found = memo[number] = min(_MANY, sum(_count(store, m) for m, _ in store.atoms[number].arguments[0]))
    return found


def _is_sum(store: Store, f: Factor) -> bool:
    """True if a factor is a sum to a whole power that is multiplied out."""
    if store.atoms[f.atom].op != "polynomial" or not isinstance(f.exponent, int) or f.exponent < 1:
        return False
    return not store.effort.exceeds("multiplied_power", f.exponent)


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

    def __post_init__(self) -> None:
        self.left = self.store.effort.bounds.compared_pairs

    def polynomials(self, x: Polynomial, y: Polynomial, depth: int) -> bool:
        """True if ``x - y`` was shown to vanish."""
        store = self.store
        difference = add(store, x, scale(y, -1))
        if not difference:
            return True
        difference = self._multiplied_out(difference)
        for _ in range(store.effort.bounds.replaced_functions):
            if not difference:
                return True
            pair = self._equal_pair(difference, depth)
            if pair is None and vanishes(store, difference, self.box):
                return True
            if pair is None:
                self._note(difference, depth)
                return False
            store.fired["equal-arguments"] += 1
            difference = self._multiplied_out(self._replaced(difference, *pair))
        if difference:
            store.effort.hit("replaced_functions")
            self._note(difference, depth)
        return not difference

    def _multiplied_out(self, x: Polynomial) -> Polynomial:
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
        """The ratio of two sums, read off a term that they share once multiplied out."""
        x, y = (
            distribute(self.store, self._argument(self.store.atoms[h.atom].arguments[0], h), self.box) for h in (f, g)
        )
        other = dict(y)
        q: Rational = next((exact(Fraction(c) / other[m]) for m, c in x if m in other), 1)
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


def _outdone(store: Store, found: Remembered) -> bool:
    """True if the search ended early, at a bound that is further away now."""
    if not isinstance(found.answer, Undecided):
        return False
    now, names = store.effort.bounds, [hit.name for hit in found.answer.hits]
    return (
        any(getattr(now, name) > getattr(found.bounds, name) for name in names)
        or ("search_effort" in names and _left(store) > found.left)
        or ("nested_cells" in names and store.nested < found.nested)
    )


def _left(store: Store) -> int:
    """The effort that a search may take that begins now."""
    return store.effort.bounds.search_effort if store.left is None else store.left


def equal_polynomials(store: Store, x: Polynomial, y: Polynomial, box: Axes = ()) -> Answer:
    """True if two Polynomials are equal on a box of the axes once products are multiplied out, at any (bounded) depth.

    What is decided is remembered. What is not is remembered with the effort that it was given: with more of it, the
    search is made again."""
    memo = store.memo.compared
    key = (x, y, _mentioned(box, x, y) if isinstance(box, Mapping) else box)
    found = memo.get(key)
    if found is None or _outdone(store, found):
        could = _left(store), store.nested, store.effort.bounds
        found = memo[key] = Remembered(_searched(store, x, y, box), *could)
    elif isinstance(found.answer, Undecided):
        for hit in found.answer.hits:  # an answer that rests on this one is undecided, too
            store.effort.hit(hit.name, hit.needed)
    return found.answer


def _mentioned(box: Mapping[int, tuple[int, int]], *sides: Polynomial) -> tuple[tuple[int, tuple[int, int]], ...]:
    """The intervals of the axes that some Polynomials mention."""
    axes = {v for f in factors_of(*sides) for parts, _ in f.at for v, _ in parts}
    return tuple([(v, box[v]) for v in sorted(axes) if v in box])


def _searched(store: Store, x: Polynomial, y: Polynomial, box: Axes) -> Answer:
    before = store.effort.counts()
    ways = _Ways(store, box, residual=add(store, x, scale(y, -1)))
    if _shown(store, ways.of(x, y)):
        return EQUAL
    hits = store.effort.since(before, COMPARISON)
    return Undecided(hits, ways.problem) if hits or ways.problem else Different(ways.residual)


def _shown(store: Store, ways: Iterator[Callable[[], bool]]) -> bool:
    """True if one of the ways shows that two Polynomials are equal. Inside of a search they take of its steps; outside,
    each has its own."""
    if store.left is not None:
        return any(way() for way in ways)
    effort = store.effort
    while True:
        late = store.fruitless > effort.bounds.fruitless_steps
        if late:
            effort.hit("fruitless_steps", store.fruitless)
        name, begun = "late_steps" if late else "search_steps", effort.steps
        try:
            shown = effort.attempt(name, getattr(effort.bounds, name), lambda: next(ways)())
        except StopIteration:
            return False
        if shown:
            return True
        store.fruitless += effort.steps - begun


@dataclass
class _Ways:
    """The ways that are tried to show two Polynomials equal. ``residual``: what was left of their difference,
    ``problem``: what the calculus could not express on the way."""

    store: Store
    box: Axes
    residual: Polynomial
    problem: str = ""

    def of(self, x: Polynomial, y: Polynomial) -> Iterator[Callable[[], bool]]:
        """The terms that differ computed anew at the positions where they are compared (operands that coincide there,
        guards that are decided there); products multiplied out;
        elements at chosen positions whatever the choice; sums cut into cells; products of sines and cosines as sums,
        where they are of other angles; denominators cleared; case by case; products of what was computed anew
        multiplied out as they were."""
        store, box = self.store, self.box
        in_cell = isinstance(box, Mapping)
        if in_cell:
            _spend(store, _CELL_EFFORT)
        common = set(x) & set(y)
        a, b = (tuple(t for t in side if t not in common) for side in (x, y))
        rebuild = Rebuild(store, budget=store.effort.bounds.recomputed_factors, box=box)
        try:
            left, right = rebuild.polynomial(a), rebuild.polynomial(b)
        except Unsupported as problem:
            self._cannot(problem)
            if not in_cell:
                yield lambda: self._search(x, y)
            return
        anew = (left, right) != (a, b)
        store.fired["computed-anew"] += anew
        yield lambda: left == right
        apart = min(len(a), len(b)) == 1 and max(len(a), len(b)) >= _APART  # one sum, and the same in parts
        if apart:
            yield lambda: self._within_effort(lambda: _equal_in_cells(store, a, b, box))
        yield lambda: self._search(left, right)
        chosen = _tidy(store, a, box), _tidy(store, b, box)
        if chosen != (a, b):
            yield lambda: self._search(*chosen, of_itself=False)
        if not apart:
            yield lambda: self._within_effort(lambda: _equal_in_cells(store, a, b, box))
        if angles_in(store, a) != angles_in(store, b):
            yield lambda: self._search(left, right, of_itself=False, turning=True)
        yield from self._without_denominators(left, right)
        if not in_cell:  # as they are written: multiplied out they may be too long to be looked at
            yield lambda: self._within_effort(lambda: vanishes(store, add(store, left, scale(right, -1)), box))
        for rewritten in (as_exponentials, looked_up):
            one, other = rewritten(store, a, box), rewritten(store, b, box)
            if (one, other) != (a, b):
                yield partial(self._search, one, other, of_itself=False)
                tidy = _tidy(store, one, box), _tidy(store, other, box)
                if tidy != (one, other):
                    yield partial(self._search, *tidy, of_itself=False)
                yield from self._without_denominators(one, other)
        written = unrolled(store, a, b, box)
        if written is not None:
            yield partial(self._search, *written, of_itself=False)
            yield from self._without_denominators(*written)
        if anew and not in_cell:
            yield lambda: self._search(x, y, of_itself=False)

    def _without_denominators(self, x: Polynomial, y: Polynomial) -> Iterator[Callable[[], bool]]:
        cleared = _cleared(self.store, add(self.store, x, scale(y, -1)))
        if cleared is not None:
            self.store.fired["cleared-denominators"] += 1
            yield lambda: self._search(cleared, (), of_itself=False)

    def _search(self, x: Polynomial, y: Polynomial, *, of_itself: bool = True, turning: bool = False) -> bool:
        search = _Search(self.store, self.box, turning=turning)
        equal = self._within_effort(lambda: search.polynomials(x, y, 0))
        if of_itself and search.residual:
            self.residual = search.residual
        return equal

    def _within_effort(self, search: Callable[[], bool]) -> bool:
        """A search within the effort that is left of the one that it is a part of, if it is."""
        store = self.store
        outermost = store.left is None
        store.left = _left(store)
        try:
            return search()
        except Unsupported as problem:
            self._cannot(problem)
            return False
        finally:
            if outermost:
                store.left = None

    def _cannot(self, problem: Unsupported) -> None:
        if not isinstance(problem, GaveUp):  # which is counted
            self.problem = problem.reason


def _tidy(store: Store, x: Polynomial, box: Axes) -> Polynomial:
    """The polynomial with elements at chosen positions settled, and extremes and orders tidied: what is then a row with
    its order turned round is settled again."""
    rounds = 0
    while (found := tidied(store, settled(store, x, box), box)) != x:
        rounds += 1
        if store.effort.exceeds("tidied_rounds", rounds):
            break
        x = found
    return x


def _equal_in_cells(store: Store, x: Polynomial, y: Polynomial, box: Axes) -> bool:
    """True if two Polynomials were shown to be sums over common cells, in each of which the summands are equal."""
    if store.nested >= store.effort.bounds.nested_cells:
        if _has_sum(store, x) and _has_sum(store, y):
            store.effort.hit("nested_cells", store.nested + 1)
        return False
    known = dict(box if isinstance(box, Mapping) else enumerate(box))
    store.nested += 1
    try:
        return any(
            all(
                equal_polynomials(store, cell.left, cell.right, {**known, cell.axis: cell.interval}).proved
                for cell in cells
            )
            for cells in common_cells(store, x, y)
        )
    finally:
        store.nested -= 1


def _has_sum(store: Store, x: Polynomial) -> bool:
    return any(store.atoms[f.atom].op == "sum" for f in factors_of(x))
