"""The control of a smaller job: what is proved of the job must hold there when both programs are executed.

A relation that names no size is the same at any sizes, and is compared. One that names some (a slice, an index map)
says that a tensor is made of elements of others: each of its elements must be one of theirs, which random numbers are
by no chance. A proof at the smaller sizes would say as much, and would take as long as that of the job, or longer:
where a program is wrong forms grow. docs/design/reduced-shapes.md says what a control is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tantamount.errors import Unsupported
from tantamount.execution.cross_check import read_relation
from tantamount.execution.differences import Claim, array_of, confirm, examine, output_claim
from tantamount.execution.plans import Execution, Leaves, Plan, Scale, draw, execute
from tantamount.ir.relation import (
    Arranged,
    Expression,
    Partial,
    RankTensor,
    Replicate,
    Reshape,
    Shard,
    Slice,
    operands,
    rank_tensors,
)
from tantamount.ir.relation_text import parse_relation
from tantamount.limits import Limits
from tantamount.proof.cover import PIECES
from tantamount.reduction import NotReduced
from tantamount.verdict import OutputReport, Relation, Verdict

__all__ = ["control"]

_SEED = 100  # of the input: none of those on which differences are looked for
_SCALES = (Scale(), Scale(0.1), Scale(1.0, positive=True))  # the first on which both programs are defined
_SAME, _OF_TENSOR = 1e-6, 1e-9  # what an element may differ from itself, and the same against the largest one


def control(plan: Plan, outputs: Sequence[OutputReport], relations: Mapping[str, Relation]) -> None:
    """Raise :class:`NotReduced` if something that is proved of a job, of its ``outputs`` or as ``relations`` of its
    specification's tensors, does not hold on an input of the smaller job that ``plan`` executes."""
    proved = [one for one in outputs if one.verdict is Verdict.PROVED and not plan.job.outputs[one.name].infer]
    if not proved and not relations:
        return
    there = _executed(plan)
    for one in proved:
        if not there.holds(output_claim(plan.job, one.name)):
            raise NotReduced(f"the output {one.name} is proved at the job's shapes only")
    for relation in relations.values():
        if not there.related(relation):
            raise NotReduced(f"the tensor {relation.tensor} has a counterpart at the job's shapes only")


def _executed(plan: Plan) -> _Executed:
    """The first of a few executions in which both programs are defined."""
    for seed, scale in enumerate(_SCALES, _SEED):
        leaves = draw(plan, seed, scale)
        found = execute(plan, leaves, seed)
        if found is not None and found.in_reals and found.within_assumptions:
            return _Executed(plan, leaves, seed, found)
    raise NotReduced("the programs are defined on no input that was tried")


@dataclass(frozen=True)
class _Executed:
    """One execution of both programs, and what it was given."""

    plan: Plan
    leaves: Leaves
    seed: int
    values: Execution

    def holds(self, claim: Claim) -> bool:
        """False if a claim is contradicted by more than rounding."""
        try:
            found = examine(self.plan, claim, self.values).difference
        except Unsupported:  # shapes do not fit
            return False
        return found is None or not confirm(self.plan, claim, self.leaves, self.seed, found)

    def related(self, relation: Relation) -> bool:
        """True if a relation of the job's shapes holds here."""
        job, text, name = self.plan.job, relation.expression, relation.implementation
        if text.startswith(PIECES):
            return self._made_of(relation.tensor, [RankTensor(rank, name) for rank in range(job.mesh.world_size)])
        if not text.startswith("["):
            read = parse_relation(text, "report", Limits())
            if not isinstance(read, (Replicate, Shard, Partial)) and _names_sizes(read):
                tensors = [replace(one, name=one.name or name) for one in rank_tensors(read)]
                return self._made_of(relation.tensor, tensors)
        try:
            claim = Claim(f"%{relation.tensor}", relation.tensor, read_relation(job, text, name), of_nodes=True)
        except Unsupported:  # it does not fit
            return False
        return self.holds(claim)

    def _made_of(self, tensor: str, held: Sequence[RankTensor]) -> bool:
        """True if every element of a tensor of the specification is one of some tensors of ranks."""
        try:
            whole = array_of(self.values.specification[tensor]).ravel()
            parts = [array_of(self.values.ranks[one.rank].get(one.name or "")).ravel() for one in held]
        except Unsupported:
            return False
        whole, there = whole[np.isfinite(whole)], np.sort(np.concatenate([part[np.isfinite(part)] for part in parts]))
        if not whole.size or not there.size:
            return not whole.size
        at = np.searchsorted(there, whole)
        away = [np.abs(there[np.clip(k, 0, there.size - 1)] - whole) for k in (at - 1, at)]
        size = np.abs(whole)
        return bool((np.minimum(*away) <= np.maximum(_SAME * size, _OF_TENSOR * size.max())).all())


def _names_sizes(expression: Expression) -> bool:
    """True if numbers of an expression are sizes, or places among them."""
    sizes = isinstance(expression, (Arranged, Reshape, Slice))
    return sizes or any(map(_names_sizes, operands(expression)))
