"""Whether two executed programs differ: what counts as a difference, and what may be rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from tantamount.errors import Unsupported
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation
from tantamount.ir.types import Kind
from tantamount.refine.arrays import Comparison, comparisons
from tantamount.refine.execution import Execution, Leaves, Plan, execute
from tantamount.refine.outputs import output_node
from tantamount.semantics.interpret import NodeValue
from tantamount.semantics.reference import Array

__all__ = ["Checked", "Difference", "compare", "confirm", "pairs", "related"]

RELATIVE = 1e-6  # smaller differences of one element are "too small to tell"
_OF_TENSOR = 1e-9  # the same against the largest element of the tensor
_NOISE = 1e-10  # what rounding may do to an ordinary computation
_ROUNDING = 1e-15  # relative change of the inputs that shows how much rounding is amplified
_NEARBY = 1e-9  # absolute change (of inputs of size 1) under which a difference must persist


@dataclass(frozen=True, slots=True)
class Difference:
    """``element`` of the output is ``expected`` in the specification and ``actual`` on ``rank`` (NaN: it fails there).
    ``where`` is its place among the comparisons, ``ratio`` the relative difference."""

    output: str
    element: tuple[int, ...]
    expected: float
    actual: float
    rank: int
    ratio: float
    where: tuple[int, int]

    @property
    def fails(self) -> bool:
        return not np.isfinite(self.actual)


@dataclass(frozen=True, slots=True)
class Checked:
    """The largest difference that counts (``None``: none), how many elements were compared (those where the
    specification is defined), and the largest relative difference that is too large for rounding and too small to count."""

    difference: Difference | None
    compared: int
    small: float = 0.0


def pairs(job: Job, output: str, execution: Execution) -> list[Comparison]:
    """What the expectation of an output compares. Raises :class:`Unsupported` where shapes do not fit."""
    node = next(o.node for o in job.specification.outputs if o.name == output)
    return related(job, execution, node, job.outputs[output])


def related(job: Job, execution: Execution, node: str, expectation: Expectation) -> list[Comparison]:
    """What a relation of any specification node compares."""

    def held(rank: int, name: str) -> Array:
        return _array(execution.ranks[rank].get(output_node(job, rank, name)))

    return comparisons(_array(execution.specification[node]), expectation, job.mesh, held)


def _array(value: NodeValue) -> Array:
    if value is None or isinstance(value, tuple):
        raise Unsupported("a node with several results or none")
    if value.dtype.kind == "c":
        return np.stack([value.real, value.imag], axis=-1)
    return np.asarray(value, dtype=np.float64)


def compare(output: str, sides: Sequence[Comparison]) -> Checked:
    """The largest difference: where the specification is defined and the implementation is not, or has another value."""
    best: Difference | None = None
    compared = 0
    small = 0.0
    for k, c in enumerate(sides):
        wanted, found = c.wanted, c.found
        defined = np.isfinite(wanted)
        count = int(np.count_nonzero(defined))
        compared += count
        if not count:
            continue
        alive = defined & np.isfinite(found)
        difference = np.where(alive, np.abs(np.where(alive, wanted, 0) - np.where(alive, found, 0)), 0.0)
        size = np.where(alive, np.maximum(np.abs(np.where(alive, wanted, 0)), np.abs(np.where(alive, found, 0))), 0.0)
        largest = float(size.max(initial=0.0))
        counts = (difference > RELATIVE * size) & (difference > _OF_TENSOR * largest)
        with np.errstate(all="ignore"):
            ratio = np.where(difference > 0, difference / size, 0.0)
        quiet = ~counts & (difference > _NOISE * largest)
        small = max(small, float(ratio[quiet].max(initial=0.0)))
        fails = defined & ~np.isfinite(found)
        if counts.any():
            flat = int(np.argmax(np.where(counts, ratio, -1.0)))
        elif fails.any():
            flat = int(np.argmax(fails))
        else:
            continue
        now = _difference(output, c, k, flat, float(ratio.ravel()[flat]))
        if best is None or (best.fails, -best.ratio) > (now.fails, -now.ratio):
            best = now
    return Checked(best, compared, small)


def _difference(output: str, c: Comparison, k: int, flat: int, ratio: float) -> Difference:
    at = tuple(int(i) for i in np.unravel_index(flat, c.wanted.shape))
    element = tuple(i + o for i, o in zip(at, c.origin, strict=True))
    return Difference(output, element, float(c.wanted[at]), float(c.found[at]), int(c.rank[at]), ratio, (k, flat))


def confirm(plan: Plan, leaves: Leaves, seed: int, found: Difference) -> bool:
    """Whether a difference is one of the real functions: no rounding (it dwarfs what the last digits of the inputs do to
    either side) and no tie or jump (it persists nearby)."""
    size = abs(found.expected - found.actual)
    for kind in ("rounding", "nearby"):
        execution = execute(plan, _perturbed(plan, leaves, seed, kind), seed)
        if execution is None or not execution.in_reals or not execution.within_assumptions:
            return False
        sides = pairs(plan.job, found.output, execution)
        k, flat = found.where
        wanted, actual = float(sides[k].wanted.ravel()[flat]), float(sides[k].found.ravel()[flat])
        if not np.isfinite(wanted):
            return False
        if found.fails:
            if np.isfinite(actual) or execution.underflow:
                return False
            continue
        if not np.isfinite(actual) or abs(wanted - actual) < size / 2:
            return False
        if kind == "rounding" and abs(wanted - found.expected) + abs(actual - found.actual) > size * 1e-3:
            return False
    return True


def _perturbed(plan: Plan, leaves: Leaves, seed: int, kind: str) -> dict[tuple[str, object], Array]:
    out: dict[tuple[str, object], Array] = {}
    for leaf in plan.leaves:
        value = leaves[leaf.name]
        if leaf.kind is Kind.FLOAT:
            generator = np.random.default_rng([seed, crc32(repr((kind, leaf.name)).encode())])
            noise = np.asarray(generator.standard_normal(value.shape))
            if kind == "rounding":
                value = value * (1 + _ROUNDING * noise)
            else:
                value = value + _NEARBY * max(1.0, float(np.abs(value).max(initial=0.0))) * noise
        out[leaf.name] = value
    return out
