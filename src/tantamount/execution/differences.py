"""Discrepancies between two executed programs: what counts as one, and what may be rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from zlib import crc32

import numpy as np

from tantamount.calculus.affine import Index
from tantamount.calculus.forms import Box
from tantamount.errors import InternalError, Unsupported
from tantamount.execution.arrays import Comparison, comparisons
from tantamount.execution.plans import Execution, Leaves, Plan, execute
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation
from tantamount.ir.types import Kind
from tantamount.ops.calls import asserts, requires
from tantamount.ops.functions import Ties
from tantamount.proof.outputs import output_node
from tantamount.semantics.interpret import NodeValue
from tantamount.semantics.reference import STOPS, Array, Flag

__all__ = ["Checked", "Claim", "Discrepancy", "array_of", "compare", "confirm", "examine", "output_claim"]

RELATIVE = 1e-6  # smaller differences of one element are "too small to tell"
_OF_TENSOR = 1e-9  # the same against the largest element of the tensor
_NOISE = 1e-10  # what rounding may do to an ordinary computation
_STOPPED = {"out-of-range": "has an index out of range", "zero-divisor": "divides a whole number by 0"}
_ROUNDING = 1e-15  # relative change of the inputs that shows how much rounding is amplified
_OTHER_TIES = {"reversed ties": Ties.REVERSED, "mixed ties": Ties.MIXED}
# kinds of executions with other rounding errors: numbers that rounding made equal stay in one order in one of a million
_NOISE_OF = {f"noise {k}": k for k in range(1, 21)}
_ERRORS_OF = {"errors 1": 1, "errors 2": 2}  # the same, where no value jumps: two of them show what rounding does
_NEARBY = 1e-9  # absolute change (of inputs of size 1) under which a difference must persist


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """``element`` of the output is ``expected`` in the specification and ``actual`` on ``rank`` (NaN: it fails there;
    ``stop`` says what stops the whole program, if something does: an index out of range, a whole number divided by 0).
    ``where`` is its place among the comparisons, ``ratio`` the relative difference."""

    output: str
    element: tuple[int, ...]
    expected: float
    actual: float
    rank: int
    ratio: float
    where: tuple[int, int]
    stop: str = ""

    @property
    def fails(self) -> bool:
        return not np.isfinite(self.actual)


@dataclass(frozen=True, slots=True)
class Checked:
    """The largest difference that counts (``None``: none), how many elements were compared (those where the
    specification is defined), and the largest relative difference too large for rounding and too small to count."""

    difference: Discrepancy | None
    compared: int
    small: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """That ``relation`` holds of the specification's ``node``: an output, or any tensor; ``name`` is for messages.
    The relation is about implementation nodes if ``of_nodes``, else about outputs (an output and an input may share a
    name). With ``pieces`` the claim is another: what all ranks hold of ``relation.name``, stacked and cut into axes of
    these sizes, is on each of these boxes the specification's tensor at that index of the axes."""

    name: str
    node: str
    relation: Expectation
    of_nodes: bool = False
    pieces: tuple[tuple[int, ...], tuple[tuple[Box, Index], ...]] | None = None

    def tensor(self, job: Job, rank: int, name: str) -> str:
        """The implementation node that the relation calls ``name``."""
        return name if self.of_nodes else output_node(job, rank, name)


def output_claim(job: Job, output: str) -> Claim:
    """The expectation of an output."""
    node = next(o.node for o in job.specification.outputs if o.name == output)
    return Claim(output, node, job.outputs[output])


def examine(plan: Plan, claim: Claim, execution: Execution) -> Checked:
    """The largest difference that contradicts a claim; an index of the implementation that is out of range is one.

    Raises :class:`Unsupported` where shapes do not fit."""
    sides = _sides(plan.job, claim, execution)
    checked = compare(claim.name, sides)
    if checked.difference is None:
        return _outside(plan.job, claim, execution, sides, checked)
    return replace(checked, difference=None) if _doubtful(plan.job, claim, execution) else checked


def _doubtful(job: Job, claim: Claim, execution: Execution) -> bool:
    """True if a claim's tensor depends on an operator for which eager may give another result than the definition."""
    for rank, evaluation in enumerate(execution.ranks):
        sites = {flag.site for flag in evaluation.flags if flag.what == "doubtful"}
        if sites and not sites.isdisjoint(
            job.implementation[rank].ancestors(claim.tensor(job, rank, claim.relation.name))
        ):
            return True
    return False


def _sides(job: Job, claim: Claim, execution: Execution) -> list[Comparison]:
    def held(rank: int, name: str) -> Array:
        return array_of(execution.ranks[rank].get(claim.tensor(job, rank, name)))

    whole = array_of(execution.specification[claim.node])
    if claim.pieces is not None:
        return _pieces(whole, *claim.pieces, [held(r, claim.relation.name) for r in range(job.mesh.world_size)])
    return comparisons(whole, claim.relation, job.mesh, held)


def _pieces(
    whole: Array, sizes: tuple[int, ...], places: Sequence[tuple[Box, Index]], ranks: Sequence[Array]
) -> list[Comparison]:
    local = ranks[0].shape
    stacked = np.stack(ranks).reshape(sizes)
    holders = np.broadcast_to(np.arange(len(ranks)).reshape((-1,) + (1,) * len(local)), (len(ranks), *local))
    axes = np.indices(sizes, sparse=True)
    hit = np.zeros(whole.shape, dtype=np.bool_)
    out: list[Comparison] = []
    for box, index in places:
        cut = tuple(slice(low, high) for low, high in box)
        here = [axis[tuple(c if j == k else slice(None) for j, c in enumerate(cut))] for k, axis in enumerate(axes)]
        at = tuple(np.asarray(offset + sum((s * here[v] for v, s in parts), np.int64(0))) for parts, offset in index)
        hit[at] = True
        found = stacked[cut]
        wanted = np.broadcast_to(whole[at], found.shape)
        out.append(Comparison(wanted, found, holders.reshape(sizes)[cut], (0,) * len(sizes)))
    if not hit.all():
        raise InternalError(f"pieces that do not cover the whole of shape {list(whole.shape)}")
    return out


def _outside(job: Job, claim: Claim, execution: Execution, sides: Sequence[Comparison], checked: Checked) -> Checked:
    """Indices out of range and divisors of integers that are 0, on their own rank, at nodes that a claim's tensors
    depend on, or no output does."""
    for rank, evaluation in enumerate(execution.ranks):
        flags = [flag for flag in evaluation.flags if flag.what in STOPS]
        if not flags:
            continue
        graph = job.implementation[rank]
        above = graph.ancestors(claim.tensor(job, rank, claim.relation.name))
        others = {name for output in graph.outputs for name in graph.ancestors(output.node)} - above.keys()
        flag = next((flag for flag in flags if flag.site not in others), None)
        if flag is None:
            continue
        stop = f"{flag.site} {_stopping(graph, flag)}"
        for k, c in enumerate(sides):
            defined = np.isfinite(c.wanted) & (c.rank == rank)
            if defined.any():
                found = replace(_difference(claim.name, c, k, int(np.argmax(defined)), 1.0), actual=nan, stop=stop)
                return replace(checked, difference=found)
    return checked


def _stopping(graph: Graph, flag: Flag) -> str:
    if asserts(graph, flag.site):
        return "asserts what does not hold"
    required = requires(graph, flag.site)
    return f"requires that {required}, which is not so" if required else _STOPPED[flag.what]


def array_of(value: NodeValue) -> Array:
    """The numbers of a node's value, complex ones as pairs. Raises :class:`Unsupported` where it is no tensor."""
    if value is None or isinstance(value, tuple):
        raise Unsupported("a node with several results or none")
    if value.dtype.kind == "c":
        return np.stack([np.real(value), np.imag(value)], axis=-1)
    return np.asarray(value, dtype=np.float64)


def compare(output: str, sides: Sequence[Comparison]) -> Checked:
    """The largest difference: the specification is defined, and the implementation is not or has another value."""
    best: Discrepancy | None = None
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


def _difference(output: str, c: Comparison, k: int, flat: int, ratio: float) -> Discrepancy:
    at = tuple(int(i) for i in np.unravel_index(flat, c.wanted.shape))
    element = tuple(i + o for i, o in zip(at, c.origin, strict=True))
    return Discrepancy(output, element, float(c.wanted[at]), float(c.found[at]), int(c.rank[at]), ratio, (k, flat))


def confirm(
    plan: Plan,
    claim: Claim,
    leaves: Leaves,
    seed: int,
    found: Discrepancy,
    done: dict[str, Execution | None] | None = None,
    *,
    singular: bool = False,
    quick: bool = False,
    sampled: bool = False,
) -> bool:
    """True if a difference is one of the real functions: no rounding and no tie. It dwarfs what the last digits of the
    inputs and other rounding errors of the operators do to either side (Parker's Monte Carlo arithmetic: a cosine near
    its zero has few right digits, whatever the inputs), and persists nearby; or, where values jump, it is there
    whatever the rounding errors are. Where an operator chose among equal elements as PyTorch does not promise, it
    persists under other choices. ``done`` keeps the executions for other claims about the same leaves. ``singular``:
    the implementation is known to be equal where it is defined; ``quick``: with few rounding errors, for a difference
    that is confirmed again; ``sampled``: the leaves are no random numbers, and may be where values that differ are
    rounded to one."""
    done = {} if done is None else done

    def persists(*kinds: str) -> bool:
        for kind in kinds:
            if kind == "nearby" and singular and found.fails:
                continue
            if kind not in done:
                noise = _NOISE_OF.get(kind) or _ERRORS_OF.get(kind, 0)
                given = leaves if noise else _perturbed(plan, leaves, seed, kind)
                done[kind] = execute(plan, given, seed, _OTHER_TIES.get(kind, Ties.USUAL), noise)
            if not _still(plan, claim, found, done[kind], kind):
                return False
        first = done[kinds[0]]
        return not (first is not None and first.tied) or kinds[-1] in _OTHER_TIES or persists(*_OTHER_TIES)

    if not sampled and persists("rounding", "nearby", *_ERRORS_OF):
        return True
    return plan.jumps and persists(*[*_NOISE_OF][: 3 if quick else None])


def _still(plan: Plan, claim: Claim, found: Discrepancy, execution: Execution | None, kind: str) -> bool:
    """True if an execution shows the same difference."""
    if execution is None or not execution.in_reals or not execution.within_assumptions:
        return False
    if found.stop:
        again = examine(plan, claim, execution).difference
        return again is not None and again.stop == found.stop
    if kind in _NOISE_OF and execution.underflow:  # a 0 that is none has no rounding error
        return False
    size = abs(found.expected - found.actual)
    sides = _sides(plan.job, claim, execution)
    k, flat = found.where
    wanted, actual = float(sides[k].wanted.ravel()[flat]), float(sides[k].found.ravel()[flat])
    if not np.isfinite(wanted):
        return False
    if found.fails:
        return not np.isfinite(actual) and not execution.underflow
    if not np.isfinite(actual) or abs(wanted - actual) < size / 2:
        return False
    exact = kind == "rounding" or kind in _NOISE_OF or kind in _ERRORS_OF
    return not exact or abs(wanted - found.expected) + abs(actual - found.actual) <= size * 1e-3


def _perturbed(plan: Plan, leaves: Leaves, seed: int, kind: str) -> dict[tuple[str, object], Array]:
    out: dict[tuple[str, object], Array] = {}
    for leaf in plan.leaves:
        value = leaves[leaf.name]
        if leaf.kind is Kind.FLOAT:
            generator = np.random.default_rng([seed, crc32(repr((kind, leaf.name)).encode())])
            noise = np.asarray(generator.standard_normal(value.shape))
            if kind == "rounding":
                value = value * (1 + _ROUNDING * noise)
            elif kind == "nearby":
                value = value + _NEARBY * max(1.0, float(np.abs(value).max(initial=0.0))) * noise
        out[leaf.name] = value
    return out
