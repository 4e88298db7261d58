"""The interpretation that carries, with every form, a record of where it is undefined (``records``) through every
primitive.

A NaN stays one through arithmetic, an infinity becomes what the arithmetic of the extended reals makes of it, and
``where`` keeps what the side that it takes has. Wherever the program's value is not the form's, some term of the record
is not 0; and every term is true of the program's value, so that there is no finite one where a strong term is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from tantamount.calculus import comparisons, contraction, forms, index_ranges, kinds, partial, powers
from tantamount.calculus.atoms import BOOLEAN, Store
from tantamount.calculus.forms import Box, Form, constant_form
from tantamount.calculus.infinities import (
    infinite_signs,
    is_negative_infinity,
    may_conceal,
    split_infinity,
    unbounded,
)
from tantamount.calculus.polynomials import add, as_factors, constant, multiply, scale
from tantamount.calculus.products import is_boolean
from tantamount.calculus.records import (
    body,
    bounded,
    changed,
    doubts,
    freeze,
    kind_of,
    none_if_empty,
    normal,
    outside,
    relabelled,
    sites_of,
    somewhere,
    split,
    terms_of_kind,
    thaw,
    union,
    with_undefined,
    without,
)
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.calculus.terms import ONE, ZERO, Polynomial, Term, single
from tantamount.errors import InternalError, Unsupported
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Doubt, Interpretation, Number
from tantamount.ops.functions import FITTING, FUNCTIONS, MODULI, ROUNDINGS

__all__ = ["Definedness"]

_KEEPS_INFINITY = frozenset({"abs", "floor", "trunc", "round", "pi_times", "asinh"})
_FINITE_AT_INFINITY = frozenset({"tanh", "erf", "atan", "sign"})
_INFINITE = frozenset({kinds.PLUS, kinds.MINUS, kinds.POLE})
_PARTIAL = frozenset({"pow", "erfinv", *ROUNDINGS.values()})  # not numbers everywhere
_LOSES_NAN = frozenset({"pow", "sign"})  # pow(NaN, 0) is 1, the sign of NaN is 0


@dataclass(frozen=True)
class Definedness(Symbolic):
    """:class:`Symbolic`, and with every form the places where it is undefined."""

    @property
    def _plain(self) -> Symbolic:
        return Symbolic(self.store, self.trace, self.mesh, self.batch, self.rank, self.site)

    @property
    def _quiet(self) -> Symbolic:
        return Symbolic(self.store, Trace(), self.mesh, self.batch, self.rank, self.site)

    def _laid(self, x: Form, move: Callable[[Form], Form]) -> Form:
        """A layout primitive, of the values and of the record."""
        return with_undefined(move(x), None if x.undefined is None else none_if_empty(move(x.undefined)))

    def _arising(
        self,
        kind: str,
        conditions: Callable[[Box, list[Polynomial]], list[Polynomial]],
        xs: Sequence[Form],
        records: Sequence[Form | None],
    ) -> Form:
        """The record of what becomes undefined here: of one kind where any of the conditions on the operands ``xs``
        holds. They speak of the forms, which are the program's values only outside of what ``records`` say."""
        store = self.store
        known = [record for record in records if record is not None]

        def apply(box: Box, given: list[Polynomial]) -> Polynomial:
            out: list[Polynomial] = []
            doubtful = [d for record in given[len(xs) :] for d in doubts(store, record)]
            for condition in conditions(box, given[: len(xs)]):
                held = outside(store, condition, doubtful, box)
                for m, _ in (*condition, *held):
                    for a, _, _ in m:
                        for atom in (a, *store.atoms[a].guards):
                            sites_of(store).setdefault(atom, {}).setdefault(f"{self.rank}{self.site}")
                out.append(terms_of_kind(store, kind, held))
            return normal(store, add(store, *out, box=box), box)

        return contraction.pointwise(store, apply, [*xs, *known])

    # -- sources
    def uninitialised(self, shape: Shape, dtype: DType, site: str) -> Form:
        form = self.unknown(shape, dtype, site)
        if dtype.kind is not Kind.FLOAT:
            return form
        no_number = self.fresh("no number", f"{self.rank}{site}", shape, DType.BOOL)
        return with_undefined(form, self._arising(kinds.INF, lambda _, xs: [xs[0]], [no_number], []))

    # -- layout
    def permute(self, x: Form, order: tuple[int, ...]) -> Form:
        return self._laid(x, lambda f: self._plain.permute(f, order))

    def reshape(self, x: Form, shape: Shape) -> Form:
        return self._laid(x, lambda f: self._plain.reshape(f, shape))

    def expand(self, x: Form, shape: Shape) -> Form:
        return self._laid(x, lambda f: self._plain.expand(f, shape))

    def slice(self, x: Form, dim: int, start: int, stop: int, step: int) -> Form:
        return self._laid(x, lambda f: self._plain.slice(f, dim, start, stop, step))

    def flip(self, x: Form, dim: int) -> Form:
        return self._laid(x, lambda f: self._plain.flip(f, dim))

    def concat(self, xs: Sequence[Form], dim: int) -> Form:
        out = self._plain.concat(xs, dim)
        if all(x.undefined is None for x in xs):
            return with_undefined(out, None)
        records = [x.undefined or constant_form(x.shape, ZERO) for x in xs]
        return with_undefined(out, bounded(self.store, self._plain.concat(records, dim)))

    # -- pointwise
    def convert(self, x: Form, source: Kind, target: Kind) -> Form:
        record = x.undefined
        if source is Kind.FLOAT and target is not Kind.FLOAT:  # a NaN is true, and C leaves open which integer it is
            after = kinds.ALL_SOFT if target is Kind.BOOL else kinds.CONVERTED
            record = changed(self.store, record, after)
        return with_undefined(self._plain.convert(x, source, target), record)

    def add(self, x: Form, y: Form) -> Form:
        store = self.store
        out = self._plain.add(x, y)
        one, other = (x, y) if x.undefined is not None else (y, x)
        if one.undefined is None:
            return with_undefined(out, None)
        if other.undefined is None:
            return with_undefined(
                out, changed(store, one.undefined, kinds.SUM_WITH_FINITE if _finite(store, other) else kinds.SUM)
            )

        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            a, b = ({body(store, term): kind_of(store, term) for term in record} for record in xs)
            found = {
                c: kinds.sum_of(a[c], b[c]) if c in a and c in b else kinds.SUM[a.get(c) or b[c]] for c in (*a, *b)
            }
            terms = (terms_of_kind(store, kind, (Term(c, 1),)) for c, kind in found.items())
            return normal(store, add(store, *terms, box=box), box)

        return with_undefined(out, self._pointwise(apply, one.undefined, other.undefined))

    def _pointwise(self, apply: Callable[[Box, list[Polynomial]], Polynomial], *xs: Form) -> Form | None:
        """A record computed from forms at every element; that nothing is known of it where they are too many."""
        try:
            return bounded(self.store, contraction.pointwise(self.store, apply, xs))
        except Unsupported:
            return somewhere(self.store, xs[0].shape)

    def mul(self, x: Form, y: Form) -> Form:
        return with_undefined(self._plain.mul(x, y), union(self.store, self._times(x, y), self._times(y, x)))

    def _times(self, x: Form, y: Form) -> Form | None:
        """The record of a product that it has because of the record of its operand x."""
        store = self.store
        if x.undefined is None:
            return None
        if y.undefined is not None:
            return changed(store, x.undefined, kinds.PRODUCT)

        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            after = _product_with(store, xs[1])
            zero = tuple(t for t in xs[0] if partial.vanishes_where(store, xs[1], body(store, t), box))
            others = tuple(t for t in xs[0] if t not in zero)
            found = [relabelled(store, zero, kinds.PRODUCT_WITH_ZERO), relabelled(store, others, after)]
            found += [
                terms_of_kind(store, kinds.NAN, multiply(store, (Term(body(store, t), 1),), nothing, box))
                for t in others
                if kind_of(store, t) in _INFINITE
                for nothing in partial.zero_parts(store, xs[1], box)
            ]
            return normal(store, add(store, *found, box=box), box)

        return self._pointwise(apply, x.undefined, y)

    def power(self, x: Form, exponent: Fraction) -> Form:
        out = self._plain.power(x, exponent)
        if not exponent:
            return with_undefined(out, None)
        store = self.store
        after = kinds.POWER if exponent > 0 else kinds.RECIPROCAL[exponent.denominator == 1]
        records = [changed(store, x.undefined, after)]
        if exponent < 0:
            records.append(
                self._arising(kinds.POLE, lambda box, xs: partial.zero_parts(store, xs[0], box), [x], [x.undefined])
            )
        if exponent.denominator > 1:
            records.append(
                self._arising(kinds.NAN, lambda box, xs: partial.negative_parts(store, xs[0], box), [x], [x.undefined])
            )
        return with_undefined(out, union(store, *records))

    def exp(self, x: Form) -> Form:
        return with_undefined(self._plain.exp(x), changed(self.store, x.undefined, kinds.EXPONENTIAL))

    def log(self, x: Form) -> Form:
        store = self.store
        records = [
            changed(store, x.undefined, kinds.LOGARITHM),
            self._arising(kinds.MINUS, lambda box, xs: partial.zero_parts(store, xs[0], box), [x], [x.undefined]),
            self._arising(kinds.NAN, lambda box, xs: partial.negative_parts(store, xs[0], box), [x], [x.undefined]),
        ]
        if any(unbounded(store, z) for _, z in x.pieces):
            records.append(self._arising(kinds.INF, self._infinite, [x], [x.undefined]))
        return with_undefined(self._plain.log(x), union(store, *records))

    def function(self, name: str, xs: Sequence[Form]) -> Form:
        if name == "isnan":
            return self._told(self._plain.function(name, xs), xs[0], _is(kinds.NAN))
        declared = FUNCTIONS[name]
        if name in _LOSES_NAN:
            after = kinds.ALL_SOFT
        elif name in MODULI or name in FITTING:
            after = kinds.CONVERTED
        elif name in _KEEPS_INFINITY:
            after = kinds.UNBOUNDED[declared.even]
        else:
            after = kinds.KEEPS_ZERO if declared.arity == 1 and declared.at_zero == 0 else kinds.BOUNDED
        own = [x.undefined for x in xs]
        records = [changed(self.store, record, after) for record in own]
        whole = name == "floor_divide" or name in FITTING
        if whole or name in _PARTIAL:
            kind = kinds.FAILS if whole else kinds.INF
            records.append(self._arising(kind, lambda box, ys: self._outside(name, ys, box), xs, own))
        told = name in _FINITE_AT_INFINITY or (name == "abs" and self._apart(xs[0]))
        if not told and any(unbounded(self.store, z) for x in xs for _, z in x.pieces):
            kind = kinds.FAILS if name in FITTING else kinds.INF if len(xs) == 1 else kinds.SOFT
            records.append(self._arising(kind, self._infinite, xs, own))
        return with_undefined(self._plain.function(name, xs), union(self.store, *records))

    def _apart(self, x: Form) -> bool:
        """True if it is known where a form is infinite, and of one sign there."""
        return all(split_infinity(self.store, z, box) for box, z in x.pieces if unbounded(self.store, z))

    def _told(self, out: Form, x: Form, truth_of: Callable[[kinds.Values], bool | None]) -> Form:
        """A boolean about x with its record, from ``out``, which is right where x is what its form says. Elsewhere
        ``truth_of`` the values that an element may have decides it, or does not (``None``)."""
        if x.undefined is None:
            return with_undefined(out, None)
        store = self.store

        def decided(box: Box, xs: list[Polynomial]) -> tuple[Polynomial, Polynomial]:
            truth, left = xs[0], list[Term]()
            for term in xs[1]:
                values = kinds.values_of(kind_of(store, term))
                known = None if values is None else truth_of(values)
                if known is None:
                    left.append(term)
                    continue
                here: Polynomial = (Term(body(store, term), 1),)
                if not is_boolean(store, here):
                    here = add(store, ONE, scale(comparisons.compare(store, "equal", here, ZERO, box), -1))
                elsewhere = multiply(store, add(store, ONE, scale(here, -1)), truth, box)
                truth = add(store, here, elsewhere, box=box) if known else elsewhere
            return truth, normal(store, relabelled(store, tuple(left), kinds.ALL_SOFT), box)

        given = [out, x.undefined]
        form = contraction.pointwise(store, lambda box, xs: decided(box, xs)[0], given)
        return with_undefined(
            form, none_if_empty(contraction.pointwise(store, lambda box, xs: decided(box, xs)[1], given))
        )

    def _infinite(self, box: Box, xs: list[Polynomial]) -> list[Polynomial]:
        """The places, as booleans, where an operand is an infinity, as its form says."""
        out: list[Polynomial] = []
        for x in xs:
            if unbounded(self.store, x):
                found = partial.minus_infinite(self.store, x, box)
                if found is None:
                    found = partial.minus_infinite(self.store, scale(x, -1), box)
                if found is None:
                    raise Unsupported("a function of what may be infinite")
                out.append(found)
        return out

    def _outside(self, name: str, xs: list[Polynomial], box: Box) -> list[Polynomial]:
        """The places, as booleans, where a function that is not defined everywhere is not."""
        if name == "floor_divide":
            return partial.zero_parts(self.store, xs[1], box)
        if name in FITTING:
            return self._not_fitting(xs[0], FITTING[name], box)
        if name in ROUNDINGS.values():
            if powers.is_rounded(self.store, name, xs[0]) or self._within(xs[0], FUNCTIONS[name].largest, box):
                return []
            c, _ = as_factors(self.store, xs[0])
            xs = [scale(xs[0], -1)] if c < 0 else xs  # as far from 0
        if name == "pow" and powers.strictly_positive(self.store, xs[0]):
            return []
        a, index = self.store.apply("undefined", (name,), tuple(xs), BOOLEAN)
        return [single(a, index)]

    def _within(self, x: Polynomial, largest: float, box: Box) -> bool:
        """True if a number is known to be none that a float type of 8 bits does not hold."""
        if largest == inf:
            return True
        span = comparisons.bounds_of(self.store, x, box)
        return span is not None and -largest <= span[0] and span[1] <= largest

    def _not_fitting(self, x: Polynomial, bounds: tuple[int, int], box: Box) -> list[Polynomial]:
        """The places, as booleans, where a number is not one that an integer type holds."""
        if index_ranges.fits(self.store, x, *bounds, box):
            return []
        low, high = map(constant, bounds)
        found = [comparisons.compare(self.store, "less", *pair, box) for pair in ((x, low), (high, x))]
        return [condition for condition in found if condition]

    def _compared(self, out: Form, *xs: Form) -> Form:
        return with_undefined(out, union(self.store, *(changed(self.store, x.undefined, kinds.ALL_SOFT) for x in xs)))

    def less(self, x: Form, y: Form) -> Form:
        return self._compared(self._plain.less(x, y), x, y)

    def equal(self, x: Form, y: Form) -> Form:
        plain = self._plain.equal(x, y)
        if x == y and x.undefined == y.undefined:  # an infinity of either sign may be of one in x, of the other in y
            return self._told(plain, x, lambda values: kinds.NAN not in values if len(values) == 1 else None)
        for one, other in ((x, y), (y, x)):
            for sign, name in ((1, kinds.MINUS), (-1, kinds.PLUS)):
                if other.undefined is None and all(
                    is_negative_infinity(self.store, scale(z, sign)) for _, z in other.pieces
                ):
                    return self._told(plain, one, _is(name))
        return self._compared(plain, x, y)

    def maximum(self, x: Form, y: Form) -> Form:
        return self._maximal(self._plain.maximum(x, y), self._with_infinities(x), self._with_infinities(y))

    def _with_infinities(self, x: Form) -> Form:
        """The operand of a maximum, with a record of where its form is plus infinity: that of the maximum is none."""
        if not any(False in infinite_signs(self.store, z) for _, z in x.pieces):
            return x

        def infinite(box: Box, xs: list[Polynomial]) -> list[Polynomial]:
            return self._infinite(box, xs) if False in infinite_signs(self.store, xs[0]) else []

        return with_undefined(x, union(self.store, x.undefined, self._arising(kinds.PLUS, infinite, [x], [])))

    def _maximal(self, out: Form, *xs: Form) -> Form:
        """The form of a maximum with its record, from those of its operands: it may be that of nothing finite."""
        records = [changed(self.store, without(self.store, x.undefined, kinds.MASKED), kinds.EXTREME) for x in xs]
        if any(may_conceal(self.store, z) for _, z in out.pieces):
            records.append(self._arising(kinds.MASKED, self._nothing_finite, [out], records))
        return with_undefined(out, union(self.store, *records))

    def _nothing_finite(self, box: Box, xs: list[Polynomial]) -> list[Polynomial]:
        if not may_conceal(self.store, xs[0]) or unbounded(self.store, xs[0]):
            return []
        found = partial.minus_infinite(self.store, xs[0], box)
        if found is None:  # a maximum under other arithmetic, of an unknown set
            a, at = self.store.apply("undefined", ("maximum",), (xs[0],), BOOLEAN)
            found = single(a, at)
        return [found] if found else []

    def where(self, condition: Form, x: Form, y: Form) -> Form:
        out = self._plain.where(condition, x, y)
        if condition.undefined is None and x.undefined is None and y.undefined is None:
            return with_undefined(out, None)
        doubt = changed(self.store, condition.undefined, kinds.ALL_SOFT)
        sides = [x.undefined, y.undefined]
        if doubt is not None and any(kind_of(self.store, term) != kinds.FAILS for _, z in doubt.pieces for term in z):
            sides = [changed(self.store, side, kinds.ANYTHING) for side in sides]

        def kept(form: Form, negate: bool) -> Form:
            def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
                c = xs[0]
                if c and c != ONE and not is_boolean(self.store, c):
                    c = comparisons.compare(self.store, "equal", c, ONE, box)
                if negate:
                    c = add(self.store, ONE, scale(c, -1))
                products = (multiply(self.store, c, (term,), box) for term in xs[1])
                terms = [p for p in products if not _contradictory(self.store, p)]
                return normal(self.store, add(self.store, *terms, box=box), box)

            return contraction.pointwise(self.store, apply, [condition, form])

        records = [None if side is None else kept(side, k == 1) for k, side in enumerate(sides)]
        return with_undefined(out, union(self.store, doubt, *records))

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Form, tuple[int, ...]]], result: tuple[int, ...]) -> Form:
        out = self._plain.contract(operands, result)
        if all(form.undefined is None for form, _ in operands):
            return with_undefined(out, None)
        n = len(self.batch)
        sizes = {label: size for form, labels in operands for label, size in zip(labels, form.shape[n:], strict=True)}
        if 0 in sizes.values():
            return with_undefined(out, None)
        records: list[Form | None] = []
        for k, (form, labels) in enumerate(operands):
            if form.undefined is None:
                continue
            others = [other for j, (other, _) in enumerate(operands) if j != k]
            record = self._summand(form, others, [label in result for label in labels], len(result) < len(sizes))
            kept = tuple(label for label in result if label in labels)
            summed = self._quiet.contract([(record, labels)], kept)
            flat = tuple(sizes[label] if label in kept else 1 for label in result)
            summed = forms.reshape(self.store, summed, (*self.prefix, *flat))
            whole = forms.expand(summed, (*self.prefix, *(sizes[label] for label in result)))
            records.append(thaw(self.store, whole))
        return with_undefined(out, union(self.store, *records))

    def _summand(self, form: Form, others: Sequence[Form], kept: Sequence[bool], summed: bool) -> Form:
        """The record of the products of an operand that has a record, or of their sums: a record over the operand's own
        dimensions, of which some are kept and the others are summed over. What holds of all summands holds of their
        sum, as far as it is added up."""
        store = self.store
        n = len(self.batch)
        finite = all(other.undefined is None and _finite(store, other) for other in others)
        after = kinds.PRODUCT_OF[0 if others else 1] if finite else kinds.PRODUCT
        record = form.undefined or constant_form(form.shape, ZERO)
        over = {
            record.start(n + d) + j for d, stays in enumerate(kept) if not stays for j in range(len(record.dims[n + d]))
        }

        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            whole = all(box[v] == (0, record.sizes[v]) for v in over)
            out: list[Polynomial] = []
            for term in xs[0]:
                kind, condition = after[kind_of(store, term)], body(store, term)
                if summed:
                    same = whole and not any(v in over for _, _, at in condition for c in at for v, _ in c.parts)
                    kind = kinds.sum_of(kind, kind) if same else kinds.SUM[kind]
                out.append(terms_of_kind(store, kind, (Term(condition, 1),)))
            return freeze(store, normal(store, add(store, *out, box=box), box))

        return contraction.pointwise(store, apply, [record])

    def doubted(self, x: Form, doubt: Doubt) -> Form:
        after = {Doubt.VALUE: kinds.ALL_SOFT, Doubt.PLUS: kinds.NOT_PLUS, Doubt.WHICH: kinds.BLURRED}[doubt]
        return with_undefined(x, changed(self.store, x.undefined, after))

    def doubted_at_zero(self, x: Form) -> Form:
        def zeros(box: Box, xs: list[Polynomial]) -> list[Polynomial]:
            return [] if self._as_given(xs[0]) else partial.zero_parts(self.store, xs[0], box)

        return with_undefined(x, union(self.store, x.undefined, self._arising(kinds.SOFT, zeros, [x], [x.undefined])))

    def _as_given(self, x: Polynomial) -> bool:
        """True if a polynomial is an element of a tensor that nothing was computed of."""
        if len(x) != 1 or x[0].coefficient != 1 or len(x[0].monomial) != 1 or x[0].monomial[0].exponent != 1:
            return False
        atom = x[0].monomial[0].atom
        return self.store.atoms[atom].op == "leaf" and atom not in self.store.leaves.computed

    def maximum_over(self, x: Form, dims: tuple[int, ...]) -> Form:
        out = self._plain.maximum_over(x, dims)
        x = self._with_infinities(x)
        record = changed(self.store, without(self.store, x.undefined, kinds.MASKED), kinds.EXTREME, frozen=True)
        labels = tuple(range(len(x.shape) - len(self.batch)))
        if record is not None:
            record = self._quiet.contract([(record, labels)], tuple(k for k in labels if k not in dims))
        return self._maximal(out, with_undefined(out, None if record is None else thaw(self.store, record)))

    def _over_indices(self, indices: Sequence[Form | None], places: int, shape: Shape) -> list[Form | None]:
        """The records of indices, at every element of what they choose: of the given shape, places first."""
        n = len(self.batch)
        out: list[Form | None] = []
        for index in indices:
            record = None if index is None else changed(self.store, index.undefined, kinds.ALL_SOFT)
            if record is not None:
                flat = (*record.shape, *(1 for _ in shape[n + places :]))
                out.append(forms.expand(forms.reshape(self.store, record, flat), shape))
        return out

    def gather(self, x: Form, indices: Sequence[Form | None]) -> Form:
        out = self._plain.gather(x, indices)
        count = next(len(index.dims) for index in indices if index is not None) - len(self.batch)
        records = self._over_indices(indices, count, out.shape)
        if x.undefined is not None:
            record = changed(self.store, x.undefined, kinds.SAME, frozen=True) or x.undefined
            records += [thaw(self.store, self._quiet.gather(part, indices)) for part in split(self.store, record)]
        return with_undefined(out, union(self.store, *records))

    def scatter(self, x: Form, indices: Sequence[Form | None], source: Form, accumulate: bool) -> Form:
        out = self._plain.scatter(x, indices, source, accumulate)
        if x.undefined is None and source.undefined is None and all(i is None or i.undefined is None for i in indices):
            return with_undefined(out, None)
        if any(index is not None and index.undefined is not None for index in indices):
            return with_undefined(out, somewhere(self.store, out.shape))
        records = [changed(self.store, x.undefined, kinds.SUM if accumulate else kinds.ALL_SOFT)]
        if source.undefined is not None:
            zero = constant_form(out.shape, ZERO)
            record = (
                changed(self.store, source.undefined, kinds.SUM if accumulate else kinds.SAME, frozen=True)
                or source.undefined
            )
            records += [
                thaw(self.store, self._quiet.scatter(zero, indices, part, True)) for part in split(self.store, record)
            ]
        return with_undefined(out, union(self.store, *records))

    def rows(
        self, name: str, xs: Sequence[Form], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Form, ...]:
        found = self._plain.rows(name, xs, attributes, results)
        records = [changed(self.store, x.undefined, kinds.ALL_SOFT, frozen=True) for x in xs]
        if all(record is None for record in records):
            return tuple(with_undefined(out, None) for out in found)
        n = len(self.batch)
        whole = [
            self._quiet.contract([(r, tuple(range(len(r.shape) - n)))], tuple(range(len(r.shape) - n - 1)))
            for r in records
            if r is not None
        ]
        record = union(self.store, *(thaw(self.store, r) for r in whole))
        return tuple(
            with_undefined(
                out,
                None
                if record is None
                else forms.expand(forms.reshape(self.store, record, (*record.shape, 1)), out.shape),
            )
            for out in found
        )

    # -- process groups
    def enter_group(self, x: Form, shape: Shape, group: str) -> tuple[Interpretation, Form]:
        inside, out = self._plain.enter_group(x, shape, group)
        if not isinstance(inside, Symbolic):
            raise InternalError("a group of the plain interpretation is one of another kind")
        record = None if x.undefined is None else self._plain.enter_group(x.undefined, shape, group)[1]
        return replace(self, batch=inside.batch), with_undefined(out, record)

    def leave_group(self, y: Form, shape: Shape, group: str) -> Form:
        return self._laid(y, lambda f: self._plain.leave_group(f, shape, group))


def _is(kind: str) -> Callable[[kinds.Values], bool | None]:
    """A function that says whether an element, which is one of some values, is of this kind; ``None`` if it may be."""
    wanted = kinds.values_of(kind) or frozenset[str]()
    return lambda values: values == wanted if values == wanted or not values & wanted else None


def _finite(store: Store, form: Form) -> bool:
    """True if every element of a form without a record is a number."""
    return not any(unbounded(store, x) for _, x in form.pieces)


def _product_with(store: Store, x: Polynomial) -> Mapping[str, str]:
    """A map from every kind to the one that it becomes in a product with an element that is defined and has this
    form."""
    if unbounded(store, x):
        return kinds.PRODUCT
    if powers.strictly_positive(store, x):
        return kinds.PRODUCT_OF[1]
    return kinds.PRODUCT_OF[-1 if powers.strictly_positive(store, scale(x, -1)) else 0]


def _contradictory(store: Store, x: Polynomial) -> bool:
    """True if a product of booleans contains comparisons of one quantity that cannot hold together."""
    return any(partial.contradictory(store, m) for m, _ in x)
