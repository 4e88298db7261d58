"""Proofs checked by execution: whatever was proved must hold on random inputs.

``PROVED`` and a numerical difference together are the worst bug that this package can have, so tests call this for
every job that they prove. It looks at the proved outputs and at the relation of every specification tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tantamount.calculus.compare import locate
from tantamount.errors import InternalError, Unsupported
from tantamount.execution.differences import Claim, Discrepancy, confirm, examine
from tantamount.execution.plans import NotExecuted, Scale, draw, execute, plan_execution
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, Partial, Placement, RankTensor, Replicate, Shard
from tantamount.ir.relation_text import parse_relation
from tantamount.ir.relation_types import RelationProblem, resolve
from tantamount.ir.types import TensorType
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.proof import Proof
from tantamount.proof.cover import PIECES
from tantamount.proof.outputs import output_node
from tantamount.verdict import OutputReport, Relation, Verdict

__all__ = ["CrossCheck", "cross_check", "proved_claim", "read_relation"]

_SCALES = (Scale(), Scale(3.0), Scale(1.0, positive=True), Scale(0.1))


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """``outputs``: those that were claimed to be proved; ``relations``: how many more tensors were claimed to be
    related; ``untested``: claims of which no element was ever compared (the specification was not defined there);
    ``executed``: inputs on which both sides ran. ``skipped`` says why nothing was executed.

    ``disagreements``: claims that execution contradicts, one sentence each; ``undefined``: claims where the
    implementation fails though the specification is defined (the domain assumptions of a proof must cover these)."""

    outputs: tuple[str, ...]
    relations: int
    executed: int = 0
    untested: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    skipped: str = ""


def cross_check(
    proof: Proof,
    reports: tuple[OutputReport, ...],
    relations: tuple[Relation, ...],
    limits: Limits,
    *,
    executions: int = len(_SCALES),
) -> CrossCheck:
    """The judgement of at most four executions on proved outputs and relations."""
    job = proof.job
    proved = [r for r in reports if r.verdict is Verdict.PROVED and r.relation is not None]
    claims = [proved_claim(job, report) for report in proved]
    claims += [_relation_claim(job, proof, relation) for relation in relations]
    out = CrossCheck(tuple(r.name for r in proved), len(relations))
    try:
        plan = plan_execution(proof.store, job, proof.inputs, proof.specification, proof.implementation, limits)
        wrong: dict[str, str] = {}
        undefined: dict[str, str] = {}
        compared: set[str] = set()
        executed = 0
        for seed, scale in enumerate(_SCALES[:executions]):
            leaves = draw(plan, 100 + seed, scale)
            execution = execute(plan, leaves, seed)
            if execution is None or not execution.in_reals or not execution.within_assumptions:
                continue
            executed += 1
            for claim in claims:
                checked = examine(plan, claim, execution)
                if checked.compared:
                    compared.add(claim.name)
                found = checked.difference
                if found is None or claim.name in wrong or not confirm(plan, claim, leaves, seed, found):
                    continue
                if found.fails:
                    undefined.setdefault(claim.name, _sentence(claim, found))
                else:
                    wrong[claim.name] = _sentence(claim, found)
    except NotExecuted as problem:
        return replace(out, skipped=str(problem))
    untested = tuple(claim.name for claim in claims if claim.name not in compared)
    return replace(
        out,
        executed=executed,
        untested=untested,
        disagreements=tuple(wrong.values()),
        undefined=tuple(undefined.values()),
    )


def _sentence(claim: Claim, found: Discrepancy) -> str:
    element = f"[{', '.join(map(str, found.element))}]" if found.element else ""
    return (
        f"{claim.name} = {claim.relation.text} of {claim.relation.name}: "
        f"{element or 'the value'} is {found.expected:.9g} in the specification "
        f"and {found.actual:.9g} on rank {found.rank}" + (f" ({found.stop})" if found.stop else "")
    )


def proved_claim(job: Job, report: OutputReport) -> Claim:
    """The claim that was proved of an output: the job's expectation, or the relation that was found."""
    node = next(o.node for o in job.specification.outputs if o.name == report.name)
    expectation = job.outputs[report.name]
    if expectation.infer and report.relation is not None:
        name = report.relation.implementation
        expectation = read_relation(job, report.relation.expression, name)
    return Claim(report.name, node, expectation)


def _relation_claim(job: Job, proof: Proof, relation: Relation) -> Claim:
    if relation.expression.startswith(PIECES):
        whole = proof.specification.values[relation.tensor]
        stacked = proof.implementation.stacked(proof.store, relation.implementation)
        places = locate(proof.store, whole.value, stacked) if isinstance(whole, Tensor) and stacked else None
        if stacked is None or not places:
            raise InternalError(f"the index map of {relation.tensor} is not found again: {relation.expression}")
        about = Expectation(relation.implementation, text=relation.expression)
        pieces = stacked.sizes, tuple(places)
        return Claim(f"%{relation.tensor}", relation.tensor, about, of_nodes=True, pieces=pieces)
    read = read_relation(job, relation.expression, relation.implementation)
    return Claim(f"%{relation.tensor}", relation.tensor, read, of_nodes=True)


def read_relation(job: Job, text: str, name: str) -> Expectation:
    """A relation as the report prints it. Raises :class:`Unsupported` where it does not fit the job's tensors."""
    count = len(job.mesh.sizes)
    if text.startswith("["):
        placements = tuple(_placement(item) for item in text[1:-1].split(", "))
    else:
        read = parse_relation(text, "report", Limits())
        if isinstance(read, (Replicate, Shard, Partial)):
            placements = (read,) * min(count, 1)
        else:
            try:
                expression, _ = resolve(read, lambda tensor: _typed(job, tensor, name))
            except RelationProblem as problem:
                raise Unsupported(str(problem)) from None
            return Expectation(name, None, expression, text=text)
    if len(placements) != count:
        raise InternalError(f"a relation of {len(placements)} placements on a mesh of {count} axes: {text}")
    return Expectation(name, placements, text=text)


def _placement(text: str) -> Placement:
    read = parse_relation(text, "report", Limits())
    if isinstance(read, (Replicate, Shard, Partial)):
        return read
    raise InternalError(f"not a placement: {text}")


def _typed(job: Job, tensor: RankTensor, name: str) -> tuple[RankTensor, TensorType]:
    node = output_node(job, tensor.rank, tensor.name or name)
    type_ = job.implementation[tensor.rank].by_name[node].type
    if type_ is None:
        raise Unsupported(f"{node} has no recorded type")
    return replace(tensor, name=node), type_
