"""Jobs about programs with size symbols: one proof for all sizes, or sizes that refute it.

The same proof is run on sizes that note what it rests on (``ir.sizes``): it then holds wherever these conditions do.
Where some of them do not follow from what the captures say of the sizes, it is run again at sizes outside of what is
covered, until nothing is left. What is not covered in the end is printed, and never called proved without that.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tantamount.errors import Unsupported, UserError
from tantamount.ir.domain import Domain, implied
from tantamount.ir.job import Job
from tantamount.ir.size_search import find_sizes, varied_sizes
from tantamount.ir.sizes import Condition, Space
from tantamount.refine.assumptions import gather_assumptions
from tantamount.refine.outputs import check_outputs
from tantamount.refine.sides import Progress, Sides, run_sides
from tantamount.verdict import Assumption, OutputReport, Report, Statistics, Verdict, worst

__all__ = ["refine_at_all_sizes"]

_MAX_REGIONS = 24  # proofs, each for the sizes that take another way through it
_EXECUTED = 3  # sizes at which programs that could not be proved are executed

At = Callable[[Mapping[str, int]], Job]


@dataclass(frozen=True)
class _Proof:
    """What one run gave, and the conditions that it rests on, with the tensor at which each came up."""

    outputs: tuple[OutputReport, ...]
    assumptions: tuple[Assumption, ...] = ()
    conditions: Mapping[Condition, str] = field(default_factory=dict[Condition, str])
    sides: Sides | None = None
    failure: str = ""

    @property
    def proved(self) -> bool:
        return not self.failure and all(output.verdict is Verdict.PROVED for output in self.outputs)


def refine_at_all_sizes(
    job: Job, at: At, refine_one: Callable[[Job], Report], fold: bool | None, progress: Progress | None, strict: bool
) -> Report:
    """The verdict on a job with size symbols. ``refine_one`` refines a job at sizes that are numbers."""
    start = time.process_time()
    domain = job.sizes
    first = _prove(at, domain.hints, fold, progress)
    if not first.proved and fold is None and first.sides is not None and first.sides.folded:
        apart = _prove(at, domain.hints, False, None)  # numbers that differ by rank decide nothing where ranks are axes
        first, fold = (apart, False) if apart.proved else (first, fold)
    if not first.proved:
        return _not_proved(job, at, refine_one, first, start)
    proofs = [first]
    covered = [_open(domain, first)]
    left = ""
    while covered[-1]:
        outside = find_sizes(domain, covered)
        if outside.none:
            break
        if outside.sizes is None or len(proofs) == _MAX_REGIONS:
            left = "whether there are others is not known" if outside.sizes is None else "others were not tried"
            break
        found = _prove(at, outside.sizes, fold, None)
        if not found.proved:
            report = _executed(at, refine_one, domain, outside.sizes)
            if report is not None and report.verdict is Verdict.REFUTED:
                return report
            left = f"at {_shown(outside.sizes)} it is not: {_why(found)}"
            break
        if _relations(found) != _relations(first):
            left = f"at {_shown(outside.sizes)} the relations are others"
            break
        proofs.append(found)
        covered.append(_open(domain, found))
    return _report(job, proofs, covered, left, start, strict)


def _prove(at: At, point: Mapping[str, int], fold: bool | None, progress: Progress | None) -> _Proof:
    """One run, with the conditions under which it would be the same."""
    space = Space(point)
    try:
        job = at(space.symbols)
        sides = run_sides(job, fold, _noting(space, progress), cut=False)
        store = sides.store
        specification, ranks = sides.specification, sides.implementation
        outputs = check_outputs(store, job, specification, ranks, expand=False)
        failing = [output.name for output in outputs if output.verdict is not Verdict.PROVED]
        if failing:
            again = check_outputs(store, job, specification, ranks, only=failing)
            better = {output.name: output for output in again}
            outputs = tuple(better.get(output.name, output) for output in outputs)
        assumptions = gather_assumptions(store, job, sides.inputs, specification, ranks)
    except Unsupported as problem:
        return _Proof((), failure=f"{problem.reason}" + (f" at {space.place}" if space.place else ""))
    except UserError as problem:
        return _Proof((), failure=f"{problem.place}: {problem.found}")
    return _Proof(outputs, assumptions, space.conditions, sides)


def _noting(space: Space, progress: Progress | None) -> Progress:
    """The progress, which also says where conditions come up."""

    def note(phase: str, done: int, total: int) -> None:
        space.place = f"tensor {done} of {total} of the {phase}"
        if progress is not None:
            progress(phase, done, total)

    return note


def _open(domain: Domain, proof: _Proof) -> list[Condition]:
    """The conditions that do not follow from the domain at once."""
    return [condition for condition in proof.conditions if not implied(domain, condition)]


def _relations(proof: _Proof) -> list[tuple[str, str]]:
    return [(output.name, str(output.relation)) for output in proof.outputs]


def _why(proof: _Proof) -> str:
    failing = (o.reason or o.verdict.value for o in proof.outputs if o.verdict is not Verdict.PROVED)
    return proof.failure or next(failing, "")


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


# ---------------------------------------------------------------------------------------------- what is reported
def _report(
    job: Job, proofs: Sequence[_Proof], covered: Sequence[Sequence[Condition]], left: str, start: float, strict: bool
) -> Report:
    first = proofs[0]
    assumptions = list(dict.fromkeys(a for proof in proofs for a in proof.assumptions))
    assumptions.insert(1, Assumption("sizes", f"for all sizes with {job.sizes}"))
    verdict = worst(output.verdict for output in first.outputs)
    outputs = first.outputs
    notes: tuple[str, ...] = ()
    if left:
        regions = " or ".join(", ".join(map(str, region)) for region in covered)
        places = {c: place for proof in proofs for c, place in proof.conditions.items() if place}
        fixed = [c for region in covered[:1] for c in region if c.kind == "zero"]
        if fixed:
            verdict = Verdict.UNKNOWN
            reason = f"only where {fixed[0]}" + (f", because of {places[fixed[0]]}" if fixed[0] in places else "")
            outputs = tuple(replace(output, verdict=Verdict.UNKNOWN, reason=reason) for output in outputs)
        assumptions.insert(2, Assumption("sizes-covered", f"only where {regions}: {left}"))
    if len(proofs) > 1:
        notes = (f"{len(proofs)} proofs cover all sizes: sizes that coincide, or small ones, need one of their own",)
    refused: tuple[str, ...] = ()
    if strict and verdict is Verdict.PROVED:
        allowed = ("real-arithmetic", "sizes")
        refused = tuple(dict.fromkeys(a.name for a in assumptions if a.name not in allowed))
        verdict = Verdict.UNKNOWN if refused else verdict
    return Report(
        job=job.path,
        verdict=verdict,
        outputs=outputs,
        outputs_total=len(job.specification.outputs),
        assumptions=tuple(assumptions),
        relations=tuple(output.relation for output in outputs if output.relation is not None),
        mismatch=None,
        counterexample=None,
        statistics=_statistics(job, first, start),
        notes=notes,
        refused=refused,
    )


def _statistics(job: Job, proof: _Proof, start: float) -> Statistics:
    atoms = proof.sides.store.atoms if proof.sides is not None else []
    return Statistics(
        specification_nodes=len(job.specification.nodes),
        implementation_nodes=sum(len(graph.nodes) for graph in job.implementation),
        ranks=len(job.implementation),
        folded=proof.sides is not None and proof.sides.folded,
        atoms=len(atoms),
        terms=sum(len(x) for atom in atoms for x in atom.arguments),
        seconds={"all sizes": time.process_time() - start},
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _executed(at: At, refine_one: Callable[[Job], Report], domain: Domain, sizes: Mapping[str, int]) -> Report | None:
    """The report at some sizes, which says at which; ``None`` if the programs do not fit them."""
    try:
        report = refine_one(at(sizes))
    except UserError:
        return None
    note = f"at {_shown(sizes)}; the sizes may be any with {domain}"
    reasons = {Verdict.REFUTED: f" (at {_shown(sizes)})", Verdict.UNKNOWN: f" (at {_shown(sizes)})"}
    outputs = tuple(replace(o, reason=o.reason + reasons.get(o.verdict, "")) for o in report.outputs)
    return replace(report, outputs=outputs, notes=(note, *report.notes))


def _not_proved(job: Job, at: At, refine_one: Callable[[Job], Report], proof: _Proof, start: float) -> Report:
    """A counterexample at some sizes, else what is not known."""
    best: Report | None = None
    for sizes in varied_sizes(job.sizes, _EXECUTED):
        report = _executed(at, refine_one, job.sizes, sizes)
        if report is not None and report.verdict is Verdict.REFUTED:
            return report
        if report is not None and report.verdict is not Verdict.PROVED:
            best = best or report
    if best is not None:
        return best
    reason = f"not proved for all sizes with {job.sizes}: {_why(proof)}"
    names = [output.name for output in job.specification.outputs if output.name in job.outputs]
    known = {output.name: output for output in proof.outputs}
    outputs = tuple(
        known[name]
        if name in known and known[name].verdict is Verdict.PROVED
        else OutputReport(name, Verdict.UNKNOWN, None, job.outputs[name].text, reason)
        for name in names
    )
    verdict = worst(output.verdict for output in outputs)
    return Report(
        job.path, verdict, outputs, len(job.specification.outputs), proof.assumptions, (), None, None,
        _statistics(job, proof, start), ("at single sizes that were tried the outputs are equal",),
    )  # fmt: skip
