"""The verdict on one part: proved at its own size; what is not, looked at closely where it is small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Union

from tantamount.calculus.infinities import is_real
from tantamount.effort import TIMEOUT, Effort, Grown, Stopped, stopping, within
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.ops.algebra import Tensor
from tantamount.ops.classes import rank_classes
from tantamount.plan.parts import Part
from tantamount.plan.rank_numbers import with_fewer
from tantamount.plan.result import PartReport
from tantamount.plan.verify import CheckPart
from tantamount.proof import Options, Proof, prove
from tantamount.proof.cuts import Align
from tantamount.proof.proof import nothing_of
from tantamount.proof.specification import run_specification
from tantamount.reduction import NotReduced, reduce_job
from tantamount.reduction.meshes import LONG, shortened
from tantamount.verdict import Assumption, OutputReport, Report, Verdict, worst

__all__ = ["part_checker"]

Refine = Callable[[Job], Report]
Differing = Callable[[Proof], Union[Report, None]]

_NEVER_MET = ("collective-deadlock", "collective-mismatch")  # ranks of a part that do not do the same together
_AT_ONCE = 1.0  # CPU seconds to see what is equal
_STEPS = 2000  # of work to see what is equal in a small part, or in any after products are multiplied out
_BRIEF = 0.8  # CPU seconds to compare all outputs where everything is small
_GROWN = 300  # steps for each tensor of a specification, with cuts, from which on forms grow
_CONTROL = 1.0  # CPU seconds to see whether what is refuted at small sizes is equal at its own


def part_checker(
    refine: Refine, effort: Effort | None = None, differing: Differing | None = None, align: Align | None = None
) -> CheckPart:
    """A function that checks a part. ``refine`` gives the whole answer to a job, with the place of a difference and a
    counterexample; it is asked about parts of which something is not proved, on few ranks and at small sizes.

    To compare two large forms that differ can take very long, and it is the small form that shows why. So what is not
    proved there is not tried at full size before the small form was executed. ``differing`` gives the whole answer if
    an execution at a job's own sizes shows a difference: of a part that is small that is asked first. ``align`` says
    where both programs seem to agree, so that a part whose ranks run different programs, or have blocks in another
    order, is proved from there on."""
    spent = effort if effort is not None else Effort()

    def check(part: Part) -> PartReport:
        try:
            with stopping(spent):
                return _checked(part, refine, spent, differing, align)
        except Stopped as stop:
            outputs = tuple(
                OutputReport(name, Verdict.UNKNOWN, None, expected.text, str(stop))
                for name, expected in part.job.outputs.items()
            )
            return _report(part, outputs, ())
        except UserError as problem:
            if problem.code not in _NEVER_MET:
                raise
            reason = f"the ranks never come so far ({problem.code}): {problem.found}"
            outputs = tuple(
                OutputReport(name, Verdict.REFUTED, None, expected.text, reason)
                for name, expected in part.job.outputs.items()
            )
            return _report(part, outputs, ())

    return check


def _checked(
    part: Part, refine: Refine, effort: Effort, differing: Differing | None, align: Align | None
) -> PartReport:
    job = part.job
    orders = (*part.taken_as.values(), *part.given_as.values())
    if align is not None and any(order.grid is None for order in orders):
        return _in_order(part, refine, effort, differing, align)
    several = align is not None and len(rank_classes(job.implementation, job.mesh)) > 1
    proof: Proof | None = None
    if differing is not None and _is_small(job, effort):
        proof = prove(job, Options(cut=False, effort=effort))
        known = _briefly(proof, effort)
        if len(known) == len(job.outputs):
            return _report(part, _ordered(job, known), _assumptions(part, proof))
        wrong = differing(proof)
        if wrong is not None and wrong.verdict is Verdict.REFUTED:
            return _wrong(part, wrong, job)
        if align is not None and several:
            cut = _with_cuts(part, proof, align, effort)
            if cut is not None:
                return cut
            several = False
    known, proof = _at_once(job, effort, proof)
    if len(known) == len(job.outputs):
        return _report(part, _ordered(job, known), _assumptions(part, proof))
    found: Report | None = None
    text, doubt = "", ""
    for axes in _ways(job):
        small, text = _smaller(job, axes, effort)
        if align is not None and several and small is not None and differing is not None:
            several = False
            wrong = differing(prove(small, Options(cut=False, effort=effort)))
            if wrong is None or wrong.verdict is not Verdict.REFUTED:
                cut = _with_cuts(part, proof, align, effort)
                if cut is not None:
                    return cut
        likely = list(job.outputs)
        if small is not None:
            likely = _likely(small, effort)
        new = [name for name in likely if name not in known]
        known |= {output.name: output for output in proof.check(expand=False, only=new, infer=False)}
        if len(known) == len(job.outputs) and all(output.verdict is Verdict.PROVED for output in known.values()):
            return _report(part, _ordered(job, known), _assumptions(part, proof))
        if small is not None and small is not job and len(likely) == len(job.outputs):
            continue  # what is wrong is not there
        found = None if small is None else refine(small)
        if found is not None and found.verdict is Verdict.REFUTED and _controlled(proof, known, found, likely, effort):
            other = None if small is None else with_fewer(small, job)
            if other is None or _as_wrong(refine(other), found):
                return replace(_wrong(part, found, small or job), reduced=text)
            doubt = ", but a number in the programs may be one of ranks"
        if found is not None and small is job and found.verdict is Verdict.PROVED:
            return _report(part, found.outputs, (*found.assumptions, *_passed_on(part, proof)))
    if text and _fits(job, effort):  # what is wrong is in none of its smaller forms: a number that is no size
        whole = refine(job)
        if whole.verdict is Verdict.REFUTED:
            return _wrong(part, whole, job)
    known |= _with_effort(proof, known, effort)
    report = _report(part, _ordered(job, known), _assumptions(part, proof))
    if report.verdict is Verdict.PROVED or not text:
        return report
    return replace(report, notes=(text if found is None else f"{text}: {found.verdict.value}{doubt}",))


def _in_order(part: Part, refine: Refine, effort: Effort, differing: Differing | None, align: Align) -> PartReport:
    """The report on a part whose ranks have blocks of a dimension in another order. All that is computed from pieces is
    in pieces, and forms grow without cuts: so nothing is compared without, and values decide what is wrong."""
    job = part.job
    small, text = (job, "") if _is_small(job, effort) else _smaller(job, job.mesh.names, effort)
    if small is not None and differing is not None:
        wrong = differing(nothing_of(small, Options(effort=effort), {}))
        if wrong is not None and wrong.verdict is Verdict.REFUTED:
            other = None if small is job else with_fewer(small, job)
            if other is None or _as_wrong(refine(other), wrong):
                return replace(_wrong(part, wrong, small), reduced=text)
    cut = _with_cuts(part, None, align, effort)
    if cut is not None:
        return cut
    reason = "not proved where both programs go on from what they agree on"
    outputs = tuple(
        OutputReport(name, Verdict.UNKNOWN, None, expected.text, reason) for name, expected in job.outputs.items()
    )
    return _report(part, outputs, ())


def _alone(part: Part, effort: Effort) -> Proof | None:
    """A proof of which nothing is computed but the specification; ``None`` if its forms grow."""
    proof = nothing_of(part.job, Options(effort=effort), {})
    try:
        with effort.watching(_GROWN * len(part.job.specification.nodes)):
            specification = run_specification(proof.store, part.job, proof.inputs, proof.shared)
            specification.finish([node.name for node in part.job.specification.nodes])
    except Grown:
        return None
    return replace(proof, specification=specification)


def _wrong(part: Part, found: Report, looked_at: Job) -> PartReport:
    """The report on a part that is refuted, by what was found of the job that was looked at."""
    mesh, shown = looked_at.mesh, found.counterexample
    known = shown is not None and not shown.sizes and shown.rank < mesh.world_size
    at = zip(mesh.names, mesh.coordinates(shown.rank), strict=True) if shown is not None and known else ()
    return replace(
        _report(part, found.outputs, found.assumptions), mismatch=found.mismatch, counterexample=shown,
        notes=found.notes, where=", ".join(f"{axis} {k}" for axis, k in at if mesh.axes[axis] > 1),
    )  # fmt: skip


def _fits(job: Job, effort: Effort) -> bool:
    """True if a part is small enough to be executed as it is, and explained."""
    ranks = job.mesh.world_size
    return not effort.exceeds("part_ranks", ranks) and not effort.exceeds("part_elements", _elements(job))


def _is_small(job: Job, effort: Effort) -> bool:
    """The same, asked before it is known that it matters."""
    bounds = effort.bounds
    return job.mesh.world_size <= bounds.part_ranks and _elements(job) <= bounds.part_elements


def _elements(job: Job) -> int:
    graphs = (job.specification, *job.implementation)
    return sum(prod(node.type.shape) for graph in graphs for node in graph.nodes if node.type is not None)


def _likely(small: Job, effort: Effort) -> list[str]:
    """The outputs that are proved where everything is small. What is equal is so at once; to compare forms that differ
    may take any time, which values need not."""
    proof = prove(small, Options(cut=False, effort=effort))
    found: list[str] = []
    try:
        with within(_BRIEF):
            for name in small.outputs:
                (output,) = proof.check(expand=False, only=[name], infer=False)
                if output.verdict is Verdict.PROVED:
                    found.append(name)
    except Stopped:
        left = effort.left()
        if left is not None and left <= 0:
            raise  # else nothing more is asked of the proof: forms may be half compared
    return found


def _briefly(proof: Proof, effort: Effort) -> dict[str, OutputReport]:
    """The first outputs that are proved, as equal forms mostly are, in a few steps."""
    known: dict[str, OutputReport] = {}
    with suppress(Grown), effort.watching(_STEPS):
        for name in proof.job.outputs:
            effort.check()
            (output,) = proof.check(expand=False, only=[name], infer=False)
            if output.verdict is not Verdict.PROVED:
                break
            known[name] = output
    return known


def _at_once(job: Job, effort: Effort, begun: Proof | None) -> tuple[dict[str, OutputReport], Proof]:
    """The outputs that are proved in a CPU second, as equal forms mostly are, or are after some products are
    multiplied out; and a proof that can be asked further. ``begun``: one that exists already."""
    proof = prove(job, Options(cut=False, effort=effort)) if begun is None else begun
    known: dict[str, OutputReport] = {}
    left = effort.left()
    if left is not None and left <= 0:
        return known, proof
    try:
        with within(_AT_ONCE):
            for name in job.outputs:
                (output,) = proof.check(expand=False, only=[name], infer=False)
                if output.verdict is not Verdict.PROVED:
                    break  # of a part that is wrong most outputs are, and each may take long
                known[name] = output
            with suppress(Grown), effort.watching(_STEPS):
                for name in job.outputs:
                    if name not in known:
                        (output,) = proof.check(only=[name], infer=False)
                        if output.verdict is not Verdict.PROVED:
                            break  # what differs is looked at where it is small
                        known[name] = output
    except Stopped:  # nothing more is asked of that one, whose work may be half done; nor is it known what it assumed
        left = effort.left()
        if left is not None and left <= 0:
            raise
        known = {}
        proof = prove(job, Options(cut=False, effort=effort))
    return known, proof


def _ways(job: Job) -> Iterator[tuple[str, ...]]:
    """The axes that may be made shorter: all of them, or where that loses ranks that run another program, those along
    which all run the same."""
    yield job.mesh.names
    programs, names = job.implementation, job.mesh.names
    equal = tuple(
        name
        for axis, name in enumerate(names)
        if all(programs[rank] is programs[_at_zero(job, rank, axis)] for rank in range(len(programs)))
    )
    if equal != names:
        yield equal


def _at_zero(job: Job, rank: int, axis: int) -> int:
    at = list(job.mesh.coordinates(rank))
    at[axis] = 0
    return job.mesh.rank(tuple(at))


def _assumptions(part: Part, proof: Proof) -> tuple[Assumption, ...]:
    return (*proof.assumptions(), *_passed_on(part, proof))


def _passed_on(part: Part, proof: Proof | None) -> tuple[Assumption, ...]:
    """The assumption that what other parts take is a number: their proofs are for all real inputs, so they say nothing
    where the specification of this part makes an infinity or a NaN. ``proof``: one without cuts, where there is one."""
    values = {} if proof is None else proof.specification.values
    doubtful: list[str] = []
    for output in part.job.specification.outputs:
        if output.name in part.job.outputs and output.name not in part.results:
            value = values.get(output.node)
            if proof is None or not isinstance(value, Tensor) or not is_real(proof.store, value.value):
                doubtful.append(output.name)
    text = "what parts of the specification pass on is finite"
    return (Assumption("finite-joints", text, tuple(doubtful)),) if doubtful else ()


def _with_cuts(part: Part, proof: Proof | None, align: Align, effort: Effort) -> PartReport | None:
    """The report on a part that is proved where both programs go on from fresh tensors wherever they agree; ``None`` if
    it is not. Ranks that run different programs each have forms of their own, which grow with all that comes before.
    ``proof``: the one without cuts, for cuts forget that a tensor may be infinite; ``None`` for that of the
    specification alone."""
    left, most = effort.left(), effort.bounds.part_seconds
    try:
        with stopping(Effort(effort.factor, seconds=most if left is None else min(left, most))):
            cut = prove(part.job, Options(cut=True, align=align, effort=effort))
            outputs = cut.check(infer=False)
    except Stopped:
        left = effort.left()
        if left is not None and left <= 0:
            raise
        return None
    if any(output.verdict is not Verdict.PROVED for output in outputs):
        return None
    without = _alone(part, effort) if proof is None else proof
    return _report(part, outputs, (*cut.assumptions(), *_passed_on(part, without)))


def _with_effort(proof: Proof, known: Mapping[str, OutputReport], effort: Effort) -> dict[str, OutputReport]:
    """A report on every output that is not proved, products multiplied out, for as long as that may take."""
    found: dict[str, OutputReport] = {}
    left, most = effort.left(), effort.bounds.part_seconds
    open_ = [name for name in proof.job.outputs if name not in known or known[name].verdict is not Verdict.PROVED]
    try:
        with stopping(Effort(effort.factor, seconds=most if left is None else min(left, most))):
            for name in open_:
                (found[name],) = proof.check(only=[name], infer=False)
    except Stopped as stop:  # nothing more is asked of the proof, whose work may be half done
        why = str(stop)
        if stop.limit == TIMEOUT and (left is None or most < left):
            effort.hit("part_seconds")
            why = f"limit-part-seconds was hit ({most} s)"
        for name in open_:
            expected = proof.job.outputs[name].text
            found.setdefault(name, OutputReport(name, Verdict.UNKNOWN, None, expected, why))
    return found


def _ordered(job: Job, known: dict[str, OutputReport]) -> tuple[OutputReport, ...]:
    return tuple(known[name] for name in job.outputs if name in known)


def _report(part: Part, outputs: tuple[OutputReport, ...], assumptions: tuple[Assumption, ...]) -> PartReport:
    restricted = [assumption.text for assumption in assumptions if assumption.name == "input-restriction"]
    if restricted:  # whoever makes these inputs knows nothing of it
        reason = f"proved for some inputs only: {restricted[0]}"
        outputs = tuple(
            replace(output, verdict=Verdict.UNKNOWN, reason=reason) if output.verdict is Verdict.PROVED else output
            for output in outputs
        )
    verdict = worst(output.verdict for output in outputs)
    return PartReport(part.name, verdict, outputs, assumptions, 1, 1, 0, 0.0)


def _controlled(
    proof: Proof, known: dict[str, OutputReport], small: Report, likely: Collection[str], effort: Effort
) -> bool:
    """True if all that is proved of the part is proved of its smaller form, by the report on it or before (``likely``:
    whoever finds a difference looks no further), and nothing that it refutes is: it is the same program, then.

    A number of the programs that was no size but looked like one may have come apart from what it should equal. Then
    outputs are equal at full size, which takes little time to show; that two differ may take any, and is not waited
    for."""
    found = {output.name: output.verdict for output in small.outputs}
    same = {name for name, verdict in found.items() if verdict is Verdict.PROVED} | {
        name for name in likely if found.get(name) is not Verdict.REFUTED
    }
    if any(name not in same for name, output in known.items() if output.verdict is Verdict.PROVED):
        return False
    refuted = [name for name, verdict in found.items() if verdict is Verdict.REFUTED and name not in known]
    try:
        with within(_CONTROL):
            return not any(_shown(proof, name) for name in refuted)
    except Stopped:
        left = effort.left()
        if left is not None and left <= 0:
            raise
        return True


def _as_wrong(other: Report, found: Report) -> bool:
    """True if all is refuted that another report refutes."""
    wrong = {output.name for output in other.outputs if output.verdict is Verdict.REFUTED}
    return wrong >= {output.name for output in found.outputs if output.verdict is Verdict.REFUTED}


def _shown(proof: Proof, name: str) -> bool:
    return any(output.verdict is Verdict.PROVED for output in proof.check(expand=False, only=[name], infer=False))


def _smaller(job: Job, axes: tuple[str, ...], effort: Effort) -> tuple[Job | None, str]:
    """The part on fewer ranks and at smaller sizes, and in words which; or why it has no such form. Axes are made
    shorter one by one, for one alone may stand in the way."""
    if any(graph.constants for graph in (job.specification, *job.implementation)):
        axes = ()  # sketches cut constants
    small = shortened(job, axes, effort)
    long = [axis for axis in axes if small.mesh.axes[axis] == job.mesh.axes[axis] > LONG]
    if long:  # sizes that were made small before may have come to stand in the way
        other = shortened(job, (*long, *(axis for axis in axes if axis not in long)), effort)
        small = min(small, other, key=lambda found: found.mesh.world_size)
    if effort.exceeds("part_ranks", small.mesh.world_size):
        return None, f"no form of it on {effort.bounds.part_ranks} ranks or fewer was found (limit-part-ranks)"
    if small is job:
        try:
            small = replace(reduce_job(job, effort).job, larger=job)
        except NotReduced:
            return job, ""
    mesh = " x ".join(f"{axis} {size}" for axis, size in small.mesh.axes.items())
    return small, "" if small is job else f"looked at on {mesh}, at smaller sizes"
