"""Copies in a program: what it does with every block of its batch, and where that comes together.

Blocks of an input of the batch begin the copies: what is computed of one block (and of what all share) belongs to its
copy. Copies are alike if each does nothing that the first one does not do with its own block; they may meet in sums of
one tensor of each, and where one tensor of each is put one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tantamount.ir.graph import Graph, Node, Ref, references
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import differs
from tantamount.ops.execute import Environment, constant_type, recorded_constant, run_node
from tantamount.ops.keys import call_key
from tantamount.proof.structure import Watching

__all__ = ["ADD", "AFTER", "COMMON", "JOINS", "SUM", "Block", "Copies", "Layout", "NotAlike", "blocks", "layout_of"]

COMMON, AFTER, SUM = -1, -2, -3  # labels: of all copies, of what comes after them, of sums over copies
ADD = "aten.add.Tensor"
_SAME_ORDER = frozenset(
    f"aten.{name}.default" for name in ("alias", "clone", "detach", "reshape", "view", "_unsafe_view", "_reshape_alias")
)
_LAYOUTS = _SAME_ORDER | {"aten.t.default", "aten.transpose.int"}
JOINS = {"aten.stack.default": True, "aten.cat.default": False}  # whether there is a new dimension


@dataclass(frozen=True, slots=True)
class Layout:
    """A movement of the elements of a tensor of ``before``: dimension k is dimension ``dims[k]``; or, without ``dims``,
    in row-major order to a tensor of ``after``."""

    before: Shape
    after: Shape
    dims: Shape | None

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after and (self.dims is None or self.dims == (*range(len(self.dims)),))

    def then(self, other: Layout) -> Layout | None:
        """Both, one after the other, if that is one of either kind."""
        if self.dims is None and other.dims is None:
            return Layout(self.before, other.after, None)
        if self.dims is None or other.dims is None:
            return None
        return Layout(self.before, other.after, tuple(self.dims[d] for d in other.dims))


def layout_of(graph: Graph, node: Node) -> Layout | None:
    """The layout by which a node moves the elements of its operand; ``None`` if it does something else."""
    if node.target not in _LAYOUTS:
        return None
    operand = node.args[0] if node.args else None
    if node.type is None or not isinstance(operand, Ref):
        return None
    type_ = graph.by_name[operand.name].type
    if type_ is None or type_.dtype is not node.type.dtype:
        return None
    before, after, rest = type_.shape, node.type.shape, node.args[1:]
    if node.target in _SAME_ORDER:
        return Layout(before, after, None)
    order = [*range(len(before))]
    if node.target == "aten.t.default" and len(before) == 2:
        order.reverse()
    elif node.target == "aten.transpose.int" and len(rest) == 2:
        a, b = rest
        if not isinstance(a, int) or not isinstance(b, int):
            return None
        order[a], order[b] = order[b], order[a]
    else:
        return None
    return Layout(before, after, (*order,))


class NotAlike(Exception):
    """The copies are not alike."""


@dataclass(frozen=True, slots=True)
class Block:
    """Block ``index`` of an input of the batch, along its dimension ``dim``; ``count`` of them are all of it."""

    input: str
    dim: int
    index: int
    count: int

    def part_of(self, shape: Shape) -> Shape:
        """The shape of the block."""
        return (*shape[: self.dim], shape[self.dim] // self.count, *shape[self.dim + 1 :])


def blocks(graphs: Sequence[Graph]) -> dict[str, Block]:
    """The nodes that are blocks of inputs, of inputs that are read by blocks only."""
    graph = graphs[0]
    unlike = {node.name for node in graph.nodes if differs(node, graphs)} if len(graphs) > 1 else set[str]()
    out: dict[str, Block] = {}
    for node in graph.inputs:
        if node.type is None:
            continue
        found: dict[str, Block] = {}
        users = graph.users[node.name]
        if users and all(_add_blocks(graph, node.name, node.type.shape, graph.by_name[user], found) for user in users):
            alike = unlike.isdisjoint((*users, *found))
            if alike and len({(block.dim, block.count) for block in found.values()}) == 1:
                out.update(found)
    return out


def _add_blocks(graph: Graph, name: str, shape: Shape, user: Node, found: dict[str, Block]) -> bool:
    """Note the blocks of an input that a node makes; false if it does something else with it."""
    plain = all(not isinstance(arg, (Ref, tuple)) for arg in user.args[1:])
    numbers = [arg for arg in user.args[1:] if isinstance(arg, int) and not isinstance(arg, bool)]
    if user.kwargs or user.args[:1] != (Ref(name),) or not plain or len(numbers) != len(user.args) - 1:
        return False
    if user.target == "aten.split.Tensor" and numbers:
        dim = numbers[1] if len(numbers) > 1 else 0
        if not -len(shape) <= dim < len(shape) or not numbers[0] or shape[dim] % numbers[0]:
            return False
        dim %= len(shape)
        count = shape[dim] // numbers[0]
        for item in graph.users[user.name]:
            node = graph.by_name[item]
            index = node.args[1] if node.target == "getitem" and len(node.args) == 2 else None
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
                return False
            found[item] = Block(name, dim, index, count)
        return count > 1
    if user.target == "aten.slice.Tensor" and len(numbers) == 3:
        dim, start, stop = numbers
        if not 0 <= dim < len(shape) or not 0 <= start < stop <= shape[dim]:
            return False
        size = stop - start
        if shape[dim] % size or start % size or size == shape[dim]:
            return False
        found[user.name] = Block(name, dim, start // size, shape[dim] // size)
        return True
    return False


@dataclass
class Copies:
    """The copies in a program. ``label``: the copy that a node belongs to, or one of the labels above; ``number``:
    equal for nodes that compute one function of one set of operands, blocks of different copies taken for one.
    ``nodes`` has the first node of every number, by copy; ``needed`` the sums over all copies that are read, ``joined``
    what puts copies one after the other."""

    graphs: Sequence[Graph]
    blocks: Mapping[str, Block]
    count: int
    label: dict[str, int] = field(default_factory=dict[str, int])
    number: dict[str, int] = field(default_factory=dict[str, int])
    _known: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _layouts: dict[int, tuple[int, Layout]] = field(default_factory=dict[int, "tuple[int, Layout]"])
    _pure: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])
    nodes: list[dict[int, str]] = field(default_factory=list[dict[int, str]])
    needed: dict[str, None] = field(default_factory=dict[str, None])
    joined: dict[str, None] = field(default_factory=dict[str, None])
    _dropped: set[str] = field(default_factory=set[str])  # splits of inputs into blocks

    @property
    def graph(self) -> Graph:
        return self.graphs[0]

    @cached_property
    def _unlike(self) -> set[str]:
        """The nodes that ranks have with other numbers."""
        nodes = self.graph.nodes if len(self.graphs) > 1 else ()
        return {node.name for node in nodes if differs(node, self.graphs)}

    def find(self) -> Copies:
        """Label and number all nodes. Raises :class:`NotAlike` where copies are not alike."""
        self.nodes.extend({} for _ in range(self.count))
        inputs = {block.input for block in self.blocks.values()}
        for node in self.graph.nodes:
            if node.name not in self.blocks and set(references(node)) & inputs:  # a split
                self._dropped.add(node.name)
            elif node.name not in inputs:
                self._label(node)
        first = self.nodes[0]
        if not first or any(number not in first for copy in self.nodes for number in copy):
            raise NotAlike
        return self

    # -- what belongs to which copy
    def _label(self, node: Node) -> None:
        name = node.name
        block = self.blocks.get(name)
        if block is not None:
            self._give(name, block.index, self._numbered(("block", block.input)))
            return
        read = [*references(node)]
        if any(one in self._dropped for one in read):
            raise NotAlike
        labels = {self.label[one] for one in read}
        copies = {label for label in labels if label >= 0}
        if SUM not in labels and AFTER not in labels and len(copies) <= 1:
            moved = self._layout(node)
            label = next(iter(copies), COMMON)
            if moved is None:
                self._give(name, label, self._numbered(self._key(node)))
            else:
                self._give(name, label, self._moved(self.number[read[0]], moved))
        elif labels == {SUM} and self._layout(node) is not None:
            self.label[name] = SUM
        elif self._is_sum(node) and not (AFTER in labels and copies):
            whole = AFTER in labels or (COMMON in labels and self._is_whole(read))
            self.label[name] = AFTER if whole else SUM
            if whole:
                self._read(read)
        elif node.target in JOINS and copies:
            self._join(node, read)
            self.joined[name] = None
            self.label[name] = AFTER
        elif copies:
            raise NotAlike  # copies meet otherwise
        else:
            self._read(read)
            self.label[name] = AFTER

    def _layout(self, node: Node) -> Layout | None:
        return None if node.name in self._unlike else layout_of(self.graph, node)

    def _numbered(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))

    def _moved(self, number: int, layout: Layout) -> int:
        """The number of a tensor whose elements are moved: back and forth is not at all."""
        before = self._layouts.get(number)
        if before is not None:
            base, earlier = before
            both = earlier.then(layout)
            if both is not None:
                number, layout = base, both
        if layout.is_nothing:
            return number
        found = self._numbered(("layout", number, layout))
        self._layouts[found] = (number, layout)
        return found

    def _give(self, name: str, label: int, number: int) -> None:
        self.label[name], self.number[name] = label, number
        if label >= 0:
            self.nodes[label].setdefault(number, name)

    def _key(self, node: Node) -> Hashable:
        """A key of a node's operator, attributes and operands."""
        if node.op == "input":
            return "input", node.name
        if node.op == "constant":
            held = [graph.constants.get(graph.by_name[node.name].target) for graph in self.graphs]
            if any(one is None for one in held):
                raise NotAlike
            return "constant", *[(one.type, tuple((type(x), repr(x)) for x in one.data)) for one in held if one]
        key: Hashable = ()
        if node.name not in self._unlike:
            key = call_key(self.graph, node, self.number.__getitem__)
        else:
            key = tuple(call_key(g, g.by_name[node.name], self.number.__getitem__) for g in self.graphs)
        if key in self._known:  # the same call of the same operands is a function of them
            return key
        row = None if node.target == "getitem" else operator_of(self.graph, node)
        if row is not None and (row.category == "random" or row.peer_parameter is not None):
            raise NotAlike
        if row is not None and row.group_parameter is None and not self._is_function(node):
            return "fresh", node.name
        return key

    def _is_function(self, node: Node) -> bool:
        """True if the results are a function of the operands: a definition asks for nothing fresh."""
        types: dict[str, Tensor] = {}
        for name in references(node):
            operand = self.graph.by_name[name]
            type_ = constant_type(self.graph, operand) if operand.op == "constant" else operand.type
            if type_ is None:
                raise NotAlike
            types[name] = Tensor(type_.shape, type_.dtype, None)
        key = call_key(self.graph, node, types.__getitem__)
        if key not in self._pure:
            watching = Watching()
            operands: Environment = {**types}
            result = run_node(self.graph, node, Builder(watching, node.name), operands, recorded_constant, None)
            known = isinstance(result, (Tensor, tuple))
            self._pure[key] = known and not watching.fresh and not watching.masks
        return self._pure[key]

    # -- where copies meet
    def _is_sum(self, node: Node) -> bool:
        """True of the sum of two tensors of one type."""
        args = node.args
        if node.target != ADD or node.kwargs or len(args) != 2 or node.name in self._unlike:
            return False
        types = [self.graph.by_name[arg.name].type for arg in args if isinstance(arg, Ref)]
        return types == [node.type, node.type] and node.type is not None and node.type.dtype.is_float

    def _leaves(self, name: str) -> Iterator[tuple[str, tuple[Layout, ...]]]:
        """The tensors that a sum over copies is the sum of, and how the elements of each are moved."""
        pending: list[tuple[str, tuple[Layout, ...]]] = [(name, ())]
        while pending:
            one, moved = pending.pop()
            if self.label[one] == SUM:
                node = self.graph.by_name[one]
                layout = self._layout(node)
                moved = moved if layout is None else (layout, *moved)
                pending += reversed([(other, moved) for other in references(node)])
            else:
                yield one, moved

    def _plain(self, name: str) -> str:
        """The tensor, without the zero that it was added to."""
        node = self.graph.by_name[name]
        zero = node.target == ADD and not node.kwargs and len(node.args) == 2 and node.args[1] == 0
        if (
            zero
            and name not in self._unlike
            and isinstance(node.args[0], Ref)
            and self.graph.by_name[node.args[0].name].type == node.type
        ):
            return node.args[0].name
        return name

    def summands(self, name: str) -> tuple[list[str], list[str]]:
        """Of a sum over all copies the first copy's summands, and those of none. Raises :class:`NotAlike` unless every
        copy has the same."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        others: list[str] = []
        for leaf, moved in self._leaves(name):
            label = self.label[leaf]
            if label < 0:
                others.append(leaf)
                if moved:
                    raise NotAlike
                continue
            number = self.number[self._plain(leaf)]
            for layout in moved:
                number = self._moved(number, layout)
            found[label].append(number)
        wanted = Counter(found[0])
        first = self.nodes[0]
        if not wanted or any(Counter(copy) != wanted for copy in found[1:]) or not wanted.keys() <= first.keys():
            raise NotAlike
        return [first[number] for number in found[0]], others

    def _is_whole(self, names: Sequence[str]) -> bool:
        """True if all sums over copies among some tensors are over all of them."""
        try:
            for name in names:
                if self.label[name] == SUM:
                    self.summands(name)
        except NotAlike:
            return False
        return True

    def _read(self, names: Sequence[str]) -> None:
        for name in names:
            if self.label[name] == SUM and name not in self.needed:
                self.summands(name)
                self.needed[name] = None

    def _join(self, node: Node, read: Sequence[str]) -> None:
        """Check that a node puts one tensor of each copy together, in their order, along the first dimension."""
        ordered = [self.label[name] for name in read] == [*range(self.count)]
        listed = node.args[:1] == (tuple(map(Ref, read)),) and node.args[1:] in ((), (0,)) and not node.kwargs
        if not ordered or not listed or node.name in self._unlike or len({self.number[n] for n in read}) > 1:
            raise NotAlike

    def ask(self, name: str) -> None:
        """Have a tensor be read. Raises :class:`NotAlike` if it is one of a copy, or a sum over some of them."""
        if self.label.get(name, 0) >= 0:
            raise NotAlike
        self._read([name])

    def kept(self) -> set[str]:
        """The nodes of the first copy, what comes after, and what is read of the rest."""
        kept: set[str] = set()
        users = self.graph.users
        for node in reversed(self.graph.nodes):
            name = node.name
            label = self.label.get(name)
            if label is None or name in self.blocks or label > 0:
                continue
            if label == SUM and name not in self.needed:
                continue
            unread = label == COMMON and users[name] and not any(u in kept for u in users[name])
            if unread and all(self.label.get(u, 0) > 0 or self.label.get(u) == COMMON for u in users[name]):
                continue
            kept.add(name)
        return kept
