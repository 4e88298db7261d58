"""Checking a certificate: everything that it claims is evaluated again, by code that took no part in finding it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tantamount.certificate.assumptions import Seen, compare_assumptions, look, of_implementation
from tantamount.certificate.document import Certificate, read_certificate
from tantamount.certificate.execution import Executed, Way, execute_exactly, execute_in_floats
from tantamount.certificate.inputs import Layout, lay_out
from tantamount.certificate.residues import FIELDS, Residues
from tantamount.certificate.subject import Claims, declared_operators, open_subject, read_claims
from tantamount.errors import TantamountError, Unsupported, UserError
from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.algebra import Interpretation, Tensor, Unsized
from tantamount.ops.relations import Pair, pairs
from tantamount.reduction import NotReduced, reduce_job
from tantamount.semantics.reference import Array, IntegerOverflow
from tantamount.semantics.survey import survey

__all__ = ["Checked", "Step", "check_certificate"]

_WAYS = (Way(), Way(3.0), Way(positive=True))
_ENOUGH = 3_000_000  # elements that are executed at the job's own shapes
_WORK = 300_000_000  # element operations
_SAME = 1e-9  # of the largest element: no difference in float64
_DWARFS = 100.0  # a difference is one if it exceeds what rounding does by this factor


@dataclass
class Step:
    """What is known of one claim. ``floats`` and ``exact`` count the executions in which it was compared and held;
    ``why`` says why it was not compared exactly; ``wrong`` how it fails; ``degree`` bounds the degree of what was
    compared; ``replaced``: functions that were replaced by others in exact arithmetic."""

    name: str
    floats: int = 0
    exact: int = 0
    why: str = ""
    wrong: str = ""
    degree: int = 0
    replaced: frozenset[str] = frozenset()

    @property
    def exactly(self) -> bool:
        """Whether it held in exact arithmetic whenever it was compared there."""
        return self.exact > 0 and not self.why


@dataclass(frozen=True)
class Checked:
    """``problems``: why the certificate is rejected; ``unchecked``: claims that were never compared, with the reason.
    ``shapes``: what became of sizes where both programs were executed at smaller ones."""

    certificate: str
    job: str
    outputs: tuple[Step, ...] = ()
    relations: tuple[Step, ...] = ()
    unrelated: int = 0
    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    notes: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.problems and not self.unchecked

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 3 if self.unchecked else 0


def check_certificate(
    path: str | Path, *, job: str | Path | None = None, allow_outside: bool = False, limits: Limits | None = None
) -> Checked:
    """Check the certificate in a file against the job that it names, or against ``job``.

    Raises :class:`UserError` for files that are no certificate, no job or no graph."""
    limits = limits or limits_from_environment()
    certificate = read_certificate(Path(path), limits)
    subject = open_subject(certificate, None if job is None else Path(job), allow_outside, limits)
    problems = [] if certificate.intact else ["the certificate was changed: its hash is not that of its content"]
    problems += subject.changed
    if subject.job.at is not None:
        raise UserError(
            "certificate-sizes", place=subject.path, found="a job with size symbols", needed="sizes that are numbers",
            hint="a certificate is checked by execution, at the sizes that its job has",
        )  # fmt: skip
    declared = declared_operators(subject.job)
    if declared != sorted(certificate.operators):
        raise UserError(
            "certificate-operators", place=str(path), found=", ".join(declared) or "no declared operator",
            needed=", ".join(certificate.operators) or "none", hint="declare them: --operators FILE",
        )  # fmt: skip
    claims = read_claims(certificate, subject.job, limits)
    problems += claims.wrong
    out = Checked(str(path), subject.path, unrelated=len(certificate.unrelated), problems=tuple(problems))
    if problems:
        return out  # what follows would be about something else
    return _executed(out, certificate, subject.job, claims, limits)


def _executed(out: Checked, certificate: Certificate, own: Job, claims: Claims, limits: Limits) -> Checked:
    steps = {name: Step(name) for name in (*claims.outputs, *claims.relations)}
    notes: list[str] = []
    try:
        job, shapes = _sized(claims.job, limits)
    except NotReduced as problem:
        return replace(out, unchecked=(f"nothing was executed: {problem}",))
    layout = lay_out(job)
    readings = any(a.name == "rounded-literals" for a in certificate.assumptions)
    everything = False
    last: Executed | None = None
    for seed, way in enumerate(_WAYS):
        try:
            done = execute_in_floats(job, layout, seed, way, everything=everything)
            if done.dropouts.unclear:
                everything = True
                done = execute_in_floats(job, layout, seed, way, everything=True)
        except IntegerOverflow:
            continue
        except Unsupported as problem:
            return replace(out, unchecked=(f"nothing was executed: {problem.reason}",))
        last = done
        if _within(done):
            _compare_floats(job, layout, steps, done, seed, way, everything, of_implementation(certificate.assumptions))
    for seed, of in enumerate(FIELDS[:2]):
        try:
            done = execute_exactly(job, layout, seed, of, readings=readings, everything=everything)
        except IntegerOverflow:
            continue
        _compare_exactly(job, steps, done)
    if everything:
        notes.append("both programs ran with nothing dropped: which mask belongs to which is not clear from values")
    if last is None:
        return replace(out, unchecked=("nothing was executed: integers beyond 62 bits",))
    found = compare_assumptions(certificate.assumptions, own, layout, last, _stressed(job, layout, everything))
    problems = [f"{_shown(step.name)} {step.wrong}" for step in steps.values() if step.wrong]
    unchecked = [
        f"{_shown(step.name)}: {step.why or 'the specification was not defined on any input that was tried'}"
        for step in steps.values()
        if not step.wrong and not step.floats
    ]
    return replace(
        out,
        outputs=tuple(steps[name] for name in claims.outputs),
        relations=tuple(steps[name] for name in claims.relations),
        problems=(*out.problems, *problems, *found),
        unchecked=tuple(unchecked),
        assumptions=tuple(dict.fromkeys(a.name for a in certificate.assumptions)),
        shapes=shapes,
        notes=tuple(notes),
    )


_STRESS = (Way(values=(0.0,)), Way(values=(-1.0, -2.0)), Way(values=(0.0, 1.0, -1.0)), Way(wild=True))


def _stressed(job: Job, layout: Layout, everything: bool) -> Seen:
    """What inputs show on which programs fail easily."""
    seen = Seen()
    for seed, way in enumerate(_STRESS):
        try:
            look(seen, job.specification, execute_in_floats(job, layout, 50 + seed, way, everything=everything))
        except (IntegerOverflow, Unsupported):
            continue
    return seen


def _shown(name: str) -> str:
    return f"the relation of {name[1:]}" if name.startswith("%") else f"output {name}"


def _sized(job: Job, limits: Limits) -> tuple[Job, Mapping[int, tuple[int, ...]]]:
    """The job at shapes at which both programs can be executed, and what became of the sizes."""
    try:
        groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
        sides = [survey(job.specification), *(survey(graph, groups) for graph in job.implementation)]
    except Unsupported as problem:
        raise NotReduced(problem.reason) from None
    kept, work = sum(s.kept + s.largest for s in sides), sum(s.work for s in sides)
    if kept <= _ENOUGH and work <= _WORK:
        return job, {}
    try:
        reduced = reduce_job(job)
        return reduced.job, reduced.sizes
    except (NotReduced, TantamountError) as problem:
        if kept <= limits.witness_elements and work <= limits.witness_work:
            return job, {}
        size = f"{kept:.2g} elements, {work:.2g} operations"
        raise NotReduced(f"both programs are too large ({size}), and have no smaller form: {problem}") from None


# ---------------------------------------------------------------------------------------------- comparing
_UNDEFINED = ("out-of-range", "undefined-comparison", "undefined-integer", "double-write", "inexact")


def _within(done: Executed) -> bool:
    """Whether the specification's indices were in range, nothing discrete came from something undefined, and float64
    followed the reals."""
    sides = (done.reference, *done.rank_references)
    overflow = any("overflow" in side.left_range for side in sides)
    return not overflow and not any(flag.what in _UNDEFINED for flag in done.reference.flags)


def _sides(job: Job, done: Executed, name: str, on: Interpretation) -> list[Pair]:
    """What a claim says are equal. Raises :class:`Unsupported` where a value is not known."""
    node = next(output.node for output in job.specification.outputs if output.name == name)
    nodes = [{output.name: output.node for output in graph.outputs} for graph in job.implementation]

    def value(result: object, what: str) -> Tensor:
        if isinstance(result, Unsized):
            raise Unsupported(f"{result.reason} ({what})")
        if not isinstance(result, Tensor):
            raise Unsupported(f"{what} has several results or none")
        return result

    whole = value(done.specification[node], node)

    def held(rank: int, tensor: str) -> object:
        own = nodes[rank].get(tensor, tensor)
        return value(done.ranks[rank].get(own), f"{own} on rank {rank}").value

    return list(pairs(on, whole.value, whole.type.stored.shape, job.outputs[name], job.mesh, held))


def _compare_floats(
    job: Job,
    layout: Layout,
    steps: Mapping[str, Step],
    done: Executed,
    seed: int,
    way: Way,
    everything: bool,
    may_fail: bool,
) -> None:
    moved: list[Executed] = []
    for step in steps.values():
        try:
            sides = _sides(job, done, step.name, done.reference)
        except Unsupported as problem:
            step.why = step.why or problem.reason
            continue
        compared = 0
        for k, pair in enumerate(sides):
            wanted, found = _array(pair.wanted), _array(pair.found)
            if wanted.shape != found.shape:
                step.wrong = step.wrong or f"fails: shape {list(found.shape)} where {list(wanted.shape)} is needed"
                continue
            defined = np.isfinite(wanted) & (np.isfinite(found) if may_fail else True)
            compared += int(defined.sum())
            compared += int((np.isinf(wanted) & (wanted == found)).sum())
            gap = np.abs(np.where(defined, wanted, 0.0) - np.where(defined, found, 0.0))
            size = float(np.abs(wanted[defined]).max(initial=0.0))
            bad = defined & ~(gap <= _SAME * size)
            if not bad.any() or step.wrong:
                continue
            if not moved:
                noisy = replace(way, noisy=True)
                moved.append(execute_in_floats(job, layout, seed, noisy, everything=everything))
            again = _sides(job, moved[0], step.name, moved[0].reference)[k]
            noise = np.abs(_array(again.wanted) - wanted) + np.abs(_array(again.found) - found)
            if not _within(moved[0]):
                continue
            worst = int(np.argmax(np.where(bad, np.where(np.isfinite(gap), gap, np.inf), -1)))
            if not gap.flat[worst] <= _DWARFS * noise.flat[worst]:
                at = [int(i) for i in np.unravel_index(worst, wanted.shape)]
                step.wrong = (
                    f"fails: element {at} of {pair.where} is {found.flat[worst]:.9g}, "
                    f"{wanted.flat[worst]:.9g} in the specification (float64, seed {seed})"
                )
        if compared or all(_array(pair.wanted).size == 0 for pair in sides):
            step.floats += 1


def _array(x: object) -> Array:
    return np.asarray(x, dtype=np.float64)


def _compare_exactly(job: Job, steps: Mapping[str, Step], done: Executed) -> None:
    for step in steps.values():
        try:
            sides = _sides(job, done, step.name, done.reference)
        except Unsupported as problem:
            step.why = step.why or problem.reason
            continue
        held, compared = True, 0
        for pair in sides:
            wanted, found = pair.wanted, pair.found
            if isinstance(wanted, Residues) and isinstance(found, Residues):
                step.replaced |= wanted.loose | found.loose
                step.degree = max(step.degree, wanted.degree.total + found.degree.total)
                defined = ~wanted.undefined
                same = (wanted.infinite == found.infinite) & ((wanted.infinite != 0) | (wanted.modp == found.modp))
                unknown = defined & found.undefined
                if unknown.any():
                    step.why, held = step.why or "the implementation has no value there in exact arithmetic", False
                equal = bool(np.all(same | ~defined | found.undefined))
                compared += int((defined & ~found.undefined).sum())
                loose = wanted.loose | found.loose | done.discrete
            else:
                equal = bool(np.array_equal(np.asarray(wanted), np.asarray(found)))
                compared += np.asarray(wanted).size
                loose = done.discrete
            if equal:
                continue
            held = False
            if loose:
                step.why = f"differs in exact arithmetic, where other functions stand for {', '.join(sorted(loose))}"
            elif not step.wrong:
                step.wrong = f"fails in exact arithmetic on {pair.where}"
        if held and compared:
            step.exact += 1
