"""Buffers that hold many tensors one after the other, taken apart: what is done with the whole is done with the part
that is read.

Megatron's ``DistributedDataParallel`` keeps all gradients of a bucket in one vector, scales it and adds it up over
ranks, and reads each gradient from its place. FSDP gathers all parameters of a module as one vector, and adds up their
gradients as a matrix that has a row for each rank, with each gradient's columns at its place. A vector of rows of 4096,
14336 and 2048 elements has no shape in which all of these are rows, so that a proof would have to look at it in very
many pieces.
"""

# pyright: basic
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch import Tensor, fx

from tantamount.capture.torch.training.rewriting import window

__all__ = ["Call", "without_buffers"]

_aten = torch.ops.aten
_c10d = torch.ops._c10d_functional
_ALIKE = (_aten.clone.default, _aten.detach.default, _aten.alias.default)
_SUMS = (_c10d.all_reduce.default, _c10d.reduce_scatter_tensor.default)
_SCALED = (_aten.mul.Tensor, _aten.div.Tensor)
_VIEWS = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)
_REMOVED = (
    *_ALIKE, *_SCALED, *_VIEWS, _aten.slice.Tensor, _aten.slice_scatter.default, _aten.cat.default, _aten.copy.default,
    _aten.empty.memory_format, _aten.zeros.default, _c10d.all_reduce.default, _c10d.wait_tensor.default,
    _c10d.all_gather_into_tensor.default, _c10d.reduce_scatter_tensor.default, _aten.split_with_sizes.default, getitem,
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of a collective in a rewritten program: the process group by PyTorch's name, which of the calls of that
    group it was in the program as it was, and the part of the vector that it is left with (``None`` for all, or for one
    of which nothing is read). ``what``: the operator of the whole call, its settings, the length and type of what it is
    given."""

    group: str
    number: int
    part: tuple[int, int] | None
    what: tuple[str, ...]


def without_buffers(graph: fx.Graph) -> tuple[Call, ...]:
    """Rewrite slices of vectors that were put together from parts as what is done with the part: ``all_reduce(x)[a:b]``
    as ``all_reduce(x[a:b])``, and so for scaling; columns ``[:, a:b]`` of what ranks gathered, a row of each, as what
    they gather of ``x[a:b]`` (FSDP's parameters); ``reduce_scatter(x)[a:b]`` as that of the columns ``[:, a:b]`` of
    ``x`` with a row for each rank (FSDP's gradients); ``slice_scatter(x, y, ...)[a:b]`` as a part of ``y`` or of ``x``.
    What cannot be taken apart stays; what nobody uses then is taken out, also sums over ranks of which nothing is read.

    Returned are the collectives that the program calls now, in its order, and those that are taken out. The ranks of a
    group compute what they did if these are the same on all of them: then the calls that meet are parts of calls that
    met, and the same parts; and the whole calls, with what nobody reads, fitted together.
    (Ranks that put a vector together in different orders read parts of it in different orders.)"""
    numbers = _numbered(graph)
    parts = _Parts(graph)
    for node in list(graph.nodes):
        if node.target is _aten.slice.Tensor and _assembled(node.args[0]):
            where = window(node, 1)
            if where is not None and where[0] == 0 and where[3] == 1:
                length = node.args[0].meta["val"].shape[0]
                start, end = where[1], length if where[2] is None else min(where[2], length)
                found = parts.part(node.args[0], start, end)
                if found is not None:
                    node.replace_all_uses_with(found)
        elif node.target is getitem and (found := parts.gathered(node)) is not None:
            node.replace_all_uses_with(found)
    parts.in_order()
    for node in reversed(list(graph.nodes)):
        if not node.users and node.target in _REMOVED:
            graph.erase_node(node)
    calls: list[Call] = []
    for node in graph.nodes:
        if node in numbers or node in parts.calls:
            whole, part = parts.calls.get(node, (node, None))
            calls.append(Call(*numbers[whole][:2], part, numbers[whole][2]))
    left = {(call.group, call.number) for call in calls}
    calls += (
        Call(group, number, None, what) for group, number, what in numbers.values() if (group, number) not in left
    )
    return tuple(calls)


def _numbered(graph: fx.Graph) -> dict[fx.Node, tuple[str, int, tuple[str, ...]]]:
    """The collectives of a program: the group of each, how many of its calls come before, and what is called."""
    counts = Counter[str]()
    found: dict[fx.Node, tuple[str, int, tuple[str, ...]]] = {}
    for node in graph.nodes:
        named = getattr(node.target, "namespace", "") == "_c10d_functional" and node.args
        if named and node.target is not _c10d.wait_tensor.default:
            group = str(node.args[-1])
            given = (x.meta.get("val") for x in node.all_input_nodes)
            sizes = (f"{x.dtype} {tuple(x.shape)}" for x in given if isinstance(x, Tensor))
            settings = (str(x) for x in node.args[1:-1])
            found[node] = group, counts[group], (str(node.target), *settings, *sizes)
            counts[group] += 1
    return found


def _vector(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, Tensor) and value.dim() == 1


def _assembled(node: Any) -> bool:
    """True for a vector that was put together from parts, one written after the other or all at once, or that was
    computed from one."""
    if not _vector(node):
        return False
    while isinstance(node, fx.Node):
        if node.target is _aten.slice_scatter.default:
            return _vector(node)
        if node.target is _aten.cat.default:
            return len(_operands(node)) > 1
        if node.target not in (*_ALIKE, *_SCALED, *_VIEWS, *_SUMS, _c10d.wait_tensor.default):
            return False
        node = node.args[0]
    return False


def _operands(cat: fx.Node) -> list[fx.Node]:
    found: Any = cat.args[0]
    return list(found)


class _Parts:
    """Nodes that compute parts of vectors, each made once."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        *_, self.last = (None, *graph.find_nodes(op="placeholder"))
        self.known: dict[tuple[fx.Node, int, int], fx.Node | None] = {}
        self.seen: dict[tuple[fx.Node, int, int, int], fx.Node | None] = {}  # the same of columns
        self.calls: dict[fx.Node, tuple[fx.Node, tuple[int, int]]] = {}  # collectives: of which one which part

    def part(self, x: Any, start: int, end: int) -> fx.Node | None:
        """A node that is ``x[start:end]`` without the rest of ``x``; ``None`` if there is none. New nodes are put where
        those are that they are parts of."""
        if not _vector(x) or not 0 <= start < end <= x.meta["val"].shape[0]:
            return None
        key = (x, start, end)
        if key not in self.known:
            self.known[key] = self._found(x, start, end)
        return self.known[key]

    def _found(self, x: fx.Node, start: int, end: int) -> fx.Node | None:
        args: Any = x.args
        if x.target is _aten.slice_scatter.default:
            where = window(x, 2)
            if where is None or where[0] != 0 or where[3] != 1 or not _one_type(x, args[1]):
                return None
            low, high = where[1], x.meta["val"].shape[0] if where[2] is None else where[2]
            if low <= start and end <= high:
                return self.part(args[1], start - low, end - low)
            return self.part(args[0], start, end) if end <= low or high <= start else None
        if x.target is getitem and args[0].target is _aten.split_with_sizes.default and _vector(args[0].args[0]):
            before = sum(args[0].args[1][: args[1]])
            return self.part(args[0].args[0], start + before, end + before)
        if x.target is _aten.slice.Tensor:
            where = window(x, 1)
            whole = where is not None and where[0] == 0 and where[3] == 1
            return self.part(args[0], start + where[1], end + where[1]) if where is not None and whole else None
        if x.target in _VIEWS and _vector(args[0]):
            return self.part(args[0], start, end)
        if x.target in _VIEWS and (start, end) != (0, x.meta["val"].shape[0]):
            return self.columns(args[0], 1, start, end)  # what one rank adds up alone
        if x.target is _aten.cat.default and (len(args) == 1 or args[1] == 0):
            piece = self._piece(x, 0, start, end)
            return None if piece is None else self.part(*piece)
        if x.target is _aten.copy.default and _same(args[0], args[1]):
            return self.part(args[1], start, end)
        if x.target in _ALIKE or _scaled(x):
            return self._again(x, self.part(args[0], start, end))
        if x.target is _c10d.wait_tensor.default and args[0].target in _SUMS:
            return self._summed(x, args[0], start, end)
        return x if (start, end) == (0, x.meta["val"].shape[0]) else None

    def _summed(self, x: fx.Node, call: Any, start: int, end: int) -> fx.Node | None:
        """A part of a sum over ranks that was waited for."""
        if call.target is _c10d.all_reduce.default:
            operand = self.part(call.args[0], start, end)
        else:  # what a rank receives is its row
            operand = self.columns(call.args[0], call.args[2], start, end)
        reduced = self._again(call, operand, end - start)
        if reduced is None:
            return None
        whole, (low, _) = self.calls.get(call, (call, (0, 0)))
        self.calls[reduced] = whole, (low + start, low + end)
        return self._again(x, reduced)

    def columns(self, x: Any, rows: int, start: int, end: int) -> fx.Node | None:
        """A vector that is columns ``start`` to ``end`` of ``x`` when it is viewed as so many rows, without the rest of
        ``x``, one row after the other; ``None`` if there is none."""
        value = x.meta.get("val") if isinstance(x, fx.Node) else None
        if not isinstance(value, Tensor) or value.numel() % rows or not 0 <= start < end <= value.numel() // rows:
            return None
        key = (x, rows, start, end)
        if key not in self.seen:
            self.seen[key] = self._columns(x, rows, start, end)
        return self.seen[key]

    def _columns(self, x: fx.Node, rows: int, start: int, end: int) -> fx.Node | None:
        args: Any = x.args
        value = x.meta["val"]
        if x.target in _ALIKE or _scaled(x):
            return self._again(x, self.columns(args[0], rows, start, end))
        if x.target is _aten.cat.default and args[1:] == (1,) and value.dim() == 2 and value.shape[0] == rows:
            piece = self._piece(x, 1, start, end)
            return None if piece is None else self.columns(piece[0], rows, *piece[1:])
        if x.target is _c10d.wait_tensor.default and _gather(args[0], rows):
            gather = args[0]
            made = self._again(gather, self.part(gather.args[0], start, end), rows * (end - start))
            if made is None:
                return None
            self.calls[made] = gather, (start, end)
            return self._again(x, made)
        if x.target in _VIEWS and (found := self.columns(args[0], rows, start, end)) is not None:
            return found
        if (start, end) != (0, value.numel() // rows):
            return None
        return x if _vector(x) else self._new(x, _aten.reshape.default, (x, [-1]), value.numel())

    def _piece(self, cat: fx.Node, dim: int, start: int, end: int) -> tuple[fx.Node, int, int] | None:
        """The one of the tensors put together along a dimension that has these places, and where; ``None`` if it is
        not one alone."""
        for one in _operands(cat):
            value = one.meta["val"]
            if value.dim() != dim + 1 or not _one_type(cat, one):
                return None
            size = value.shape[dim]
            if start >= 0 and end <= size:
                return one, start, end
            start, end = start - size, end - size
        return None

    def gathered(self, node: fx.Node) -> fx.Node | None:
        """For columns of the rows that ranks gathered of a vector that was put together, what they gather of its parts;
        ``None`` for anything else."""
        args: Any = node.args
        split, k = args
        if split.target is not _aten.split_with_sizes.default or split.args[2:] not in ((1,), (-1,)):
            return None
        matrix, sizes = split.args[:2]
        waited = matrix.args[0] if matrix.target in _VIEWS and matrix.meta["val"].dim() == 2 else None
        rows = matrix.meta["val"].shape[0]
        if waited is None or waited.target is not _c10d.wait_tensor.default or not _gather(waited.args[0], rows):
            return None
        if not _assembled(waited.args[0].args[0]):
            return None
        start = sum(sizes[:k])
        found = self.columns(waited, rows, start, start + sizes[k])
        if found is None:
            return None
        with self.graph.inserting_before(node):
            view = self.graph.call_function(_aten.view.default, (found, [rows, sizes[k]]))
        view.meta = {**node.meta}
        return view

    def in_order(self) -> None:
        """Let parts of one collective be called in the order of their places, whatever is read first: ranks that read
        parts in different orders, or some of them twice, make the same calls."""
        for call, (whole, _) in sorted(self.calls.items(), key=lambda made: made[1][1]):
            for node in (call, *(user for user in call.users if user.target is _c10d.wait_tensor.default)):
                whole.prepend(node)

    def _again(self, x: fx.Node, operand: fx.Node | None, length: int | None = None) -> fx.Node | None:
        """The operation of ``x``, done with another vector; ``None`` if there is none."""
        if operand is None:
            return None
        return self._new(x, x.target, (operand, *x.args[1:]), length or operand.meta["val"].shape[0])

    def _new(self, x: fx.Node, target: Any, args: tuple[Any, ...], length: int) -> fx.Node:
        """A node that computes a vector, in the place of ``x`` or of what it is made from ``x``."""
        with self.graph.inserting_after(self.last if x.op == "placeholder" else x):
            node = self.graph.call_function(target, args)
        node.meta = {**x.meta, "val": x.meta["val"].new_empty(length)}
        return node


def _gather(node: Any, rows: int) -> bool:
    """True for a gather from so many ranks."""
    return node.target is _c10d.all_gather_into_tensor.default and len(node.args) == 3 and node.args[1] == rows


def _scaled(x: fx.Node) -> bool:
    """True for a tensor times a number."""
    return x.target in _SCALED and not isinstance(x.args[1], fx.Node) and not x.kwargs


def _one_type(a: Any, b: Any) -> bool:
    """True for two tensors of one data type; others are converted where they are put together."""
    return isinstance(b, fx.Node) and a.meta["val"].dtype == b.meta["val"].dtype


def _same(target: Any, source: Any) -> bool:
    both = _vector(target) and _vector(source) and _one_type(target, source)
    return both and target.meta["val"].shape == source.meta["val"].shape
