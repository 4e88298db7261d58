"""Specifications of tensors whose blocks along a dimension are in another order than the tensor's own.

Let P be the permutation of a tensor's blocks that puts them in the order in which ranks have them. A specification T
becomes y -> P' T(P^-1 y), where P' permutes its outputs; P is a bijection, so what is proved for all y is proved for
all tensors, and what ranks have of y are its parts in their own order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tantamount.capture.fields import Place
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, reading
from tantamount.ir.types import TensorType
from tantamount.sizes.symbolic import is_size

__all__ = ["Order", "in_order"]


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which ranks have the equal blocks of dimension ``dim``: ``blocks[k]`` is the k-th that they have."""

    dim: int
    blocks: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, int] | None:
        """The sizes of a grid of blocks that are numbered along its columns, if ranks have them along its rows: as when
        another axis has cut the dimension first. ``None`` if that is not the order."""
        for rows in range(2, len(self.blocks) // 2 + 1):
            columns, rest = divmod(len(self.blocks), rows)
            if not rest and self.blocks == tuple(j * rows + i for i in range(rows) for j in range(columns)):
                return rows, columns
        return None

    @property
    def shortest(self) -> Order | None:
        """The same order of as few blocks as it has: those that always follow each other are one. ``None`` for one
        block, which is all of the dimension in its own order."""
        count = len(self.blocks)
        for size in (size for size in range(count, 1, -1) if not count % size):
            runs = [self.blocks[k : k + size] for k in range(0, count, size)]
            if all(run[0] % size == 0 and run == tuple(range(run[0], run[0] + size)) for run in runs):
                return None if size == count else replace(self, blocks=tuple(run[0] // size for run in runs))
        return self

    @property
    def back(self) -> tuple[int, ...]:
        """The places at which the blocks are, by their numbers."""
        return tuple(self.blocks.index(k) for k in range(len(self.blocks)))

    def __str__(self) -> str:
        return f"blocks of dimension {self.dim} in the order {', '.join(map(str, self.blocks))}"


def in_order(graph: Graph, inputs: Mapping[str, Order], outputs: Mapping[str, Order], place: Place) -> Graph:
    """The specification as a function of inputs that have their blocks in some orders, with the blocks of its outputs
    in some. Raises :class:`UserError` for a dimension without such blocks."""
    if not inputs and not outputs:
        return graph
    taken = {node.name for node in graph.nodes}
    renamed: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(reading(node, renamed))
        if node.op == "input" and node.name in inputs:
            order = inputs[node.name]
            more = _moved(node, order, True, place.at(node.name), taken)
            nodes.extend(more)
            renamed[node.name] = more[-1].name
    results: list[Output] = []
    for output in graph.outputs:
        source = renamed.get(output.node, output.node)
        if output.name in outputs:
            order = outputs[output.name]
            given = graph.by_name[output.node]
            more = _moved(replace(given, name=source), order, False, place.at(output.name), taken)
            nodes.extend(more)
            source = more[-1].name
        results.append(replace(output, node=source))
    return replace(graph, nodes=tuple(nodes), outputs=tuple(results))


def _moved(node: Node, order: Order, back: bool, place: Place, taken: set[str]) -> list[Node]:
    """The nodes that put the blocks of a tensor in an order, or ``back``; the last one is the result."""
    type_, count, dim = node.type, len(order.blocks), order.dim
    if type_ is None or dim >= len(type_.shape) or is_size(type_.shape[dim]):
        raise place.wrong(f"{order}, of {type_}", "a dimension whose size is a number")
    if type_.shape[dim] % count or not type_.shape[dim]:
        raise place.wrong(f"{order}, of {type_}", f"a dimension of {count} equal blocks")
    size, before, after = type_.shape[dim] // count, type_.shape[:dim], type_.shape[dim + 1 :]

    def call(name: str, target: str, args: tuple[Argument, ...], shape: tuple[int, ...] | None) -> Node:
        while name in taken:
            name += "_"
        taken.add(name)
        made = None if shape is None else TensorType(shape, type_.dtype)
        return Node(name, "call", target, args, {}, made, node.source)

    if order.grid is not None:  # one map of indices, however many blocks there are
        rows, columns = order.grid
        seen = (rows, columns) if back else (columns, rows)
        shape = (*before, *seen, size, *after)
        swapped = [*range(dim), dim + 1, dim, *range(dim + 2, len(shape))]
        first = call(f"{node.name}.blocks", "aten.reshape.default", (Ref(node.name), shape), shape)
        moved = tuple(shape[k] for k in swapped)
        second = call(f"{node.name}.moved", "aten.permute.default", (Ref(first.name), tuple(swapped)), moved)
        return [
            first,
            second,
            call(f"{node.name}.ordered", "aten.reshape.default", (Ref(second.name), type_.shape), type_.shape),
        ]
    split = call(f"{node.name}.blocks", "aten.split.Tensor", (Ref(node.name), size, dim), None)
    piece = (*before, size, *after)
    pieces = [call(f"{node.name}.block{k}", "getitem", (Ref(split.name), k), piece) for k in range(count)]
    joined = tuple(Ref(pieces[k].name) for k in (order.back if back else order.blocks))
    return [split, *pieces, call(f"{node.name}.ordered", "aten.cat.default", (joined, dim), type_.shape)]
