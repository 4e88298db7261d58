"""Elements at positions that an operator chose: which of several equal ones it chose does not matter to their values.

``O_j`` is the position of the element that comes j-th in an order of the row ``L(0), ..., L(n - 1)``. Which of several
equal elements comes first, every operator decides for itself; but

    sum over u < n of [O_j = u] L(u)

is the j-th smallest element whatever it decides, and so is a function of that element if L(u) is replaced by one: equal
elements have equal values, also where the row has ``exp(L(u)) / Z`` instead. So O may be replaced by the stable order
there, and the j-th greatest element is the (n - 1 - j)-th smallest one, the last of which is the maximum. This needs
the sum to run over the whole row, and what depends on u to depend on L(u) alone.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tantamount.calculus import comparisons, powers
from tantamount.calculus.affine import Index, substitute, substitute_index, variable
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.polynomials import add, as_factors, constant, iota, multiply, pinned, scale, sum_over
from tantamount.calculus.products import known_positive, monomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, Factor, Polynomial, Term, factors_of, position, single
from tantamount.errors import Unsupported
from tantamount.ops.functions import FUNCTIONS
from tantamount.sizes.symbolic import is_size

__all__ = ["element_of", "settled"]

_ORDERS = ("order", "argsort")


class _Chosen(NamedTuple):
    """A guard ``[O_j = u]``: the order atom's row, what comes j-th, its elements ``L(u)``, and how many there are."""

    row: Polynomial
    place: Polynomial
    value: Polynomial
    length: int
    descending: bool


def settled(store: Store, x: Polynomial, box: object = ()) -> Polynomial:
    """The polynomial with every element at a chosen position written as one of the stable order, or as an extremum."""
    if not any(_mentions(store, f.atom) for m, _ in x for f in m):
        return x
    try:
        return _Settling(store, budget=store.effort.bounds.settled_factors, box=box).polynomial(x)  # type: ignore[arg-type]
    except Unsupported:
        return x


def _mentions(store: Store, number: int) -> bool:
    """True if an atom has an order of a row inside."""
    memo = store.memo.mentions_order
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        memo[number] = found = atom.op in _ORDERS or any(
            _mentions(store, f.atom) for x in atom.arguments for m, _ in x for f in m
        )
    return found


class _Settling(Rebuild):
    """Computes polynomials anew, sums over chosen positions by the values that they have."""

    bound = "settled_factors"

    def _concerns(self, factor: Factor) -> bool:
        return _mentions(self.store, factor.atom) and super()._concerns(factor)

    def polynomial(self, x: Polynomial) -> Polynomial:
        """The sum of the rebuilt terms, after sums that together are an element of a row with several terms."""
        for _ in range(self.store.effort.bounds.settled_elements):
            changed = self._joined(x)
            if changed is None:
                break
            x = changed
        else:
            self.store.effort.hit("settled_elements")
        return super().polynomial(x)

    def _joined(self, x: Polynomial) -> Polynomial | None:
        """x with ``q K V`` replaced by its settled value, for some ``V = sum over u of [O_j = u] L(u)``, all terms of
        which x has times the same q and factors K."""
        store = self.store
        terms = dict(x)
        for m, c in x:
            for factor in m:
                if store.atoms[factor.atom].op != "sum" or factor.exponent != 1:
                    continue
                factors, axes = self._opened(factor.atom, factor.at, [f.at for f in factors_of(x)])
                for axis in axes:
                    for guard in factors:
                        chosen = self._chosen(guard, axis) if axis in _axes_of(guard) else None
                        if chosen is None or chosen.length != axes[axis][1]:
                            continue
                        over = {axis: axes[axis]}
                        product = multiply(store, (Term((guard,), 1),), chosen.value, self.box)
                        whole = sum_over(store, product, over, self.box)
                        start = next(((n, d) for n, d in whole if factor in n and all(f in m for f in n)), None)
                        if start is None or (len(whole) == 1 and start[0] == (factor,)):
                            continue  # the latter: see _sum
                        rest = [f for f in m if f not in start[0]]
                        q = Fraction(c) / start[1]
                        times = multiply(store, (Term(tuple(rest), 1),), scale(whole, q), self.box)
                        if any(terms.get(n) != d for n, d in times):
                            continue
                        value, done = self._canonical(chosen, axis)
                        value = value if done else sum_over(store, value, over, self.box)
                        value = multiply(store, (Term(tuple(rest), 1),), scale(value, q), self.box)
                        left = tuple(t for t in x if t[0] not in dict(times))
                        return add(store, left, value, box=self.box)
        return None

    def _sum(self, a: int, index: Index) -> Polynomial:
        store = self.store
        factors, axes = self._opened(a, index)
        summand = ONE
        for axis in list(axes):
            found = self._read(factors, axis, axes[axis][1])
            if found is not None:
                factors, value, done = found
                summand = multiply(store, summand, value, self.box)
                if done:
                    del axes[axis]
        for factor in factors:
            summand = multiply(store, summand, self.factor(factor), self.box)
        return sum_over(store, summand, axes, self.box) if axes else summand

    def _read(self, factors: list[Factor], axis: int, count: int) -> tuple[list[Factor], Polynomial, bool] | None:
        """If the only factors that depend on the axis are ``[O_j = axis]`` and ``L(axis)``: the others, and what these
        are with the stable order; the last is whether that is summed already."""
        concerned = [f for f in factors if axis in _axes_of(f)]
        for guard in concerned:
            chosen = self._chosen(guard, axis)
            if chosen is None or chosen.length != count:
                continue
            coefficient, parts = as_factors(self.store, chosen.value, 1)
            rest = list(factors)
            rest.remove(guard)
            if not coefficient or any(part not in rest for part in parts):
                found = self._function_of(chosen, guard, concerned, axis)
                if found is not None:
                    return [f for f in factors if f not in concerned], *found
                continue
            for part in parts:
                rest.remove(part)
            if any(axis in _axes_of(f) for f in rest):
                continue
            value, done = self._canonical(chosen, axis)
            return rest, scale(value, 1 / Fraction(coefficient)), done
        return None

    def _function_of(
        self, chosen: _Chosen, guard: Factor, concerned: list[Factor], axis: int
    ) -> tuple[Polynomial, bool] | None:
        """The summand with the stable order, or what it sums up to (then the flag is true), if all else that depends on
        the axis are functions of what the elements of the row are strictly monotone functions of."""
        others = [f for f in concerned if f != guard]
        core = _core(self.store, chosen.value, axis)
        if core is None or not all(_through(self.store, f, core, axis) for f in others):
            return None
        m, c = monomial(self.store, 1, others)
        value: Polynomial = (Term(m, c),)
        extreme = self._extreme(chosen, value, core, axis)
        return self._canonical(chosen._replace(value=value), axis, values=False) if extreme is None else (extreme, True)

    def _extreme(self, chosen: _Chosen, value: Polynomial, core: Factor, axis: int) -> Polynomial | None:
        """The extremum of a value over a row, where the first or the last element of the row is chosen and the value
        grows, or falls, with it; ``None`` otherwise."""
        store, last = self.store, chosen.length - 1
        grows = _direction(store, value, core, axis) * _direction(store, chosen.value, core, axis)
        for end, sign in ((0, -1), (last, 1)):
            if grows and chosen.place == constant(last - end if chosen.descending else end):
                member = (scale(value, sign * grows), {axis: (0, chosen.length)})
                return scale(powers.maximum_over(store, [member], self.box), sign * grows)
        return None

    def _chosen(self, guard: Factor, axis: int) -> _Chosen | None:
        store = self.store
        atom = store.atoms[guard.atom]
        if atom.op != "equal" or guard.exponent != 1 or len(atom.arguments[0]) != 1:
            return None
        ((m, c),) = atom.arguments[0]
        if abs(c) != 1 or len(m) != 1 or m[0][1] != 1 or store.atoms[m[0][0]].op not in _ORDERS:
            return None
        here = dict(enumerate(guard.at))
        compared = substitute(atom.position, here)
        if compared != variable(axis, -int(c)):  # c O + position = 0 is O = axis
            return None
        order = store.atoms[m[0][0]]
        at = dict(enumerate(substitute_index(m[0][2], here)))
        where, row = (pinned(store, y, at) for y in order.arguments)
        elements = element_of(store, row, axis)
        if elements is None:
            return None
        return _Chosen(row, where, elements[0], elements[1], bool(order.attributes[0]))

    def _canonical(self, chosen: _Chosen, axis: int, *, values: bool = True) -> tuple[Polynomial, bool]:
        """The summand ``[A_j = axis] L(axis)`` with the stable order A; or the extremum that it sums up to, if the
        ``values`` are those of the row."""
        store, last = self.store, chosen.length - 1
        store.fired["chosen-elements"] += 1
        for end, sign in ((0, -1), (last, 1)):
            if values and chosen.place == constant(last - end if chosen.descending else end):
                member = (scale(chosen.value, sign), {axis: (0, chosen.length)})
                return scale(powers.maximum_over(store, [member], self.box), sign), True
        place = chosen.place
        if chosen.descending:
            place = add(store, constant(last), scale(place, -1))
        number, index = store.apply("argsort", (False, 0), (place, chosen.row), ValueFacts())
        guard = comparisons.compare(store, "equal", single(number, index), iota(variable(axis)), self.box)
        return multiply(store, guard, chosen.value, self.box), False


def _core(store: Store, x: Polynomial, axis: int) -> Factor | None:
    """The factor on which a value depends strictly monotonously, and through which alone it depends on the axis:
    ``t`` of ``a exp(t) + b``, if ``a`` is not 0 and both do not depend on the axis; ``None`` if none is found."""
    depth = 0
    while True:
        depending = [(m, c) for m, c in x if any(axis in _axes_of(f) for f in m)]
        if len(depending) != 1:
            return None
        m = depending[0][0]
        inner = [f for f in m if axis in _axes_of(f)]
        if len(inner) != 1 or not all(f in inner or known_positive(store, f) for f in m):
            return None
        (factor,) = inner
        op = store.atoms[factor.atom].op
        if op not in ("exp", "polynomial") or (op == "polynomial" and abs(factor.exponent) != 1):
            return factor if factor.exponent == 1 else None
        depth += 1
        if store.effort.exceeds("order_depth", depth):
            return None
        x = pinned(store, store.atoms[factor.atom].arguments[0], dict(enumerate(factor.at)))


def _direction(store: Store, x: Polynomial, core: Factor, axis: int) -> int:
    """1 if x grows with a core factor, as far as it depends on an axis, and -1 if it falls; 0 if neither was shown."""
    depending = [term for term in x if any(axis in _axes_of(f) for f in term.monomial)]
    if len(depending) != 1:
        return 0
    ((m, c),) = depending
    inner = [f for f in m if axis in _axes_of(f)]
    if len(inner) != 1 or is_size(c) or not all(f in inner or known_positive(store, f) for f in m):
        return 0
    (factor,) = inner
    sign = 1 if c > 0 else -1
    if factor == core:
        return sign
    atom = store.atoms[factor.atom]
    declared = FUNCTIONS.get(atom.op)
    if atom.op not in ("exp", "log", "polynomial") and not (declared is not None and declared.growing):
        return 0
    if len(atom.arguments) != 1:
        return 0
    if factor.exponent != 1:
        if not known_positive(store, factor._replace(exponent=1)):
            return 0
        sign = sign if factor.exponent > 0 else -sign
    return sign * _direction(store, pinned(store, atom.arguments[0], dict(enumerate(factor.at))), core, axis)


def _through(store: Store, factor: Factor, core: Factor, axis: int) -> bool:
    """True if a factor depends on an axis through a core factor alone."""
    if axis not in _axes_of(factor) or factor._replace(exponent=1) == core:
        return True
    atom = store.atoms[factor.atom]
    if atom.op not in ("exp", "log", "polynomial"):
        return False
    arguments = (pinned(store, x, dict(enumerate(factor.at))) for x in atom.arguments)
    return all(_through(store, f, core, axis) for x in arguments for m, _ in x for f in m)


def _axes_of(f: Factor) -> set[int]:
    return {v for parts, _ in f.at for v, _ in parts}


def element_of(store: Store, row: Polynomial, axis: int) -> tuple[Polynomial, int] | None:
    """The element of a row at position ``axis``, and the length of the row, if one polynomial gives all of them."""
    if len(row) != 1 or row[0][1] != 1 or len(row[0][0]) != 1:
        return None
    number, exponent, index = row[0][0][0]
    atom = store.atoms[number]
    if atom.op != "sum" or exponent != 1 or len(atom.ranges) != 1 or len(atom.summand) != 1:
        return None
    pair, one, inner = atom.summand[0]
    if store.atoms[pair].op != "pair" or one != 1:
        return None
    at = dict(enumerate(substitute_index(inner, {**dict(enumerate(index)), -1: variable(axis)})))
    place, value = (pinned(store, x, at) for x in store.atoms[pair].arguments)
    if place != position(variable(axis)):
        return None
    return value, atom.ranges[0]
