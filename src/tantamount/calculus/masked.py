"""Masks over positive numbers: ``exp(s)`` where a causal mask keeps it, and 0 elsewhere."""

from __future__ import annotations

from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.contraction import pointwise
from tantamount.calculus.forms import Form
from tantamount.calculus.polynomials import multiply, polynomial
from tantamount.calculus.products import is_positive
from tantamount.calculus.terms import Factor, Polynomial, Term

__all__ = ["covered", "mask_over_positive"]


def mask_over_positive(store: Store, form: Form) -> tuple[Form, Form] | None:
    """The mask and the tensor of positive numbers of which a tensor is the product; ``None`` for any other."""
    if len(form.pieces) != 1 or len(form.pieces[0][1]) != 1:
        return None
    (m, c), *_ = form.pieces[0][1]
    masks = tuple(f for f in m if _is_mask(store, f))
    rest = tuple(f for f in m if not _is_mask(store, f))
    if not masks or not c > 0 or not is_positive(store, rest):
        return None

    def of(term: Term) -> Form:
        return pointwise(store, lambda box, _: polynomial(store, [term], box), [form])

    return of(Term(masks, 1)), of(Term(rest, c))


def _is_mask(store: Store, f: Factor) -> bool:
    return f.exponent == 1 and store.atoms[f.atom].facts.boolean and not store.atoms[f.atom].facts.positive


def covered(store: Store, mask: Form, x: Form) -> Form:
    """A tensor where the mask holds, and 0 elsewhere."""

    def product(box: Box, xs: list[Polynomial]) -> Polynomial:
        return multiply(store, *xs, box=box)

    return pointwise(store, product, [mask, x])
