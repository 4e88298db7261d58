"""Extremes and orders of rows, without what does not matter to them.

    max over a of (c + p f(x_a)) = c + p f(max over a of x_a)

for numbers c and p > 0 that do not depend on a, and a function f that grows. The order of a row does not change if all
of its elements are treated so by an f that grows strictly; it turns round if they are negated. A row in another order
has the same extreme.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tantamount.calculus import powers, signs
from tantamount.calculus.affine import Coordinate, Index, substitute_index, variable
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.choices import element_of
from tantamount.calculus.comparisons import compare, comparison, permuted, split_affine
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.monotone import argument_of, grows_strictly, members_of, root_of
from tantamount.calculus.polynomials import add, as_factors, multiply, polynomial, scale, sum_over
from tantamount.calculus.products import (
    is_boolean,
    is_integer,
    known_nonnegative,
    known_positive,
    leading_sign,
    monomial,
)
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, ZERO, Factor, Polynomial, Rational, factors_of, position, single, sole_factor
from tantamount.errors import Unsupported
from tantamount.ops.functions import BY_COMPARISONS, FUNCTIONS, POSITIONS_IN_A_ROW
from tantamount.sizes.symbolic import is_size

__all__ = ["tidied"]

_COMPARED = ("less", "equal")
_TURNED = frozenset({"argsort"})  # which, of equal elements, has that first which comes first, turned round or not


def tidied(store: Store, x: Polynomial, box: object = ()) -> Polynomial:
    """The polynomial with extremes and stable orders of rows in the form that is described above."""
    if not any(_has_row(store, f.atom) for f in factors_of(x)):
        return x
    try:
        return _Tidying(store, budget=store.effort.bounds.recomputed_factors, box=box).polynomial(x)  # type: ignore[arg-type]
    except Unsupported:
        return x


def _has_row(store: Store, number: int) -> bool:
    memo = store.memo.has_extreme
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        found = memo[number] = (
            (atom.op == "polynomial" and root_of(atom.arguments[0]) is not None)
            or atom.op == "max"
            or atom.op in POSITIONS_IN_A_ROW
            or (atom.op in _COMPARED and _row_of(atom.arguments[0]) is not None)
            or any(_has_row(store, f.atom) for f in factors_of(*atom.arguments))
        )
    return found


def _row_of(x: Polynomial) -> Factor | None:
    """The one factor that a value is."""
    factor = sole_factor(x)
    return factor if factor is not None and factor.exponent == 1 else None


class _Layer(NamedTuple):
    """``shift + factor * f(...)``: f is the function of this name, or ("power", "falling": of what is negated) this
    power; without a name what is in. ``turned``: ``-f(-...)``, which grows where f does."""

    shift: Polynomial
    factor: Polynomial
    name: str
    exponent: Rational = 1
    turned: bool = False


class _Tidying(Rebuild):
    """Computes polynomials anew, extremes and orders in their tidy form."""

    bound = "recomputed_factors"

    def _concerns(self, factor: Factor) -> bool:
        return _has_row(self.store, factor.atom) and super()._concerns(factor)

    def _compute(self, factor: Factor) -> Polynomial:
        store = self.store
        a, e, index = store.follow(factor)
        atom = store.atoms[a]
        if atom.op == "max":
            return self._power(self._maximum(Factor(a, 1, index)), e)
        if atom.op == "polynomial" and e.denominator == 2:
            root = root_of(argument_of(store, Factor(a, 1, index)))
            if root is not None:  # |u| = 2 max(u, 0) - u
                u = self.polynomial(polynomial(store, [monomial(store, 1, root)]))
                return self._power(add(store, scale(self._positive_part(u), 2), scale(u, -1)), 2 * e)
        if atom.op in BY_COMPARISONS:
            found = self._order(Factor(a, 1, index))
            if found is not None:
                return self._power(found, e)
        if atom.op in _COMPARED:
            found = self._some(Factor(a, 1, index))
            if found is not None:
                return self.polynomial(found)
        return super()._compute(factor)

    def _some(self, factor: Factor) -> Polynomial | None:
        """``[sum over a of b(a) == 0] = 1 - max over a of b(a)`` for booleans b, and ``[sum over a of b(a) == n]`` of
        all n of them, as what it says of their complements; ``None`` for other comparisons."""
        store = self.store
        known = comparison(store, factor)
        row = None if known is None or known.affine.parts else _row_of(known.rest)
        if known is None or row is None or store.atoms[row.atom].op != "sum":
            return None
        factors, axes = self._opened(row.atom, row.at)
        summand = polynomial(store, [monomial(store, 1, factors)])
        count = prod(high - low for low, high in axes.values())
        few = -known.affine.offset if known.op == "equal" else -known.affine.offset - 1  # of them hold, or fewer
        if is_size(few) or not is_boolean(store, summand):
            return None
        if few and (is_size(count) or few != (count if known.op == "equal" else count - 1)):
            return None
        store.fired["tidy-extremes"] += 1
        if known.op == "less" and few:  # not all of them
            return powers.maximum_over(store, [(add(store, ONE, scale(summand, -1)), axes)], None)
        wrong = add(store, ONE, scale(summand, -1)) if few else summand
        return add(store, ONE, scale(powers.maximum_over(store, [(wrong, axes)], None), -1))

    # -- maxima
    def _maximum(self, factor: Factor) -> Polynomial:
        """The maximum of a set that is one row; of other sets as it is."""
        store = self.store
        elements = argument_of(store, factor)
        if len(elements) == 2:
            members = members_of(store, factor)
            if members is None or any(unbounded(store, member) for member in members):
                return self._as_it_is(factor)
            u, v = map(self.polynomial, members)
            return add(store, v, self._positive_part(add(store, u, scale(v, -1))))
        if len(elements) != 1 or elements[0].coefficient != 1 or len(elements[0].monomial) != 1:
            return self._as_it_is(factor)
        row = elements[0].monomial[0]
        atom = store.atoms[row.atom]
        if atom.op != "sum" or len(atom.summand) != 1 or store.atoms[atom.summand[0].atom].op != "element":
            return self._as_it_is(factor)
        replace: dict[int, Coordinate] = dict(enumerate(row.at))
        axes: dict[int, tuple[int, int]] = {}
        for j, (n, axis) in enumerate(zip(atom.ranges, store.fresh_axes(len(atom.ranges)), strict=True)):
            replace[-1 - j] = variable(axis)
            axes[axis] = self.box[axis] = (0, n)
        element = atom.summand[0]
        member = argument_of(store, Factor(element.atom, 1, substitute_index(element.at, replace)))
        absolute = self._absolute(member, axes)
        if absolute is not None:
            return absolute
        member = self.polynomial(member)
        if unbounded(store, member):
            return powers.maximum_over(store, [(member, axes)], None)
        member, axes = self._unpermuted(member, axes)
        layers, inner = _taken_apart(store, member, frozenset(axes), strictly=False)
        store.fired["tidy-extremes"] += bool(layers)
        return _put_together(store, layers, powers.maximum_over(store, [(inner, axes)], None))

    def _positive_part(self, u: Polynomial) -> Polynomial:
        """``max(u, 0)``, with what is positive of u taken out, and ``max(-t, 0) = max(t, 0) - t``; of whole numbers
        ``u - [u < 0] u``, as choices by them are written."""
        store = self.store
        if not u:
            return ZERO
        for negative, value in ((False, u), (True, ZERO)):
            if signs.decided(store, "less", u if not negative else scale(u, -1), self.box) == 0:
                return value
        if is_integer(store, u):
            store.fired["tidy-extremes"] += 1
            rest = split_affine(u)[0]
            if rest and leading_sign(rest) < 0:
                return add(store, self._positive_part(scale(u, -1)), u)
            below = compare(store, "less", u, ZERO, self.box)
            return add(store, u, scale(multiply(store, below, u, self.box), -1))
        c, factors = as_factors(store, u)
        taken = [f for f in factors if known_positive(store, f)]
        kept = polynomial(store, [monomial(store, 1, [f for f in factors if f not in taken])])
        factor = polynomial(store, [monomial(store, abs(c), taken)])
        part = powers.maximum(store, kept, ZERO)
        store.fired["tidy-extremes"] += 1
        return multiply(store, factor, part if c > 0 else add(store, part, scale(kept, -1)))

    def _absolute(self, member: Polynomial, axes: dict[int, tuple[int, int]]) -> Polynomial | None:
        """``max over a of p |u(a)|`` as ``p max(u(a), -u(a))`` over all a, for a p > 0 that does not depend on a."""
        store, inside = self.store, frozenset(axes)
        if len(member) != 1 or is_size(member[0].coefficient) or member[0].coefficient < 0:
            return None
        moving = [f for f in member[0].monomial if _depends(f, inside)]
        taken = [f for f in member[0].monomial if f not in moving]
        both = members_of(store, moving[0]) if len(moving) == 1 else None
        if both is None or store.atoms[moving[0].atom].op == "max" or not all(known_positive(store, f) for f in taken):
            return None
        if any(unbounded(store, one) for one in both):
            return None
        store.fired["tidy-extremes"] += 1
        factor = polynomial(store, [monomial(store, member[0].coefficient, taken)])
        found = powers.maximum_over(store, [(self.polynomial(one), axes) for one in both], None)
        return multiply(store, factor, found)

    def _as_it_is(self, factor: Factor) -> Polynomial:
        (elements,) = (self._argument(x) for x in (argument_of(self.store, factor),))
        return powers.maximum_of(self.store, elements)

    def _unpermuted(
        self, member: Polynomial, axes: dict[int, tuple[int, int]]
    ) -> tuple[Polynomial, dict[int, tuple[int, int]]]:
        """``sum over a of [O_b = a] v(a)`` over all b as ``v(a)`` over all a, for a permutation O."""
        store = self.store
        if len(member) != 1 or len(member[0].monomial) != 1 or len(axes) != 1:
            return member, axes
        (factor,) = member[0].monomial
        atom = store.atoms[factor.atom]
        if atom.op != "sum" or factor.exponent != 1 or len(atom.ranges) != 1:
            return member, axes
        ((b, (_, count)),) = axes.items()
        (a,) = store.fresh_axes(1)
        replace: dict[int, Coordinate] = {**dict(enumerate(factor.at)), -1: variable(a)}
        inside = [Factor(f.atom, f.exponent, substitute_index(f.at, replace)) for f in atom.summand]
        own = {a: (0, atom.ranges[0])}
        touching = [f for f in inside if b in _axes_of(f.at)]
        if len(touching) != 1 or atom.ranges[0] != count:
            return member, axes
        if not permuted(store, touching[0], b, count, {**self.box, **own}):
            return member, axes
        rest = [f for f in inside if f is not touching[0]]
        self.box.update(own)
        return polynomial(store, [monomial(store, member[0].coefficient, rest)]), own

    # -- orders
    def _order(self, factor: Factor) -> Polynomial | None:
        """An order of a row in its tidy form: that of the simplest row whose elements compare alike. ``None`` if the
        row is not one polynomial, or an order that may choose otherwise were it turned round."""
        store = self.store
        atom = store.atoms[factor.atom]
        place, row = (self.polynomial(argument_of(store, factor, k)) for k in range(2))
        axis, count = store.fresh_axes(1)[0], 0
        found = element_of(store, row, axis)
        if found is None:
            return None
        value, count = found
        self.box[axis] = (0, count)
        if unbounded(store, value):
            return None
        layers, inner = _taken_apart(store, value, frozenset({axis}), strictly=True)
        store.fired["tidy-extremes"] += bool(layers)
        descending = bool(atom.attributes[0])
        if inner and as_factors(store, inner)[0] < 0:
            if atom.op not in _TURNED:
                return None
            inner, descending = scale(inner, -1), not descending
        pair, at = store.apply("pair", (), (position(variable(axis)), inner), ValueFacts(integer=True))
        whole = sum_over(store, single(pair, at), {axis: (0, count)})
        number, index = store.apply(atom.op, (descending, *atom.attributes[1:]), (place, whole), atom.facts)
        return single(number, index)


def _axes_of(index: Index) -> set[int]:
    return {v for parts, _ in index for v, _ in parts}


def _depends(f: Factor, axes: frozenset[int]) -> bool:
    return any(v in axes for parts, _ in f.at for v, _ in parts)


def _taken_apart(
    store: Store, x: Polynomial, axes: frozenset[int], *, strictly: bool
) -> tuple[list[_Layer], Polynomial]:
    """The layers taken off a value, outermost first (summands and factors that do not depend on the axes, and functions
    that grow, ``strictly`` if asked), and the value that is left."""
    layers: list[_Layer] = []
    while True:
        shift = tuple(t for t in x if not any(_depends(f, axes) for f in t.monomial))
        rest = tuple(t for t in x if t not in shift)
        if not rest:
            return layers, x
        c, shared = as_factors(store, rest)
        taken = [f for f in shared if not _depends(f, axes) and known_positive(store, f)]
        kept = [f for f in shared if f not in taken]
        factor = polynomial(store, [monomial(store, abs(c), taken)])
        inner = polynomial(store, [monomial(store, 1 if c > 0 else -1, kept)])
        found = _function(store, inner if c > 0 else scale(inner, -1), strictly)
        if found is None or store.effort.exceeds("extreme_depth", len(layers) + 1):
            if shift or factor != ONE:
                layers.append(_Layer(shift, factor, ""))
            return layers, inner
        (name, e), x = found
        x = scale(x, -1) if c < 0 else x
        layers.append(_Layer(shift, factor, name, e, turned=c < 0))


def _function(store: Store, x: Polynomial, strictly: bool) -> tuple[tuple[str, Rational], Polynomial] | None:
    """``f(u)`` for a function f that grows: its name with an exponent, and u."""
    if len(x) != 1 or x[0].coefficient != 1 or not x[0].monomial:
        return None
    m = x[0].monomial
    if all(store.atoms[f.atom].op == "exp" for f in m):
        u: Polynomial = ZERO
        for f in m:
            u = add(store, u, scale(argument_of(store, f), f.exponent))
        return ("exp", 1), u
    if len(m) != 1:
        return None
    (f,) = m
    op = store.atoms[f.atom].op
    if f.exponent != 1:
        base = polynomial(store, [monomial(store, 1, (f._replace(exponent=1),))])
        even = f.exponent.denominator == 1 and f.exponent % 2 == 0
        if f.exponent < 0:  # of what is positive: it grows where the base falls
            return (("falling", f.exponent), scale(base, -1)) if known_positive(store, f) else None
        return None if even and not known_nonnegative(store, f) else (("power", f.exponent), base)
    declared = FUNCTIONS.get(op)
    grows = op == "log" or (declared is not None and declared.growing and declared.arity == 1)
    if grows_strictly(op) if strictly else grows:
        return (op, 1), argument_of(store, f)
    return None


def _put_together(store: Store, layers: list[_Layer], x: Polynomial) -> Polynomial:
    for shift, factor, name, e, turned in reversed(layers):
        x = scale(x, -1) if turned else x
        if name == "exp":
            x = powers.exponential(store, x)
        elif name == "log":
            x = powers.logarithm(store, x)
        elif name == "falling":
            x = powers.power(store, scale(x, -1), e)
        elif name == "power":
            x = powers.power(store, x, e)
        elif name:
            x = powers.function(store, name, (x,))
        x = add(store, shift, multiply(store, scale(factor, -1) if turned else factor, x))
    return x
