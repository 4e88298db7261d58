"""The check that the relations of a rewritten job fit its tensors."""

from __future__ import annotations

from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, InputRelation, RankTensor
from tantamount.ir.relation_types import RelationProblem, local_shape, resolve
from tantamount.ir.types import TensorType
from tantamount.reduction.literals import output_node

__all__ = ["check_relations"]


def check_relations(job: Job) -> str:
    """The first relation that does not fit, as one clause; empty if all fit."""
    for name, relation in job.inputs.items():
        problem = _problem(job, name, relation, outputs=False)
        if problem:
            return problem
    for name, relation in job.outputs.items():
        node = next(o.node for o in job.specification.outputs if o.name == name)
        problem = "" if relation.problem else _problem(job, node, relation, outputs=True)
        if problem:
            return problem
    return ""


def _problem(job: Job, node: str, relation: InputRelation | Expectation, outputs: bool) -> str:
    def held(rank: int, name: str) -> TensorType | None:
        return job.implementation[rank].by_name[output_node(job.implementation[rank], name) if outputs else name].type

    def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
        found = held(term.rank, term.name or relation.name)
        if found is None:
            raise RelationProblem(f"{term} has no type")
        return term, found

    whole = job.specification.by_name[node].type
    if whole is None:
        return ""  # one of several results: its shape follows from the types that were checked
    try:
        if relation.placements is not None:
            for rank in range(len(job.implementation)):
                wanted, found = local_shape(whole.shape, relation.placements, job.mesh, rank), held(rank, relation.name)
                if found is not None and found.shape != wanted:
                    return f"{relation.text} of {node}"
        elif relation.expression is not None and resolve(relation.expression, tensor)[1].shape != whole.shape:
            return f"{relation.text} of {node}"
        for a, b in relation.equal:
            if resolve(a, tensor)[1].shape != resolve(b, tensor)[1].shape:
                return f"{a} == {b}"
    except RelationProblem as problem:
        return f"{relation.text} of {node} ({problem})"
    return ""
