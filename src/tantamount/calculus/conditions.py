"""Conditions between polynomials over the atoms, and whether some of them can hold together.

They are read as inequalities between real and whole *variables*: positions, size symbols, and factors of which some
inequalities are known wherever they are defined: an enclosure, that an index is in its range, ``n q <= x < n q + n`` of
``q = floor(x / n)``. Every product of variables is one more number, of which the product of the enclosures is known,
and what follows for it from a bound of one of its variables. What is not read, and not known, only leaves more numbers
to be refuted. Sizes are variables, too: nothing is asked of what they are at their hints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

from tantamount.calculus import signs
from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.comparisons import fact_about, split_affine
from tantamount.calculus.inequalities import Row, Steps, impossible
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.monotone import argument_of, members_of
from tantamount.calculus.polynomials import add, constant, polynomial, scale
from tantamount.calculus.products import monomial
from tantamount.calculus.residues import Quotient, vanishes_by_residues
from tantamount.calculus.terms import IOTA, ONE, Factor, Polynomial, Term, single, sole_number
from tantamount.errors import Unsupported
from tantamount.ops.functions import MODULI
from tantamount.sizes import polynomials as forms
from tantamount.sizes.polynomials import Polynomial as Value
from tantamount.sizes.polynomials import Powers
from tantamount.sizes.symbolic import Space, is_size

__all__ = ["Condition", "Reading", "fraction_of"]

_ONE: Value = (((), 1),)


class Condition(NamedTuple):
    """``value >= 0``, ``> 0`` (``strict``) or ``== 0`` (``equal``), of a polynomial over the atoms."""

    value: Polynomial
    strict: bool = False
    equal: bool = False


class _Rounded(NamedTuple):
    """``q = floor(above / below)`` for a whole variable q (``round`` to the nearest: ``half``)."""

    q: Value
    above: Value
    below: Value
    half: bool = False


@dataclass
class Reading:
    """Polynomials over the atoms as polynomials over variables, and what is known of these on a ``box`` of the axes.

    ``names`` of variables by what they are, ``whole`` those that are whole numbers; ``facts`` are inequalities about
    each, ``ends`` its enclosure, ``rounded`` what it is rounded from; ``divisors`` are positive numbers by which
    something is rounded in what was asked so far."""

    store: Store
    box: Mapping[int, tuple[int, int]]
    steps: Steps
    names: dict[object, str] = field(default_factory=dict[object, str])
    whole: set[str] = field(default_factory=set[str])
    facts: dict[str, list[Row]] = field(default_factory=dict[str, "list[Row]"])
    ends: dict[str, signs.Enclosure] = field(default_factory=dict[str, signs.Enclosure])
    rounded: dict[str, _Rounded] = field(default_factory=dict[str, _Rounded])
    divisors: dict[Value, None] = field(default_factory=dict[Value, None])
    _spaces: list[Space] = field(default_factory=list[Space])
    _values: dict[Factor, Value] = field(default_factory=dict[Factor, Value])
    _of_products: dict[Powers, list[Row]] = field(default_factory=dict[Powers, "list[Row]"])
    _positive: dict[tuple[Value, Sequence[Condition]], bool] = field(
        default_factory=dict[tuple[Value, Sequence[Condition]], bool]
    )

    # -- variables
    def _variable(self, key: object, whole: bool, ends: signs.Enclosure) -> tuple[str, bool]:
        """The name of the variable for ``key``, and whether it is new."""
        name = self.names.get(key)
        if name is not None:
            return name, False
        name = self.names[key] = f"x{len(self.names):04}"
        if whole:
            self.whole.add(name)
        self.ends[name] = ends
        self.facts[name] = [*self._between(_named(name), ends)]
        return name, True

    def _between(self, x: Value, ends: signs.Enclosure) -> Iterator[Row]:
        """That a value lies between two numbers, or sizes, where they are not infinite."""
        for end, sign in ((ends.low, 1), (ends.high, -1)):
            if not isinstance(end.at, float):
                yield Row(forms.plus((), forms.plus(x, self._number(end.at), -1), sign), end.out)

    def _number(self, value: Any) -> Value:
        """A number, or the polynomial in its symbols that a size is."""
        if not is_size(value):
            return (((), forms.exact(Fraction(value))),) if value else ()
        total: Value = ()
        for m, c in value.polynomial:
            term: Value = (((), c),)
            for symbol, e in m:
                if e < 0:
                    name, _ = self._variable(("size", symbol, e), False, signs.between(0, inf, out=True))
                    term = forms.times(term, _named(name))
                    continue
                name, _ = self._variable(("size", symbol), True, signs.between(1, inf))
                for _ in range(e):
                    term = forms.times(term, _named(name))
            total = forms.plus(total, term)
        if value.space is not None and value.space not in self._spaces:
            self._spaces.append(value.space)
        return total

    def _position(self, c: Coordinate) -> Value:
        total = self._number(c.offset)
        for v, s in c.parts:
            low, high = self.box.get(v, (None, None))
            closed = signs.between(0, inf)
            if low is None or high is None:
                closed = signs.between(-inf, inf)
            elif not is_size(low):
                closed = signs.between(low, inf if is_size(high) else high - 1)
            name, new = self._variable(("axis", v), True, closed)
            here = _named(name)
            if new and low is not None and high is not None and (is_size(low) or is_size(high)):
                self.facts[name].append(Row(forms.plus(here, self._number(low), -1)))
                self.facts[name].append(Row(forms.plus(forms.plus(self._number(high), _ONE, -1), here, -1)))
            total = forms.plus(total, forms.times(self._number(s), here))
        return total

    # -- values
    def value(self, x: Polynomial) -> Value:
        """The polynomial over variables. Raises :class:`Unsupported` where that becomes too long."""
        total: Value = ()
        for m, c in x:
            term = self._number(c)
            for factor in m:
                term = forms.times(term, self._factor(self.store.follow(factor)))
                if self.store.effort.exceeds("condition_terms", len(term)):
                    raise Unsupported(f"a product of sums of {len(term)} terms")
            total = forms.plus(total, term)
        return total

    def _factor(self, factor: Factor) -> Value:
        found = self._values.get(factor)
        if found is None:
            found = self._values[factor] = self._read(factor)
        return found

    def _read(self, factor: Factor) -> Value:
        a, e, index = factor
        if e.denominator == 1 and e > 1 and not self.store.effort.exceeds("condition_power", int(e)):
            base, out = self._factor(Factor(a, 1, index)), _ONE
            for _ in range(int(e)):
                out = forms.times(out, base)
            return out
        if a == IOTA and e == 1:
            return self._position(index[0])
        if a == IOTA and e == -1 and not index[0].parts:
            inverse = self._inverse(index[0].offset)
            if inverse is not None:
                return inverse
        if e == 1 and self.store.atoms[a].op == "polynomial":
            inside = argument_of(self.store, factor)
            if not unbounded(self.store, inside):
                return self.value(inside)
        return self._opaque(factor)

    def _inverse(self, size: Any) -> Value | None:
        """``1 / (c S)`` of a symbol S; ``None`` for another size."""
        if not is_size(size) or len(size.polynomial) != 1:
            return None
        ((m, c),) = size.polynomial
        if len(m) != 1 or m[0][1] != 1:
            return None
        name, _ = self._variable(("size", m[0][0], -1), False, signs.between(0, inf, out=True))
        return forms.times((((), forms.exact(1 / Fraction(c))),), _named(name))

    def _opaque(self, factor: Factor) -> Value:
        """A variable for a factor of which nothing is known but what its facts say."""
        store = self.store
        atom, x = store.atoms[factor.atom], (Term((factor,), 1),)
        whole = atom.facts.integer and factor.exponent.denominator == 1 and factor.exponent > 0
        name, new = self._variable(factor, whole, signs.enclosure(store, x, self.box))
        here = _named(name)
        if not new or factor.exponent != 1:
            return here
        self._range(name, x, here)
        if atom.op in ("floor", "round", "floor_divide"):
            above = argument_of(store, factor)
            over, below = (
                (above, argument_of(store, factor, 1)) if atom.op == "floor_divide" else fraction_of(store, above)
            )
            number = sole_number(below)
            if number is not None and not is_size(number) and number < 0:
                over, below = scale(over, -1), scale(below, -1)
            if not unbounded(store, add(store, over, below)):
                self.rounded[name] = _Rounded(here, self.value(over), self.value(below), atom.op == "round")
        elif atom.op in MODULI:
            size = 1 << MODULI[atom.op]
            inside = argument_of(store, factor)
            a, index = store.apply("floor_divide", (), (inside, constant(size)), ValueFacts(integer=True))
            rest = add(store, inside, single(a, index, coefficient=-size))
            self.facts[name].extend(_zero(forms.plus(self.value(rest), here, -1)))
        elif atom.op == "max":
            for member in members_of(store, factor) or ():
                if not unbounded(store, member):
                    self.facts[name].append(Row(forms.plus(here, self.value(member), -1)))
        return here

    def _range(self, name: str, x: Polynomial, here: Value) -> None:
        """The range of an index of the specification, which is assumed to be in range, or of a position in a row."""
        known = fact_about(self.store, x, self.box)
        if known is not None:
            low, high = (self._number(end) for end in known)
            self.facts[name].extend((Row(forms.plus(here, low, -1)), Row(forms.plus(high, here, -1))))

    # -- conclusions
    def refutes(self, conditions: Sequence[Condition], *more: Row) -> bool:
        """True if no values satisfy the conditions and the rows, together with what is known of what is in them."""
        rows = [*more]
        for condition in conditions:
            rows.extend(self._rows(condition))
        return impossible(self._with_facts(rows, tuple(conditions)), self.whole, self.steps)

    def _rows(self, condition: Condition) -> Iterator[Row]:
        value = self.value(condition.value)
        yield Row(value, condition.strict)
        if condition.equal:
            yield Row(_minus(value))
        rest, _, _ = split_affine(condition.value)
        known = fact_about(self.store, rest, self.box) if len(rest) > 1 else None
        if known is not None:
            here = self.value(rest)
            yield Row(forms.plus(here, self._number(known[0]), -1))
            yield Row(forms.plus(self._number(known[1]), here, -1))

    def _with_facts(self, rows: list[Row], conditions: tuple[Condition, ...]) -> list[Row]:
        """The rows, and what is known of the products in them, and of those in that."""
        found = list(rows)
        seen: set[Powers] = set()
        names: set[str] = set()
        spaces: list[Space] = []
        at = 0
        while at < len(found) and self.steps.take(1):
            for m, _ in found[at].value:
                if not m or m in seen:
                    continue
                seen.add(m)
                for name, _ in m:
                    if name not in names:
                        names.add(name)
                        found.extend(self.facts[name])
                        found.extend(self._of_rounding(name, conditions))
                if sum(e for _, e in m) > 1:
                    found.extend(self._of_product(m))
            at += 1
            if at == len(found):  # then what holds of sizes, if there are any
                spaces, new = [*self._spaces], [s for s in self._spaces if s not in spaces]
                found.extend(row for space in new for row in self._of_sizes(space))
        return found

    def _of_product(self, m: Powers) -> list[Row]:
        """Inequalities about a product: between which numbers it lies; and if ``v <= b``, then ``v w <= b w`` for a w
        that is not negative, of a bound b that depends on sizes."""
        known = self._of_products.get(m)
        if known is not None:
            return known
        total = signs.between(1, 1)
        for name, e in m:
            total = signs.multiplied(total, signs.raised(self.ends[name], e))
        here: Value = ((m, 1),)
        found = self._of_products[m] = [*self._between(here, total)]
        for name, e in m:
            rest = tuple(p for p in m if p[0] != name) if e == 1 else tuple((n, d - (n == name)) for n, d in m)
            low = signs.between(1, 1)
            for other, d in rest:
                low = signs.multiplied(low, signs.raised(self.ends[other], d))
            if low.low.at < 0:
                continue
            for value, _ in self.facts[name]:
                bounds = sum(len(n) == 1 for n, _ in value)
                if bounds > 1 and all(sum(d for _, d in n) <= 1 for n, _ in value):
                    found.append(Row(forms.times(value, ((rest, 1),))))
        return found

    def _of_rounding(self, name: str, conditions: tuple[Condition, ...]) -> Sequence[Row]:
        """``q below <= above < q below + below``, where the divisor is positive."""
        rounding = self.rounded.get(name)
        if rounding is None or not self._is_positive(rounding.below, conditions):
            return ()
        q, above, below, half = rounding
        self.divisors.setdefault(below)
        rest = forms.plus(above, forms.times(q, below), -1)
        if half:
            return Row(forms.plus(rest, below, Fraction(1, 2))), Row(forms.plus(_minus(rest), below, Fraction(1, 2)))
        return Row(rest), Row(forms.plus(below, rest, -1), True)

    def _is_positive(self, x: Value, conditions: tuple[Condition, ...]) -> bool:
        if len(x) == 1 and not x[0][0]:
            return x[0][1] > 0
        found = self._positive.get((x, conditions))
        if found is None:
            self._positive[x, conditions] = False  # while that is asked
            found = self._positive[x, conditions] = self.refutes(conditions, Row(_minus(x)))
        return found

    def divides(self, x: Polynomial, conditions: Sequence[Condition]) -> bool:
        """True if ``x > 0`` follows from the conditions, so that what is rounded may be a quotient by x."""
        value = self.value(x)
        if not self._is_positive(value, tuple(conditions)):
            return False
        self.divisors.setdefault(value)
        return True

    def _of_sizes(self, space: Space) -> Iterator[Row]:
        """Inequalities that hold of the sizes of a run: what is known of them, and what the run rests on so far."""
        for kind, p in (*space.given, *space.conditions):
            if kind not in ("positive", "nonnegative", "zero") or any(e < 0 for m, _ in p for _, e in m):
                continue
            here = self._number(space.at(p))
            yield Row(here, strict=kind == "positive")
            if kind == "zero":
                yield Row(_minus(here))

    # -- whether a value is 0
    def is_zero(self, x: Polynomial, conditions: Sequence[Condition]) -> bool:
        """True if x was shown to be 0 where the conditions hold: as it is written, for it is neither positive nor
        negative, or for what every product of numbers that are not whole is multiplied with is 0."""
        value = self.value(x)
        if self._is_zero(value, conditions) or self._by_residues(value, conditions):
            return True
        groups: dict[Powers, Value] = {}
        for m, c in value:
            outer = tuple((name, e) for name, e in m if name not in self.whole)
            inner = tuple((name, e) for name, e in m if name in self.whole)
            groups[outer] = forms.plus(groups.get(outer, ()), ((inner, c),))
        if len(groups) < 2 and () in groups:
            return False
        found = [group for group in groups.values() if group]
        if any(not any(m for m, _ in group) for group in found):
            return False
        return all(self._is_zero(group, conditions) for group in found)

    def _by_residues(self, x: Value, conditions: Sequence[Condition]) -> bool:
        """True if x is 0 for all residues of the whole numbers that something is rounded of."""
        quotients: dict[str, Quotient] = {}
        for name, (_, above, below, half) in self.rounded.items():
            number = below[0][1] if len(below) == 1 and not below[0][0] else 0
            if not half and number > 0 and Fraction(number).denominator == 1:
                quotients[name] = Quotient(above, int(number))
        if not quotients:
            return False
        equal = [self.value(c.value) for c in conditions if c.equal]
        return self.steps.take(len(x)) and vanishes_by_residues(
            self.store.effort, x, frozenset(self.whole), quotients, equal
        )

    def _is_zero(self, x: Value, conditions: Sequence[Condition]) -> bool:
        if not x:
            return True
        if len(x) == 1 and not x[0][0]:  # a number: then the case has to be impossible
            return self.refutes(conditions)
        if self.refutes(conditions, Row(x, True)) and self.refutes(conditions, Row(_minus(x), True)):
            return True
        return any(
            self._less_than_one_times(x, divisor, conditions) for divisor in self.divisors if any(m for m, _ in divisor)
        )

    def _less_than_one_times(self, x: Value, divisor: Value, conditions: Sequence[Condition]) -> bool:
        """``-d < d z < d`` for a whole number z and d > 0, so that z is 0."""
        z = _quotient(self.store, x, divisor)
        if z is None or not self._is_positive(divisor, tuple(conditions)):
            return False
        if any(Fraction(c).denominator != 1 or any(n not in self.whole or e < 0 for n, e in m) for m, c in z):
            return False
        return all(self.refutes(conditions, Row(forms.plus(side, divisor, -1))) for side in (x, _minus(x)))


def _named(name: str) -> Value:
    return ((((name, 1),), 1),)


def _minus(x: Value) -> Value:
    return forms.plus((), x, -1)


def _zero(x: Value) -> tuple[Row, Row]:
    return Row(x), Row(_minus(x))


def _quotient(store: Store, x: Value, divisor: Value) -> Value | None:
    """``x / divisor`` if that is a polynomial: long division, the terms in the order of their exponents."""
    names = sorted({name for m, _ in (*x, *divisor) for name, _ in m})

    def head(p: Value) -> tuple[Powers, Any]:
        return max(p, key=lambda term: [dict(term[0]).get(name, 0) for name in names])

    product, c = head(divisor)
    found: Value = ()
    steps = 0
    while x:
        steps += 1
        if store.effort.exceeds("condition_terms", steps):
            return None
        m, d = head(x)
        power = forms.product_of_powers(m, product, -1)
        if any(e < 0 for _, e in power):
            return None
        step: Value = ((power, forms.exact(Fraction(d) / c)),)
        found = forms.plus(found, step)
        x = forms.plus(x, forms.times(step, divisor), -1)
    return found


def fraction_of(store: Store, x: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Numerator and denominator: the first factor of power -1, in all terms or in some (``1 + a / b``)."""
    below = next((f for m, _ in x for f in m if f.exponent == -1), None)
    if below is None:
        return x, ONE
    factor = below._replace(exponent=1)
    above = polynomial(store, [monomial(store, c, (*m, factor)) for m, c in x])
    return above, polynomial(store, [monomial(store, 1, (factor,))])
