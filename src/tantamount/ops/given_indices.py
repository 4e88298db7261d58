"""Indices that a program is given: token numbers, labels, positions. Nobody counts those from the end.

Eager does where ``index``, ``index_put`` and ``index_fill`` read them. A proof takes those of the specification to be
counted from the start. Where a tensor is read by nothing but such operators, in dimensions of one size n and by both
programs, that says something of all others, too: both programs do with i what they do with i modulo n. Elsewhere it is
an assumption (:func:`assumed_from_start`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import InputRelation, Partial, RankTensor, rank_tensors
from tantamount.ir.types import DType, TensorType

__all__ = ["COUNTED", "assumed_from_start", "given_indices"]

_OVERLOADS = (
    "index.Tensor", "_unsafe_index.Tensor", "index_put.default", "index_put_.default", "_unsafe_index_put.default",
    "index_fill.int_Scalar", "index_fill.int_Tensor", "index_fill_.int_Scalar", "index_fill_.int_Tensor",
)  # fmt: skip
COUNTED = frozenset(f"aten.{name}" for name in _OVERLOADS)
"""Operators that count negative indices from the end."""

_MOVES = {
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "slice", "select", "transpose", "permute", "t", "expand",
    "flatten", "clone", "contiguous", "alias", "detach", "_to_copy", "to", "split", "split_with_sizes", "chunk",
    "unbind", "repeat",
}  # fmt: skip
_INTEGERS = (DType.INT32, DType.INT64)


def given_indices(graph: Graph, node: Node, environment: Mapping[str, object]) -> frozenset[int]:
    """The ``id`` of each value in ``environment`` that ``node`` reads and whose elements are those of an input of the
    graph that no other program computes: in another layout, and in another type of 32 or 64 bits, perhaps."""
    return frozenset(id(environment[name]) for name in references(node) if _given(graph, name) is not None)


def assumed_from_start(job: Job) -> tuple[str, ...]:
    """The nodes of the specification that read indices it is given where a proof says nothing of negative ones, though
    eager counts them from the end."""
    found: list[str] = []
    free: dict[str, bool] = {}
    for node in job.specification.nodes:
        if node.op == "call" and node.target in COUNTED:
            for name in dict.fromkeys(r.name for r, _ in _places(node)):
                source = _given(job.specification, name)
                if source is not None and source not in free:
                    free[source] = _only_indexes(job, source)
                if source is not None and not free[source]:
                    found.append(node.name)
                    break
    return tuple(found)


def _given(graph: Graph, name: str) -> str | None:
    """The input whose elements a tensor has; ``None`` if there is none, or another program computes it."""
    while True:
        node = graph.by_name.get(name)
        if node is None:  # a reader's, which types nodes before their graph has them
            return None
        if node.type is not None and node.type.dtype not in _INTEGERS:
            return None
        if node.op == "input":
            return None if name in graph.computed else name
        read = next(iter(references(node)), None)
        if read is None or not _moves(node):
            return None
        name = read


def _moves(node: Node) -> bool:
    parts = node.target.split(".")
    moves = node.target == "getitem" or (len(parts) > 1 and parts[0] == "aten" and parts[1] in _MOVES)
    return node.op == "call" and moves


# ---------------------------------------------------------------------------------------------- what reads an input
def _only_indexes(job: Job, source: str) -> bool:
    """True if both programs read an input of the specification, and what is related to it, as indices into dimensions
    of one size, and as nothing else."""
    relation = job.inputs.get(source)
    held = None if relation is None else _held_as(relation)
    if held is None or any(_mentions(other, held) for name, other in job.inputs.items() if name != source):
        return False
    ours = _read_at(job.specification, source)
    theirs = [_read_at(graph, held) for graph in job.programs]
    return ours is not None and all(sizes is not None and sizes <= ours for sizes in theirs) and len(ours) == 1


def _held_as(relation: InputRelation) -> str | None:
    """The input of the implementation whose elements are those of one of the specification, in whatever layout, and
    nothing else; ``None`` if that is not so, or not seen to be."""
    if relation.equal:
        return None
    if relation.placements is not None:
        return None if any(isinstance(p, Partial) for p in relation.placements) else relation.name
    expression = relation.expression
    return (expression.name or relation.name) if isinstance(expression, RankTensor) else None


def _mentions(relation: InputRelation, name: str) -> bool:
    terms = () if relation.expression is None else rank_tensors(relation.expression)
    return bool(relation.equal) or relation.name == name or any(term.name == name for term in terms)


def _read_at(graph: Graph, source: str) -> set[object] | None:
    """The sizes of the dimensions that an input is an index into; ``None`` if it is read as something else."""
    node = graph.by_name.get(source)
    if node is None or node.type is None or node.type.dtype not in _INTEGERS:
        return None
    held, sizes = {source}, set[object]()
    for node in graph.nodes:
        read = [name for name in references(node) if name in held]
        if not read:
            continue
        if _moves(node) and len(references(node)) == 1:
            if node.type is not None and node.type.dtype not in _INTEGERS:
                return None
            held.add(node.name)
            continue
        places = _places(node) if node.op == "call" and node.target in COUNTED else ()
        data = _type(graph, node.args[0] if node.args else None)
        integers = all((found := _type(graph, index)) is not None and found.dtype in _INTEGERS for index, _ in places)
        if data is None or not integers or len(read) != sum(index.name in held for index, _ in places):
            return None  # masks are indices into as many dimensions as they have
        sizes.update(data.shape[dim] for index, dim in places if index.name in held)
    return None if any(output.node in held for output in graph.outputs) else sizes


def _type(graph: Graph, argument: Argument) -> TensorType | None:
    return graph.by_name[argument.name].type if isinstance(argument, Ref) else None


def _places(node: Node) -> Sequence[tuple[Ref, int]]:
    """The indices that a node reads, each with the dimension that it is an index into."""
    args: tuple[Argument, ...] = node.args
    if "index_fill" in node.target:
        dim, index = (args[1], args[2]) if len(args) > 2 else (None, None)
        return [(index, dim)] if isinstance(dim, int) and isinstance(index, Ref) else []
    items = args[1] if len(args) > 1 else ()
    return [(x, k) for k, x in enumerate(items) if isinstance(x, Ref)] if isinstance(items, tuple) else []
