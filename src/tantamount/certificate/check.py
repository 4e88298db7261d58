"""Checking a certificate: everything that it claims is evaluated again, by code that took no part in finding it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from tantamount.certificate.assumptions import Seen, compare_assumptions, listed_domain
from tantamount.certificate.boundaries import boundaries
from tantamount.certificate.compare import Step, compare_exactly, compare_floats, steps_of
from tantamount.certificate.document import Certificate, read_certificate
from tantamount.certificate.draws import SPARSE, TAMEST, Draw, Pool, Sampler, Way, normal_draw, sparse_draw
from tantamount.certificate.execution import Executed, Started, start_exactly, start_in_floats
from tantamount.certificate.inputs import Layout, lay_out
from tantamount.certificate.residues import FIELDS
from tantamount.certificate.signs import may_be_undefined
from tantamount.certificate.subject import Claims, declared_operators, open_subject, read_claims
from tantamount.certificate.uses import Uses, uses_of
from tantamount.errors import TantamountError, Unsupported, UserError
from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.reduction import NotReduced, reduce_job
from tantamount.semantics.reference import IntegerOverflow
from tantamount.semantics.survey import survey

__all__ = ["Checked", "Step", "check_certificate"]

_WAYS = (Way(), Way(3.0), Way(positive=True))
_ENOUGH = 3_000_000  # elements that are executed at the job's own shapes
_WORK = 300_000_000  # element operations
_FEWEST, _MOST = 4, 32  # sampled executions
_EFFORT = 12_000_000  # element operations of all of them together
_FEWEST_SEARCHES, _MOST_SEARCHES = 60, 400  # executions that look for boundaries
_SMALL = 8  # integers up to here are drawn often
_ALONE = 8  # inputs with indices that are drawn out of range one at a time
_MOST_TRIES = 64  # executions that look for inputs on which the specification fails
_PER_NODE = 5_000  # element operations that a node costs, whatever its size


@dataclass(frozen=True)
class Checked:
    """``problems``: why the certificate is rejected; ``unchecked``: claims that were never compared, with the reason.
    ``shapes``: what became of sizes where both programs were executed at smaller ones; ``sampled``: executions on
    sampled inputs that were compared."""

    certificate: str
    job: str
    outputs: tuple[Step, ...] = ()
    relations: tuple[Step, ...] = ()
    unrelated: int = 0
    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    sampled: int = 0
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


@dataclass(frozen=True)
class _Programs:
    """Both programs at shapes at which they can be executed, and what is known of them."""

    job: Job
    shapes: Mapping[int, tuple[int, ...]]
    layout: Layout
    ours: Uses
    theirs: tuple[Uses, ...]  # of every rank
    runs: int  # how many sampled executions are affordable
    searches: int  # and how many that look for boundaries
    seed: int

    @property
    def decides(self) -> bool:
        """True if anything depends on more than rational functions and exponentials of real inputs."""
        return any(uses.decides or uses.partial for uses in (self.ours, *self.theirs))

    @property
    def sized_by_data(self) -> bool:
        return any(uses.undecided for uses in (self.ours, *self.theirs))


def _programs(job: Job, seed: int, limits: Limits) -> _Programs:
    sized, shapes = _sized(job, limits)
    groups = {name: sized.mesh.group_size(name) for name in sized.mesh.groups}
    ours = uses_of([sized.specification], None)[0]
    theirs = tuple(uses_of(sized.implementation, groups))
    sides = [survey(sized.specification), *(survey(graph, groups) for graph in sized.implementation)]
    nodes = len(sized.specification.nodes) + sum(len(graph.nodes) for graph in sized.implementation)
    cost = sum(side.work for side in sides) + _PER_NODE * nodes
    runs = max(_FEWEST, min(_MOST, _EFFORT // max(cost, 1)))
    searches = min(_MOST_SEARCHES, _EFFORT // max(cost, 1))
    return _Programs(sized, shapes, lay_out(sized, ours.divisors), ours, theirs, runs, searches, seed)


def _executed(out: Checked, certificate: Certificate, own: Job, claims: Claims, limits: Limits) -> Checked:
    try:
        on = _programs(claims.job, int(certificate.digest[:8], 16) >> 1, limits)
    except NotReduced as problem:
        return replace(out, unchecked=(f"nothing was executed: {problem}",))
    steps = steps_of(on.job, (*claims.outputs, *claims.relations, *claims.lemmas), on.ours, on.theirs)
    listed = {place for a in certificate.assumptions if a.name == "index-range" for place in a.places}
    nodes = {output.name: output.node for output in on.job.specification.outputs}
    claimed = frozenset(nodes[name] for name in steps)
    seen = Seen(frozenset(listed), listed_domain(certificate.assumptions), claimed)
    everything = False
    last: Executed | None = None
    met: set[float] = set()
    for number, way in enumerate(_WAYS):
        draw = normal_draw(way, on.seed + number)
        try:
            started = start_in_floats(on.job, on.layout, on.seed + number, draw, everything=everything, met=met)
            done = started.finish()
            if done.dropouts.unclear:
                everything = True
                started = start_in_floats(on.job, on.layout, on.seed + number, draw, everything=True, met=met)
                done = started.finish()
        except IntegerOverflow:
            continue
        except Unsupported as problem:
            return replace(out, unchecked=(f"nothing was executed: {problem.reason}",))
        last = done
        _look(on, seen, started, draw, on.seed + number, everything)
        if started.within:
            _compare(on, steps, seen, done, draw, on.seed + number, everything)
    readings = any(a.name == "rounded-literals" for a in certificate.assumptions)
    met |= _boundaries(on, met, everything)
    sampler = Sampler(on.seed, Pool.of(_numbers(on, met)))
    _exact(on, steps, sampler, readings, everything)
    if last is None:
        return replace(out, unchecked=("nothing was executed: integers beyond 62 bits",))
    dropped = last.dropouts.paired  # masks are found by values: not where values are equal
    sampled = _sampled(on, steps, sampler, seen, everything or dropped)
    sampled += _sparse(on, steps, sampler.pool, seen, everything or dropped)
    _stress(on, seen, everything)
    open_nodes = (may_be_undefined(on.job) & on.ours.powers) - seen.assumed
    _search(on, seen, sampler.pool, open_nodes, everything)
    notes = ["both programs ran with nothing dropped: which mask belongs to which is not clear from values"]
    notes = notes if everything else []
    if left := sorted(open_nodes - seen.undefined):
        notes.append(
            f"not shown to be defined for all inputs, and no counterexample in {seen.tries} tries: {', '.join(left)}"
        )
    if certificate.instances:
        count = len({instance.lemma for instance in certificate.instances})
        notes.append(
            f"{len(certificate.instances)} instances of {count} lemmas: each is its lemma but for names, and the "
            f"{len(claims.lemmas)} tensors that they hand on were compared"
        )
    found = compare_assumptions(certificate.assumptions, own, on.layout, last, seen)
    problems = [f"{_shown(step.name, claims)} {step.wrong}" for step in steps.values() if step.wrong]
    if seen.failed:
        places = ", ".join(sorted(seen.failed))
        problems.append(
            "the implementation stops where the specification does not (an index out of range, a whole number divided"
            f" by 0): {places}"
        )
    unchecked = [
        f"{_shown(step.name, claims)}: {step.why or 'the specification was not defined on any input that was tried'}"
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
        shapes=on.shapes,
        sampled=sampled,
        notes=tuple(notes),
    )


def _boundaries(on: _Programs, met: set[float], everything: bool) -> set[float]:
    """The numbers at which comparisons of small programs change, if one is with a number that small draws do not
    reach."""
    if on.searches < _FEWEST_SEARCHES or on.sized_by_data or all(abs(x) <= _SMALL for x in met):
        return set()

    def signs(draw: Draw) -> list[tuple[int, int]] | None:
        found: list[tuple[int, int]] = []
        try:
            started = start_in_floats(on.job, on.layout, on.seed, draw, everything=everything, signs=found)
            if not started.within:
                return None
            started.finish()
        except (IntegerOverflow, Unsupported):
            return None
        return found

    tensors = tuple(int(k) for k in np.unique(on.layout.elements.tensor))
    own = [k for k in tensors if k < len(on.job.specification.inputs)]
    return boundaries(on.seed, tuple(own[:_ALONE]) if len(own) > 1 else (), signs, on.searches)


def _numbers(on: _Programs, met: set[float]) -> set[Fraction]:
    """The numbers that the programs write down, and those that they compared."""
    written = on.ours.numbers.union(*(uses.numbers for uses in on.theirs))
    return {*written, *(Fraction(repr(x)) for x in met), Fraction(0), Fraction(1)}


def _again(on: _Programs, seed: int, draw: Draw, everything: bool) -> Callable[[int], Started | None]:
    """The same execution with other rounding errors; ``None`` where float64 does not follow."""

    def again(noise: int) -> Started | None:
        try:
            return start_in_floats(on.job, on.layout, seed, draw, everything=everything, noise=noise)
        except (IntegerOverflow, Unsupported):
            return None

    return again


def _look(on: _Programs, seen: Seen, started: Started, draw: Draw, seed: int, everything: bool) -> None:
    seen.look(started, _again(on, seed, draw, everything))


def _compare(
    on: _Programs,
    steps: Mapping[str, Step],
    seen: Seen,
    done: Executed,
    draw: Draw,
    seed: int,
    everything: bool,
) -> None:
    start = _again(on, seed, draw, everything)

    def again(noise: int) -> Executed | None:
        try:
            started = start(noise)
            return started.finish() if started is not None and started.within else None
        except (IntegerOverflow, Unsupported):
            return None

    if "overflow" not in {what for side in done.rank_references for what in side.left_range}:
        seen.failed |= done.failed
        compare_floats(on.job, steps, done, f"inputs {seed - on.seed}", again)


def _exact(
    on: _Programs,
    steps: Mapping[str, Step],
    sampler: Sampler,
    readings: bool,
    everything: bool,
) -> None:
    """Two executions in exact arithmetic, in fields that the certificate decides; integers and booleans are drawn in
    range once, and sampled once."""
    first = on.seed % len(FIELDS)
    for number, of in enumerate((FIELDS[first], FIELDS[(first + 1 + on.seed // 16 % 15) % len(FIELDS)])):
        plain = normal_draw(Way(), on.seed + number)
        tries = [plain] if number == 0 or on.sized_by_data else [*(sampler.draw(0, t) for t in (1, 2)), plain]
        for draw in tries:
            try:
                started = start_exactly(
                    on.job, on.layout, on.seed + number, of, draw, readings=readings, everything=everything
                )
                if draw is plain or started.within:
                    compare_exactly(on.job, steps, started.finish(), of)
                    break
            except IntegerOverflow:
                continue


def _sampled(on: _Programs, steps: Mapping[str, Step], sampler: Sampler, seen: Seen, everything: bool) -> int:
    """Executions on sampled inputs where anything is decided by them; how many were compared. Inputs on which the
    specification is not defined are drawn again, tamer."""
    if not on.decides:
        return 0
    count = 0
    for number in range(on.runs):
        for tame in range(TAMEST if on.sized_by_data else 0, TAMEST + 1):
            draw = sampler.draw(number, tame)
            try:
                started = start_in_floats(on.job, on.layout, on.seed + 100 + number, draw, everything=everything)
                _look(on, seen, started, draw, on.seed + 100 + number, everything)
                if not started.within:
                    continue
                done = started.finish()
            except (IntegerOverflow, Unsupported):
                continue
            if tame < TAMEST and _underflows(done):  # numbers that are none become equal, without a rounding error
                continue
            _compare(on, steps, seen, done, draw, on.seed + 100 + number, everything)
            count += 1
            break
    return count


def _underflows(done: Executed) -> bool:
    return any("underflow" in side.left_range for side in (done.reference, *done.rank_references))


def _sparse(on: _Programs, steps: Mapping[str, Step], pool: Pool, seen: Seen, everything: bool) -> int:
    """Executions on zeros and masked rows, where one of the programs may be undefined; how many were compared."""
    if not any(uses.partial for uses in (on.ours, *on.theirs)):
        return 0
    count = 0
    for number in range(SPARSE):
        seed, draw = on.seed + 200 + number, sparse_draw(number, on.seed, pool)
        try:
            started = start_in_floats(on.job, on.layout, seed, draw, everything=everything)
            _look(on, seen, started, draw, seed, everything)
            if not started.within:
                continue
            done = started.finish()
        except (IntegerOverflow, Unsupported):
            continue
        _compare(on, steps, seen, done, draw, seed, everything)
        count += 1
    return count


def _stress(on: _Programs, seen: Seen, everything: bool) -> None:
    """Run the specification on inputs on which programs fail easily, and note in ``seen`` what it shows: zeros,
    negative numbers, large ones, and indices out of range, of every input alone, too."""
    ways = [Way(values=(0.0,)), Way(values=(-1.0, -2.0)), Way(values=(0.0, 1.0, -1.0))]
    if on.ours.fitting:
        ways += [Way(amplitude=1e3), Way(amplitude=1e6)]
    if not on.sized_by_data:
        alone = on.layout.wild[:_ALONE] if len(on.layout.wild) > 1 else ()
        ways += [Way(wild=-1), *(Way(wild=tensor) for tensor in alone)]
    for number, way in enumerate(ways):
        draw = normal_draw(way, on.seed + 50 + number)
        _show(on, seen, draw, on.seed + 50 + number, everything)


def _search(on: _Programs, seen: Seen, pool: Pool, nodes: frozenset[str], everything: bool) -> None:
    """Look for inputs on which these nodes of the specification fail, which it is not shown that they do not."""
    for number in range(max(2 * SPARSE, min(_MOST_TRIES, on.searches)) if nodes else 0):
        if nodes <= seen.undefined:
            return
        _show(on, seen, sparse_draw(number, on.seed, pool), on.seed + 1000 + number, everything)


def _show(on: _Programs, seen: Seen, draw: Draw, seed: int, everything: bool) -> None:
    try:
        started = start_in_floats(on.job, on.layout, seed, draw, everything=everything)
    except (IntegerOverflow, Unsupported):
        return
    _look(on, seen, started, draw, seed, everything)


def _shown(name: str, claims: Claims) -> str:
    if name in claims.lemmas:
        return claims.lemmas[name]
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
