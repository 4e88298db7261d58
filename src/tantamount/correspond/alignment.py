"""Pairs of tensors of the two programs that seem to be the same: a hint from one execution, on which nothing rests.

Both programs run once on random numbers. A tensor of the implementation is aligned with a tensor of the specification
if its values are the whole of it, or the part that a placement gives its rank. What is aligned is then proved, or not
(:mod:`tantamount.proof.cuts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard, cast

import numpy as np

from tantamount.calculus.atoms import Store
from tantamount.calculus.calculus import Calculus
from tantamount.correspond.values import Parts, cut
from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.execution.plans import NotExecuted, Scale, TooLarge, draw, execute, plan_execution
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation_types import local_box
from tantamount.limits import Limits
from tantamount.proof.cuts import Aligned, Candidates
from tantamount.proof.inputs import Inputs, build_inputs
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.reduction import NotReduced, Reduction, reduce_job
from tantamount.semantics.interpret import Evaluation
from tantamount.semantics.reference import Array

__all__ = ["align"]

_SEED = 5


def align(store: Store, job: Job, inputs: Inputs, limits: Limits) -> tuple[Candidates, Reduction | None]:
    """The candidates for tensors of every rank, by rank and node name; empty if nothing could be executed. A job that
    is too large is executed at smaller shapes, if there are any: the reduction that was made for it."""
    light = replace(limits, witness_work=min(limits.witness_work, store.effort.bounds.alignment_work))
    try:
        plan = plan_execution(store, job, inputs, SpecificationRun(), RanksRun(job.mesh), light)
    except NotExecuted as problem:
        if isinstance(problem, TooLarge):
            store.effort.hit("alignment_work")
        found = _align_reduced(job, limits, store.effort)
        if found[0]:
            return found
    try:
        plan = plan_execution(store, job, inputs, SpecificationRun(), RanksRun(job.mesh), limits)
    except NotExecuted:
        return {}, None
    try:
        execution = execute(plan, draw(plan, _SEED, Scale()), _SEED)
    except TantamountError:
        return {}, None
    return ({} if execution is None else _matched(job, execution.specification, execution.ranks)), None


def _align_reduced(job: Job, limits: Limits, effort: Effort) -> tuple[Candidates, Reduction | None]:
    """Node names are the same at smaller shapes, and so are dimensions."""
    try:
        reduction = reduce_job(job, effort)
        smaller = reduction.job
        store = Calculus(effort)
        inputs = build_inputs(store, smaller)
        plan = plan_execution(store, smaller, inputs, SpecificationRun(), RanksRun(smaller.mesh), limits)
        execution = execute(plan, draw(plan, _SEED, Scale()), _SEED)
    except (NotReduced, TantamountError):
        return {}, None
    found = {} if execution is None else _matched(smaller, execution.specification, execution.ranks)
    return found, reduction


def _matched(job: Job, expected: Evaluation, ranks: Sequence[Evaluation]) -> dict[tuple[int, str], tuple[Aligned, ...]]:
    found: dict[tuple[int, str], tuple[Aligned, ...]] = {}
    calls = [node.name for node in job.specification.nodes if node.op == "call"]
    wholes = [(name, value) for name in calls if _is_real(value := expected.get(name))]
    for rank, actual in enumerate(ranks):
        parts = _parts(job, rank, wholes)
        for node in job.implementation[rank].nodes:
            value = actual.get(node.name)
            if node.op == "call" and _is_real(value):
                candidates = tuple(parts.equal(value))
                if candidates:
                    found[rank, node.name] = candidates
    return found


def _parts(job: Job, rank: int, wholes: Sequence[tuple[str, Array]]) -> Parts[Aligned]:
    """Parts of specification tensors that a rank may hold."""
    parts = Parts[Aligned]()
    for name, whole in wholes:
        for placements in layouts(whole.shape, job.mesh.sizes):
            part = cut(whole, local_box(whole.shape, placements, job.mesh, rank))
            if part.size:
                parts.add(Aligned(name, placements), part)
    return parts


def _is_real(value: object) -> TypeGuard[Array]:
    """Finite floating-point numbers, at least one."""
    if not isinstance(value, np.ndarray):
        return False
    array = cast(Array, value)
    return array.dtype.kind == "f" and array.size > 0 and bool(np.isfinite(array).all())
