"""Mutants that preserve the meaning: the same function written otherwise, by identities over the reals.

They hold wherever the original is defined, for finite values. None is undefined where the original is defined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.types import Shape

from .edits import Change, call

__all__ = ["rewrites"]

Nodes = tuple[Node, ...]


def rewrites(graph: Graph, node: Node) -> Iterator[tuple[str, Change]]:
    """Names and changes. Only tensors of floats with elements are written otherwise."""
    if node.type is None or not node.type.dtype.is_float or 0 in node.type.shape:
        return
    if all(not isinstance(item, Ref) for item in node.args):
        return
    for name, wrap in _AROUND.items():
        if (made := wrap(node.name, f"{node.name}_was", node.type.shape)) is not None:
            yield name, lambda g, n, made=made: (replace(n, name=f"{n.name}_was"), *made)
    for name, (target, write) in _INSIDE.items():
        if node.target == target and not node.kwargs and (made := write(graph, node)) is not None:
            yield name, lambda g, n, made=made: made


# ------------------------------------------------------------------------------------------------ after any tensor
def _parted(y: str, x: str, shape: Shape) -> Nodes | None:
    dim = next((d for d, size in enumerate(shape) if size > 1), None)
    if dim is None:
        return None
    cut = max(1, shape[dim] // 3)
    return (
        call(f"{y}_a", "aten.slice.Tensor", Ref(x), dim, 0, cut),
        call(f"{y}_b", "aten.slice.Tensor", Ref(x), dim, cut, shape[dim]),
        call(y, "aten.cat.default", (Ref(f"{y}_a"), Ref(f"{y}_b")), dim),
    )


def _turned(y: str, x: str, shape: Shape) -> Nodes | None:
    if len(shape) < 2:
        return None
    return call(f"{y}_a", "aten.transpose.int", Ref(x), 0, -1), call(y, "aten.transpose.int", Ref(f"{y}_a"), -1, 0)


def _flat(y: str, x: str, shape: Shape) -> Nodes:
    return call(f"{y}_a", "aten.view.default", Ref(x), (prod(shape),)), call(
        y, "aten.view.default", Ref(f"{y}_a"), shape
    )


def _flipped(y: str, x: str, shape: Shape) -> Nodes | None:
    if not shape:
        return None
    return call(f"{y}_a", "aten.flip.default", Ref(x), (0,)), call(y, "aten.flip.default", Ref(f"{y}_a"), (0,))


def _halves(y: str, x: str, shape: Shape) -> Nodes:
    return (
        call(f"{y}_a", "aten.mul.Tensor", Ref(x), 0.25),
        call(f"{y}_b", "aten.mul.Tensor", Ref(x), 0.75),
        call(y, "aten.add.Tensor", Ref(f"{y}_a"), Ref(f"{y}_b")),
    )


def _scaled(y: str, x: str, shape: Shape) -> Nodes:
    return call(f"{y}_a", "aten.mul.Tensor", Ref(x), 8.0), call(y, "aten.div.Tensor", Ref(f"{y}_a"), 8.0)


def _greater(y: str, x: str, shape: Shape) -> Nodes:
    return (
        call(f"{y}_a", "aten.relu.default", Ref(x)),
        call(f"{y}_b", "aten.neg.default", Ref(x)),
        call(f"{y}_c", "aten.relu.default", Ref(f"{y}_b")),
        call(y, "aten.sub.Tensor", Ref(f"{y}_a"), Ref(f"{y}_c")),
    )


def _selected(y: str, x: str, shape: Shape) -> Nodes:
    return (
        call(f"{y}_a", "aten.gt.Scalar", Ref(x), 0),
        call(y, "aten.where.self", Ref(f"{y}_a"), Ref(x), Ref(x)),
    )


_AROUND: dict[str, Callable[[str, str, Shape], Nodes | None]] = {
    "cut and joined": _parted,
    "transposed twice": _turned,
    "flattened and back": _flat,
    "flipped twice": _flipped,
    "a quarter and three": _halves,
    "times and by 8": _scaled,
    "relu(x) - relu(-x)": _greater,
    "where(x > 0, x, x)": _selected,
}


# ------------------------------------------------------------------------------------------------ of one operator
def _mm_in_two(graph: Graph, node: Node) -> Nodes | None:
    a, b = node.args
    type_ = graph.by_name[a.name].type if isinstance(a, Ref) else None
    if type_ is None or type_.shape[1] < 2:
        return None
    y, k = node.name, type_.shape[1]
    cut = max(1, k // 3)
    return (
        call(f"{y}_a", "aten.slice.Tensor", a, 1, 0, cut),
        call(f"{y}_b", "aten.slice.Tensor", b, 0, 0, cut),
        call(f"{y}_c", "aten.slice.Tensor", a, 1, cut, k),
        call(f"{y}_d", "aten.slice.Tensor", b, 0, cut, k),
        call(f"{y}_e", "aten.mm.default", Ref(f"{y}_c"), Ref(f"{y}_d")),
        call(f"{y}_f", "aten.mm.default", Ref(f"{y}_a"), Ref(f"{y}_b")),
        call(y, "aten.add.Tensor", Ref(f"{y}_e"), Ref(f"{y}_f")),
    )


def _mm_turned(graph: Graph, node: Node) -> Nodes:
    y, (a, b) = node.name, node.args
    return (
        call(f"{y}_a", "aten.t.default", a),
        call(f"{y}_b", "aten.t.default", b),
        call(f"{y}_c", "aten.mm.default", Ref(f"{y}_b"), Ref(f"{y}_a")),
        call(y, "aten.t.default", Ref(f"{y}_c")),
    )


def _softmax(graph: Graph, node: Node) -> Nodes:
    y, (x, dim, *_) = node.name, node.args
    return (
        call(f"{y}_a", "aten.exp.default", x),
        call(f"{y}_b", "aten.sum.dim_IntList", Ref(f"{y}_a"), (dim,), True),
        call(y, "aten.div.Tensor", Ref(f"{y}_a"), Ref(f"{y}_b")),
    )


def _silu(graph: Graph, node: Node) -> Nodes:
    y, x = node.name, node.args[0]
    return call(f"{y}_a", "aten.sigmoid.default", x), call(y, "aten.mul.Tensor", Ref(f"{y}_a"), x)


def _sigmoid(graph: Graph, node: Node) -> Nodes:
    y, x = node.name, node.args[0]
    return (
        call(f"{y}_a", "aten.mul.Tensor", x, 0.5),
        call(f"{y}_b", "aten.tanh.default", Ref(f"{y}_a")),
        call(f"{y}_c", "aten.add.Tensor", Ref(f"{y}_b"), 1.0),
        call(y, "aten.mul.Tensor", Ref(f"{y}_c"), 0.5),
    )


def _gelu(graph: Graph, node: Node) -> Nodes:
    y, x = node.name, node.args[0]
    return (
        call(f"{y}_a", "aten.mul.Tensor", x, 0.5),
        call(f"{y}_b", "aten.square.default", x),
        call(f"{y}_c", "aten.mul.Tensor", Ref(f"{y}_b"), 0.5),
        call(f"{y}_d", "aten.sqrt.default", Ref(f"{y}_c")),
        call(f"{y}_e", "aten.erf.default", Ref(f"{y}_d")),
        call(f"{y}_f", "aten.sign.default", x),
        call(f"{y}_g", "aten.mul.Tensor", Ref(f"{y}_e"), Ref(f"{y}_f")),
        call(f"{y}_h", "aten.mul.Tensor", Ref(f"{y}_g"), Ref(f"{y}_a")),
        call(y, "aten.add.Tensor", Ref(f"{y}_h"), Ref(f"{y}_a")),
    )


def _relu(graph: Graph, node: Node) -> Nodes:
    y, x = node.name, node.args[0]
    return call(f"{y}_a", "aten.gt.Scalar", x, 0), call(y, "aten.mul.Tensor", x, Ref(f"{y}_a"))


def _rsqrt(graph: Graph, node: Node) -> Nodes:
    y, x = node.name, node.args[0]
    return call(f"{y}_a", "aten.sqrt.default", x), call(y, "aten.reciprocal.default", Ref(f"{y}_a"))


def _sub(graph: Graph, node: Node) -> Nodes | None:
    y, (a, b) = node.name, node.args
    if not isinstance(b, Ref):
        return None
    return call(f"{y}_a", "aten.neg.default", b), call(y, "aten.add.Tensor", a, Ref(f"{y}_a"))


def _div(graph: Graph, node: Node) -> Nodes | None:
    y, (a, b) = node.name, node.args
    if not isinstance(b, Ref):
        return None
    return call(f"{y}_a", "aten.reciprocal.default", b), call(y, "aten.mul.Tensor", a, Ref(f"{y}_a"))


def _mul(graph: Graph, node: Node) -> Nodes | None:
    """(a + b)^2 - (a - b)^2 = 4 a b"""
    y, (a, b) = node.name, node.args
    if not isinstance(b, Ref):
        return None
    return (
        call(f"{y}_a", "aten.add.Tensor", a, b),
        call(f"{y}_b", "aten.sub.Tensor", a, b),
        call(f"{y}_c", "aten.square.default", Ref(f"{y}_a")),
        call(f"{y}_d", "aten.square.default", Ref(f"{y}_b")),
        call(f"{y}_e", "aten.sub.Tensor", Ref(f"{y}_c"), Ref(f"{y}_d")),
        call(y, "aten.mul.Tensor", Ref(f"{y}_e"), 0.25),
    )


def _reduced_in_two(graph: Graph, node: Node) -> Nodes | None:
    x, *rest = node.args
    type_ = graph.by_name[x.name].type if isinstance(x, Ref) else None
    if type_ is None or not type_.shape or type_.shape[0] < 2:
        return None
    y, cut = node.name, type_.shape[0] // 2
    return (
        call(f"{y}_a", "aten.slice.Tensor", x, 0, 0, cut),
        call(f"{y}_b", "aten.slice.Tensor", x, 0, cut, type_.shape[0]),
        replace(node, name=f"{y}_c", args=(Ref(f"{y}_a"), *rest)),
        replace(node, name=f"{y}_d", args=(Ref(f"{y}_b"), *rest)),
        call(y, "aten.cat.default", (Ref(f"{y}_c"), Ref(f"{y}_d")), 0),
    )


def _summed_in_two(graph: Graph, node: Node) -> Nodes | None:
    x = node.args[0]
    type_ = graph.by_name[x.name].type if isinstance(x, Ref) else None
    if len(node.args) > 1 or type_ is None or not type_.shape or type_.shape[-1] < 2:
        return None
    y = node.name
    return (
        call(f"{y}_a", "aten.sum.dim_IntList", x, (len(type_.shape) - 1,)),
        call(y, "aten.sum.default", Ref(f"{y}_a")),
    )


_INSIDE: dict[str, tuple[str, Callable[[Graph, Node], Nodes | None]]] = {
    "mm in two parts": ("aten.mm.default", _mm_in_two),
    "mm transposed": ("aten.mm.default", _mm_turned),
    "softmax by its definition": ("aten._softmax.default", _softmax),
    "silu as x sigmoid(x)": ("aten.silu.default", _silu),
    "sigmoid by tanh": ("aten.sigmoid.default", _sigmoid),
    "gelu by erf(|x|)": ("aten.gelu.default", _gelu),
    "relu as x [x > 0]": ("aten.relu.default", _relu),
    "rsqrt as 1/sqrt": ("aten.rsqrt.default", _rsqrt),
    "a - b as a + (-b)": ("aten.sub.Tensor", _sub),
    "a / b as a (1/b)": ("aten.div.Tensor", _div),
    "a b by squares": ("aten.mul.Tensor", _mul),
    "all-reduce in two parts": ("_c10d_functional.all_reduce.default", _reduced_in_two),
    "sum in two steps": ("aten.sum.default", _summed_in_two),
}
