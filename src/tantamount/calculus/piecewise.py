"""Equality by cases over what is piecewise linear: comparisons, maxima, absolute values, signs, roundings.

Both polynomials are read as polynomials over real and whole *variables*: positions, sizes, and atoms of which nothing
but an interval is known. Where a value depends on a condition, every case is taken by itself, with what must hold there
as a constraint. In every case that is not impossible the difference has to be 0: as it is written, or because no
numbers that satisfy the constraints make it positive or negative.

*Why sound*: the cases of one choice are all there are (``x < 0`` or ``x >= 0``; one of the members is the greatest), so
every assignment of the variables is in one of them. What is not linear counts as a variable of its own, and what is
not known of a variable is not used: both only leave more numbers to be refuted. ``impossible`` combines constraints
with non-negative factors until a number is left (Fourier and Motzkin; Dantzig and Eaves, *Fourier-Motzkin elimination
and its dual*), and rounds them where all variables are whole (Gomory's cuts): what follows from true constraints is
true. Sizes are variables here, too: nothing is asked of what they are at their hints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

from tantamount.calculus import spans
from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import comparison
from tantamount.calculus.inequalities import Row, impossible
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add, scale
from tantamount.calculus.products import is_integer, substitute_polynomial
from tantamount.calculus.terms import IOTA, Factor, Polynomial, Ranges, Term, factors_of
from tantamount.sizes import polynomials as forms
from tantamount.sizes.polynomials import Polynomial as Value
from tantamount.sizes.symbolic import Space, is_size

__all__ = ["equal_in_all_cases", "never_negative"]

_ONE: Value = (((), 1),)
_LONGEST = 200  # terms of a product
_READ = frozenset({"less", "equal", "max", "sign", "floor", "trunc", "floor_divide"})


class _Option(NamedTuple):
    """One case of a choice: the value there, and what holds there."""

    value: Value
    where: tuple[Row, ...]


class _Choice(Exception):
    """A choice that is met for the first time: its name and its cases."""

    def __init__(self, key: object, options: Sequence[_Option]) -> None:
        self.key, self.options = key, options


class _Opaque(Exception):
    """Something that this theory has no variable for."""


@dataclass
class _Reader:
    """Reads polynomials over the atoms as polynomials over variables. ``names`` of variables by what they are,
    ``whole`` those that are whole numbers, ``facts`` what is known of them; ``divisors`` by which something is
    rounded; ``chosen`` are the values of the choices made."""

    store: Store
    box: Ranges
    names: dict[object, str] = field(default_factory=dict[object, str])
    whole: set[str] = field(default_factory=set[str])
    facts: list[Row] = field(default_factory=list[Row])
    divisors: dict[Value, None] = field(default_factory=dict[Value, None])
    chosen: dict[object, Value] = field(default_factory=dict[object, Value])
    where: list[Row] = field(default_factory=list[Row])
    space: Space | None = None
    known: dict[object, Value] = field(default_factory=dict[object, Value])  # of atoms, with what is chosen

    # -- variables
    def variable(self, key: object, *, whole: bool, low: object = None, high: object = None) -> Value:
        """The variable for ``key``; ``low`` and ``high`` (numbers, sizes, or infinite) are its least and greatest
        value."""
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"x{len(self.names):04}"
            if whole:
                self.whole.add(name)
            here: Value = ((((name, 1),), 1),)
            for end, sign in ((low, 1), (high, -1)):
                if end is not None and not (isinstance(end, float) and abs(end) == inf):
                    self.facts.append(Row(forms.plus((), forms.plus(here, self.number(end), -1), sign), strict=False))
        return ((((name, 1),), 1),)

    def number(self, value: Any) -> Value:
        """A number, or the polynomial in its symbols that a size is."""
        if not is_size(value):
            return (((), forms.exact(Fraction(value))),) if value else ()
        total: Value = ()
        for m, c in value.polynomial:
            term: Value = (((), c),)
            for name, e in m:
                if e < 0:
                    raise _Opaque
                symbol = self.variable(("size", name), whole=True, low=1)
                for _ in range(e):
                    term = forms.times(term, symbol)
            total = forms.plus(total, term)
        self._given(value.space)
        return total

    def _given(self, space: Space | None) -> None:
        """What holds of the sizes of a run: what is known of them, and what the run rests on so far."""
        if space is None or space is self.space:
            return
        self.space = space
        for kind, p in (*space.given, *space.conditions):
            if kind not in ("positive", "nonnegative", "zero") or any(e < 0 for m, _ in p for _, e in m):
                continue
            here = self.number(space.at(p))
            self.facts.append(Row(here, strict=kind == "positive"))
            if kind == "zero":
                self.facts.append(Row(forms.plus((), here, -1), strict=False))

    def position(self, c: Coordinate) -> Value:
        total = self.number(c.offset)
        for v, s in c.parts:
            box = self.box
            if v < 0 or box is None or not (v in box if isinstance(box, Mapping) else v < len(box)):
                raise _Opaque
            ends = box[v]
            here = self.variable(("axis", v), whole=True, low=ends[0], high=ends[1] - 1)
            total = forms.plus(total, forms.times(self.number(s), here))
        return total

    # -- values
    def polynomial(self, x: Polynomial) -> Value:
        total: Value = ()
        for m, c in x:
            term = self.number(c)
            for factor in m:
                term = forms.times(term, self.factor(factor))
                if not term:
                    break
                if len(term) > _LONGEST:
                    raise _Opaque
            total = forms.plus(total, term)
        return total

    def factor(self, factor: Factor) -> Value:
        a, e, index = self.store.follow(factor)
        e = Fraction(e)
        if e.denominator != 1 or e < 1 or e > 8:
            return self._root(a, e, index)
        base = self._atom(a, index)
        out = _ONE
        for _ in range(int(e)):
            out = forms.times(out, base)
        return out

    def _choose(self, key: object, options: Sequence[_Option]) -> Value:
        found = self.chosen.get(key)
        if found is None:
            raise _Choice(key, options)
        return found

    def _atom(self, a: int, index: tuple[Coordinate, ...]) -> Value:
        if a == IOTA:
            return self.position(index[0])
        key = (a, index)
        if key in self.chosen:
            return self.chosen[key]
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._value(a, index)
        return found

    def _value(self, a: int, index: tuple[Coordinate, ...]) -> Value:
        """What an atom is with the choices made; a variable where this theory knows nothing of it."""
        key = (a, index)
        atom = self.store.atoms[a]
        try:
            if atom.op in ("less", "equal"):
                return self._comparison(key)
            if atom.op == "polynomial":
                return self.polynomial(self._argument(0, key))
            if atom.op == "max":
                return self._maximum(key)
            if atom.op == "sum":
                return self._one_hot(key)
            if atom.op == "sign":
                x = self.polynomial(self._argument(0, key))
                minus = forms.plus((), x, -1)
                signs = (_ONE, (Row(x, True),)), ((), _zero(x)), ((((), -1),), (Row(minus, True),))
                return self._choose(key, [_Option(value, where) for value, where in signs])
            if atom.op in ("floor", "trunc"):
                return self._rounded(key, atom.op, *self._fraction(self._argument(0, key)))
            if atom.op == "floor_divide":
                above, below = (self.polynomial(self._argument(k, key)) for k in range(2))
                return self._rounded(key, "floor", above, below)
        except _Opaque:
            pass
        return self._unread(a, Fraction(1), index)

    def _argument(self, k: int, key: tuple[int, tuple[Coordinate, ...]]) -> Polynomial:
        x = substitute_polynomial(self.store.atoms[key[0]].arguments[k], dict(enumerate(key[1])))
        if unbounded(self.store, x):
            raise _Opaque
        return x

    def _unread(self, a: int, e: Fraction, index: tuple[Coordinate, ...]) -> Value:
        """A variable for a factor of which nothing but its interval is known."""
        span = spans.of_polynomial(self.store, (Term((Factor(a, forms.exact(e), index),), 1),), self.box)
        facts = self.store.atoms[a].facts
        low, high = span
        whole = facts.integer and e.denominator == 1 and e > 0
        if facts.positive and low <= 0:
            found = self.variable((a, e, index), whole=whole, low=1 if whole else 0, high=high)
            self.facts.append(Row(found, strict=True))
            return found
        return self.variable((a, e, index), whole=whole or facts.boolean, low=low, high=high)

    def _comparison(self, key: tuple[int, tuple[Coordinate, ...]]) -> Value:
        read = comparison(self.store, Factor(key[0], 1, key[1]))
        if read is None or unbounded(self.store, read.rest):
            raise _Opaque
        x = forms.plus(self.polynomial(read.rest), self.position(read.affine))
        minus = forms.plus((), x, -1)
        if read.op == "less":
            return self._choose(key, [_Option(_ONE, (Row(minus, True),)), _Option((), (Row(x, False),))])
        cases = [_Option(_ONE, _zero(x)), _Option((), (Row(x, True),)), _Option((), (Row(minus, True),))]
        return self._choose(key, cases)

    def _maximum(self, key: tuple[int, tuple[Coordinate, ...]]) -> Value:
        members: list[Value] = []
        for m, c in self._argument(0, key):
            if c != 1 or len(m) != 1 or m[0].exponent != 1 or self.store.atoms[m[0].atom].op != "element":
                raise _Opaque
            members.append(self.polynomial(self._argument(0, (m[0].atom, m[0].at))))
        if not members:
            raise _Opaque
        options = [_Option(x, tuple(Row(forms.plus(x, y, -1), False) for y in members if y is not x)) for x in members]
        return self._choose(key, options)

    def _one_hot(self, key: tuple[int, tuple[Coordinate, ...]]) -> Value:
        """``SUM_{v < n} [t + s v + r == 0]`` for a whole t and s = 1 or -1: whether the one v lies in 0..n."""
        atom = self.store.atoms[key[0]]
        if len(atom.summand) != 1 or len(atom.ranges) != 1 or atom.summand[0].exponent != 1:
            raise _Opaque
        inner, _, at = atom.summand[0]
        here = tuple(_moved(c, key[1]) for c in at)
        read = comparison(self.store, Factor(inner, 1, here))
        if read is None or read.op != "equal" or not is_integer(self.store, read.rest):
            raise _Opaque
        stride = dict(read.affine.parts).get(-1, 0)
        if abs(stride) != 1 or any(bound_variables(f) for f in factors_of(read.rest)):
            raise _Opaque
        others = Coordinate(tuple(p for p in read.affine.parts if p[0] != -1), read.affine.offset)
        place = forms.plus((), forms.plus(self.polynomial(read.rest), self.position(others)), -stride)
        last = forms.plus(forms.plus(self.number(atom.ranges[0]), _ONE, -1), place, -1)
        inside = (Row(place, False), Row(last, False))
        below, above = (Row(forms.plus((), place, -1), True),), (Row(forms.plus((), last, -1), True),)
        return self._choose(key, [_Option(_ONE, inside), _Option((), below), _Option((), above)])

    def _root(self, a: int, e: Fraction, index: tuple[Coordinate, ...]) -> Value:
        """``(y^2)^(1/2)`` is y or -y; any other power is a variable."""
        atom = self.store.atoms[a]
        if e == Fraction(1, 2) and atom.op == "polynomial" and len(atom.arguments[0]) == 1:
            ((m, c),) = substitute_polynomial(atom.arguments[0], dict(enumerate(index)))
            if c == 1 and all(Fraction(f.exponent) % 2 == 0 for f in m):
                y = self.polynomial(
                    (Term(tuple(f._replace(exponent=forms.exact(Fraction(f.exponent) / 2)) for f in m), 1),)
                )
                minus = forms.plus((), y, -1)
                return self._choose((a, e, index), [_Option(y, (Row(y, False),)), _Option(minus, (Row(minus, True),))])
        return self._unread(a, e, index)

    def _fraction(self, x: Polynomial) -> tuple[Value, Value]:
        """Numerator and denominator: a factor of power -1 that all terms share."""
        shared = next((f for f in (x[0].monomial if x else ()) if f.exponent == -1 and all(f in m for m, _ in x)), None)
        if shared is None:
            return self.polynomial(x), _ONE
        above = tuple(Term(tuple(f for f in m if f is not shared and f != shared), c) for m, c in x)
        return self.polynomial(above), self.factor(shared._replace(exponent=1))

    def _rounded(self, key: object, how: str, above: Value, below: Value) -> Value:
        """The whole number q with ``q <= above / below < q + 1``; for ``trunc`` so where the quotient is not negative,
        else ``q - 1 < above / below <= q``. Where the divisor is 0 nothing is defined."""
        if below != _ONE and not self.follows(Row(below, True)):
            raise _Opaque
        q = self.variable(("rounded", key), whole=True)
        scaled = forms.times(q, below)
        self.divisors.setdefault(below)
        rest = forms.plus(above, scaled, -1)  # above - q below
        down = (Row(rest, False), Row(forms.plus(below, rest, -1), True))
        if how == "floor":
            return self._choose(key, [_Option(q, down)])
        minus = forms.plus((), above, -1)
        up = (Row(forms.plus((), rest, -1), False), Row(forms.plus(below, rest), True))
        nonnegative, nonpositive = Row(q, False), Row(forms.plus((), q, -1), False)
        return self._choose(
            key, [_Option(q, (Row(above, False), nonnegative, *down)), _Option(q, (Row(minus, True), nonpositive, *up))]
        )

    # -- conclusions
    def refuted(self, *rows: Row) -> bool:
        """True if no numbers satisfy these constraints together with what holds in the case."""
        return impossible([*self.facts, *self.where, *rows], self.whole, self.store.effort)

    def follows(self, row: Row) -> bool:
        """True if a constraint follows from what holds in the case."""
        return self.refuted(Row(forms.plus((), row.value, -1), strict=not row.strict))

    def vanishes(self, x: Value) -> bool:
        """True if a value is 0 in this case."""
        if not x:
            return True
        minus = forms.plus((), x, -1)
        if self.refuted(Row(x, True)) and self.refuted(Row(minus, True)):
            return True
        return any(self._less_than_one_times(x, divisor) for divisor in self.divisors if divisor != _ONE)

    def _less_than_one_times(self, x: Value, divisor: Value) -> bool:
        """``-d < d z < d`` for a whole number z and d > 0, so that z is 0."""
        z = _quotient(x, divisor)
        if z is None or any(
            Fraction(c).denominator != 1 or any(n not in self.whole or e < 0 for n, e in m) for m, c in z
        ):
            return False
        return all(self.refuted(Row(forms.plus(side, divisor, -1), False)) for side in (x, forms.plus((), x, -1)))


def _quotient(x: Value, divisor: Value) -> Value | None:
    """``x / divisor`` if that is a polynomial: long division, the terms in the order of their exponents."""
    names = sorted({name for m, _ in (*x, *divisor) for name, _ in m})

    def head(p: Value) -> tuple[forms.Powers, Any]:
        return max(p, key=lambda term: [dict(term[0]).get(name, 0) for name in names])

    product, c = head(divisor)
    found: Value = ()
    for _ in range(_LONGEST):
        if not x:
            return found
        m, d = head(x)
        power = forms.product_of_powers(m, product, -1)
        if any(e < 0 for _, e in power):
            return None
        step: Value = ((power, forms.exact(Fraction(d) / c)),)
        found = forms.plus(found, step)
        x = forms.plus(x, forms.times(step, divisor), -1)
    return None


def _zero(x: Value) -> tuple[Row, ...]:
    return Row(x, False), Row(forms.plus((), x, -1), False)


def _moved(c: Coordinate, index: tuple[Coordinate, ...]) -> Coordinate:
    """A coordinate inside an atom at an index of it; bound variables stay."""
    parts: dict[int, Any] = {}
    offset: Any = c.offset
    for v, s in c.parts:
        if v < 0:
            parts[v] = parts.get(v, 0) + s
            continue
        offset = offset + s * index[v].offset
        for w, t in index[v].parts:
            if w < 0:
                raise _Opaque
            parts[w] = parts.get(w, 0) + s * t
    return Coordinate(tuple(sorted((v, s) for v, s in parts.items() if s)), offset)


def equal_in_all_cases(store: Store, x: Polynomial, y: Polynomial, box: Ranges) -> bool:
    """True if ``x - y`` was shown to vanish in every case."""
    difference = add(store, x, scale(y, -1))
    if not difference:
        return True
    if unbounded(store, difference) or not any(
        _is_read(store, f, store.memo.piecewise) for f in factors_of(difference)
    ):
        return False
    return _in_all_cases(store, box, lambda reader: reader.vanishes(reader.polynomial(difference)))


def never_negative(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if ``x >= 0`` was shown in every case."""
    if unbounded(store, x) or not any(_is_read(store, f, store.memo.piecewise) for f in factors_of(x)):
        return False
    return _in_all_cases(store, box, lambda reader: reader.follows(Row(reader.polynomial(x), strict=False)))


def _in_all_cases(store: Store, box: Ranges, holds: Callable[[_Reader], bool]) -> bool:
    """True if something holds in every case of the choices that reading it comes to."""
    reader = _Reader(store, box)
    left = store.effort.bounds.split_cases

    def in_all() -> bool:
        nonlocal left
        store.effort.check()
        left -= 1
        if left < 0:
            store.effort.hit("split_cases")
            return False
        reader.known.clear()
        try:
            return holds(reader)
        except _Opaque:
            return False
        except _Choice as choice:
            key, options = choice.key, choice.options
        for option in options:
            before = len(reader.where)
            reader.where.extend(option.where)
            reader.chosen[key] = option.value
            found = reader.refuted() or in_all()
            del reader.chosen[key]
            del reader.where[before:]
            if not found:
                return False
        return True

    found = in_all()
    store.fired["piecewise"] += found
    return found


def _is_read(store: Store, factor: Factor, known: dict[int, bool]) -> bool:
    """True if a factor is, or is made of, something that this theory knows more of than an interval; ``known`` are
    the answers for atoms."""
    if factor.exponent == Fraction(1, 2):
        return True
    found = known.get(factor.atom)
    if found is None:
        atom = store.atoms[factor.atom]
        if atom.op == "sum":
            found = len(atom.summand) == 1 and store.atoms[atom.summand[0].atom].op == "equal"
        else:
            found = atom.op in _READ or (
                atom.op == "polynomial" and any(_is_read(store, f, known) for f in factors_of(*atom.arguments))
            )
        known[factor.atom] = found
    return found
