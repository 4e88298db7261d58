"""Masks that are written out row by row: a band of a matrix, computed by dozens of assignments, as one comparison. And
logarithms of booleans, which are 0 or -inf, as a choice of the two.

A mask that is recorded, or depends on no input, is known, exactly, by execution: its elements are booleans, or 0 and
-inf. Where it is a band (everything up to the diagonal, a window along it), it is written as a comparison of rows and
columns, unless it takes few operators as it is. Nothing is assumed: both have the same elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, prod

import numpy as np

from tantamount.errors import TantamountError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.types import DType, Shape, TensorType
from tantamount.semantics.interpret import interpret
from tantamount.semantics.reference import Array
from tantamount.verdict import Assumption

__all__ = ["with_masks_as_bands"]

_MANY = 24  # operators behind a mask, from which on it is looked at
_LOGARITHM = "aten.log.default"
_ELEMENTS = 1 << 22  # of a mask


def with_masks_as_bands(job: Job) -> tuple[Job, tuple[Assumption, ...]]:
    """The job with comparisons for masks that are written out; no assumption comes of it."""
    done: dict[int, Graph] = {}
    for graph in (job.specification, *job.implementation):
        done.setdefault(id(graph), _rewritten(graph))
    if all(done[id(graph)] is graph for graph in (job.specification, *job.implementation)):
        return job, ()
    ranks = tuple(done[id(graph)] for graph in job.implementation)
    return replace(job, specification=done[id(job.specification)], implementation=ranks), ()


def _rewritten(graph: Graph) -> Graph:
    bands: dict[str, tuple[Node, ...]] = {}
    masks = [*_masks(graph)]
    known = _values(graph, [node.name for node in masks]) if masks else {}
    for node in masks:
        value = known.get(node.name) if known else _values(graph, [node.name]).get(node.name)
        band = None if value is None else _band(value)
        if band is not None and node.type is not None:
            bands[node.name] = tuple(_comparison(node.name, node.type, *band))
    for node in graph.nodes:
        recorded = graph.constants.get(node.target) if node.op == "constant" else None
        if recorded is not None and len(recorded.data) == 1 and recorded.data[0] == -inf:
            args: tuple[Argument, ...] = (recorded.type.shape, -inf)
            bands[node.name] = (
                Node(node.name, "call", "aten.full.default", args, {"dtype": recorded.type.dtype}, recorded.type),
            )
        logarithm = _of_boolean(graph, node)
        if logarithm and node.name not in bands:
            bands[node.name] = logarithm
    if not bands:
        return graph
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in bands.get(node.name, (node,))))


def _of_boolean(graph: Graph, node: Node) -> tuple[Node, ...]:
    """Nodes that compute the logarithm of a boolean as a choice between 0 and -inf; none for any other node."""
    if node.op != "call" or node.target != _LOGARITHM or node.type is None or not isinstance(node.args[0], Ref):
        return ()
    cast = graph.by_name[node.args[0].name]
    if cast.op != "call" or cast.target != "aten._to_copy.default" or not isinstance(cast.args[0], Ref):
        return ()
    boolean = graph.by_name[cast.args[0].name].type
    if boolean is None or boolean.dtype is not DType.BOOL or not node.type.dtype.is_float:
        return ()
    zero, infinity = _ends(node.name, node.type.dtype)
    args = (cast.args[0], Ref(zero.name), Ref(infinity.name))
    return zero, infinity, Node(node.name, "call", "aten.where.self", args, {}, node.type)


def _ends(name: str, dtype: DType) -> tuple[Node, Node]:
    """Nodes of 0 and of -inf."""
    scalar = TensorType((), dtype)
    zero = Node(f"{name} zero", "call", "aten.full.default", ((), 0.0), {"dtype": dtype}, scalar)
    return zero, Node(f"{name} infinity", "call", "aten.full.default", ((), -inf), {"dtype": dtype}, scalar)


def _masks(graph: Graph) -> Iterator[Node]:
    """Constant matrices that something reads which depends on inputs, and that many operators compute, or that are
    recorded; and recorded minus infinities."""
    variable: set[str] = set()
    for node in graph.nodes:
        if node.op == "input" or any(name in variable for name in references(node)):
            variable.add(node.name)
    for node in graph.nodes:
        if node.op not in ("call", "constant") or node.name in variable or node.type is None:
            continue
        sizes = [size for size in node.type.shape if size != 1]
        fits = len(sizes) == 2 and all(type(size) is int for size in sizes) and prod(sizes) <= _ELEMENTS
        kind = node.type.dtype.is_float or node.type.dtype is DType.BOOL
        read = any(name in variable for name in graph.users[node.name])
        if fits and kind and read and (node.op == "constant" or _is_long(graph, node.name)):
            yield node


def _is_long(graph: Graph, name: str) -> bool:
    """True if many operators compute a mask, or a logarithm of zeros and ones, of which -inf is never taken apart."""
    above = graph.ancestors(name)
    return len(above) > _MANY or any(graph.by_name[one].target == _LOGARITHM for one in above)


def _values(graph: Graph, names: Sequence[str]) -> dict[str, Array]:
    """The values of nodes that depend on no inputs; empty where one is not known."""
    needed = {above for name in names for above in graph.ancestors(name)}
    nodes = tuple(node for node in graph.nodes if node.name in needed)
    part = replace(graph, nodes=nodes, outputs=tuple(Output(name, name) for name in names))
    try:
        first, second = (interpret(part, {}, seed=seed) for seed in (0, 1))
    except TantamountError:
        return {}
    if any(value.flags or value.left_range for value in (first, second)):
        return {}
    found = {name: (first.array(name), second.array(name)) for name in names}
    same = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in found.values())
    return {name: a for name, (a, _) in found.items()} if same else {}


def _band(value: Array) -> tuple[int, int] | None:
    """The lowest and the highest difference of column and row that is kept, if what is kept is a band."""
    flat: Array = np.squeeze(value)
    shape: Shape = flat.shape
    kept: Array = flat if flat.dtype.kind == "b" else np.equal(flat, 0)
    if flat.dtype.kind != "b" and not np.logical_or(kept, np.equal(flat, -inf)).all():
        return None
    if not kept.any() or kept.all():
        return None
    difference: Array = np.arange(shape[1]) - np.arange(shape[0])[:, None]
    low, high = int(difference[kept].min()), int(difference[kept].max())
    band = np.logical_and(np.greater_equal(difference, low), np.less_equal(difference, high))
    return (low, high) if np.array_equal(kept, band) else None


def _comparison(name: str, type_: TensorType, low: int, high: int) -> Iterator[Node]:
    """Nodes that compute a band, the last of which has the name of the mask."""
    rows, columns = (size for size in type_.shape if size != 1)
    whole, boolean = DType.INT64, TensorType((rows, columns), DType.BOOL)

    def call(what: str, target: str, args: tuple[Argument, ...], found: TensorType) -> Node:
        return Node(f"{name} {what}", "call", target, args, {}, found)

    row = call("rows", "aten.arange.default", (rows,), TensorType((rows,), whole))
    column = call("columns", "aten.arange.default", (columns,), TensorType((columns,), whole))
    below = call("rows below", "aten.unsqueeze.default", (Ref(row.name), 1), TensorType((rows, 1), whole))
    square = TensorType(boolean.shape, whole)
    beside = call("difference", "aten.sub.Tensor", (Ref(column.name), Ref(below.name)), square)
    yield from (row, column, below, beside)
    tests = [("at least", "aten.ge.Scalar", low)] if low > 1 - rows else []
    tests += [("at most", "aten.le.Scalar", high)] if high < columns - 1 else []
    kept: Node | None = None
    for what, target, bound in tests:
        test = call(what, target, (Ref(beside.name), bound), boolean)
        yield test
        if kept is not None:
            test = call("both", "aten.logical_and.default", (Ref(kept.name), Ref(test.name)), boolean)
            yield test
        kept = test
    last = Ref(beside.name if kept is None else kept.name)
    if type_.dtype is not DType.BOOL:
        zero, low_ = _ends(name, type_.dtype)
        chosen = call("chosen", "aten.where.self", (last, Ref(zero.name), Ref(low_.name)),
                      TensorType(boolean.shape, type_.dtype))  # fmt: skip
        yield from (zero, low_, chosen)
        last = Ref(chosen.name)
    yield Node(name, "call", "aten.reshape.default", (last, type_.shape), {}, type_)
