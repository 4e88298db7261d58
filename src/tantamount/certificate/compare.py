"""Every claim compared with an execution: in float64, and in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tantamount.certificate.execution import Executed
from tantamount.certificate.residues import Field, Residues
from tantamount.certificate.uses import DECIDED, TRANSCENDENTAL, Uses
from tantamount.errors import Unsupported
from tantamount.ir.job import Job
from tantamount.ops.algebra import Interpretation, Tensor, Unsized
from tantamount.ops.relations import Pair, held_names, pairs
from tantamount.semantics.reference import Array

__all__ = ["Step", "compare_exactly", "compare_floats", "steps_of"]

_SAME = 2.0**-46  # of the largest element: no difference in float64
_LARGE = 1e-9  # what rounding may not hide in half of the elements
_DWARFS = 100.0  # a difference is one if it exceeds what rounding does by this factor
_REPEATS = 16  # executions with other rounding errors before a difference is believed


@dataclass
class Step:
    """One claim, and what was found of it. ``floats`` and ``exact`` count the executions in which it was compared and
    held; ``why`` says why it was not compared exactly; ``wrong`` how it fails; ``degree`` bounds the degree of what was
    compared; ``replaced``: functions that were replaced by others in exact arithmetic; ``sizes``: of the field of every
    exact execution in which it held.

    ``constant``: it depends on no input; ``rational``: it is about rational functions of real inputs, which are the
    same for all integers, booleans and orders."""

    name: str
    constant: bool = False
    rational: bool = False
    floats: int = 0
    exact: int = 0
    why: str = ""
    wrong: str = ""
    degree: int = 0
    replaced: frozenset[str] = frozenset()
    sizes: list[int] = field(default_factory=list[int])

    @property
    def exactly(self) -> bool:
        """True if it held in exact arithmetic whenever it was compared there."""
        return self.exact > 0 and not self.why

    @property
    def chance(self) -> float | None:
        """The chance that it held though it is wrong, by Schwartz and Zippel: its degree over the size of the field,
        once for every execution. ``None``: there is no such bound."""
        if not self.exactly or not self.rational or self.constant or not self.degree:
            return None
        out = 1.0
        for size in self.sizes:
            out *= min(1.0, self.degree / size)
        return out if out < 0.5 else None


def steps_of(job: Job, names: Sequence[str], ours: Uses, theirs: Sequence[Uses]) -> dict[str, Step]:
    """A step for every claim, with what its values depend on. ``theirs``: the uses of every rank's graph."""
    nodes = _nodes(job)
    whole = {output.name: output.node for output in job.specification.outputs}
    found: dict[str, Step] = {}
    for name in names:
        bits = ours.bits.get(whole[name], DECIDED)
        for rank, tensor in held_names(job.outputs[name], len(nodes)):
            bits |= theirs[rank].bits.get(nodes[rank].get(tensor, tensor), DECIDED)
        found[name] = Step(name, constant=not bits, rational=not bits & (DECIDED | TRANSCENDENTAL))
    return found


def _nodes(job: Job) -> list[Mapping[str, str]]:
    return [graph.output_nodes for graph in job.implementation]


def _sides(job: Job, done: Executed, name: str, on: Interpretation) -> list[Pair]:
    """The two sides that a claim says are equal. Raises :class:`Unsupported` where a value is not known."""
    node = job.specification.output_nodes[name]
    nodes = _nodes(job)

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


# ---------------------------------------------------------------------------------------------- float64
def compare_floats(
    job: Job,
    steps: Mapping[str, Step],
    done: Executed,
    how: str,
    again: Callable[[int], Executed | None],
) -> None:
    """Compare every claim, wherever the specification is finite. ``how`` is said of a difference; ``again`` executes
    once more with other rounding errors (``None``: that cannot be compared)."""
    noisy = _Noise(again)
    for step in steps.values():
        try:
            sides = _sides(job, done, step.name, done.reference)
        except Unsupported as problem:
            step.why = step.why or problem.reason
            continue
        compared = excused = 0
        for k, pair in enumerate(sides):
            wanted, found = np.asarray(pair.wanted), np.asarray(pair.found)
            if wanted.shape != found.shape:
                step.wrong = step.wrong or f"fails: shape {list(found.shape)} where {list(wanted.shape)} is needed"
                continue
            bad, large, defined = _different(wanted, found)
            compared += int(defined.sum()) + int((np.isinf(wanted) & (wanted == found)).sum())
            if step.wrong or not bad.any():
                continue
            left = _beyond_rounding(job, step.name, k, bad, wanted, found, noisy)
            excused += int((large & ~left).sum())
            if left.any():
                gap = np.abs(_reals(wanted) - _reals(found))
                worst = int(np.argmax(np.where(left, np.where(np.isfinite(gap), gap, np.inf), -1)))
                at = [int(i) for i in np.unravel_index(worst, wanted.shape)]
                one, other = _texts(found.flat[worst], wanted.flat[worst])
                step.wrong = (
                    f"fails: element {at} of {pair.where} is {one}, {other} in the specification (float64, {how})"
                )
        if compared > 2 * excused or all(np.asarray(pair.wanted).size == 0 for pair in sides):
            step.floats += 1


def _texts(*xs: object) -> tuple[str, ...]:
    """Numbers as text, with as many digits as tell them apart."""
    short, whole = ([f"{x:.{n}g}" if isinstance(x, float) else str(x) for x in xs] for n in (9, 17))
    return tuple(short if len(set(short)) == len(xs) else whole)


def _reals(x: Array) -> Array:
    return np.asarray(x, dtype=np.float64)


def _different(wanted: Array, found: Array) -> tuple[Array, Array, Array]:
    """Three masks: of the elements that differ by more than the last digits, of those that differ much, and of those
    that are finite in the specification: elsewhere nothing differs. Where it is finite and the other is not, they
    differ much; so do whole numbers that differ."""
    if wanted.dtype.kind != "f" and found.dtype.kind != "f":
        unequal = np.asarray(wanted != found)
        return unequal, unequal, np.ones(wanted.shape, dtype=np.bool_)
    wanted, found = _reals(wanted), _reals(found)
    defined = np.isfinite(wanted)
    gap = np.abs(np.where(defined, wanted, 0.0) - np.where(defined, found, 0.0))
    size = float(np.abs(wanted[defined]).max(initial=0.0))
    bad, large = (np.asarray(defined & ~(gap <= part * size)) for part in (_SAME, _LARGE))
    return bad, large, np.asarray(defined)


class _Noise:
    """Executions with other rounding errors, made when they are asked for."""

    def __init__(self, again: Callable[[int], Executed | None]) -> None:
        self.again = again
        self.done: list[Executed | None] = []

    def __iter__(self) -> Iterator[Executed]:
        for k in range(_REPEATS):
            if k == len(self.done):
                self.done.append(self.again(k + 1))
            if (found := self.done[k]) is not None:
                yield found


def _beyond_rounding(job: Job, name: str, k: int, bad: Array, wanted: Array, found: Array, noisy: _Noise) -> Array:
    """A mask of the elements whose difference is larger than what rounding errors make of either side, in all
    executions."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(_reals(wanted) - _reals(found))
    undefined = ~np.isfinite(_reals(found))
    noise = np.zeros(gap.shape)
    for done in noisy:
        pair = _sides(job, done, name, done.reference)[k]
        if np.shape(pair.wanted) != noise.shape or np.shape(pair.found) != noise.shape:
            continue
        with np.errstate(invalid="ignore"):  # differences of infinities
            moved = np.abs(_reals(pair.wanted) - _reals(wanted)) + np.abs(_reals(pair.found) - _reals(found))
        noise = np.maximum(noise, np.nan_to_num(moved, nan=np.inf, posinf=np.inf))
        # without a finite value of the implementation in any of them, rounding is not why there is none
        bad = bad & np.where(undefined, ~np.isfinite(_reals(pair.found)), ~(gap <= _DWARFS * noise))
        if not bad.any():
            break
    return np.asarray(bad)


# ---------------------------------------------------------------------------------------------- exact arithmetic
def compare_exactly(job: Job, steps: Mapping[str, Step], done: Executed, of: Field) -> None:
    """Compare every claim, residue by residue. A difference where nothing was replaced is one."""
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
            step.sizes.append(of.q)
