"""One program executed for all ranks that run it at once: every array has the axes of the mesh in front along which
ranks have one graph.

What rank (i, j) computes is the array at mesh coordinate (i, j). The cost is that of one rank with larger arrays: most
of the time of small programs goes into calling operators. What is drawn at random, and what data decide, is not
executed this way (:class:`Unsupported`): :func:`tantamount.semantics.interpret.interpret_ranks` does it rank by rank.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any, cast
from zlib import crc32

import numpy as np

from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Law, Number, PerRank, Scalar, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.classes import RankClass, differs, merged, rank_classes
from tantamount.ops.execute import ConstantOf, Environment, Result, run_node
from tantamount.ops.functions import Ties
from tantamount.ops.lockstep import run_ranks
from tantamount.semantics.interpret import Arrays, Constants, Evaluation, constant_of, executed, input_tensors
from tantamount.semantics.noisy import RoundingNoise
from tantamount.semantics.reference import Array, Flag, Masks, Reference, fresh
from tantamount.semantics.tape import Each, Tape

__all__ = ["Stacked", "Together", "interpret_stacked", "run_changed", "run_stacked"]


class Stacked(Reference):
    """The primitives on arrays with leading mesh axes: those at the positions ``batch`` of ``mesh``. ``apart``: what is
    the same on several ranks is computed on each, as rounding errors differ."""

    apart = False

    def __init__(
        self,
        mesh: Mesh,
        batch: tuple[int, ...],
        ties: Ties = Ties.USUAL,
        each_mask: Sequence[Masks] = (),
        seed: int = 0,
        ranks: Sequence[int] = (),
    ) -> None:
        super().__init__(ties=ties, seed=seed)
        self.each_mask, self.ranks = each_mask, ranks  # of the ranks, and their numbers, in the order of the mesh
        self.mesh = mesh
        self.batch = batch
        self.prefix = tuple(mesh.sizes[k] for k in batch)

    def _all(self, value: Array) -> Array:
        """The same array on every rank."""
        return np.broadcast_to(value, (*self.prefix, *value.shape))

    def _all_of(self, value: Array) -> Array:
        """The array with as many coordinates as there are along axes along which it has one."""
        return np.broadcast_to(value, (*self.prefix, *value.shape[len(self.batch) :]))

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Array:
        if not isinstance(value, PerRank):
            return self._all(super().constant(value, kind))
        if len(self.batch) < len(self.mesh.sizes) or len(value.values) != prod(self.prefix):
            raise Unsupported("a number that differs by rank, of some of them")
        return np.reshape(np.stack([super(Stacked, self).constant(one, kind) for one in value.values]), self.prefix)

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Array:
        return self._all(super().table(data, shape, kind))

    def iota(self, size: int) -> Array:
        return self._all(super().iota(size))

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Array:
        if not self.ranks or len(self.batch) < len(self.mesh.sizes):
            raise Unsupported("fresh tensors of some ranks at once")
        self._unknowns += 1
        known = crc32(site.encode()), self._unknowns
        found = {rank: fresh([self.seed, rank, *known], shape, dtype) for rank in dict.fromkeys(self.ranks)}
        return np.reshape(np.stack([found[rank] for rank in self.ranks]), (*self.prefix, *shape))

    def mask(self, like: Array, shape: Shape, p: Number, site: str) -> Array:
        if not self.each_mask:
            raise Unsupported("dropout masks of all ranks at once")
        ordinal, self._dropouts = self._dropouts, self._dropouts + 1
        found = [np.asarray(masks(site, ordinal, shape, p), dtype=np.bool_) for masks in self.each_mask]
        return np.reshape(np.stack(found), (*self.prefix, *shape))

    def draw(self, law: Law, like: Array | None, shape: Shape, dtype: DType, site: str) -> Array:
        raise Unsupported("draws of all ranks at once")

    # -- layout
    def permute(self, x: Array, order: tuple[int, ...]) -> Array:
        n = len(self.batch)
        return np.transpose(x, (*range(n), *(n + k for k in order)))

    def reshape(self, x: Array, shape: Shape) -> Array:
        return np.reshape(x, (*self.prefix, *shape))

    def expand(self, x: Array, shape: Shape) -> Array:
        return np.broadcast_to(x, (*self.prefix, *shape))

    def slice(self, x: Array, dim: int, start: int, stop: int, step: int) -> Array:
        return super().slice(x, len(self.batch) + dim, start, stop, step)

    def flip(self, x: Array, dim: int) -> Array:
        return np.flip(x, len(self.batch) + dim)

    def concat(self, xs: Sequence[Array], dim: int) -> Array:
        return np.concatenate(list(xs), axis=len(self.batch) + dim)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...]) -> Array:
        n = len(self.batch)
        lead = range(-n, 0)  # labels are not negative
        each = [[k for k in lead if self.apart or (x.shape[k + n] > 1 and x.strides[k + n])] for x, _ in operands]
        if all(len(axes) == len(lead) for axes in each):
            return super().contract([(x, (*lead, *labels)) for x, labels in operands], (*lead, *result))
        # what is the same along an axis has none: a product with a matrix of all is one product of matrices
        some = [k for k in lead if any(k in axes for axes in each)]
        cut = [(x[tuple(slice(None) if k in axes else 0 for k in lead)], (*axes, *labels))
               for (x, labels), axes in zip(operands, each, strict=True)]  # fmt: skip
        value = super().contract(cut, (*some, *result))
        at = tuple(slice(None) if k in some else np.newaxis for k in lead)
        return self._all_of(value[at])

    def maximum_over(self, x: Array, dims: tuple[int, ...]) -> Array:
        return super().maximum_over(x, tuple(len(self.batch) + k for k in dims))

    def gather(self, x: Array, indices: Sequence[Array | None]) -> Array:
        return self._each([super(Stacked, self).gather(x[at], _at(indices, at)) for at in np.ndindex(*self.prefix)])

    def scatter(self, x: Array, indices: Sequence[Array | None], source: Array, accumulate: bool) -> Array:
        places = np.ndindex(*self.prefix)
        return self._each(
            [super(Stacked, self).scatter(x[at], _at(indices, at), source[at], accumulate) for at in places]
        )

    def _each(self, values: Sequence[Array]) -> Array:
        """The arrays of the ranks, stacked."""
        return np.reshape(np.stack(values), (*self.prefix, *values[0].shape))

    # -- what data decide
    def nonzero(self, x: Array) -> Array:
        raise Unsupported("numbers of elements that data decide, of all ranks at once")

    def number(self, x: Array) -> Number:
        raise Unsupported("sizes that data decide, of all ranks at once")

    # -- single ranks
    def of_rank(self, x: Array, at: tuple[int, ...]) -> tuple[Interpretation, Array]:
        """The value of the rank at some coordinates, and the interpretation in which to go on with it. Axes in front of
        those of ranks stay."""
        inner, more = copy(self), len(self.batch) - len(at)
        inner.batch, inner.prefix, inner.each_mask = self.batch[:more], self.prefix[:more], ()
        return inner, x[(*[slice(None)] * more, *at)]

    def of_ranks(self, xs: Sequence[Array], axes: int) -> Array:
        """The values of all ranks, along so many axes, in the order of the mesh."""
        more = len(self.batch) - axes
        return np.reshape(np.stack(xs, more), (*self.prefix, *xs[0].shape[more:]))

    # -- process groups
    def enter_group(self, x: Array, shape: Shape, group: str) -> tuple[Interpretation, Array]:
        inner, order = self._inner(group)
        moved = np.transpose(x, (*order, *range(len(self.batch), x.ndim)))
        return inner, np.reshape(moved, (*inner.prefix, self.mesh.group_size(group), *shape))

    def leave_group(self, y: Array, shape: Shape, group: str) -> Array:
        _, order = self._inner(group)
        split = np.reshape(y, (*(self.prefix[k] for k in order), *shape))
        return np.transpose(split, (*map(order.index, range(len(order))), *range(len(order), split.ndim)))

    def _inner(self, group: str) -> tuple[Stacked, list[int]]:
        """The interpretation in which the axes of a group are none of the mesh, and the order of the axes that has
        those of the group last. What it notes is noted here, too."""
        positions = self.mesh.group_positions(group)
        inner = copy(self)
        inner.batch = tuple(k for k in self.batch if k not in positions)
        inner.prefix = tuple(self.mesh.sizes[k] for k in inner.batch)
        return inner, [self.batch.index(k) for k in (*inner.batch, *positions)]


class NoisyStacked(Stacked, RoundingNoise):
    """The same with rounding errors, others for every ``noise``."""

    apart = True


def _at(indices: Sequence[Array | None], at: tuple[int, ...]) -> list[Array | None]:
    return [None if index is None else index[at] for index in indices]


@dataclass(frozen=True)
class Together:
    """The values of all nodes on every rank, and what the interpretation noted, of which rank is not known. ``stacked``
    are the values of all ranks of each class at once."""

    environments: list[Mapping[str, Result]]
    flags: tuple[Flag, ...]
    left_range: frozenset[str]
    classes: Sequence[RankClass]
    stacked: Sequence[Environment]


def run_stacked(
    graphs: Sequence[Graph],
    mesh: Mesh,
    inputs: Sequence[Mapping[str, Tensor]],
    *,
    seed: int = 0,
    constants: Constants = None,
    ties: Ties = Ties.USUAL,
    noise: int = 0,
    masks: Callable[[int], Masks] | None = None,
    instead: Mapping[tuple[int, str], Array] | None = None,
    tape: Tape | None = None,
    classes: Sequence[RankClass] | None = None,
) -> Together | None:
    """The execution of :func:`tantamount.semantics.interpret.interpret_ranks` where ranks that have one graph can be
    executed as one: nothing is drawn, and sizes do not depend on data; else ``None``. ``masks``: those of a
    rank; ``instead``: what stands on a rank in place of the value of a node; ``tape`` (where nothing does): that of
    earlier executions of these graphs, or a new one. ``classes``: those of the ranks, where they are known; numbers may
    differ between the ranks of a class, if they are operands."""
    classes = rank_classes(graphs, mesh, exactly=True) if classes is None else classes
    inside = classes[0].mesh
    if len(classes) == len(graphs):
        return None
    batch = tuple(range(len(inside.sizes)))

    def interpretation(one: RankClass) -> Stacked:
        keep = [masks(rank) for rank in one.ranks] if masks else []
        found = (NoisyStacked if noise else Stacked)(inside, batch, ties, keep, seed, one.ranks)
        if isinstance(found, NoisyStacked):
            found.generator = np.random.default_rng([seed, one.leader, noise])
        return found

    each = [*map(interpretation, classes)]
    unrecorded = constant_of(constants)

    def together(one: RankClass) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for name, tensor in inputs[one.leader].items():
            values = np.stack([inputs[rank][name].value for rank in one.ranks])
            if values.dtype != tensor.value.dtype:
                raise Unsupported("inputs of several types")
            value = np.reshape(values, (*inside.sizes, *values.shape[1:]))
            found[name] = Tensor(tensor.shape, tensor.dtype, value)
        return found

    def constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
        found = unrecorded(graph, node, builder)
        if found.value.ndim < len(batch) + len(found.type.stored.shape):
            return Tensor(found.shape, found.dtype, np.broadcast_to(found.value, (*inside.sizes, *found.value.shape)))
        return found

    def way(
        on: Sequence[Interpretation], given: Sequence[Mapping[str, Tensor]], constant: ConstantOf, told: Each | None
    ) -> list[Environment]:
        interpretation = {one.leader: by for one, by in zip(classes, on, strict=True)}

        def compute(rank: int, node: Node, environment: Environment) -> Result:
            held, builder = programs[rank], Builder(interpretation[rank], node.name)
            if len(set(map(id, held))) > 1 and differs(node, held):
                merged_ = merged(node, [graph.by_name[node.name] for graph in held], held[0])
                if merged_ is None:
                    return _rank_by_rank(held, node, builder, environment, inside, constant)
                node = merged_
            return run_node(held[0], node, builder, environment, constant, None)

        def tell(leader: int, node: Node, result: Result) -> Result:
            return result if told is None else told(number[leader], node, result)

        return run_ranks(graphs, mesh, on, given, constant=constant, classes=classes, each=tell, compute=compute)

    programs = {one.leader: [graphs[rank] for rank in one.ranks] for one in classes}
    number = {one.leader: k for k, one in enumerate(classes)}  # of its class, as interpretations are counted
    replaced = _replacing(classes, instead or {})

    def replacing(k: int, node: Node, result: Result) -> Result:
        return replaced(classes[k].leader, node.name, result)

    try:
        found = executed(way, each, [*map(together, classes)], constant, replacing if instead else None, tape)
    except Unsupported:
        return None
    environments: list[Mapping[str, Result]] = [{} for _ in graphs]
    for one, environment in zip(classes, found, strict=True):
        for k, rank in enumerate(one.ranks):
            environments[rank] = _OfRank(environment, (*inside.coordinates(k), ...))  # an array also of a single number
    flags = tuple(flag for one in each for flag in one.flags)
    return Together(environments, flags, frozenset[str]().union(*(one.left_range for one in each)), classes, found)


def run_changed(
    tape: Tape,
    classes: Sequence[RankClass],
    known: Sequence[Mapping[str, Result]],
    changes: Sequence[Mapping[tuple[int, str], Array]],
    below: Sequence[Collection[str]],
    given: Sequence[Collection[str]],
    masks: Callable[[int], Masks],
    seed: int,
) -> list[list[Mapping[str, Result]]]:
    """The values of nodes on every rank, once for each of several changes of values, with it: each change is a
    coordinate of one more axis of the mesh, which no process group knows. ``known`` are the values of an execution by
    the primitives of a ``tape``, of all ranks of each class at once. Computed are the nodes ``below`` changes, by
    class, from what is changed of those that are ``given``, and from what all others were in that execution. Raises
    :class:`Unsupported`."""
    ranks, count = sum(len(one.ranks) for one in classes), len(changes)
    axis = f"changes of {' '.join(classes[0].mesh.names)}"  # no name of theirs
    many = [
        RankClass(
            tuple(k * ranks + rank for k in range(count) for rank in one.ranks),
            Mesh({axis: count, **one.mesh.axes}, one.mesh.groups),
        )
        for one in classes
    ]
    batch = tuple(range(len(many[0].mesh.sizes)))
    keep = [[masks(rank % ranks) for rank in one.ranks] for one in many]
    on = [
        Stacked(one.mesh, batch, Ties.USUAL, some, seed, [rank % ranks for rank in one.ranks])
        for one, some in zip(many, keep, strict=True)
    ]
    instead = {(k * ranks + rank, name): x for k, one in enumerate(changes) for (rank, name), x in one.items()}
    replacing = _replacing(many, instead)
    found = tape.partly(
        on, known, below,
        lambda value: np.broadcast_to(value, (count, *value.shape)),
        lambda k, name, result: replacing(many[k].leader, name, result), given,
    )  # fmt: skip
    return [
        [
            _OfRank(found[number], (k, *one.mesh.coordinates(j), ...))
            for number, one, j in (_place(classes, rank) for rank in range(ranks))
        ]
        for k in range(count)
    ]


def _place(classes: Sequence[RankClass], rank: int) -> tuple[int, RankClass, int]:
    """The class of a rank, with its number, and the number of the rank in it."""
    return next((k, one, one.ranks.index(rank)) for k, one in enumerate(classes) if rank in one.ranks)


def _rank_by_rank(
    graphs: Sequence[Graph], node: Node, builder: Builder, environment: Environment, mesh: Mesh, constant: ConstantOf
) -> Tensor:
    """The value of a node that has other attributes on every rank of a class."""
    on, site = cast(Stacked, builder.interpretation), builder.site
    found: list[Tensor] = []
    for k, graph in enumerate(graphs):
        here: Environment = {}
        inner: Interpretation | None = None
        for name in references(node):
            tensor = environment[name]
            if not isinstance(tensor, Tensor):
                raise Unsupported("several results, of which ranks read others")
            inner, value = on.of_rank(tensor.value, mesh.coordinates(k))
            here[name] = Tensor(tensor.shape, tensor.dtype, value, tensor.weak)
        if inner is None:
            raise Unsupported("what differs by rank, and is made of nothing")
        result = run_node(graph, graph.by_name[node.name], Builder(inner, site), here, constant, None)
        if not isinstance(result, Tensor):
            raise Unsupported("several results that differ by rank")
        found.append(result)
    if len({one.type for one in found}) > 1:
        raise Unsupported("results whose shapes differ by rank")
    value = on.of_ranks([one.value for one in found], len(mesh.sizes))
    return Tensor(found[0].shape, found[0].dtype, value, found[0].weak)


def _replacing(
    classes: Sequence[RankClass], instead: Mapping[tuple[int, str], Array]
) -> Callable[[int, str, Result], Result]:
    """A function that puts other values in the place of some, by the leader of their class and their names."""
    found: dict[tuple[int, str], list[tuple[tuple[int, ...], Array]]] = {}
    numbers = {rank: (one.leader, one.mesh.coordinates(k)) for one in classes for k, rank in enumerate(one.ranks)}
    for (rank, name), value in instead.items():
        leader, at = numbers[rank]
        found.setdefault((leader, name), []).append((at, value))

    def each(leader: int, name: str, result: Result) -> Result:
        others = found.get((leader, name), ())
        if not others:
            return result
        if not isinstance(result, Tensor):
            raise Unsupported("another value of several results")
        value = np.array(result.value)
        for at, other in others:
            if value[at].shape != other.shape or value.dtype != other.dtype:
                raise Unsupported("a value of another type")
            value[at] = other
        return Tensor(result.shape, result.dtype, value)

    return each


class _OfRank(Mapping[str, Result]):
    """The values of one rank among those of all: each is cut out when it is asked for first, and is the same object
    ever after."""

    def __init__(self, environment: Environment, at: tuple[Any, ...]) -> None:
        self._all, self._at = environment, at
        self._known: dict[str, Result] = {}

    def __getitem__(self, name: str) -> Result:
        if name not in self._known:
            self._known[name] = _of_rank(self._all[name], self._at)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def _of_rank(result: Result, at: tuple[Any, ...]) -> Result:
    if isinstance(result, tuple):
        return tuple(_part(one, at) for one in result)
    return _part(result, at)


def _part(tensor: Any, at: tuple[Any, ...]) -> Any:
    return Tensor(tensor.shape, tensor.dtype, tensor.value[at]) if isinstance(tensor, Tensor) else tensor


def interpret_stacked(
    graphs: Sequence[Graph],
    mesh: Mesh,
    inputs: Sequence[Mapping[str, Array]],
    *,
    seed: int = 0,
    constants: Constants = None,
    ties: Ties = Ties.USUAL,
    noise: int = 0,
    masks: Callable[[int], Masks] | None = None,
    tape: Tape | None = None,
    classes: Sequence[RankClass] | None = None,
) -> list[Evaluation] | None:
    """The evaluations of :func:`tantamount.semantics.interpret.interpret_ranks`, each with the flags of all ranks and
    without their sites, where ranks can be executed as one; else ``None``."""
    tensors = [input_tensors(graph, values) for graph, values in zip(graphs, inputs, strict=True)]
    found = run_stacked(
        graphs, mesh, tensors, seed=seed, constants=constants, ties=ties, noise=noise, masks=masks, tape=tape,
        classes=classes,
    )  # fmt: skip
    if found is None:
        return None
    return [Evaluation(Arrays(one), found.flags, found.left_range) for one in found.environments]
