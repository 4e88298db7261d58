"""The answer of refinement: a report, with the proof behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tantamount.clock import peak_memory_bytes
from tantamount.effort import Effort, Stopped
from tantamount.ir.job import Job
from tantamount.proof import Proof
from tantamount.verdict import Assumption, LimitHit, Report, Statistics, Verdict

__all__ = ["APPROXIMATE", "Refinement", "accepted", "limits_hit", "statistics", "up_to"]

APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Refinement(Report):
    """A report, the job that it is about, and the proof behind it (``None`` where there is no single one, as for all
    sizes, or ``in_pieces``); both keep every normal form alive. ``rules``: a file of rules that a comparison lacks to
    be a proof, as text (empty, if none are known)."""

    subject: Job | None = field(default=None, compare=False, repr=False)
    proof: Proof | None = field(default=None, compare=False, repr=False)
    in_pieces: bool = field(default=False, compare=False, repr=False)
    rules: str = field(default="", compare=False, repr=False)


def accepted(
    verdict: Verdict,
    assumptions: Sequence[Assumption],
    strict: bool,
    allowed: Collection[str],
    job: Job | None = None,
    approximations: Collection[str] = (),
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict where ``strict`` refuses every assumption that is not ``allowed``, and the names of those refused.
    What a ``job`` declares to be approximate is refused unless ``approximations`` has all of it."""
    if verdict is not Verdict.PROVED:
        return verdict, ()
    open_ = job is not None and any(one.name not in approximations for one in job.approximations)
    refused = [a.name for a in assumptions if (strict and a.name not in allowed) or (open_ and a.name == APPROXIMATE)]
    return (Verdict.UNKNOWN if refused else verdict), tuple(dict.fromkeys(refused))


def up_to(job: Job) -> tuple[Assumption, ...]:
    """The assumption that what a job declares to be approximate is meant to be; none if it declares nothing."""
    if not job.approximations:
        return ()
    told = "; ".join(f"{one.name}: {one.text}" for one in job.approximations)
    names = tuple(one.name for one in job.approximations)
    text = f"what is declared to be approximate is replaced by its strict form: {told}"
    return (Assumption(APPROXIMATE, text, names),)


def limits_hit(effort: Effort, stop: Stopped | None = None) -> tuple[LimitHit, ...]:
    """The limits that were hit, the one that stopped everything first, then the most frequent ones."""
    hits = sorted(effort.hits.values(), key=lambda hit: (-hit.count, hit.name))
    found = [LimitHit(hit.topic, str(hit.bound), hit.needed, hit.count) for hit in hits]
    return (*(() if stop is None else (LimitHit(stop.limit, stop.allowed),)), *found)


def statistics(job: Job, proofs: Sequence[Proof], seconds: Mapping[str, float]) -> Statistics:
    """The sizes of both programs, and what their proofs took: one of the whole, several of pieces, or none."""
    atoms = [atom for proof in proofs for atom in proof.store.atoms]
    rules: Counter[str] = Counter()
    for proof in proofs:
        rules.update({name: count for name, count in proof.store.fired.items() if count})
    return Statistics(
        specification_nodes=len(job.specification.nodes),
        implementation_nodes=sum(len(graph.nodes) for graph in job.implementation),
        ranks=len(job.implementation),
        folded=bool(proofs) and all(proof.folded for proof in proofs),
        atoms=len(atoms),
        terms=sum(len(x) for atom in atoms for x in atom.arguments),
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes(),
        classes=max((len(proof.implementation.classes) for proof in proofs), default=1),
        rules=dict(rules),
    )
