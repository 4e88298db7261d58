"""Programs that take a tensor apart into as many pieces as there are ranks and put these together along another
dimension, with a view and a permutation in the place of the pieces: what is one piece for each rank has no form on
fewer ranks, for a program has a fixed number of nodes.

``cat(split(x, L, d), e)``, all n pieces in their order, is ``x`` with dimension d seen as (n, L), n moved before
dimension e, and both seen as one: element i of piece k is element ``k L + i`` of x along d, and element
``k size(e) + j`` of the result along e.
"""

from __future__ import annotations

from dataclasses import replace

from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.types import TensorType

__all__ = ["folded"]


def folded(job: Job, least: int) -> Job:
    """The job with a view and a permutation wherever ranks take apart and put together more than ``least`` pieces."""
    changed = {id(graph): _folded(graph, least) for graph in job.programs}
    if all(changed[id(graph)] is graph for graph in job.programs):
        return job
    return replace(job, implementation=tuple(changed[id(graph)] for graph in job.implementation))


def _folded(graph: Graph, least: int) -> Graph:
    found = {node.name: made for node in graph.nodes if (made := _seen_otherwise(graph, node, least))}
    if not found:
        return graph
    nodes = [new for node in graph.nodes for new in found.get(node.name, (node,))]
    if len({node.name for node in nodes}) < len(nodes):
        return graph  # a node is called as one that is made here
    kept = {output.node for output in graph.outputs}
    used: set[str] = set()
    left: list[Node] = []
    for node in reversed(nodes):  # pieces that nobody reads any more
        piece = node.target in ("getitem", "aten.split.Tensor")
        if not piece or node.name in used or node.name in kept:
            left.append(node)
            used.update(references(node))
    return replace(graph, nodes=tuple(reversed(left)))


def _seen_otherwise(graph: Graph, node: Node, least: int) -> tuple[Node, ...]:
    """The nodes that compute the same as one that puts all pieces of a tensor together; none for another one."""
    if node.target != "aten.cat.default" or node.type is None or not node.args or node.kwargs:
        return ()
    pieces, rank = node.args[0], len(node.type.shape)
    if not isinstance(pieces, tuple) or len(pieces) <= least:
        return ()
    taken = [graph.by_name[piece.name] for piece in pieces if isinstance(piece, Ref)]
    if len(taken) < len(pieces) or any(one.target != "getitem" for one in taken):
        return ()
    sources = {one.args[0] for one in taken}
    if len(sources) != 1 or [one.args[1:] for one in taken] != [
        (k,) for k in range(len(pieces))
    ]:  # fmt: skip
        return ()
    (source,) = sources
    split = graph.by_name[source.name] if isinstance(source, Ref) else None
    if split is None or split.target != "aten.split.Tensor" or split.kwargs or not isinstance(split.args[0], Ref):
        return ()
    operand = split.args[0].name
    whole = graph.by_name[operand].type
    length, dim = split.args[1], split.args[2] if len(split.args) > 2 else 0
    along = node.args[1] if len(node.args) > 1 else 0
    if whole is None or not isinstance(length, int) or not isinstance(dim, int) or not isinstance(along, int):
        return ()
    dim, along, count = dim % rank, along % rank, len(pieces)
    if whole.shape[dim] != length * count:
        return ()
    seen = [*whole.shape[:dim], count, length, *whole.shape[dim + 1 :]]
    at = [k if k < dim else k + 1 for k in range(rank)]  # of the dimensions in what is seen; ``dim`` is the pieces'
    order = list(at)
    order.insert(along, dim)

    def call(name: str, target: str, shape: tuple[int, ...], x: str, argument: tuple[Argument, ...]) -> Node:
        type_ = TensorType(shape, whole.dtype)
        return replace(node, name=name, target=target, args=(Ref(x), argument), kwargs={}, type=type_)

    first, second = f"{node.name}.seen", f"{node.name}.moved"
    return (
        call(first, "aten.reshape.default", tuple(seen), operand, tuple(seen)),
        call(second, "aten.permute.default", tuple(seen[p] for p in order), first, tuple(order)),
        call(node.name, "aten.reshape.default", node.type.shape, second, node.type.shape),
    )
