"""The verdict on one part: proved at its own size; what is not, looked at closely where it is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tantamount.effort import Effort, Stopped, stopping
from tantamount.ir.job import Job
from tantamount.plan.parts import Part
from tantamount.plan.result import PartReport
from tantamount.plan.verify import CheckPart
from tantamount.proof import Options, prove
from tantamount.reduction import NotReduced, reduce_job
from tantamount.reduction.reduce import shrink_mesh
from tantamount.verdict import Assumption, OutputReport, Report, Verdict, worst

__all__ = ["part_checker"]

_RANKS = 64  # of a part that is looked at closely

Refine = Callable[[Job], Report]


def part_checker(refine: Refine, effort: Effort | None = None) -> CheckPart:
    """What checks a part. ``refine`` gives the whole answer to a job, with the place of a difference and a
    counterexample; it is asked about smaller forms of parts of which something is not proved at once."""
    spent = effort if effort is not None else Effort()

    def check(part: Part) -> PartReport:
        try:
            with stopping(spent):
                return checked(part)
        except Stopped as stop:
            outputs = tuple(
                OutputReport(name, Verdict.UNKNOWN, None, expected.text, str(stop))
                for name, expected in part.job.outputs.items()
            )
            return _report(part, outputs, ())

    def checked(part: Part) -> PartReport:
        proof = prove(part.job, Options(cut=False, effort=spent))
        outputs = proof.check(expand=False)
        verdict = worst(output.verdict for output in outputs)
        if verdict is Verdict.PROVED:
            return _report(part, outputs, proof.assumptions())
        small, text = _smaller(part.job, spent)
        found = None if small is None else refine(small)
        if found is not None and found.verdict is Verdict.REFUTED and _controlled(outputs, found):
            return replace(
                _report(part, found.outputs, found.assumptions), mismatch=found.mismatch,
                counterexample=found.counterexample, notes=found.notes, reduced=text,
            )  # fmt: skip
        if found is not None and small is part.job and found.verdict is Verdict.PROVED:
            return _report(part, found.outputs, found.assumptions)
        outputs = proof.check_twice()
        report = _report(part, outputs, proof.assumptions())
        if report.verdict is Verdict.PROVED or not text:
            return report
        return replace(report, notes=(text if found is None else f"{text}: {found.verdict.value}",))

    return check


def _report(part: Part, outputs: tuple[OutputReport, ...], assumptions: tuple[Assumption, ...]) -> PartReport:
    verdict = worst(output.verdict for output in outputs)
    return PartReport(part.name, verdict, outputs, assumptions, 1, 1, 0, 0.0)


def _controlled(outputs: tuple[OutputReport, ...], small: Report) -> bool:
    """True if all that is proved of the part is proved of its smaller form, too: it is the same program, then."""
    found = {output.name: output.verdict for output in small.outputs}
    return all(found.get(o.name) is Verdict.PROVED for o in outputs if o.verdict is Verdict.PROVED)


def _smaller(job: Job, effort: Effort) -> tuple[Job | None, str]:
    """The part on fewer ranks and at smaller sizes, and in words which; or why it has no such form."""
    try:
        folded = replace(shrink_mesh(job, job.mesh.names, effort), outputs=job.outputs)
    except NotReduced:
        folded = job
    try:
        small = reduce_job(folded, effort).job
    except NotReduced as problem:
        if folded.mesh.world_size > _RANKS:
            return None, f"it has no smaller form: {problem}"
        small = folded
    mesh = " x ".join(f"{axis} {size}" for axis, size in small.mesh.axes.items())
    return small, "" if small is job else f"looked at on {mesh}, at smaller sizes"
