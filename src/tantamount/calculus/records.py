"""Records of where a form is undefined, as forms of the same shape.

The terms of a record are each a kind (:mod:`tantamount.calculus.kinds`, a positive leaf without coordinates) times
booleans: they say what the element is in the program wherever the term is not 0, and each says so whatever the others
say. Sums over dimensions are unions, so that all of the calculus applies to records: a shard of a tensor is undefined
in a shard of the places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tantamount.calculus import comparisons, contraction
from tantamount.calculus.atoms import BOOLEAN, Store, ValueFacts
from tantamount.calculus.forms import Box, Form, constant_form
from tantamount.calculus.kinds import FAILS, KINDS, NAN, SOFT, both
from tantamount.calculus.polynomials import add, multiply, polynomial, scale
from tantamount.calculus.products import is_boolean, substitute_polynomial
from tantamount.calculus.terms import ONE, ZERO, Factor, Factors, Polynomial, Term, single
from tantamount.errors import Unsupported
from tantamount.ir.types import Shape

__all__ = [
    "body", "bounded", "changed", "doubts", "freeze", "kind_of", "none_if_empty", "normal", "outside", "relabelled",
    "sites_of", "somewhere", "split", "terms_of_kind", "thaw", "union", "with_undefined", "without",
]  # fmt: skip


def _leaf(store: Store, kind: str) -> int:
    return store.leaf("undefined", kind, (), ValueFacts(positive=True, nonnegative=True))


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
def outside(store: Store, condition: Polynomial, doubtful: Iterable[Factors], box: Box) -> Polynomial:
    """The boolean, and not where one of some conditions holds."""
    for factors in doubtful:
        if not condition or not factors or (len(condition) == 1 and set(factors) <= set(condition[0].monomial)):
            return ZERO
        held: Polynomial = (Term(factors, 1),)
        none = (
            add(store, ONE, scale(held, -1))
            if is_boolean(store, held)
            else comparisons.compare(store, "equal", held, ZERO, box)
        )
        condition = multiply(store, condition, none, box)
    return condition


def terms_of_kind(store: Store, kind: str, condition: Polynomial) -> Polynomial:
    """The terms of ``undefined`` that say: of this kind where the boolean holds."""
    if not condition:
        return ZERO
    return multiply(store, single(_leaf(store, kind), ()), condition)


def normal(store: Store, x: Polynomial, box: Box) -> Polynomial:
    """Terms without multiplicities, one for each condition."""
    for _ in range(4):
        if any(c < 0 for _, c in x):
            break
        if all(c == 1 for _, c in x):
            return _one_kind_each(store, x)
        x = polynomial(store, [Term(m, 1) for m, _ in x], box)
    return _by_kind(store, x, box)


def _one_kind_each(store: Store, x: Polynomial) -> Polynomial:
    """The record with all that is said of an element under one condition made one kind."""
    if len(x) < 2:
        return x
    said: dict[Factors, list[str]] = {}
    for term in x:
        said.setdefault(body(store, term), []).append(kind_of(store, term))
    if len(said) == len(x):
        return x
    return add(store, *(terms_of_kind(store, both(found), (Term(c, 1),)) for c, found in said.items()))


def _by_kind(store: Store, x: Polynomial, box: Box) -> Polynomial:
    """One condition for each kind: that the sum of its terms, which counts, is not 0."""
    out: list[Polynomial] = []
    for kind in KINDS:
        count = polynomial(store, [Term(body(store, t), t.coefficient) for t in x if kind_of(store, t) == kind], box)
        if count:
            none = comparisons.compare(store, "equal", count, ZERO, box)
            out.append(freeze(store, terms_of_kind(store, kind, add(store, ONE, scale(none, -1)))))
    return add(store, *out)


def freeze(store: Store, x: Polynomial) -> Polynomial:
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


def thaw(store: Store, form: Form) -> Form:
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
        return normal(store, add(store, *out, box=box), box)

    return contraction.pointwise(store, apply, [form])


def changed(store: Store, form: Form | None, kinds: Mapping[str, str], frozen: bool = False) -> Form | None:
    """The record with kinds replaced."""
    if form is None:
        return None

    def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
        found = normal(store, relabelled(store, xs[0], kinds), box)
        return freeze(store, found) if frozen else found

    return contraction.pointwise(store, apply, [form])


def relabelled(store: Store, x: Polynomial, kinds: Mapping[str, str]) -> Polynomial:
    """The terms of a record with their kinds replaced; not normal."""
    store.fired["extended-arithmetic"] += 1
    swap = {number: _leaf(store, kinds[kind]) for number, kind in _kinds(store).items()}
    return polynomial(store, [Term(tuple(sorted(Factor(swap.get(a, a), e, i) for a, e, i in m)), c) for m, c in x])


def doubts(store: Store, x: Polynomial) -> list[Factors]:
    """The conditions of a record's terms under which the program has a value other than the form's: not of those under
    which it has none that is a number."""
    return [body(store, term) for term in x if kind_of(store, term) not in (NAN, FAILS)]


def without(store: Store, form: Form | None, kind: str) -> Form | None:
    """The record without what it says of one kind."""
    if form is None:
        return None
    number = _leaf(store, kind)
    kept = contraction.pointwise(
        store, lambda _, xs: tuple(t for t in xs[0] if all(a != number for a, _, _ in t[0])), [form]
    )
    return none_if_empty(kept)


def none_if_empty(form: Form | None) -> Form | None:
    """The record, or ``None`` if it says nothing."""
    return form if form is not None and any(x for _, x in form.pieces) else None


def union(store: Store, *records: Form | None) -> Form | None:
    """The record of all places where one of some records says that something is undefined; forms of one shape."""
    found = [form for form in records if form is not None]
    if not found:
        return None
    if all(form == found[0] for form in found[1:]):
        return bounded(store, found[0])
    try:
        total = contraction.pointwise(store, lambda box, xs: normal(store, add(store, *xs, box=box), box), found)
    except Unsupported:
        return somewhere(store, found[0].shape)
    return bounded(store, total)


def bounded(store: Store, form: Form | None) -> Form | None:
    """The record if it is not too large; else that nothing is known."""
    form = none_if_empty(form)
    if form is None:
        return None
    terms = max((len(x) for _, x in form.pieces), default=0)
    if store.effort.exceeds("undefined_pieces", len(form.pieces)) or store.effort.exceeds("undefined_terms", terms):
        return somewhere(store, form.shape)
    return form


def somewhere(store: Store, shape: Shape) -> Form:
    """That nothing is known of where this is undefined."""
    number = store.leaf("undefined", "somewhere", (), BOOLEAN)
    return constant_form(shape, terms_of_kind(store, SOFT, single(number, ())))


def split(store: Store, form: Form) -> list[Form]:
    """A record as records of one term in each piece."""
    count = max((len(x) for _, x in form.pieces), default=0)
    return [Form(form.dims, tuple((box, x[k : k + 1]) for box, x in form.pieces)) for k in range(count)]
