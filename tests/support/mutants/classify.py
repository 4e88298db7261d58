"""What a mutant means, by execution alone: normal forms have no say in it.

Both programs run on the same inputs: floats of many sizes (1e-2 to 1e3, one size for all inputs or one for each),
positive, small whole numbers (then polynomials are exact in float64), and mostly zero; integers over their whole range,
at its ends, ascending, and constant. Every checked output is compared element by element, by the job's relation.

    tolerance    what rounding may do to an output on this input: 64 ulps of its largest element, 16 times the
                 difference of the original pair (which is proved, so that its difference is rounding), and 16 times
                 the change of either side of the original when the inputs change by 1e-15 of themselves
    different    on some input the difference exceeds the tolerance, dwarfs what a change of the inputs by 1e-15
                 does to the mutant, and persists when the inputs move by 1e-9: no rounding, no tie, no jump
    undefined    on some input the specification is finite and the mutant is not (or an index is out of range), and
                 nearby too
    equal        on at least AGREED inputs nothing exceeds the tolerance, and no input is unclear
    undecided    everything else

"Equal" is strong evidence, no proof: analytic functions that differ agree at a random point with probability 0, so
only a difference below the tolerance on all inputs, or on rare integers, can hide. "Different" is a counterexample.
Dropout masks are those that belong together in the original, and once nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from tantamount.correspond.alignment import align
from tantamount.errors import InternalError, TantamountError, Unsupported
from tantamount.execution.arrays import Comparison
from tantamount.execution.differences import Claim, _perturbed, _sides, examine, output_claim
from tantamount.execution.plans import Execution, Leaf, Leaves, NotExecuted, Plan, execute, plan_execution
from tantamount.ir.job import Job
from tantamount.ir.types import Kind
from tantamount.limits import Limits
from tantamount.proof import Options, prove
from tantamount.semantics.reference import Array

__all__ = ["DIFFERENT", "EQUAL", "Subject", "UNDECIDED", "UNDEFINED", "classify", "subject_of"]

EQUAL, DIFFERENT, UNDEFINED, UNDECIDED = "equal", "different", "undefined", "undecided"
AGREED = 5
_ULPS = 64 * 2.0**-52
_SLACK = 16.0
_DWARFS = 100.0


@dataclass(frozen=True, slots=True)
class _Way:
    """How leaves are drawn. ``whole``: floats are small whole numbers; ``zeros``: most are 0; ``each``: every leaf has
    its own size around ``amplitude``; ``integers``: ``uniform``, ``ends``, ``ascending`` or ``constant``."""

    amplitude: float = 1.0
    positive: bool = False
    whole: bool = False
    zeros: bool = False
    each: bool = False
    integers: str = "uniform"


WAYS = (
    _Way(),
    _Way(integers="ends"),
    _Way(whole=True, integers="ascending"),
    _Way(30.0, integers="uniform"),
    _Way(1.0, each=True),
    _Way(1e-2, integers="ends"),
    _Way(1.0, positive=True, integers="ascending"),
    _Way(1e3),
    _Way(3.0, each=True, integers="constant"),
    _Way(10.0, positive=True),
    _Way(3.0, zeros=True, integers="ends"),
    _Way(100.0, each=True),
    _Way(0.1, integers="ascending"),
)


@dataclass(frozen=True)
class _Run:
    """One input on which the original pair agrees. ``tolerance``: by output, one for each comparison."""

    leaves: Leaves
    seed: int
    tolerance: dict[str, list[float]]
    original: Execution


@dataclass(frozen=True)
class Subject:
    """A proved job, ready for its mutants. ``skipped`` says why it cannot be executed."""

    job: Job
    plan: Plan | None
    runs: tuple[_Run, ...]
    skipped: str = ""


def subject_of(job: Job, limits: Limits | None = None) -> Subject:
    """Draws the inputs on which mutants will be judged, and measures rounding on them."""
    sides = prove(job, Options(align=align))
    try:
        plan = plan_execution(
            sides.store, job, sides.inputs, sides.specification, sides.implementation, limits or Limits()
        )
        runs = [run for seed, way in enumerate(WAYS) if (run := _run(plan, seed, way)) is not None]
    except (NotExecuted, Unsupported) as problem:
        return Subject(job, None, (), str(problem))
    if len(runs) < AGREED:
        return Subject(job, None, (), f"defined on {len(runs)} of {len(WAYS)} inputs only")
    return Subject(job, plan, tuple(runs))


def _run(plan: Plan, seed: int, way: _Way) -> _Run | None:
    leaves = {leaf.name: _drawn(leaf, seed, way) for leaf in plan.leaves}
    execution = _executed(plan, leaves, seed)
    if execution is None:
        return None
    moved = [_executed(plan, _perturbed(plan, leaves, s, "rounding"), seed) for s in (seed, seed + 1000)]
    tolerance: dict[str, list[float]] = {}
    for name in plan.job.outputs:
        claim = output_claim(plan.job, name)
        found = _sides(plan.job, claim, execution)
        shaken = [_sides(plan.job, claim, other) for other in moved if other is not None]
        tolerance[name] = [_tolerance(c, [sides[k] for sides in shaken]) for k, c in enumerate(found)]
        if examine(plan, claim, execution).difference is not None:
            return None  # a tie, or rounding that decides an integer
    return _Run(leaves, seed, tolerance, execution)


def _tolerance(c: Comparison, shaken: Sequence[Comparison]) -> float:
    finite = np.isfinite(c.wanted) & np.isfinite(c.found)
    size = float(np.abs(c.wanted[finite]).max(initial=0.0))
    own = float(np.abs(c.wanted[finite] - c.found[finite]).max(initial=0.0))
    change = max((_moved(c, other) for other in shaken), default=0.0)
    return max(_ULPS * size, _SLACK * own, _SLACK * change)


def _moved(a: Comparison, b: Comparison) -> float:
    """The largest change of either side."""
    largest = 0.0
    for x, y in ((a.wanted, b.wanted), (a.found, b.found)):
        both = np.isfinite(x) & np.isfinite(y)
        largest = max(largest, float(np.abs(x[both] - y[both]).max(initial=0.0)))
    return largest


def _executed(plan: Plan, leaves: Leaves, seed: int) -> Execution | None:
    """Both programs; ``None`` where the numbers say nothing about the reals."""
    execution = execute(plan, leaves, seed)
    if execution is None or not execution.in_reals or not execution.within_assumptions:
        return None
    return execution


def _drawn(leaf: Leaf, seed: int, way: _Way) -> Array:
    generator = np.random.default_rng([seed, crc32(repr(leaf.name).encode()), 7])
    if leaf.kind is Kind.BOOL:
        if way.integers == "constant":
            return np.ones(leaf.shape)
        return np.asarray(generator.integers(0, 2, leaf.shape), dtype=np.float64)
    if leaf.kind is Kind.INT:
        return _integers(leaf, generator, way.integers)
    amplitude = way.amplitude * (10.0 ** generator.uniform(-2, 2) if way.each else 1.0)
    if way.whole:
        value = np.asarray(generator.integers(-3, 4, leaf.shape), dtype=np.float64)
    else:
        value = np.asarray(generator.standard_normal(leaf.shape)) * amplitude
    if way.zeros:
        value = value * (generator.random(leaf.shape) < 0.3)
    return np.abs(value) if way.positive else value


def _integers(leaf: Leaf, generator: np.random.Generator, how: str) -> Array:
    bound = leaf.bound
    if how == "ascending":
        value = (np.arange(leaf.size) + int(generator.integers(0, bound))) % bound
        value = value.reshape(leaf.shape)
    elif how == "constant":
        value = np.full(leaf.shape, int(generator.integers(0, bound)))
    elif how == "ends":
        ends = np.array([0, 1, bound // 4, bound // 2 - 1, bound // 2, bound - 2, bound - 1]).clip(0, bound - 1)
        value = ends[generator.integers(0, len(ends), leaf.shape)]
    else:
        value = generator.integers(0, bound, leaf.shape)
    return np.asarray(value, dtype=np.float64)


# ------------------------------------------------------------------------------------------------ mutants
def classify(subject: Subject, mutant: Job) -> dict[str, str]:
    """The class of every checked output. Raises :class:`NotExecuted` where the mutant cannot run at all."""
    plan = _plan(subject, mutant)
    found: dict[str, str] = {}
    agreed = dict.fromkeys(mutant.outputs, 0)
    unclear: set[str] = set()
    for run in subject.runs:
        if len(found) == len(mutant.outputs):
            break
        if subject.plan is not None and plan.inputs is subject.plan.inputs:
            leaves = run.leaves
        else:
            leaves = {leaf.name: _drawn(leaf, run.seed, WAYS[run.seed]) for leaf in plan.leaves}
        execution = _executed(plan, leaves, run.seed)
        if execution is None:
            continue
        shaken = _Shaken(plan, leaves, run.seed)
        for name in mutant.outputs:
            if name in found:
                continue
            verdict = _judged(plan, output_claim(mutant, name), execution, run, shaken)
            if verdict == EQUAL:
                agreed[name] += 1
            elif verdict == UNDECIDED:
                unclear.add(name)
            else:
                found[name] = verdict
    for name, count in agreed.items():
        found.setdefault(name, EQUAL if count >= AGREED and name not in unclear else UNDECIDED)
    return {name: found[name] for name in mutant.outputs}


def _plan(subject: Subject, mutant: Job) -> Plan:
    plan = subject.plan
    assert plan is not None
    if mutant.inputs == plan.job.inputs:
        return replace(plan, job=mutant)
    sides = prove(
        mutant, Options(align=align)
    )  # for the inputs that the new relation admits; they are checked against it as arrays
    return plan_execution(sides.store, mutant, sides.inputs, sides.specification, sides.implementation, Limits())


class _Shaken:
    """The mutant on inputs that were moved a little, computed once."""

    def __init__(self, plan: Plan, leaves: Leaves, seed: int) -> None:
        self._of = (plan, leaves, seed)
        self._known: dict[str, Execution | None] = {}

    def __call__(self, kind: str) -> Execution | None:
        if kind not in self._known:
            plan, leaves, seed = self._of
            self._known[kind] = _executed(plan, _perturbed(plan, leaves, seed, kind), seed)
        return self._known[kind]


def _judged(plan: Plan, claim: Claim, execution: Execution, run: _Run, shaken: _Shaken) -> str:
    difference = examine(plan, claim, execution).difference
    if difference is not None and difference.stop:
        near = shaken("nearby")
        again = examine(plan, claim, near).difference if near is not None else None
        return UNDEFINED if again is not None and again.stop else UNDECIDED
    sides = _sides(plan.job, claim, execution)
    tolerances = run.tolerance[claim.name]
    if len(tolerances) != len(sides):
        tolerances = [max(tolerances, default=0.0)] * len(sides)
    unclear = False
    for k, c in enumerate(sides):
        defined = np.isfinite(c.wanted)
        fails = defined & ~np.isfinite(c.found)
        if fails.any():
            if not execution.underflow and _persists(plan, claim, shaken, k, fails):
                return UNDEFINED
            unclear = True
            continue
        gap = np.where(defined, np.abs(np.where(defined, c.wanted, 0) - np.where(defined, c.found, 0)), 0.0)
        if float(gap.max(initial=0.0)) <= tolerances[k]:
            continue
        if _real(plan, claim, shaken, k, c, gap, tolerances[k]):
            return DIFFERENT
        unclear = True
    return UNDECIDED if unclear else EQUAL


def _persists(plan: Plan, claim: Claim, shaken: _Shaken, k: int, fails: Array) -> bool:
    near = shaken("nearby")
    if near is None:
        return False
    c = _sides(plan.job, claim, near)[k]
    return bool((fails & np.isfinite(c.wanted) & ~np.isfinite(c.found)).any())


def _real(plan: Plan, claim: Claim, shaken: _Shaken, k: int, c: Comparison, gap: Array, tolerance: float) -> bool:
    """Whether some difference is one of the real functions."""
    rounded, near = shaken("rounding"), shaken("nearby")
    if rounded is None or near is None:
        return False
    a, b = _sides(plan.job, claim, rounded)[k], _sides(plan.job, claim, near)[k]
    with np.errstate(all="ignore"):
        change = np.abs(a.wanted - c.wanted) + np.abs(a.found - c.found)
        sure = (gap > tolerance) & (gap > _DWARFS * change)
        sure &= np.abs(b.wanted - b.found) > gap / 2
    return bool(sure.any())


def executes(subject: Subject, mutant: Job) -> dict[str, str] | str:
    """The classes, or why the mutant cannot be executed."""
    try:
        return classify(subject, mutant)
    except InternalError:
        raise
    except TantamountError as problem:
        return str(problem)
