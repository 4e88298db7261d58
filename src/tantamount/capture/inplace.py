"""In-place operators in captured graphs, read as what they do to memory.

A graph has values, not memory: the node of ``sub_`` is the new value of what it overwrites. Where the overwritten
tensor, or another view of its memory, is read afterwards, the graph is rewritten: every tensor is an allocation seen
through a chain of views, a write through a chain gives the allocation a new value (the views undone one after the
other, ``slice_scatter`` for ``slice``), and whoever reads another view later reads it anew of that value. That is what
``torch.func.functionalize`` does at capture.

*Why sound*: a chain consists of operators that are views whatever the strides are, each undone exactly, so the new
value of the allocation is what memory then holds. Whether other operators give a view (``reshape``, ``contiguous``)
depends on strides, which graphs do not record: their results count as memory of their own that *may* be the other. If
one of the two is written and the other is read later, the graph is refused, and so is a write through a view that shows
an element twice (``expand``) or that is not undone here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, reading, references
from tantamount.ir.types import Shape, TensorType
from tantamount.ir.validate import node_place
from tantamount.sizes.symbolic import alike, is_size

__all__ = ["is_in_place", "is_view", "overwritten", "overwritten_before", "shares_memory", "without_overwriting"]

# Operators whose result shares, or may share, the memory of an operand.
_VIEW_NAMES = """
    H T _autocast_to_full_precision _autocast_to_reduced_precision _conj _neg_view _reshape_alias _unsafe_view adjoint
    alias alpha_dropout as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to cartesian_prod
    chunk conj conj_physical contiguous cpu cuda data detach diag diagonal dropout dsplit einsum expand expand_as
    feature_alpha_dropout feature_dropout flatten getitem hsplit imag lift lift_fresh mH mT matrix_H meshgrid moveaxis
    movedim narrow native_dropout numpy_T permute pin_memory positive ravel real reshape reshape_as resolve_conj
    resolve_neg rot90 select slice split split_with_sizes squeeze sum_to_size swapaxes swapdims t tensor_split to
    to_dense transpose type_as unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
    values view view_as view_as_complex view_as_real view_dtype vsplit wait_tensor
"""
_VIEWS = frozenset(_VIEW_NAMES.split())

# Views whatever the strides are: undone by reshaping, by an operator of their own, or not at all (None).
_RESHAPING = ("view.default", "_unsafe_view.default", "_reshape_alias.default", "unsqueeze.default", "squeeze.default",
              "squeeze.dim", "squeeze.dims")  # fmt: skip
_SAME = ("alias.default", "detach.default", "lift_fresh.default")
_CERTAIN: Mapping[str, str | None] = {
    **{f"aten.{name}": "reshape" for name in _RESHAPING},
    **{f"aten.{name}": "same" for name in _SAME},
    "_c10d_functional.wait_tensor.default": "same",
    "aten.t.default": "t",
    "aten.transpose.int": "transpose",
    "aten.permute.default": "permute",
    "aten.slice.Tensor": "slice",
    "aten.select.int": "select",
    "aten.split.Tensor": "parts",
    "aten.split_with_sizes.default": "parts",
    "aten.unbind.int": "parts",
    "aten.expand.default": None,
}
# In-place operators that change what a tensor shows of its memory.
_RESHAPED_NAMES = """
    as_strided_ detach_ rename_ requires_grad_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_
    unsqueeze_
"""
_RESHAPED = frozenset(_RESHAPED_NAMES.split())


def _base(target: str) -> str:
    """``aten.sub_.Tensor`` gives ``sub_``."""
    parts = target.split(".")
    return parts[1] if len(parts) >= 2 else parts[0]


def overwritten_before(graph: Graph) -> list[Node]:
    """The inputs and constants whose memory the program overwrites, or may overwrite: what it finds there when it runs
    again is something else."""
    roots: dict[str, set[str]] = {node.name: {node.name} for node in graph.nodes if node.op != "call"}
    written = set[str]()

    def shown(names: list[str]) -> set[str]:
        return {root for name in names if name in roots for root in roots[name]}

    for node in graph.nodes:
        if node.op == "call" and is_in_place(node.target):
            roots[node.name] = shown(overwritten(node))
            written |= roots[node.name]
        if node.op == "call" and _base(node.target) in _VIEWS:
            roots[node.name] = shown(_viewed(node))
    return [node for node in graph.nodes if node.name in written]


def _viewed(node: Node) -> list[str]:
    """The nodes of which a view may be one: its first operand, or any tensor of a list."""
    for argument in (*node.args, *node.kwargs.values()):
        found = _refs(argument)
        if found:
            return found
    return []


def shares_memory(target: str) -> bool:
    """True if the result of an operator shares, or may share, the memory of its first operand."""
    return _base(target) in _VIEWS


def is_view(target: str) -> bool:
    """True if the result of an operator is a view of its first operand, whatever the strides are."""
    return target in _CERTAIN


def is_in_place(target: str) -> bool:
    """Does the operator overwrite an operand?"""
    base = _base(target)
    return base.endswith("_") and not base.endswith("__")


def _refs(argument: Argument) -> list[str]:
    if isinstance(argument, Ref):
        return [argument.name]
    return [name for item in argument for name in _refs(item)] if isinstance(argument, tuple) else []


def overwritten(node: Node) -> list[str]:
    """The nodes whose memory an in-place operator writes: its first operand; every list of a fused or for-each one."""
    if _base(node.target).startswith(("_foreach", "_fused")) or not node.args:
        return list(references(node))
    return _refs(node.args[0])


def without_overwriting(graph: Graph) -> Graph:
    """The graph with every overwritten tensor that is read later, and every view of it, read as what it is then; the
    graph itself where nothing is. Raises :class:`UserError` ``graph-in-place`` where that is not known."""
    if not any(node.op == "call" and is_in_place(node.target) for node in graph.nodes):
        return graph
    memory = _Memory(graph)
    for node in graph.nodes:
        memory.run(node)
    outputs = tuple(Output(o.name, memory.current(o.node, f"output {o.name}")) for o in graph.outputs)
    if len(memory.nodes) == len(graph.nodes) and outputs == graph.outputs and not memory.moved:
        return graph
    return replace(graph, nodes=tuple(memory.nodes), outputs=outputs)


@dataclass(frozen=True)
class _Write:
    """The value that a node wrote through a chain of views; ``before`` are the nodes that show parts of the value of
    before."""

    node: Node
    chain: tuple[str, ...]
    before: dict[tuple[str, ...], str]


@dataclass
class _Block:
    """One allocation. ``views`` are the nodes that show parts of what it holds now, by chain (the empty one: all of
    it); ``written``: the last write, whose value is not yet put together with the rest; ``ties`` other allocations
    that may be this one; ``spoilt``: who wrote through one of those."""

    views: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    written: _Write | None = None
    ties: set[int] = field(default_factory=set[int])
    spoilt: Node | None = None


@dataclass(frozen=True)
class _Place:
    """The memory that a node's value lies in: an allocation, and the views (nodes of the graph as given) through which
    it is seen, from the outermost to the node itself."""

    block: int
    chain: tuple[str, ...] = ()


class _Memory:
    """Follows a program: where values lie, and what is in memory. ``nodes`` is the program without overwriting."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.moved = False  # a reader was given another node
        self.types: dict[str, TensorType | None] = {}
        self._blocks: list[_Block] = []
        self._places: dict[str, _Place] = {}
        self._names = {node.name for node in graph.nodes}
        self._fresh = count()

    # -- reading
    def current(self, name: str, reader: str) -> str:
        """The node that has what a node's memory holds now."""
        place = self._places[name]
        block = self._blocks[place.block]
        if block.spoilt is not None:
            raise self._refused(block.spoilt, f"memory that {name} may share, and {reader} reads {name} later")
        found = block.views.get(place.chain)
        if found is None:
            found = self._shown(place)
        self.moved = self.moved or found != name
        return found

    def _shown(self, place: _Place) -> str:
        """The node that shows, through a chain, what the allocation holds now."""
        block = self._blocks[place.block]
        self._settle(block)
        return self._seen(block.views, place.chain)

    def _settle(self, block: _Block) -> None:
        """Put what was written together with the rest of the allocation."""
        if block.written is not None:
            write, block.written = block.written, None
            block.views = {**self._put_together(write), **block.views}

    def _seen(self, views: dict[tuple[str, ...], str], chain: tuple[str, ...]) -> str:
        """The view of a chain of the value that ``views`` show; what is made on the way is added to them."""
        value = views[()]
        for k in range(1, len(chain) + 1):
            known = views.get(chain[:k])
            if known is None:
                view = self.graph.by_name[chain[k - 1]]
                if view.target == "getitem" and not self._is_part(view):
                    known = value  # the same of several results, taken once more
                else:
                    known = self._emit(view.target, (Ref(value), *view.args[1:]), view.kwargs, view.type, view)
                views[chain[:k]] = known
            value = known
        return value

    def _put_together(self, write: _Write) -> dict[tuple[str, ...], str]:
        """The views of an allocation after a write: of what was written, and of the whole with it in place."""
        value, chain = write.node.name, write.chain
        after = {chain: value}
        for k in reversed(range(len(chain))):
            view = self.graph.by_name[chain[k]]
            if view.target == "getitem" and self._is_part(view):
                value = self._part_written(write.node, view, self._seen(write.before, chain[: k - 1]), value)
            else:
                if _CERTAIN.get(view.target) != "parts":
                    value = self._undone(write.node, view, self._seen(write.before, chain[:k]), value)
                after[chain[:k]] = value
        return after

    def _emit(
        self, target: str, args: tuple[Argument, ...], kwargs: Mapping[str, Argument], type_: TensorType | None,
        origin: Node,
    ) -> str:  # fmt: skip
        name = next(text for k in self._fresh if (text := f"{origin.name}_then_{k}") not in self._names)
        self._names.add(name)
        self.nodes.append(Node(name, "call", target, args, kwargs, type_, origin.source))
        self.types[name] = type_
        return name

    # -- one node after the other
    def run(self, node: Node) -> None:
        """Record the memory that a node reads, makes and overwrites."""
        reader = f"node {node.name}"
        names = dict.fromkeys(references(node))
        here = {name: self.current(name, reader) for name in names}
        moved = {name: found for name, found in here.items() if found != name}
        self.nodes.append(reading(node, moved))
        self.types[node.name] = node.type
        if node.op == "call" and is_in_place(node.target):
            self._write(node)
        elif node.op == "call" and node.target in _CERTAIN and len(names) == 1 and _is_ref(node.args[:1]):
            base = self._places[next(iter(names))]
            self._put(node, _Place(base.block, (*base.chain, node.name)))
        elif node.op == "call" and node.target == "getitem" and len(names) == 1:
            self._item(node, next(iter(names)))
        else:
            self._allocate(node)
            if node.op == "call" and _base(node.target) in _VIEWS and not self._converts(node):
                self._tie(self._places[node.name].block, [self._places[name].block for name in names])
            if node.op == "constant":  # two nodes may read one tensor
                others = [self._places[n].block for n in self._places if self._is_constant(n, node.target)]
                self._tie(self._places[node.name].block, others)

    def _converts(self, node: Node) -> bool:
        """True if the elements have another type than those of the operand, so that they cannot be the same memory."""
        first = node.args[0] if node.args else None
        old = self.types.get(first.name) if isinstance(first, Ref) else None
        converts = old is not None and node.type is not None and old.dtype is not node.type.dtype
        return converts and _base(node.target) in ("to", "type_as")

    def _is_constant(self, name: str, target: str) -> bool:
        node = self.graph.by_name[name]
        return node.op == "constant" and node.target == target

    def _is_part(self, item: Node) -> bool:
        """True if ``getitem`` takes one of the parts that a tensor was cut into."""
        return _CERTAIN.get(self.graph.by_name[next(iter(references(item)))].target) == "parts"

    def _allocate(self, node: Node) -> None:
        self._blocks.append(_Block({(): node.name}))
        self._places[node.name] = _Place(len(self._blocks) - 1)

    def _put(self, node: Node, place: _Place) -> None:
        self._places[node.name] = place
        self._blocks[place.block].views[place.chain] = node.name

    def _item(self, node: Node, whole: str) -> None:
        """One of several results: a view if they are parts of one tensor, else memory of its own, the same for every
        node that takes it."""
        place = self._places[whole]
        if place.chain and self._is_part(node):
            self._put(node, _Place(place.block, (*place.chain, node.name)))
            return
        source = self.graph.by_name[whole]
        first = next((n for n in self._places if n != whole and self._same_item(n, node)), None)
        if first is not None:
            base = self._places[first]
            self._put(node, _Place(base.block, (*base.chain, node.name)))
            return
        self._allocate(node)
        if source.op == "call" and (_base(source.target) in _VIEWS or is_in_place(source.target)):
            self._tie(self._places[node.name].block, [place.block])

    def _same_item(self, name: str, node: Node) -> bool:
        other = self.graph.by_name.get(name)
        return other is not None and other.target == "getitem" and other.op == "call" and other.args == node.args

    def _tie(self, block: int, others: list[int]) -> None:
        for other in others:
            self._blocks[block].ties.add(other)
            self._blocks[other].ties.add(block)

    # -- writing
    def _write(self, node: Node) -> None:
        """The node is the new value of what it overwrites. Where that is not one tensor of the same shape, nobody may
        read it afterwards."""
        targets = overwritten(node)
        plain = len(targets) == 1 and bool(node.args) and isinstance(node.args[0], Ref)
        plain = plain and _base(node.target) not in _RESHAPED and self._fits(node, targets[0])
        for name in targets:
            block = self._places[name].block
            for other in self._tied(block) if plain else {block, *self._tied(block)}:
                self._blocks[other].spoilt = node
        if not plain:
            self._allocate(node)
            return
        place = self._places[targets[0]]
        block = self._blocks[place.block]
        if block.written is not None and block.written.chain != place.chain:
            self._settle(block)
        last = block.written
        before = dict(block.views) if last is None else last.before
        block.written = _Write(node, place.chain, before) if place.chain else None
        block.views = {place.chain: node.name}
        self._places[node.name] = place

    def _fits(self, node: Node, target: str) -> bool:
        """False if the recorded shapes of a node and of what it overwrites differ."""
        known = self.graph.by_name[target].type
        return node.type is None or known is None or alike(node.type.shape, known.shape)

    def _tied(self, block: int) -> set[int]:
        """Allocations other than this one that may be this one."""
        found: set[int] = set()
        pending = [block]
        while pending:
            for other in self._blocks[pending.pop()].ties - found:
                found.add(other)
                pending.append(other)
        return found - {block}

    def _undone(self, writer: Node, node: Node, whole: str, part: str) -> str:
        """The node that has ``whole`` with ``part`` in place of what the view ``node`` shows of it."""
        how = _CERTAIN.get(node.target, "same")
        type_ = self.types.get(whole)
        if how == "same":
            return part
        if how == "t":
            return self._emit(node.target, (Ref(part),), {}, type_, writer)
        if how == "transpose":
            return self._emit(node.target, (Ref(part), *node.args[1:]), node.kwargs, type_, writer)
        if how in ("slice", "select"):
            args = (Ref(whole), Ref(part), *node.args[1:])
            return self._emit(f"aten.{how}_scatter.default", args, node.kwargs, type_, writer)
        if how == "permute" and len(node.args) == 2 and isinstance(node.args[1], tuple):
            order = [axis for axis in node.args[1] if isinstance(axis, int)]
            inverse = tuple(sorted(range(len(order)), key=lambda k: order[k] % len(order)))
            return self._emit(node.target, (Ref(part), inverse), {}, type_, writer)
        if how == "reshape" and type_ is not None:
            return self._emit("aten.reshape.default", (Ref(part), type_.shape), {}, type_, writer)
        raise self._refused(writer, f"{node.name}, a view by {node.target} that a write does not go through")

    def _part_written(self, writer: Node, item: Node, whole: str, part: str) -> str:
        """The whole that was cut into parts, with one of them replaced."""
        split = self.graph.by_name[next(iter(references(item)))]
        type_ = self.types.get(whole)
        found = None if type_ is None else _span(split, item.args[1], type_.shape)
        if found is None:
            raise self._refused(writer, f"{item.name}, a part by {split.target} whose place is not known")
        dim, start, stop = found
        if split.target == "aten.unbind.int":
            return self._emit("aten.select_scatter.default", (Ref(whole), Ref(part), dim, start), {}, type_, writer)
        return self._emit("aten.slice_scatter.default", (Ref(whole), Ref(part), dim, start, stop), {}, type_, writer)

    def _refused(self, writer: Node, what: str) -> UserError:
        return UserError(
            "graph-in-place",
            place=node_place(self.graph.path, writer),
            found=f"{writer.target} overwrites {what}",
            needed="an overwritten tensor that is not read any more, or views that are known to be views",
            hint="functionalise the graph at capture (torch.func.functionalize), so that no operator works in place",
        )


def _is_ref(first: tuple[Argument, ...]) -> bool:
    return bool(first) and isinstance(first[0], Ref)


def _span(split: Node, which: Argument, shape: Shape) -> tuple[int, int, int] | None:
    """Dimension, start and stop of a part of a tensor of that shape; ``None`` where that is not known."""
    arguments = [*split.args[1:], *split.kwargs.values()]
    if split.kwargs or not isinstance(which, int) or not shape:
        return None
    if split.target == "aten.unbind.int":
        dim = arguments[0] if arguments else 0
        return (dim % len(shape), which % shape[dim], 0) if isinstance(dim, int) else None
    sizes, dim = (arguments[0] if arguments else None), (arguments[1] if len(arguments) > 1 else 0)
    if not isinstance(dim, int):
        return None
    total = shape[dim]
    if isinstance(sizes, int) and not is_size(total) and which >= 0:
        start = which * sizes
        return dim % len(shape), start, min(start + sizes, total)
    known = [size for size in sizes if isinstance(size, int)] if isinstance(sizes, tuple) else []
    if isinstance(sizes, tuple) and 0 <= which < len(known) == len(sizes):
        return dim % len(shape), sum(known[:which]), sum(known[: which + 1])
    return None
