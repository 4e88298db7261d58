"""One program executed for all ranks of a mesh at once: every array has the mesh axes in front.

What rank (i, j) computes is the array at mesh coordinate (i, j). The cost is that of one rank with larger arrays: most
of the time of small programs goes into calling operators. What is drawn at random, and what data decide, is not
executed this way (:class:`Unsupported`): :func:`tantamount.semantics.interpret.interpret_ranks` does it rank by rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Law, Number, PerRank, Scalar, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.classes import rank_classes
from tantamount.ops.lockstep import run_ranks
from tantamount.semantics.interpret import Constants, Evaluation, constant_of, evaluation, input_tensors
from tantamount.semantics.reference import Array, Reference

__all__ = ["Stacked", "interpret_stacked"]


class Stacked(Reference):
    """The primitives on arrays with leading mesh axes: those at the positions ``batch`` of ``mesh``."""

    def __init__(self, mesh: Mesh, batch: tuple[int, ...]) -> None:
        super().__init__()
        self.mesh = mesh
        self.batch = batch
        self.prefix = tuple(mesh.sizes[k] for k in batch)

    def _all(self, value: Array) -> Array:
        """The same array on every rank."""
        return np.broadcast_to(value, (*self.prefix, *value.shape))

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Array:
        if isinstance(value, PerRank):
            raise Unsupported("a number that differs by rank")
        return self._all(super().constant(value, kind))

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Array:
        return self._all(super().table(data, shape, kind))

    def iota(self, size: int) -> Array:
        return self._all(super().iota(size))

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Array:
        raise Unsupported("fresh tensors of all ranks at once")

    def mask(self, like: Array, shape: Shape, p: Number, site: str) -> Array:
        raise Unsupported("dropout masks of all ranks at once")

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
        lead = tuple(range(-len(self.batch), 0))  # labels are not negative
        return super().contract([(x, (*lead, *labels)) for x, labels in operands], (*lead, *result))

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
        those of the group last."""
        positions = self.mesh.group_positions(group)
        outside = tuple(k for k in self.batch if k not in positions)
        return Stacked(self.mesh, outside), [self.batch.index(k) for k in (*outside, *positions)]


def _at(indices: Sequence[Array | None], at: tuple[int, ...]) -> list[Array | None]:
    return [None if index is None else index[at] for index in indices]


def interpret_stacked(
    graphs: Sequence[Graph], mesh: Mesh, inputs: Sequence[Mapping[str, Array]], *, constants: Constants = None
) -> list[Evaluation] | None:
    """The evaluations of :func:`tantamount.semantics.interpret.interpret_ranks`, without flags, if all ranks run one
    graph that nothing is drawn in, whose sizes data do not decide; else ``None``."""
    graph = graphs[0]
    if len(graphs) == 1 or any(other is not graph for other in graphs):
        return None
    classes = rank_classes(graphs, mesh)
    if len(classes) > 1:
        return None
    stacked = Stacked(mesh, tuple(range(len(mesh.sizes))))
    together = {
        name: np.reshape(np.stack([given[name] for given in inputs]), (*mesh.sizes, *np.shape(value)))
        for name, value in inputs[0].items()
    }
    tensors = {
        name: Tensor(one.shape, one.dtype, np.asarray(together[name], dtype=one.value.dtype))
        for name, one in input_tensors(graph, inputs[0]).items()
    }
    unrecorded = constant_of(constants)

    def constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
        found = unrecorded(graph, node, builder)
        if found.value.ndim < len(mesh.sizes) + len(found.type.stored.shape):
            return Tensor(found.shape, found.dtype, np.broadcast_to(found.value, (*mesh.sizes, *found.value.shape)))
        return found

    try:
        (environment,) = run_ranks(graphs, mesh, [stacked], [tensors], constant=constant, classes=classes)
    except Unsupported:
        return None
    whole = evaluation(environment, stacked)

    def of(rank: int) -> Evaluation:
        at = (*mesh.coordinates(rank), ...)  # an array also of a single number
        values = {
            name: tuple(None if one is None else one[at] for one in value)
            if isinstance(value, tuple)
            else (None if value is None else value[at])
            for name, value in whole.values_by_node.items()
        }
        return Evaluation(values, whole.flags, whole.left_range)

    return [of(rank) for rank in range(prod(mesh.sizes))]
