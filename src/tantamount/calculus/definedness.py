"""Forms with a record of where they are undefined, carried through every primitive.

A form's ``undefined`` is a form of the same shape whose terms are each a *kind* (a positive leaf without coordinates)
times booleans: an element is undefined where one of its terms is not 0. Sums over dimensions are unions, so that all
of the calculus applies to them: a shard of a tensor is undefined in a shard of the places.

==========  ==========================================================================================================
``nan``     the element is NaN in the program: a root of a negative number
``inf``     it is NaN or infinite: a division by zero, the logarithm of zero
``-inf``    it is exactly minus infinity, and the form does not say so: the maximum of a row that is masked
``soft``    the form says nothing of the value: an infinity went into what may give a number (``1 / inf``,
            ``exp(-inf)``, a comparison)
==========  ==========================================================================================================

A NaN stays one through arithmetic, and an infinity stays infinite or becomes a NaN through sums and products; ``where``
keeps what the side that it takes has. So where a term of another kind than ``soft`` is not 0, the program has no finite
value there; and wherever the program's value is not the form's, some term is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tantamount.calculus import comparisons, contraction, forms, partial, powers
from tantamount.calculus.atoms import BOOLEAN, Facts, Store
from tantamount.calculus.forms import Box, Form, constant_form
from tantamount.calculus.infinities import is_negative_infinity, unbounded
from tantamount.calculus.polynomials import add, multiply, polynomial, scale
from tantamount.calculus.products import is_boolean, substitute_polynomial
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.calculus.terms import ONE, ZERO, Factor, Polynomial, Term, single
from tantamount.errors import Unsupported
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Interpretation, Number

__all__ = [
    "INF",
    "KINDS",
    "MASKED",
    "NAN",
    "SOFT",
    "Definedness",
    "body",
    "kind_of",
    "sites_of",
    "somewhere",
    "union",
    "with_undefined",
]

NAN, INF, MASKED, SOFT = KINDS = ("nan", "inf", "-inf", "soft")
_KEEPS_INFINITY = frozenset({"abs", "floor", "trunc", "round", "pi_times", "asinh", "sign"})
_LOSES_NAN = frozenset({"isnan", "pow"})

_AFTER_SUM: Mapping[str, str] = {MASKED: INF}
_AFTER_BOUNDED: Mapping[str, str] = {MASKED: SOFT, INF: SOFT}
_ALL_SOFT: Mapping[str, str] = {MASKED: SOFT, INF: SOFT, NAN: SOFT}


def _leaf(store: Store, kind: str) -> int:
    return store.leaf("undefined", kind, (), Facts(positive=True, nonnegative=True))


def _kinds(store: Store) -> dict[int, str]:
    found = store.memo.kinds_of_undefined
    if not found:
        found.update({_leaf(store, kind): kind for kind in KINDS})
    return found


def kind_of(store: Store, term: Term) -> str:
    """The kind of a term of ``undefined``."""
    kinds = _kinds(store)
    return next(kinds[a] for a, _, _ in term.monomial if a in kinds)


def body(store: Store, term: Term) -> tuple[Factor, ...]:
    """The booleans of a term of ``undefined``."""
    kinds = _kinds(store)
    return tuple(f for f in term.monomial if f.atom not in kinds)


def with_undefined(form: Form, undefined: Form | None) -> Form:
    """The form with this record."""
    return form if form.undefined is undefined else replace(form, undefined=undefined)


def sites_of(store: Store) -> dict[int, dict[str, None]]:
    """The nodes at which the condition of a boolean atom first made something undefined."""
    return store.sites_of_undefined


# ------------------------------------------------------------------------------------------------ sets of conditions
def _term(store: Store, kind: str, condition: Polynomial) -> Polynomial:
    """The terms of ``undefined`` that say: of this kind where the boolean holds."""
    if not condition:
        return ZERO
    return multiply(store, single(_leaf(store, kind), ()), condition)


def _normal(store: Store, x: Polynomial, box: Box) -> Polynomial:
    """Terms without multiplicities."""
    for _ in range(4):
        if all(c == 1 for _, c in x):
            return x
        if any(c < 0 for _, c in x):
            return _by_kind(store, x, box)
        x = polynomial(store, [Term(m, 1) for m, _ in x], box)
    return _by_kind(store, x, box)


def _by_kind(store: Store, x: Polynomial, box: Box) -> Polynomial:
    """One condition for each kind: that the sum of its terms, which counts, is not 0."""
    out: list[Polynomial] = []
    for kind in KINDS:
        count = polynomial(store, [Term(body(store, t), t.coefficient) for t in x if kind_of(store, t) == kind], box)
        if count:
            none = comparisons.compare(store, "equal", count, ZERO, box)
            out.append(_frozen(store, _term(store, kind, add(store, ONE, scale(none, -1)))))
    return add(store, *out)


def _frozen(store: Store, x: Polynomial) -> Polynomial:
    """Negations as atoms, which sums over them leave alone."""
    out: list[Term] = []
    for m, c in x:
        factors: list[Factor] = []
        for a, e, index in m:
            atom = store.atoms[a]
            if atom.op == "polynomial" and atom.facts.boolean:
                inside = polynomial(store, substitute_polynomial(atom.arguments[0], dict(enumerate(index))))
                b, at = store.apply("not", (), (inside,), BOOLEAN)
                factors.append(Factor(b, 1, at))
            else:
                factors.append(Factor(a, e, index))
        out.append(Term(tuple(sorted(factors)), c))
    return polynomial(store, out)


def _thawed(store: Store, form: Form) -> Form:
    """The negations that sums have left alone as factors again, which guards simplify."""

    def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
        out: list[Polynomial] = []
        for m, c in xs[0]:
            negated = [f for f in m if store.atoms[f.atom].op == "not"]
            term: Polynomial = (Term(tuple(f for f in m if f not in negated), c),)
            for a, _, index in negated:
                inside = polynomial(store, substitute_polynomial(store.atoms[a].arguments[0], dict(enumerate(index))))
                term = multiply(store, term, inside, box)
            out.append(term)
        return _normal(store, add(store, *out, box=box), box)

    return contraction.pointwise(store, apply, [form])


def _changed(store: Store, form: Form | None, kinds: Mapping[str, str], frozen: bool = False) -> Form | None:
    """The record with kinds replaced."""
    if form is None:
        return None
    names = _kinds(store)
    swap = {number: _leaf(store, kinds[kind]) for number, kind in names.items() if kind in kinds}

    def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
        terms = [Term(tuple(sorted(Factor(swap.get(a, a), e, i) for a, e, i in m)), c) for m, c in xs[0]]
        found = _normal(store, polynomial(store, terms, box), box)
        return _frozen(store, found) if frozen else found

    return contraction.pointwise(store, apply, [form])


def _without(store: Store, form: Form | None, kind: str) -> Form | None:
    if form is None:
        return None
    number = _leaf(store, kind)
    kept = contraction.pointwise(
        store, lambda _, xs: tuple(t for t in xs[0] if all(a != number for a, _, _ in t[0])), [form]
    )
    return _or_none(kept)


def _or_none(form: Form | None) -> Form | None:
    return form if form is not None and any(x for _, x in form.pieces) else None


def union(store: Store, *records: Form | None) -> Form | None:
    """Where one of the records says that something is undefined; forms of one shape."""
    found = [form for form in records if form is not None]
    if not found:
        return None
    if all(form == found[0] for form in found[1:]):
        return _bounded(store, found[0])
    try:
        total = contraction.pointwise(store, lambda box, xs: _normal(store, add(store, *xs, box=box), box), found)
    except Unsupported:
        return somewhere(store, found[0].shape)
    return _bounded(store, total)


def _bounded(store: Store, form: Form | None) -> Form | None:
    form = _or_none(form)
    if form is None:
        return None
    terms = max((len(x) for _, x in form.pieces), default=0)
    if store.effort.exceeds("undefined_pieces", len(form.pieces)) or store.effort.exceeds("undefined_terms", terms):
        return somewhere(store, form.shape)
    return form


def somewhere(store: Store, shape: Shape) -> Form:
    """That nothing is known of where this is undefined."""
    number = store.leaf("undefined", "somewhere", (), BOOLEAN)
    return constant_form(shape, _term(store, SOFT, single(number, ())))


def _split(store: Store, form: Form) -> list[Form]:
    """A record as records of one term in each piece."""
    count = max((len(x) for _, x in form.pieces), default=0)
    return [Form(form.dims, tuple((box, x[k : k + 1]) for box, x in form.pieces)) for k in range(count)]


# ------------------------------------------------------------------------------------------------ the interpretation
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
        return with_undefined(move(x), None if x.undefined is None else _or_none(move(x.undefined)))

    def _arising(
        self, shape: Shape, kind: str, conditions: Callable[[Box, list[Polynomial]], list[Polynomial]], *xs: Form
    ) -> Form:
        """The record of what becomes undefined here: of one kind where any of the conditions holds."""

        def apply(box: Box, lins: list[Polynomial]) -> Polynomial:
            out: list[Polynomial] = []
            for condition in conditions(box, lins):
                for m, _ in condition:
                    for a, _, _ in m:
                        for atom in (a, *self.store.atoms[a].guards):
                            sites_of(self.store).setdefault(atom, {}).setdefault(f"{self.rank}{self.site}")
                out.append(_term(self.store, kind, condition))
            return _normal(self.store, add(self.store, *out, box=box), box)

        return contraction.pointwise(self.store, apply, xs)

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
        return with_undefined(out, _bounded(self.store, self._plain.concat(records, dim)))

    # -- pointwise
    def convert(self, x: Form, source: Kind, target: Kind) -> Form:
        lost = source is Kind.FLOAT and target is not Kind.FLOAT  # a NaN becomes some integer
        record = _changed(self.store, x.undefined, _ALL_SOFT) if lost else x.undefined
        return with_undefined(self._plain.convert(x, source, target), record)

    def _strict(self, out: Form, *xs: Form) -> Form:
        records = [_changed(self.store, x.undefined, _AFTER_SUM) for x in xs]
        return with_undefined(out, union(self.store, *records))

    def add(self, x: Form, y: Form) -> Form:
        return self._strict(self._plain.add(x, y), x, y)

    def mul(self, x: Form, y: Form) -> Form:
        return self._strict(self._plain.mul(x, y), self._times(x, y), self._times(y, x))

    def _times(self, x: Form, y: Form) -> Form:
        """x, whose record says what is so of its product with y: NaN instead of infinite or NaN where y is 0."""
        others = [] if y.undefined is None else [kind_of(self.store, t) for _, z in y.undefined.pieces for t in z]
        if x.undefined is None or any(kind != NAN for kind in others):
            return x
        infinite, nan = _leaf(self.store, INF), _leaf(self.store, NAN)
        if all(f.atom != infinite for _, z in x.undefined.pieces for m, _ in z for f in m):
            return x

        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            zeros = [set(z[0].monomial) for z in partial.zero_parts(self.store, xs[1], box) if len(z) == 1]
            terms: list[Term] = []
            for m, c in xs[0]:
                zero = any(f.atom == infinite for f in m) and any(part and part <= set(m) for part in zeros)
                terms.append(
                    Term(tuple(sorted(Factor(nan, e, i) if a == infinite else Factor(a, e, i) for a, e, i in m)), c)
                    if zero
                    else Term(m, c)
                )
            return _normal(self.store, polynomial(self.store, terms, box), box)

        return with_undefined(x, contraction.pointwise(self.store, apply, [x.undefined, y]))

    def power(self, x: Form, exponent: Fraction) -> Form:
        out = self._plain.power(x, exponent)
        if not exponent:
            return with_undefined(out, None)
        records = [_changed(self.store, x.undefined, _AFTER_BOUNDED if exponent < 0 else _AFTER_SUM)]
        if exponent < 0:
            records.append(self._arising(x.shape, INF, lambda box, xs: partial.zero_parts(self.store, xs[0], box), x))
        if exponent.denominator > 1:
            records.append(
                self._arising(x.shape, NAN, lambda box, xs: partial.negative_parts(self.store, xs[0], box), x)
            )
        return with_undefined(out, union(self.store, *records))

    def exp(self, x: Form) -> Form:
        return with_undefined(self._plain.exp(x), union(self.store, _changed(self.store, x.undefined, _AFTER_BOUNDED)))

    def log(self, x: Form) -> Form:
        records = [
            _changed(self.store, x.undefined, _AFTER_SUM),
            self._arising(x.shape, INF, lambda box, xs: partial.zero_parts(self.store, xs[0], box), x),
            self._arising(x.shape, NAN, lambda box, xs: partial.negative_parts(self.store, xs[0], box), x),
        ]
        return with_undefined(self._plain.log(x), union(self.store, *records))

    def function(self, name: str, xs: Sequence[Form]) -> Form:
        after = _ALL_SOFT if name in _LOSES_NAN else _AFTER_SUM if name in _KEEPS_INFINITY else _AFTER_BOUNDED
        records = [_changed(self.store, x.undefined, after) for x in xs]
        if name in ("floor_divide", "pow", "erfinv"):
            records.append(self._arising(xs[0].shape, INF, lambda box, ys: self._outside(name, ys, box), *xs))
        return with_undefined(self._plain.function(name, xs), union(self.store, *records))

    def _outside(self, name: str, xs: list[Polynomial], box: Box) -> list[Polynomial]:
        """Where a function that is not defined everywhere is not."""
        if name == "floor_divide":
            return partial.zero_parts(self.store, xs[1], box)
        if name == "pow" and powers.strictly_positive(self.store, xs[0]):
            return []
        a, index = self.store.apply("undefined", (name,), tuple(xs), BOOLEAN)
        return [single(a, index)]

    def _compared(self, out: Form, *xs: Form) -> Form:
        return with_undefined(out, union(self.store, *(_changed(self.store, x.undefined, _ALL_SOFT) for x in xs)))

    def less(self, x: Form, y: Form) -> Form:
        return self._compared(self._plain.less(x, y), x, y)

    def equal(self, x: Form, y: Form) -> Form:
        for one, other in ((x, y), (y, x)):
            if not all(is_negative_infinity(self.store, z) for _, z in other.pieces):
                continue
            if all(partial.minus_infinite(self.store, z, box) is not None for box, z in one.pieces):
                defined = with_undefined(one, _without(self.store, one.undefined, MASKED))
                return self._compared(self._plain.equal(x, y), defined)
        return self._compared(self._plain.equal(x, y), x, y)

    def maximum(self, x: Form, y: Form) -> Form:
        return self._maximal(self._plain.maximum(x, y), x, y)

    def _maximal(self, out: Form, *xs: Form) -> Form:
        """What is known of a maximum, the records of whose operands are given: it may be that of nothing finite."""
        records = [_changed(self.store, _without(self.store, x.undefined, MASKED), _AFTER_BOUNDED) for x in xs]
        if any(_has_infinity(self.store, z) for _, z in out.pieces):
            records.append(self._arising(out.shape, MASKED, self._nothing_finite, out))
        return with_undefined(out, union(self.store, *records))

    def _nothing_finite(self, box: Box, xs: list[Polynomial]) -> list[Polynomial]:
        if not _has_infinity(self.store, xs[0]) or unbounded(self.store, xs[0]):
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
        doubt = _changed(self.store, condition.undefined, _ALL_SOFT)
        sides = [x.undefined, y.undefined]
        if doubt is not None:
            sides = [_changed(self.store, side, _ALL_SOFT) for side in sides]

        def kept(form: Form, negate: bool) -> Form:
            def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
                c = xs[0]
                if c and c != ONE and not is_boolean(self.store, c):
                    c = comparisons.compare(self.store, "equal", c, ONE, box)
                if negate:
                    c = add(self.store, ONE, scale(c, -1))
                products = (multiply(self.store, c, (term,), box) for term in xs[1])
                terms = [p for p in products if not _contradictory(self.store, p)]
                return _normal(self.store, add(self.store, *terms, box=box), box)

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
        for form, labels in operands:
            record = _changed(self.store, form.undefined, _AFTER_SUM, frozen=True)
            if record is None:
                continue
            kept = tuple(label for label in result if label in labels)
            summed = self._quiet.contract([(record, labels)], kept)
            flat = tuple(sizes[label] if label in kept else 1 for label in result)
            summed = forms.reshape(self.store, summed, (*self.prefix, *flat))
            whole = forms.expand(summed, (*self.prefix, *(sizes[label] for label in result)))
            records.append(_thawed(self.store, whole))
        return with_undefined(out, union(self.store, *records))

    def maximum_over(self, x: Form, dims: tuple[int, ...]) -> Form:
        out = self._plain.maximum_over(x, dims)
        record = _changed(self.store, _without(self.store, x.undefined, MASKED), _AFTER_BOUNDED, frozen=True)
        labels = tuple(range(len(x.shape) - len(self.batch)))
        if record is not None:
            record = self._quiet.contract([(record, labels)], tuple(k for k in labels if k not in dims))
        return self._maximal(out, with_undefined(out, None if record is None else _thawed(self.store, record)))

    def _over_indices(self, indices: Sequence[Form | None], places: int, shape: Shape) -> list[Form | None]:
        """The records of indices, at every element of what they choose: of the given shape, places first."""
        n = len(self.batch)
        out: list[Form | None] = []
        for index in indices:
            record = None if index is None else _changed(self.store, index.undefined, _ALL_SOFT)
            if record is not None:
                flat = (*record.shape, *(1 for _ in shape[n + places :]))
                out.append(forms.expand(forms.reshape(self.store, record, flat), shape))
        return out

    def gather(self, x: Form, indices: Sequence[Form | None]) -> Form:
        out = self._plain.gather(x, indices)
        count = next(len(index.dims) for index in indices if index is not None) - len(self.batch)
        records = self._over_indices(indices, count, out.shape)
        if x.undefined is not None:
            record = _changed(self.store, x.undefined, {}, frozen=True) or x.undefined
            records += [_thawed(self.store, self._quiet.gather(part, indices)) for part in _split(self.store, record)]
        return with_undefined(out, union(self.store, *records))

    def scatter(self, x: Form, indices: Sequence[Form | None], source: Form, accumulate: bool) -> Form:
        out = self._plain.scatter(x, indices, source, accumulate)
        if x.undefined is None and source.undefined is None and all(i is None or i.undefined is None for i in indices):
            return with_undefined(out, None)
        if any(index is not None and index.undefined is not None for index in indices):
            return with_undefined(out, somewhere(self.store, out.shape))
        records = [_changed(self.store, x.undefined, _AFTER_SUM if accumulate else _ALL_SOFT)]
        if source.undefined is not None:
            zero = constant_form(out.shape, ZERO)
            record = _changed(self.store, source.undefined, {}, frozen=True) or source.undefined
            records += [
                _thawed(self.store, self._quiet.scatter(zero, indices, part, True))
                for part in _split(self.store, record)
            ]
        return with_undefined(out, union(self.store, *records))

    def rows(
        self, name: str, xs: Sequence[Form], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Form, ...]:
        found = self._plain.rows(name, xs, attributes, results)
        records = [_changed(self.store, x.undefined, _ALL_SOFT, frozen=True) for x in xs]
        if all(record is None for record in records):
            return tuple(with_undefined(out, None) for out in found)
        n = len(self.batch)
        whole = [
            self._quiet.contract([(r, tuple(range(len(r.shape) - n)))], tuple(range(len(r.shape) - n - 1)))
            for r in records
            if r is not None
        ]
        record = union(self.store, *(_thawed(self.store, r) for r in whole))
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
        assert isinstance(inside, Symbolic)
        record = None if x.undefined is None else self._plain.enter_group(x.undefined, shape, group)[1]
        return replace(self, batch=inside.batch), with_undefined(out, record)

    def leave_group(self, y: Form, shape: Shape, group: str) -> Form:
        return self._laid(y, lambda f: self._plain.leave_group(f, shape, group))


def _has_infinity(store: Store, x: Polynomial) -> bool:
    """Whether an infinity occurs in a Polynomial, at any depth of sums and maxima."""
    memo = store.memo.infinity_inside

    def inside(number: int) -> bool:
        found = memo.get(number)
        if found is None:
            atom = store.atoms[number]
            found = atom.op == "leaf" and atom.attributes[0] == "infinity"
            if atom.op in ("polynomial", "sum", "max", "element"):
                found = any(inside(a) for y in atom.arguments for m, _ in y for a, _, _ in m)
            memo[number] = found
        return found

    return any(inside(a) for m, _ in x for a, _, _ in m)


def _contradictory(store: Store, x: Polynomial) -> bool:
    """Whether a product of booleans contains comparisons of one quantity that cannot hold together."""
    return any(partial.contradictory(store, m) for m, _ in x)
