"""Dimensions of which ranks have blocks in an order that is not the tensor's own.

Load-balanced context parallelism gives each of two ranks the first and the last quarter of the sequence, and the two in
the middle: ``{ cp = "Shard(1, [0, 3, 1, 2])" }``. The dimension is cut into as many equal blocks as the list has
numbers; they are put in that order, and the result is cut over the axis as ``Shard(1)`` says. Parts of parts are such
an order, too: ``{ dp = "Shard(0, [0, 2, 1, 3])", tp = "Shard(0)" }``, where ``dp`` comes before ``tp`` in the mesh,
says that each of two ranks of tp has half of the dimension, and each of two of dp half of that.

Let P be that permutation of a tensor's blocks. The ranks have parts of P x, so the part is proved as a job about P x:
its specification is y -> P' T(P^-1 y), where T is the part's own and P' permutes its outputs. P is a bijection: what is
proved for all P x is proved for all x, and what the ranks have is ``Shard(1)`` of P' T(x). At a joint both ends must
name one order, for their jobs are about one tensor then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tantamount.capture.fields import Place, shown
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, reading
from tantamount.ir.types import TensorType
from tantamount.sizes.symbolic import is_size

__all__ = ["Order", "in_order", "plain", "read_order"]

_ORDERED = re.compile(r"Shard\(\s*(?P<dim>\d{1,3})\s*,\s*\[(?P<blocks>[\d\s,]*)\]\s*\)")


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


def read_order(table: Mapping[str, object], sizes: Mapping[str, int], place: Place) -> Order | None:
    """The order that a relation's table names, if any. ``sizes`` are those of the mesh axes, in their order. Raises
    :class:`UserError` for what is no order of blocks, and unless the axis that has it is the first to cut the
    dimension."""
    found: Order | None = None
    for axis, size in sizes.items():
        text = table.get(axis)
        match = _ORDERED.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            continue
        where = place.at(axis)
        blocks = tuple(int(k) for k in re.findall(r"\d{1,6}", match["blocks"]))
        if found is not None:
            raise where.wrong(shown(text), "one order of blocks in a relation")
        if sorted(blocks) != list(range(len(blocks))) or len(blocks) < 2 or len(blocks) % size:
            needed = f"the numbers of all blocks from 0 on, a multiple of {size}, in the order in which ranks have them"
            raise where.wrong(shown(text), needed)
        found = Order(int(match["dim"]), blocks)
        outer = list(sizes)[: list(sizes).index(axis)]
        before = [one for one in outer if re.match(rf"Shard\(\s*{found.dim}\s*[,)]", str(table.get(one, "")).strip())]
        if before:
            raise where.wrong(f"{shown(text)}, after {before[0]}", "an order on the first axis that cuts the dimension")
    return found


def plain(text: object) -> object:
    """A placement without its order."""
    match = _ORDERED.fullmatch(text.strip()) if isinstance(text, str) else None
    return text if match is None else f"Shard({match['dim']})"


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
