"""The second engine's verdict on one part: all elements compared at reduced shapes, and on few ranks where many are too
many to execute with terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tantamount.effort import Effort, Stopped, stopping, within
from tantamount.ir.job import Job
from tantamount.plan.parts import Part
from tantamount.plan.result import PartReport
from tantamount.plan.verify import CheckPart
from tantamount.proof import Options, prove
from tantamount.reduction.meshes import shortened
from tantamount.verdict import OutputReport, Report, Verdict

__all__ = ["elementwise_checker"]

Refine = Callable[[Job], Report]

_CONTROL = 5.0  # CPU seconds to see whether what differs on fewer ranks is equal on all


def elementwise_checker(refine: Refine, effort: Effort | None = None) -> CheckPart:
    """A function that checks a part by the second engine; ``refine`` gives that engine's answer to a job.

    A part is looked at on its own ranks first, and where that is more than it executes with terms, with long axes made
    short. What differs there and is proved by the calculus on all ranks is UNKNOWN: its smaller form is
    another program."""
    spent = effort if effort is not None else Effort()

    def check(part: Part) -> PartReport:
        found = refine(part.job)
        if found.verdict is not Verdict.UNKNOWN:
            return _report(part, found, "")
        try:
            with stopping(spent):
                small = shortened(part.job, part.job.mesh.names, spent)
        except Stopped:
            return _report(part, found, "")
        if small.mesh.world_size == part.job.mesh.world_size:
            return _report(part, found, "")
        where = " x ".join(f"{axis} {size}" for axis, size in small.mesh.axes.items())
        answer = refine(small)
        if answer.verdict is Verdict.REFUTED:
            answer = _controlled(part.job, answer, where, spent)
        return _report(part, answer, f"looked at on {where}")

    return check


def _controlled(job: Job, found: Report, where: str, effort: Effort) -> Report:
    """The report without refutations of outputs that are equal on all ranks."""
    proved: set[str] = set()
    try:
        with within(_CONTROL), stopping(effort):
            proof = prove(job, Options(cut=False, effort=effort))
            for output in found.outputs:
                if output.verdict is Verdict.REFUTED:
                    proved |= {o.name for o in proof.check(only=[output.name], infer=False) if _is_proved(o)}
    except Stopped:
        pass  # that something is equal takes little time, and was not seen
    if not proved:
        return found
    reason = f"differs on {where}, and is equal on all ranks: that is another program"
    outputs = tuple(
        replace(o, verdict=Verdict.UNKNOWN, reason=reason) if o.name in proved else o for o in found.outputs
    )
    left = any(output.verdict is Verdict.REFUTED for output in outputs)
    return replace(
        found, outputs=outputs, verdict=Verdict.REFUTED if left else Verdict.UNKNOWN,
        counterexample=found.counterexample if left else None,
    )  # fmt: skip


def _is_proved(output: OutputReport) -> bool:
    return output.verdict is Verdict.PROVED


def _report(part: Part, found: Report, reduced: str) -> PartReport:
    work = found.elementwise
    notes: tuple[str, ...] = ()
    if work is not None and work.elements:
        notes = (
            f"{work.elements} elements: {work.by_expression} the same expression, {work.by_solver} equal by z3, "
            f"{work.undecided} undecided; {work.questions} questions",
        )
    return PartReport(
        part.name, found.verdict, found.outputs, found.assumptions, 1, 1, 0, 0.0, found.mismatch, found.counterexample,
        notes, reduced,
    )  # fmt: skip
