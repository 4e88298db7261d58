"""Equality of Polynomials, in all the ways in which it may be shown.

Only what differs is touched: common terms cancel first. All of it is bounded, and which bound ended a search is part of
its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tantamount.calculus.affine import Index
from tantamount.calculus.angles import angles_in
from tantamount.calculus.answers import EQUAL, Answer, Different, GaveUp, Remembered, Undecided
from tantamount.calculus.atoms import Store
from tantamount.calculus.cases import vanishes
from tantamount.calculus.cells import common_cells
from tantamount.calculus.choices import settled
from tantamount.calculus.exponential_forms import as_exponentials
from tantamount.calculus.extremes import tidied
from tantamount.calculus.lookups import looked_up
from tantamount.calculus.multiplied import MANY, Axes, spend
from tantamount.calculus.polynomials import add, polynomial, scale
from tantamount.calculus.products import monomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.search import Search
from tantamount.calculus.terms import Factor, Polynomial, factors_of
from tantamount.calculus.unrolled import unrolled
from tantamount.errors import Unsupported
from tantamount.limits import COMPARISON

__all__ = ["equal_polynomials"]

_CELL_EFFORT = 250  # that computing terms anew in one cell counts as
_APART = 4  # parts of one sum from which on it is cut into cells before products are multiplied out
_FEW = 24  # terms up to which sums are multiplied out before anything is computed anew
Way = Callable[[], bool]


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
    ways = _Ways(store, box, x, y, residual=add(store, x, scale(y, -1)))
    if _shown(store, ways.kinds()):
        return EQUAL
    hits = store.effort.since(before, COMPARISON)
    return Undecided(hits, ways.problem) if hits or ways.problem else Different(ways.residual)


def _shown(store: Store, kinds: Sequence[Iterator[Way]]) -> bool:
    """True if one of the ways shows that two Polynomials are equal. Inside of a search they take of its steps; outside,
    each has its own, and with what is computed for the first of a kind ends that kind only."""
    if store.left is not None:
        return any(way() for ways in kinds for way in ways)
    return any(_shown_by_one_of(store, ways) for ways in kinds)


def _shown_by_one_of(store: Store, ways: Iterator[Way]) -> bool:
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
    """The ways that are tried to show two Polynomials equal. ``anew``: their terms that differ, computed anew, if that
    was possible; ``residual``: what was left of their difference, ``problem``: what the calculus could not express."""

    store: Store
    box: Axes
    x: Polynomial
    y: Polynomial
    anew: tuple[Polynomial, Polynomial] | None = None
    residual: Polynomial = ()
    problem: str = ""

    def __post_init__(self) -> None:
        common = set(self.x) & set(self.y)
        self.a, self.b = (tuple(t for t in side if t not in common) for side in (self.x, self.y))
        self.in_cell = isinstance(self.box, Mapping)

    def kinds(self) -> tuple[Iterator[Way], ...]:
        """All of them, in the order in which they are tried."""
        return (
            self._as_they_stand(), self._computed_anew(), self._multiplied_out(), self._settled(), self._in_cells(),
            self._rewritten(), self._written_out(),
        )  # fmt: skip

    def _as_they_stand(self) -> Iterator[Way]:
        """Sums of sums multiplied out as long as there are few terms: where programs only name their sums at different
        places, nothing is computed anew. What that leaves open is no news: the other ways go further."""
        if not self.in_cell:
            search = partial(self._search, self.a, self.b, of_itself=False, most=_FEW)
            yield lambda: bool(self.store.effort.trying(lambda: search() or None))

    def _computed_anew(self) -> Iterator[Way]:
        """The terms that differ computed anew at the positions where they are compared: operands coincide there, guards
        are decided there."""
        if self.in_cell:
            spend(self.store, _CELL_EFFORT)
        rebuild = Rebuild(self.store, budget=self.store.effort.bounds.recomputed_factors, box=self.box)
        try:
            self.anew = rebuild.polynomial(self.a), rebuild.polynomial(self.b)
        except Unsupported as problem:
            self._cannot(problem)
            return
        self.store.fired["computed-anew"] += self.anew != (self.a, self.b)
        left, right = self.anew
        yield lambda: left == right

    def _multiplied_out(self) -> Iterator[Way]:
        """Products multiplied out; one sum, and the same in parts, cut into cells before."""
        if self.anew is None:
            if not self.in_cell:
                yield lambda: self._search(self.x, self.y)
            return
        left, right = self.anew
        if self._is_in_parts():
            yield self._cells
        yield lambda: self._search(left, right)

    def _settled(self) -> Iterator[Way]:
        """Elements at chosen positions, whatever the choice."""
        if self.anew is not None:
            chosen = _tidy(self.store, self.a, self.box), _tidy(self.store, self.b, self.box)
            if chosen != (self.a, self.b):
                yield lambda: self._search(*chosen, of_itself=False)

    def _in_cells(self) -> Iterator[Way]:
        """Sums cut into cells; products of sines and cosines as sums, where they are of other angles; denominators
        cleared; case by case."""
        if self.anew is None:
            return
        left, right = self.anew
        if not self._is_in_parts():
            yield self._cells
        if angles_in(self.store, self.a) != angles_in(self.store, self.b):
            yield lambda: self._search(left, right, of_itself=False, turning=True)
        yield from self._without_denominators(left, right)
        if not self.in_cell:  # as they are written: multiplied out they may be too long to be looked at
            difference = add(self.store, left, scale(right, -1))
            yield lambda: self._within_effort(lambda: vanishes(self.store, difference, self.box))

    def _rewritten(self) -> Iterator[Way]:
        """Functions written by exponentials, or as what is looked up."""
        if self.anew is None:
            return
        for rewritten in (as_exponentials, looked_up):
            one, other = (rewritten(self.store, side, self.box) for side in (self.a, self.b))
            if (one, other) != (self.a, self.b):
                yield partial(self._search, one, other, of_itself=False)
                tidy = _tidy(self.store, one, self.box), _tidy(self.store, other, self.box)
                if tidy != (one, other):
                    yield partial(self._search, *tidy, of_itself=False)
                yield from self._without_denominators(one, other)

    def _written_out(self) -> Iterator[Way]:
        """Short sums term by term; products of what was computed anew multiplied out as they were."""
        if self.anew is None:
            return
        written = unrolled(self.store, self.a, self.b, self.box)
        if written is not None:
            yield partial(self._search, *written, of_itself=False)
            yield from self._without_denominators(*written)
        if self.anew != (self.a, self.b) and not self.in_cell:
            yield lambda: self._search(self.x, self.y, of_itself=False)

    def _is_in_parts(self) -> bool:
        shorter, longer = sorted((len(self.a), len(self.b)))
        return shorter == 1 and longer >= _APART

    def _cells(self) -> bool:
        return self._within_effort(lambda: _equal_in_cells(self.store, self.a, self.b, self.box))

    def _without_denominators(self, x: Polynomial, y: Polynomial) -> Iterator[Callable[[], bool]]:
        cleared = _cleared(self.store, add(self.store, x, scale(y, -1)))
        if cleared is not None:
            self.store.fired["cleared-denominators"] += 1
            yield lambda: self._search(cleared, (), of_itself=False)

    def _search(
        self, x: Polynomial, y: Polynomial, *, of_itself: bool = True, turning: bool = False, most: int = MANY
    ) -> bool:
        search = Search(self.store, self.box, turning=turning, most=most)
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
