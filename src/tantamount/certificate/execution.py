"""Both programs on the same random inputs, under one interpretation: float64, or residues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Union
from zlib import crc32

import numpy as np

from tantamount.certificate import residues
from tantamount.certificate.draws import Draw, Elements
from tantamount.certificate.dropouts import Drawing, Dropouts
from tantamount.certificate.exact import Exact
from tantamount.certificate.inputs import Layout, draw_inputs
from tantamount.certificate.residues import Field
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.types import Kind
from tantamount.ops.algebra import Tensor, Unsized, Value
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
from tantamount.semantics.noisy import RoundingNoise
from tantamount.semantics.reference import STOPS, Array, Reference

__all__ = ["Executed", "Floats", "Started", "start_exactly", "start_in_floats"]

_MET, _SEEN, _CONSTANTS = 200, 256, 4  # numbers that are collected, elements that are looked at, different ones
_UNDEFINED = (*STOPS, "undefined-comparison", "undefined-integer", "unfit", "double-write", "inexact", "doubtful")


@dataclass(frozen=True)
class Executed:
    """The values of all nodes. ``reference`` has what the specification's execution left behind; ``failed``: nodes of
    the implementation, with the rank, where an index was out of range; ``discrete``: what integers were made from that
    has no meaning in exact arithmetic."""

    specification: Mapping[str, Result]
    ranks: Sequence[Mapping[str, Result]]
    reference: Reference
    rank_references: Sequence[Reference]
    dropouts: Dropouts
    failed: frozenset[str]
    discrete: frozenset[str]


class Floats(Drawing):
    """The reference interpreter. ``met`` collects numbers that were compared or divided by, of operands with few
    different ones, ``signs`` those of the smallest and largest difference of each comparison; ``invalid`` is set where
    a power or a logarithm of a number is none and rounding is not why, ``of_nan`` where it is of a NaN, ``made`` where
    another function of numbers is none."""

    def __init__(self, *, rank: int = 0, seed: int = 0) -> None:
        super().__init__(rank=rank, seed=seed)
        self.met: set[float] | None = None
        self.signs: list[tuple[int, int]] | None = None
        self.invalid = self.of_nan = self.made = False

    def _compare(self, x: Array, y: Array) -> None:
        self._meet(x, y)
        if self.signs is not None and x.size:
            gap = np.sign(np.asarray(x, dtype=np.float64) - y)
            self.signs.append((int(np.nan_to_num(gap.min())), int(np.nan_to_num(gap.max()))))

    def _meet(self, *xs: Array) -> None:
        if self.met is None or len(self.met) > _MET:
            return
        for x in xs:
            values = np.unique(x.reshape(-1)[:_SEEN])
            if len(values) <= _CONSTANTS:
                self.met |= {float(value) for value in values if np.isfinite(value)}

    def less(self, x: Array, y: Array) -> Array:
        self._compare(x, y)
        return super().less(x, y)

    def equal(self, x: Array, y: Array) -> Array:
        self._compare(x, y)
        return super().equal(x, y)

    def maximum(self, x: Array, y: Array) -> Array:
        self._compare(x, y)
        return super().maximum(x, y)

    def function(self, name: str, xs: Sequence[Array]) -> Array:
        if len(xs) > 1:
            self._meet(*xs)
        found = super().function(name, xs)
        if not self.made and found.dtype.kind == "f" and np.isnan(found).any():
            self.made = not any(x.dtype.kind == "f" and np.isnan(x).any() for x in xs)
        return found

    def power(self, x: Array, exponent: Fraction) -> Array:
        return self._watched(x, super().power(x, exponent))

    def log(self, x: Array) -> Array:
        return self._watched(x, super().log(x))

    def _watched(self, x: Array, y: Array) -> Array:
        if not self.left_range:
            self.invalid = self.invalid or bool(np.any(np.isfinite(x) & ~np.isfinite(y)))
            self.of_nan = self.of_nan or bool(np.any(np.isnan(x)))
        return y

    def failed(self, first: bool) -> bool:
        """True if the node since the last call failed: at a power or logarithm of a number; or (the ``first`` one that
        fails) of a NaN, which is then a difference of infinities: the scores of a row that is all masked."""
        strange = self.made or any(flag.what in _UNDEFINED for flag in self.flags)
        found = self.invalid or (self.of_nan and first and not strange)
        self.invalid = self.of_nan = False
        return found


class _Noisy(RoundingNoise, Floats):
    """Float64 with a random error in the last digit of every result that was rounded."""

    def __init__(self, *, rank: int = 0, seed: int = 0, noise: int = 0) -> None:
        super().__init__(rank=rank, seed=seed)
        self.generator = np.random.default_rng([seed, rank, noise])


class _Residual(Drawing, Exact):
    """Exact arithmetic."""


# ---------------------------------------------------------------------------------------------- running
@dataclass
class Started:
    """The specification was executed, the implementation not yet. ``invalid``: nodes of the specification that took a
    power or logarithm of a number where there is none."""

    job: Job
    ours: Union[Floats, _Residual]
    theirs: Sequence[Union[Floats, _Residual]]
    specification: Mapping[str, Result]
    given: Sequence[Mapping[str, Tensor]]
    constant: ConstantOf
    dropouts: Dropouts
    outside: frozenset[str]
    invalid: frozenset[str]
    unfit: frozenset[str]

    @property
    def within(self) -> bool:
        """True if the specification's indices were in range, nothing discrete came from something undefined, and
        float64 followed the reals."""
        return "overflow" not in self.ours.left_range and not any(
            f.what in (*_UNDEFINED, "from-end") for f in self.ours.flags
        )

    def finish(self) -> Executed:
        """Execute the implementation, too."""
        failed: set[str] = set()
        counts = [0] * len(self.theirs)

        def each(rank: int, node: Node, result: Result) -> Result:
            flags = self.theirs[rank].flags
            if any(flag.what in STOPS for flag in flags[counts[rank] :]):
                failed.add(f"rank {rank} {node.name}")
            counts[rank] = len(flags)
            return result

        ranks = run_ranks(
            self.job.implementation,
            self.job.mesh,
            self.theirs,
            self.given,
            constant=self.constant,
            each=each,
            rescue=lambda _, __, ___, why: _lost(why),
        )
        return Executed(
            self.specification,
            ranks,
            self.ours,
            self.theirs,
            self.dropouts,
            frozenset(failed),
            frozenset(self.ours.discrete if isinstance(self.ours, Exact) else ()),
        )


def start_in_floats(
    job: Job,
    layout: Layout,
    seed: int,
    draw: Draw,
    *,
    everything: bool = False,
    noise: int = 0,
    met: set[float] | None = None,
    signs: list[tuple[int, int]] | None = None,
) -> Started:
    """The specification in float64, on inputs that were drawn. ``noise``: every result that is rounded has a random
    error in its last digit, another one for every number but 0. ``met`` and ``signs`` collect what is compared."""
    if noise:
        ours: Floats = _Noisy(seed=seed, noise=noise)
        theirs: list[Floats] = [_Noisy(rank=rank, seed=seed, noise=noise) for rank in range(job.mesh.world_size)]
    else:
        ours, theirs = Floats(seed=seed), [Floats(rank=rank, seed=seed) for rank in range(job.mesh.world_size)]
        for on in (ours, *theirs):
            on.met, on.signs = met, signs
    return _start(job, layout, seed, ours, theirs, draw, everything)


def start_exactly(
    job: Job, layout: Layout, seed: int, of: Field, draw: Draw, *, readings: bool, everything: bool = False
) -> Started:
    """The specification in exact arithmetic; what has no meaning there is :class:`Unsized`. Integers and booleans are
    drawn by ``draw``, real numbers at random from the field."""
    discrete: set[str] = set()

    def both(kind: Kind, elements: Elements, salt: int) -> Value:
        if kind is not Kind.FLOAT:
            return draw(kind, elements, salt)
        return residues.uniform((len(elements),), np.random.default_rng([seed, kind.value, salt]), of)

    ours = _Residual(of, seed=seed, readings=readings, discrete=discrete)
    theirs = [
        _Residual(of, rank=rank, seed=seed, readings=readings, discrete=discrete) for rank in range(job.mesh.world_size)
    ]
    return _start(job, layout, seed, ours, theirs, both, everything)


def _start(
    job: Job,
    layout: Layout,
    seed: int,
    ours: Union[Floats, _Residual],
    theirs: Sequence[Union[Floats, _Residual]],
    draw: Draw,
    everything: bool,
) -> Started:
    dropouts = Dropouts(job.assume, job.mesh, seed, everything)
    ours.drawn = dropouts.of_specification
    for rank, on in enumerate(theirs):
        on.drawn = dropouts.of_rank(rank)
    whole, ranks = draw_inputs(job, layout, ours, draw)
    constant = _constants(job, draw)
    outside: set[str] = set()
    invalid: set[str] = set()
    unfit: set[str] = set()
    own = _tensors(job.specification, whole)
    specification = _alone(job.specification, ours, own, constant, outside, invalid, unfit)
    given = [_tensors(graph, values) for graph, values in zip(job.implementation, ranks, strict=True)]
    seen = (frozenset(nodes) for nodes in (outside, invalid, unfit))
    return Started(job, ours, theirs, specification, given, constant, dropouts, *seen)


def _lost(problem: Unsupported) -> Result:
    return Unsized(problem.reason)


def _tensors(graph: Graph, values: Mapping[str, Value]) -> dict[str, Tensor]:
    return {
        node.name: Tensor(node.type.shape, node.type.dtype, values[node.name])
        for node in graph.inputs
        if node.type is not None
    }


def _alone(
    graph: Graph,
    on: Reference,
    inputs: Mapping[str, Tensor],
    constant: ConstantOf,
    outside: set[str],
    invalid: set[str],
    unfit: set[str],
) -> Environment:
    """Every node of a graph in which all process groups are this rank alone; ``outside`` collects nodes where an index
    was out of range, ``invalid`` those that took a power or logarithm of a number where there is none, ``unfit`` those
    that converted a number to an integer type that does not hold it."""
    environment: Environment = dict(inputs)
    for node in graph.nodes:
        if node.op == "input":
            continue
        flags, others = len(on.out_of_range), len(on.flags)
        try:
            result = run_node(graph, node, Builder(on, node.name), environment, constant, None)
        except Unsupported as problem:
            result = _lost(problem)
        if len(on.out_of_range) > flags or any(flag.what == "from-end" for flag in on.flags[others:]):
            outside.add(node.name)
        if any(flag.what == "unfit" for flag in on.flags[others:]):
            unfit.add(node.name)
        if isinstance(on, Floats) and on.failed(not invalid):
            invalid.add(node.name)
        check_types(graph, node, result)
        environment[node.name] = result
    return environment


def _constants(job: Job, draw: Draw) -> ConstantOf:
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
            elements = Elements.free(int(np.prod(type_.stored.shape, dtype=np.int64)), type_.stored.dtype)
            flat = draw(type_.stored.dtype.kind, elements, 1 + crc32(node.target.encode()))
            known[key] = builder.interpretation.reshape(flat, type_.stored.shape)
        return Tensor(type_.shape, type_.dtype, known[key])

    return constant
