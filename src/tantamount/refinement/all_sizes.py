"""Jobs about programs with size symbols: one proof for all sizes, or sizes that refute it.

The same proof is run on sizes that note what it rests on (``sizes.symbolic``): it then holds wherever these conditions
do. Where some of them do not follow from what the captures say of the sizes, it is run again at sizes outside of what
is covered, until nothing is left. What is not covered in the end is printed, and never called proved without that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tantamount.effort import Effort
from tantamount.errors import InternalError, Unsupported, UserError
from tantamount.ir.job import Job
from tantamount.proof import Options, Progress, Proof, prove
from tantamount.refinement.result import Refinement, accepted, statistics
from tantamount.sizes.coinciding import coinciding
from tantamount.sizes.domain import Domain, implied, ranges_of, shown_sizes
from tantamount.sizes.polynomials import Polynomial
from tantamount.sizes.search import find_sizes, generic_sizes, varied_sizes
from tantamount.sizes.symbolic import Condition, Space
from tantamount.verdict import Assumption, OutputReport, Verdict, worst

__all__ = ["refine_at_all_sizes"]

At = Callable[[Mapping[str, int]], Job]


@dataclass(frozen=True)
class _Attempt:
    """The reports that one proof gave, and the conditions that it rests on, with the tensor at which each came up."""

    outputs: tuple[OutputReport, ...]
    assumptions: tuple[Assumption, ...] = ()
    conditions: Mapping[Condition, str] = field(default_factory=dict[Condition, str])
    proof: Proof | None = None
    failure: str = ""

    @property
    def proved(self) -> bool:
        return not self.failure and all(output.verdict is Verdict.PROVED for output in self.outputs)


def refine_at_all_sizes(
    job: Job, at: At, refine_one: Callable[[Job], Refinement], options: Options, strict: bool
) -> Refinement:
    """The verdict on a job with size symbols. ``refine_one`` refines a job at sizes that are numbers."""
    start = time.process_time()
    domain = job.sizes
    options = replace(options, cut=False)
    tried = _Tried(domain, at, refine_one, _varied(domain, options.effort))
    generic = generic_sizes(
        domain, options.effort
    )  # of the domain alone: what the sizes were at capture decides no verdict
    first = _attempt(at, domain, generic, options, tried.refutes)
    if tried.refuted is not None:
        return tried.refuted
    if not first.proved and options.fold is None and first.proof is not None and first.proof.folded:
        ranks = replace(options.silent(), fold=False)  # numbers that differ by rank decide nothing where ranks are axes
        apart = _attempt(at, domain, generic, ranks)
        first, options = (apart, ranks) if apart.proved else (first, options)
    if not first.proved:
        return _not_proved(job, tried, first, start, options.effort)
    proofs = [first]
    covered = [_open(domain, first)]
    left = ""
    while covered[-1]:
        outside = find_sizes(domain, covered, options.effort, near=generic)
        if outside.none:
            break
        if outside.sizes is None or options.effort.exceeds("size_regions", len(proofs) + 1):
            left = "whether there are others is not known" if outside.sizes is None else "others were not tried"
            break
        here = _Tried(domain, at, refine_one, [outside.sizes])
        found = _attempt(at, domain, outside.sizes, options.silent(), here.refutes)
        if not found.proved:
            if here.refuted is not None or here.refutes():
                return here.report
            written = coinciding(covered, outside.sizes)
            if written:
                found = _attempt(at, domain, outside.sizes, options.silent(), written=written)
        if not found.proved:
            left = f"at {shown_sizes(outside.sizes)} it is not: {_why(found)}"
            break
        if _relations(found) != _relations(first):
            left = f"at {shown_sizes(outside.sizes)} the relations are others"
            break
        proofs.append(found)
        covered.append(_open(domain, found))
    return _report(job, proofs, covered, left, start, strict)


def _attempt(
    at: At,
    domain: Domain,
    point: Mapping[str, int],
    options: Options,
    refuted: Callable[[], bool] = lambda: False,
    written: Mapping[str, Polynomial] | None = None,
) -> _Attempt:
    """One proof at sizes that are symbols with these hints, and the conditions under which it would be the same. Where
    outputs are not proved at once, ``refuted`` is asked first: a search for a proof takes longest where there is
    none. Symbols that are ``written`` are these polynomials in others."""
    space = Space(point, (*ranges_of(domain), *domain.conditions))
    for name, polynomial in (written or {}).items():
        space.write(name, polynomial)
    try:
        proof = prove(at(space.symbols), replace(options, progress=_noting(space, options.progress)))
        outputs = proof.check(expand=False)
        if any(output.verdict is not Verdict.PROVED for output in outputs) and not refuted():
            outputs = proof.check_again(outputs)
        assumptions = proof.assumptions()
    except Unsupported as problem:
        return _Attempt((), failure=f"{problem.reason}" + (f" at {space.place}" if space.place else ""))
    except UserError as problem:
        return _Attempt((), failure=f"{problem.place}: {problem.found}")
    return _Attempt(outputs, assumptions, space.conditions, proof)


def _noting(space: Space, progress: Progress | None) -> Progress:
    """The progress, which also says where conditions come up."""

    def note(phase: str, done: int, total: int) -> None:
        space.place = f"tensor {done} of {total} of the {phase}"
        if progress is not None:
            progress(phase, done, total)

    return note


def _proofs(attempt: _Attempt) -> tuple[Proof, ...]:
    return () if attempt.proof is None else (attempt.proof,)


def _open(domain: Domain, proof: _Attempt) -> list[Condition]:
    """The conditions that do not follow from the domain at once."""
    return [condition for condition in proof.conditions if not implied(domain, condition)]


def _relations(proof: _Attempt) -> list[tuple[str, str]]:
    return [(output.name, str(output.relation)) for output in proof.outputs]


def _why(proof: _Attempt) -> str:
    failing = (o.reason or o.verdict.value for o in proof.outputs if o.verdict is not Verdict.PROVED)
    return proof.failure or next(failing, "")


# ---------------------------------------------------------------------------------------------- what is reported
def _report(
    job: Job, proofs: Sequence[_Attempt], covered: Sequence[Sequence[Condition]], left: str, start: float, strict: bool
) -> Refinement:
    first = proofs[0]
    assumptions = list(dict.fromkeys(a for proof in proofs for a in proof.assumptions))
    first_other = sum(one.name == "real-arithmetic" for one in assumptions)
    assumptions.insert(first_other, Assumption("sizes", f"for all sizes with {job.sizes}"))
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
        assumptions.insert(first_other + 1, Assumption("sizes-covered", f"only where {regions}: {left}"))
    if len(proofs) > 1 and not left:
        notes = (f"{len(proofs)} proofs cover all sizes: sizes that coincide, or small ones, need one of their own",)
    verdict, refused = accepted(verdict, assumptions, strict, ("real-arithmetic", "sizes"))
    return Refinement(
        job=job.path,
        verdict=verdict,
        outputs=outputs,
        outputs_total=len(job.specification.outputs),
        assumptions=tuple(assumptions),
        relations=tuple(output.relation for output in outputs if output.relation is not None),
        mismatch=None,
        counterexample=None,
        statistics=statistics(job, _proofs(first), {"all sizes": time.process_time() - start}),
        notes=notes,
        refused=refused,
    )


class _Tried:
    """Sizes at which the programs are refined as they are, one after the other; ``refuted`` and ``open`` are the first
    report that refutes them, and the first that proves nothing."""

    def __init__(
        self, domain: Domain, at: At, refine_one: Callable[[Job], Refinement], points: Iterable[Mapping[str, int]]
    ) -> None:
        self._domain, self._at, self._refine_one, self._points = domain, at, refine_one, iter(points)
        self.refuted: Refinement | None = None
        self.open: Refinement | None = None
        self.more = True

    def refutes(self) -> bool:
        """True if the next sizes refute the programs; ``more`` is false if there are none. What the programs do not
        fit refutes nothing."""
        sizes = next(self._points, None)
        self.more = sizes is not None
        report = None if sizes is None else _executed(self._at, self._refine_one, self._domain, sizes)
        if report is not None and report.verdict is Verdict.REFUTED:
            self.refuted = report
        elif report is not None and report.verdict is not Verdict.PROVED:
            self.open = self.open or report
        return self.refuted is not None

    @property
    def report(self) -> Refinement:
        """The report that refutes them. Raises :class:`InternalError` where none does."""
        if self.refuted is None:
            raise InternalError("no sizes refute these programs")
        return self.refuted


def _executed(
    at: At, refine_one: Callable[[Job], Refinement], domain: Domain, sizes: Mapping[str, int]
) -> Refinement | None:
    """The report at some sizes, which says at which; ``None`` if the programs do not fit them."""
    try:
        report = refine_one(at(sizes))
    except UserError:
        return None
    note = f"at {shown_sizes(sizes)}; the sizes may be any with {domain}"
    reasons = {Verdict.REFUTED: f" (at {shown_sizes(sizes)})", Verdict.UNKNOWN: f" (at {shown_sizes(sizes)})"}
    outputs = tuple(replace(o, reason=o.reason + reasons.get(o.verdict, "")) for o in report.outputs)
    return replace(report, outputs=outputs, notes=(note, *report.notes))


def _varied(domain: Domain, effort: Effort) -> Iterator[Mapping[str, int]]:
    """Some small sizes, looked for when the first of them is asked for: a proof at once needs none."""
    yield from varied_sizes(domain, effort.bounds.size_executions, effort)


def _not_proved(job: Job, tried: _Tried, proof: _Attempt, start: float, effort: Effort) -> Refinement:
    """A counterexample at some sizes, else what is not known."""
    while tried.more and not tried.refutes():
        pass
    if tried.refuted is not None:
        return tried.refuted
    effort.hit("size_executions")
    if tried.open is not None:
        return tried.open
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
    return Refinement(
        job.path, verdict, outputs, len(job.specification.outputs), proof.assumptions, (), None, None,
        statistics(job, _proofs(proof), {"all sizes": time.process_time() - start}),
        ("at single sizes that were tried the outputs are equal",),
    )  # fmt: skip
