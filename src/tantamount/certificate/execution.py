"""Both programs on the same random inputs, under one interpretation: float64, or residues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Union
from zlib import crc32

import numpy as np

from tantamount.certificate import residues
from tantamount.certificate.exact import Exact
from tantamount.certificate.inputs import Draw, Layout, draw_inputs
from tantamount.certificate.residues import Field, Residues
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Replicate, Shard
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Number, Tensor, Unsized, Value
from tantamount.ops.builder import Builder
from tantamount.ops.execute import (
    ConstantOf,
    Environment,
    Result,
    check_types,
    constant_type,
    recorded_constant,
    run_node,
)
from tantamount.ops.lockstep import run_ranks
from tantamount.semantics.reference import Array, Reference

__all__ = ["Executed", "Floats", "Way", "execute_exactly", "execute_in_floats"]

_CLOSE = 1e-9  # relative to the largest element: the same number
_APART = 1e-6  # two numbers
_LAST_DIGIT = 2.0**-52


@dataclass(frozen=True)
class Executed:
    """The values of all nodes. ``reference`` has what the specification's execution left behind."""

    specification: Mapping[str, Result]
    ranks: Sequence[Mapping[str, Result]]
    reference: Reference
    rank_references: Sequence[Reference]
    dropouts: Dropouts
    outside: frozenset[str]  # nodes of the specification where an index was out of range
    discrete: frozenset[str]  # what integers were made from that has no meaning in exact arithmetic


# ---------------------------------------------------------------------------------------------- dropout
@dataclass
class Dropouts:
    """The masks of one execution. ``paired``: the k-th of a rank is the part of the specification's k-th that its
    operand selects; ``everything``: nothing is dropped, where that part is not clear from the operands' values.
    ``fresh``: dropouts of ranks that have no counterpart."""

    paired: bool
    mesh: Mesh
    seed: int
    everything: bool = False
    drawn: list[tuple[Value, Number, Array]] = field(default_factory=list[tuple[Value, Number, Array]])
    fresh: list[str] = field(default_factory=list[str])
    unclear: list[str] = field(default_factory=list[str])

    def of_specification(self, like: Value, shape: Shape, p: Number, site: str) -> Array:
        keep = self._random((len(self.drawn),), shape, p)
        self.drawn.append((like, p, keep))
        return keep

    def of_rank(self, rank: int) -> Callable[[Value, Shape, Number, str], Array]:
        """The masks of a rank, in the order in which it asks."""
        count = [0]

        def mask(like: Value, shape: Shape, p: Number, site: str) -> Array:
            ordinal, count[0] = count[0], count[0] + 1
            if self.paired and ordinal < len(self.drawn) and self.drawn[ordinal][1] == p:
                whole, _, keep = self.drawn[ordinal]
                places = _places(whole, like, self.mesh, rank)
                if places is not None:
                    return keep.reshape(-1)[places]
                self.unclear.append(site)
            elif self.paired:
                self.fresh.append(site)
            return self._random((rank, ordinal, 1), shape, p)

        return mask

    def _random(self, key: tuple[int, ...], shape: Shape, p: Number) -> Array:
        if self.everything and float(p) < 1:
            return np.ones(shape, dtype=np.bool_)
        generator = np.random.default_rng([self.seed, 0xD0, *key])
        return np.asarray(generator.random(shape) >= float(p))


def _places(whole: Value, like: Value, mesh: Mesh, rank: int) -> Array | None:
    """Where in the whole (flat) the elements of a part are, by their values; ``None`` if that is not clear."""
    a, b = _compared(whole), _compared(like)
    numbers = np.arange(a.size, dtype=np.int64).reshape(a.shape)
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    close = 0.0 if isinstance(whole, Residues) else _CLOSE * scale
    found: dict[tuple[tuple[int, int], ...], Array] = {}
    options = [Replicate(), *(Shard(d) for d in range(a.ndim))] if a.ndim == b.ndim else []
    for placements in product(*(options if size > 1 else options[:1] for size in mesh.sizes)):
        box = local_box(a.shape, placements, mesh, rank)
        if box in found or tuple(high - low for low, high in box) != b.shape:
            continue
        cut = tuple(slice(low, high) for low, high in box)
        if np.allclose(a[cut], b, rtol=0, atol=close, equal_nan=True):
            found[box] = numbers[cut]
    if found:
        return next(iter(found.values())) if len(found) == 1 else None
    order = np.argsort(a, axis=None)
    ranked = a.reshape(-1)[order]
    apart = 0.0 if isinstance(whole, Residues) else _APART * scale
    if ranked.size < 2 or not np.isfinite(ranked).all() or np.any(np.diff(ranked) <= apart):
        return None
    right = np.clip(np.searchsorted(ranked, b), 1, ranked.size - 1)
    nearest = np.where(np.abs(ranked[right] - b) < np.abs(ranked[right - 1] - b), right, right - 1)
    return order[nearest] if bool(np.all(np.abs(ranked[nearest] - b) <= close)) else None


def _compared(x: Value) -> Array:
    """Numbers to recognise elements by; a residue is below 2^53."""
    if isinstance(x, Residues):
        return np.where(x.finite, x.modp, np.nan)
    return np.asarray(x, dtype=np.float64)


class _Masked:
    """An interpretation whose dropout masks come from elsewhere."""

    masks: Callable[[Value, Shape, Number, str], Array]

    def mask(self, like: Value, shape: Shape, p: Number, site: str) -> Array:
        """The keep-mask."""
        return self.masks(like, shape, p, site)


class Floats(_Masked, Reference):
    """The reference interpreter."""


class _Noisy(Floats):
    """Float64 with a random error in the last digit of every result: what rounding may do (Monte Carlo arithmetic,
    Parker 1997)."""

    def _rounded(self, x: Array) -> Array:
        if x.dtype.kind != "f":
            return x
        self._draws = getattr(self, "_draws", 0) + 1
        generator = np.random.default_rng([self.seed, self.rank, self._draws])
        return np.asarray(x * (1 + _LAST_DIGIT * generator.standard_normal(x.shape)))

    def add(self, x: Array, y: Array) -> Array:
        return self._rounded(super().add(x, y))

    def mul(self, x: Array, y: Array) -> Array:
        return self._rounded(super().mul(x, y))

    def power(self, x: Array, exponent: Fraction) -> Array:
        return self._rounded(super().power(x, exponent))

    def exp(self, x: Array) -> Array:
        return self._rounded(super().exp(x))

    def log(self, x: Array) -> Array:
        return self._rounded(super().log(x))

    def contract(self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...]) -> Array:
        return self._rounded(super().contract(operands, result))


class _Residual(_Masked, Exact):
    """Exact arithmetic."""


# ---------------------------------------------------------------------------------------------- running
@dataclass(frozen=True, slots=True)
class Way:
    """How real inputs are drawn: standard normal times ``amplitude``, or out of ``values``; their absolute values if
    ``positive``. ``noisy``: every result has a random error in its last digit. ``wild``: whole numbers may leave their
    range."""

    amplitude: float = 1.0
    positive: bool = False
    values: tuple[float, ...] = ()
    noisy: bool = False
    wild: bool = False


def execute_in_floats(job: Job, layout: Layout, seed: int, way: Way, *, everything: bool = False) -> Executed:
    """Both programs in float64."""

    def draw(kind: Kind, bounds: Array, salt: int) -> Array:
        generator = np.random.default_rng([seed, kind.value, salt])
        if kind is Kind.FLOAT:
            found = np.asarray(generator.standard_normal(len(bounds))) * way.amplitude
            if way.values:
                found = np.asarray(generator.choice(np.array(way.values), len(bounds)))
            return np.abs(found) if way.positive else found
        return _integers(kind, bounds, generator, way.wild)

    made = _Noisy if way.noisy else Floats
    ours = made(seed=seed)
    theirs = [made(rank=rank, seed=seed) for rank in range(job.mesh.world_size)]
    return _execute(job, layout, seed, ours, theirs, draw, everything)


def execute_exactly(
    job: Job, layout: Layout, seed: int, of: Field, *, readings: bool, everything: bool = False
) -> Executed:
    """Both programs in exact arithmetic; what has no meaning there is :class:`Unsized`."""
    discrete: set[str] = set()

    def draw(kind: Kind, bounds: Array, salt: int) -> Value:
        generator = np.random.default_rng([seed, kind.value, salt])
        if kind is Kind.FLOAT:
            return residues.uniform((len(bounds),), generator, of)
        return _integers(kind, bounds, generator, False)

    ours = _Residual(of, seed=seed, readings=readings, discrete=discrete)
    theirs = [
        _Residual(of, rank=rank, seed=seed, readings=readings, discrete=discrete) for rank in range(job.mesh.world_size)
    ]
    return _execute(job, layout, seed, ours, theirs, draw, everything)


def _integers(kind: Kind, bounds: Array, generator: np.random.Generator, wild: bool) -> Array:
    if kind is Kind.BOOL:
        return np.asarray(generator.integers(0, 2, len(bounds)), dtype=np.bool_)
    if wild:
        return np.asarray(generator.integers(-2 * bounds - 2, 3 * bounds + 3), dtype=np.int64)
    return np.asarray(generator.integers(0, bounds), dtype=np.int64)


def _execute(
    job: Job,
    layout: Layout,
    seed: int,
    ours: Union[Floats, _Residual],
    theirs: Sequence[Union[Floats, _Residual]],
    draw: Draw,
    everything: bool,
) -> Executed:
    dropouts = Dropouts(job.assume.dropout, job.mesh, seed, everything)
    ours.masks = dropouts.of_specification
    for rank, on in enumerate(theirs):
        on.masks = dropouts.of_rank(rank)
    whole, ranks = draw_inputs(job, layout, ours, draw)
    constant = _constants(job, seed, draw)
    outside: set[str] = set()
    specification = _alone(job.specification, ours, _tensors(job.specification, whole), constant, outside)
    given = [_tensors(graph, values) for graph, values in zip(job.implementation, ranks, strict=True)]
    implementation = run_ranks(
        job.implementation, job.mesh, theirs, given, constant=constant, rescue=lambda _, __, ___, why: _lost(why)
    )
    return Executed(
        specification,
        implementation,
        ours,
        theirs,
        dropouts,
        frozenset(outside),
        frozenset(ours.discrete if isinstance(ours, Exact) else ()),
    )


def _lost(problem: Unsupported) -> Result:
    return Unsized(problem.reason)


def _tensors(graph: Graph, values: Mapping[str, Value]) -> dict[str, Tensor]:
    return {
        node.name: Tensor(node.type.shape, node.type.dtype, values[node.name])
        for node in graph.inputs
        if node.type is not None
    }


def _alone(
    graph: Graph, on: Reference, inputs: Mapping[str, Tensor], constant: ConstantOf, outside: set[str]
) -> Environment:
    """Every node of a graph in which all process groups are this rank alone; ``outside`` collects nodes where an index
    was out of range."""
    environment: Environment = dict(inputs)
    for node in graph.nodes:
        if node.op == "input":
            continue
        flags = len(on.out_of_range)
        try:
            result = run_node(graph, node, Builder(on, node.name), environment, constant, None)
        except Unsupported as problem:
            result = _lost(problem)
        if len(on.out_of_range) > flags:
            outside.add(node.name)
        check_types(graph, node, result)
        environment[node.name] = result
    return environment


def _constants(job: Job, seed: int, draw: Draw) -> ConstantOf:
    """Recorded constants, assumed numbers, or random ones that are the same wherever the name is."""
    known: dict[Any, Value] = {}

    def constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
        assumed = job.assume.constants
        if node.target in graph.constants or assumed is None:
            return recorded_constant(graph, node, builder)
        type_ = constant_type(graph, node)
        if assumed != SAME_NAME:
            return builder.full(type_.shape, Fraction(assumed), type_.dtype)
        key = (node.target, type_.stored.shape)
        if key not in known:
            bounds = np.full(int(np.prod(type_.stored.shape, dtype=np.int64)), 4)
            flat = draw(type_.stored.dtype.kind, bounds, 1 + crc32(node.target.encode()))
            known[key] = builder.interpretation.reshape(flat, type_.stored.shape)
        return Tensor(type_.shape, type_.dtype, known[key])

    return constant
