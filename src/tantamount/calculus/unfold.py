"""Leaves that stand for something computed, put back: what a cut of both programs forgot."""

from __future__ import annotations

from collections.abc import Iterator

from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.forms import Form
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import Polynomial, factors_of

__all__ = ["define", "leaves_of", "unfolded"]


def define(store: Store, leaf: int, form: Form) -> None:
    """Remember what a leaf atom stands for, if that is one Polynomial over its coordinates: one for every dimension, or
    one for every axis where a dimension has several."""
    if len(form.pieces) != 1:
        return
    several = any(len(dim) > 1 for dim in form.dims)
    coordinates = range(len(form.sizes)) if several else (d for d, dim in enumerate(form.dims) if dim)
    replace: dict[int, Coordinate] = {axis: variable(d) for axis, d in enumerate(coordinates)}
    store.leaves.definitions[leaf] = substitute_polynomial(form.pieces[0][1], replace)


def unfolded(store: Store, x: Polynomial, y: Polynomial) -> Iterator[tuple[Polynomial, Polynomial]]:
    """The two Polynomials with the leaves that only one of them mentions replaced by their definitions, again and
    again."""
    definitions = store.leaves.definitions
    if not definitions:
        return
    done = 0
    while differing := (leaves_of(store, x) ^ leaves_of(store, y)) & definitions.keys():
        done += 1
        if store.effort.exceeds("unfolded_cuts", done):
            return
        store.fired["unfolded-definitions"] += 1
        rebuild = Rebuild(store, leaves={a: definitions[a] for a in differing})
        x, y = rebuild.polynomial(x), rebuild.polynomial(y)
        yield x, y


def leaves_of(store: Store, x: Polynomial) -> set[int]:
    """The leaf atoms that a Polynomial mentions, at any depth."""
    found: set[int] = set()
    pending = [factor.atom for factor in factors_of(x)]
    seen: set[int] = set()
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        atom = store.atoms[number]
        if atom.op == "leaf":
            found.add(number)
        pending.extend(factor.atom for factor in factors_of(*atom.arguments))
    return found
