"""Polynomials computed anew from their atoms' arguments: after atoms were joined, or under assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tantamount.calculus import comparisons, powers
from tantamount.calculus.affine import Coordinate, Index, substitute, substitute_index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import add, constant, iota, multiply, pinned, polynomial, sum_over
from tantamount.calculus.products import monomial, substitute_polynomial
from tantamount.calculus.terms import ONE, Factor, Polynomial, Term, factors_of, single, sole_number
from tantamount.ops.functions import FUNCTIONS

__all__ = ["Rebuild", "atoms_inside", "refresh", "refresh_ranges"]


class Rebuild:
    """Recomputes Polynomials bottom-up. ``known`` gives truth values of guard atoms; ``positions`` recomputes what
    depends on positions as numbers; ``budget`` recomputes everything, that many factors at most, on a ``box`` of the
    axes; ``leaves`` puts Polynomials (over the coordinates of the atom) in place of leaf atoms; without any of them,
    joined atoms are replaced. ``outer`` are the variables that what is put in mentions: nothing binds these. A class
    that puts in more says so, or else (``None``) bound variables are fresh axes, which nothing can mention."""

    bound = "recomputed_factors"  # the one that ``budget`` is

    def __init__(
        self,
        store: Store,
        *,
        known: Mapping[tuple[int, Index], int] | None = None,
        positions: bool = False,
        budget: int = 0,
        box: Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]] = (),
        leaves: Mapping[int, Polynomial] | None = None,
    ) -> None:
        self.leaves = leaves or {}
        self._mentions: dict[int, bool] = {}
        self.box: dict[int, tuple[int, int]] = dict(box if isinstance(box, Mapping) else enumerate(box))
        self.positions = positions
        self.budget = budget
        self.everything = budget > 0
        self._ended = False  # by the budget
        self.store = store
        self.known = known or {}
        self.names = frozenset(a for a, _ in self.known)
        self.outer: frozenset[int] | None = None
        if type(self) is Rebuild:
            self.outer = frozenset(_variables(at for _, at in self.known))
        # what is computed depends on the factor and the box alone
        self.shared = type(self) is Rebuild and not (self.known or self.leaves or self.positions)
        self.memo: dict[Factor, Polynomial] = {}
        self._stale = store.memo.stale.setdefault(len(store.redirects), {})

    def polynomial(self, x: Polynomial) -> Polynomial:
        """The sum of the rebuilt terms."""
        if not any(map(self._concerns, factors_of(x))):
            return x
        parts: list[Polynomial] = []
        for m, c in x:
            term = constant(c)
            for factor in m:
                term = multiply(self.store, term, self.factor(factor), self.box)
                if not term:
                    break
            parts.append(term)
        return polynomial(self.store, (term for part in parts for term in part))

    def _concerns(self, factor: Factor) -> bool:
        atom = self.store.atoms[factor.atom]
        if self.names:
            return bool(atom.guards & self.names)
        if self.leaves:
            return self._mentions_leaf(factor.atom)
        if self.everything:
            if atom.op != "leaf" and self.budget <= 0 and not self._ended:
                self._ended = True
                self.store.effort.hit(self.bound)
            return self.budget > 0 and atom.op != "leaf"
        if self.positions:
            return atom.positional or factor.atom in self.store.redirects
        if factor.atom in self.store.redirects:
            return True
        return atom.op != "leaf" and self._is_stale(factor.atom)

    def _mentions_leaf(self, number: int) -> bool:
        found = self._mentions.get(number)
        if found is None:
            found = self._mentions[number] = number in self.leaves or any(
                self._mentions_leaf(factor.atom) for factor in factors_of(*self.store.atoms[number].arguments)
            )
        return found

    def _is_stale(self, number: int) -> bool:
        found = self._stale.get(number)
        if found is None:
            found = number in self.store.redirects or any(
                self._is_stale(factor.atom) for factor in factors_of(*self.store.atoms[number].arguments)
            )
            self._stale[number] = found
        return found

    def factor(self, factor: Factor) -> Polynomial:
        """The value of one factor."""
        value = self.known.get((factor.atom, factor.at))
        if value is not None:
            return constant(value)
        if not self._concerns(factor):
            return (Term((factor,), 1),)
        found = self.memo.get(factor)
        if found is None:
            found = self.memo[factor] = self._found_again(factor)
        return found

    def _found_again(self, factor: Factor) -> Polynomial:
        """The value of a factor, computed unless another rebuild of this kind did it on the same intervals of the axes
        that the factor mentions. What the budget cut off is not kept."""
        store = self.store
        store.effort.check()
        if not self.shared:
            self.budget -= 1
            return self._compute(factor)
        box = self.box
        mentioned = sorted({v for parts, _ in factor.at for v, _ in parts if not store.is_posing(v) and v in box})
        key = (self.everything, factor, tuple([(v, box[v]) for v in mentioned]))
        found = store.rebuilt().get(key)
        if found is None:
            self.budget -= 1
            found = self._compute(factor)
            if self.budget > 0 or not self.everything:
                store.rebuilt()[key] = found
        return found

    def _compute(self, factor: Factor) -> Polynomial:
        store = self.store
        a, e, index = store.follow(factor)
        atom = store.atoms[a]
        if a in self.leaves:
            return self._power(pinned(store, self.leaves[a], dict(enumerate(index))), e)
        if atom.op == "leaf":
            m, c = monomial(store, 1, (Factor(a, e, index),))
            return polynomial(store, (Term(m, c),))
        if atom.op == "sum":
            return self._power(self._sum(a, index), e)
        replace = dict(enumerate(index))
        arguments = (
            [self._argument(substitute_polynomial(x, replace)) for x in atom.arguments]
            if atom.op not in ("less", "equal")
            else []
        )
        if atom.op == "polynomial" or (atom.op == "not" and sole_number(arguments[0]) is not None):
            return self._power(arguments[0], e)  # that of a "not" is the negation already
        if atom.op == "exp":
            return self._power(powers.exponential(store, arguments[0]), e)
        if atom.op == "log":
            return self._power(powers.logarithm(store, arguments[0]), e)
        if atom.op in ("less", "equal"):
            rest = self._argument(substitute_polynomial(atom.arguments[0], replace))
            position = substitute(atom.position, replace)
            value = comparisons.compare(
                store, atom.op, add(store, rest, iota(position)), (), self.box, oriented=self.everything
            )
        elif atom.op == "max":
            value = powers.maximum_of(store, arguments[0])
        elif atom.op in FUNCTIONS:
            value = powers.function(store, atom.op, tuple(arguments))
        else:
            number, where = store.apply(atom.op, atom.attributes, tuple(arguments), atom.facts)
            value = single(number, where)
        return self._power(value, e)

    def _argument(self, x: Polynomial) -> Polynomial:
        return self.polynomial(polynomial(self.store, [monomial(self.store, c, m) for m, c in x]))

    def _power(self, x: Polynomial, e: object) -> Polynomial:
        return powers.power(self.store, x, e)  # type: ignore[arg-type]

    def _sum(self, a: int, index: Index) -> Polynomial:
        """The summand is rebuilt with its bound variables as axes, then summed over them again."""
        factors, axes = self._opened(a, index)
        summand = ONE
        for factor in factors:
            summand = multiply(self.store, summand, self.factor(factor), self.box)
        return sum_over(self.store, summand, axes, self.box if self.everything else None)

    def _opened(
        self, a: int, index: Index, beside: Iterable[Index] = ()
    ) -> tuple[list[Factor], dict[int, tuple[int, int]]]:
        """The factors of a sum's summand with its bound variables as axes, and these axes with their intervals. None of
        the axes is one of ``outer``, which what is put in for atoms may mention, nor occurs at a place ``beside``."""
        store = self.store
        atom = store.atoms[a]
        intervals = [(0, n) for n in atom.ranges]
        if self.outer is None:
            axes = dict(zip(store.fresh_axes(len(intervals)), intervals, strict=True))
        else:
            axes = store.posing_axes(intervals, self.outer | _variables((index, *beside)))
        self.box.update(axes)
        replace: dict[int, Coordinate] = dict(enumerate(index))
        replace.update({-1 - j: variable(axis) for j, axis in enumerate(axes)})
        return [Factor(b, e, substitute_index(inner, replace)) for b, e, inner in atom.summand], axes


def _variables(places: Iterable[Index]) -> set[int]:
    return {v for at in places for parts, _ in at for v, _ in parts}


def refresh(store: Store, x: Polynomial) -> Polynomial:
    """The Polynomial with joined atoms replaced by their successors, at any depth."""
    if not store.redirects:
        return x
    for _ in range(store.effort.bounds.rebuilt_joins):
        before = len(store.redirects)
        x = Rebuild(store).polynomial(x)
        if len(store.redirects) == before:
            return x
    store.effort.hit("rebuilt_joins")
    return x


def refresh_ranges(store: Store) -> None:
    """Record the assumed ranges of indices again, for their polynomials with joined atoms replaced.

    A fact is found by the atom of its Polynomial; where a guard in it was joined with another one since (``[t + 100 ==
    0]`` with ``[t - b == 0]``), the same Polynomial has another atom. Both Polynomials have the same values, so the
    fact holds of both."""
    recorded = store.ranges.assumed
    for (x, size, box), known in list(recorded.items()):
        if known != len(store.redirects):
            same = refresh(store, x)
            comparisons.record_range(store, same, size, box)
            for one in (x, same):
                recorded[one, size, box] = len(store.redirects)


def atoms_inside(store: Store, x: Polynomial) -> int:
    """The number of atoms in a Polynomial, at any depth."""
    seen: set[int] = set()
    pending = [f.atom for f in factors_of(x)]
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            pending += [f.atom for f in factors_of(*store.atoms[number].arguments)]
    return len(seen)
