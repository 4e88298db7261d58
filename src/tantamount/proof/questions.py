"""Questions about any pair of tensors of the two programs: equal, a part of, a multiple of, a sum over ranks.

Every answer holds for all values of whatever is not related: inputs of the specification without a relation, and
inputs of the implementation that no relation mentions, are free. As everywhere, equal means: wherever the specification
is finite. That the implementation's indices are in range is what :meth:`Proof.check` adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import equal
from tantamount.calculus.contraction import pointwise
from tantamount.calculus.forms import Box, Form
from tantamount.calculus.polynomials import scale
from tantamount.calculus.terms import Polynomial
from tantamount.errors import Unsupported, UserError
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Partial, Placement
from tantamount.ops.algebra import Tensor
from tantamount.ops.relations import even
from tantamount.proof.cuts import Aligned, Candidates
from tantamount.proof.defined import undefined_clause
from tantamount.proof.outputs import holds, independent
from tantamount.proof.placements import distribute
from tantamount.proof.proof import Proof, prove

__all__ = ["Multiple", "continued", "layout_of", "multiple_of", "partial_layout_of"]


@dataclass(frozen=True, slots=True)
class Multiple:
    """The answer that the ranks hold ``factor`` times the part of the specification's tensor that ``placements`` give
    them."""

    factor: Fraction
    placements: tuple[Placement, ...]


def layout_of(proof: Proof, tensor: str, name: str) -> tuple[Placement, ...] | None:
    """The first placements under which the implementation's tensor ``name`` (a node that every rank has) is proved to
    be the specification's ``tensor``, on every rank; ``None`` if there are none. No sums over ranks: ask
    :func:`partial_layout_of`. Raises :class:`UserError` for a tensor that a program lacks."""
    return _first(proof, tensor, name, partial=False)


def partial_layout_of(proof: Proof, tensor: str, name: str, *, expand: bool = True) -> tuple[Placement, ...] | None:
    """The first placements, with sums over at least one mesh axis, under which ``name`` is proved to be ``tensor``;
    without ``expand``, products are not multiplied out for that. Replicas are never summed to make a fit. Raises
    :class:`UserError` for a tensor that a program lacks."""
    return _first(proof, tensor, name, partial=True, expand=expand)


def multiple_of(proof: Proof, tensor: str, name: str) -> Multiple | None:
    """The number that the implementation's tensor is proved to be a multiple by, and under which placements; ``None``
    if there is none. Raises :class:`UserError` for a tensor that a program lacks."""
    whole, stacked = _pair(proof, tensor, name)
    sizes = proof.job.mesh.sizes
    for placements in layouts(whole.shape, sizes, local=stacked.shape[len(sizes) :]):
        wanted = distribute(proof.store, whole, placements, sizes)
        factor = _ratio(wanted, stacked)
        if factor is None:
            continue
        same = equal(proof.store, _scaled(proof.store, wanted, factor), stacked) is None
        if same and undefined_clause(proof.store, wanted, stacked) is None:
            return Multiple(factor, placements)
    return None


def continued(proof: Proof, pairs: Mapping[str, tuple[str, Sequence[Placement]]]) -> Proof:
    """Another proof of the same job, in which both programs go on from a fresh tensor at every pair (specification
    tensor: implementation tensor and its placements) *that is proved*; a pair that is not changes nothing.

    What is proved then holds for every value of these tensors, so for those that they have (:mod:`cuts`)."""
    found: dict[tuple[int, str], tuple[Aligned, ...]] = {}
    for tensor, (name, placements) in pairs.items():
        for rank in range(proof.job.mesh.world_size):
            found[rank, name] = (*found.get((rank, name), ()), Aligned((tensor,), tuple(placements)))

    def known(*_: object) -> Candidates:
        return found

    return prove(proof.job, replace(proof.options.silent(), cut=True, align=known))


def _scaled(store: Store, form: Form, factor: Fraction) -> Form:
    def apply(_: Box, xs: Sequence[Polynomial]) -> Polynomial:
        return scale(xs[0], factor)

    return pointwise(store, apply, [form])


def _first(proof: Proof, tensor: str, name: str, *, partial: bool, expand: bool = True) -> tuple[Placement, ...] | None:
    whole, stacked = _pair(proof, tensor, name)
    sizes = proof.job.mesh.sizes
    for placements in layouts(whole.shape, sizes, local=stacked.shape[len(sizes) :], partial=partial):
        sums = any(isinstance(p, Partial) for p in placements)
        if sums != partial or not even(whole.shape, placements, sizes):
            continue
        try:
            found = holds(proof.store, whole, placements, proof.implementation, name, expand) is None
        except Unsupported:
            continue
        if found and (not sums or independent(proof.store, stacked, placements)):
            return placements
    return None


def _pair(proof: Proof, tensor: str, name: str) -> tuple[Form, Form]:
    """The forms of a specification tensor and of what all ranks hold, stacked."""
    value = proof.specification.values.get(tensor)
    if not isinstance(value, Tensor):
        raise UserError("tensor-unknown", place=proof.job.path, found=tensor, needed="a tensor of the specification")
    stacked = proof.implementation.stacked(proof.store, name)
    if stacked is None:
        needed = "a tensor that every rank has, of one shape"
        raise UserError("tensor-unknown", place=proof.job.path, found=name, needed=needed)
    return value.value, stacked


def _ratio(wanted: Form, found: Form) -> Fraction | None:
    """The only number by which the first forms may be multiples: the quotient of two coefficients of like terms."""
    left = next((x for _, x in wanted.pieces if x), None)
    right = next((y for _, y in found.pieces if y), None)
    if not left or not right or len(left) != len(right):
        return None
    quotients = {Fraction(d) / Fraction(c) for (_, c), (_, d) in zip(left, right, strict=True)}
    return quotients.pop() if len(quotients) == 1 else None
