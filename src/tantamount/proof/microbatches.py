"""Microbatches as a mesh axis: a program that does the same with every block of its batch, as one that does it once.

Blocks of an input of the batch begin the *copies*: what is computed of one block (and of what all share) belongs to its
copy. If every copy does what the first one does, ranks along a new mesh axis can each do one of them. Where copies come
together, a sum of one tensor of each is a reduction over the axis, and a concatenation gathers along it. Anything else
that meets is no case for this, and the program stays what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation, RankTensor, Replicate, Shard, rank_tensors
from tantamount.ir.types import Shape, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import rank_classes
from tantamount.ops.execute import Environment, constant_type, recorded_constant, run_node
from tantamount.ops.keys import call_key
from tantamount.ops.relations import even
from tantamount.proof.nodes import differs
from tantamount.proof.outputs import output_node, show
from tantamount.proof.simpler import Simpler, renamed
from tantamount.proof.structure import Watching

__all__ = ["as_ranks", "blocks"]

_AXIS = "microbatch"
_COMMON, _AFTER, _SUM = -1, -2, -3  # labels: of all copies, of what comes after them, of sums over copies
_ADD = "aten.add.Tensor"
_REDUCE = "_c10d_functional.all_reduce.default"
_GATHER = "_c10d_functional.all_gather_into_tensor.default"
_UNSQUEEZE = "aten.unsqueeze.default"
_SAME_ORDER = frozenset(
    f"aten.{name}.default" for name in ("alias", "clone", "detach", "reshape", "view", "_unsafe_view", "_reshape_alias")
)
_JOINS = {"aten.stack.default": True, "aten.cat.default": False}  # whether there is a new dimension


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a tensor of ``before`` are moved: dimension k is dimension ``dims[k]``; or, without ``dims``,
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
    """How a node moves the elements of its operand; ``None`` if it does something else."""
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


class _Unfit(Exception):
    """The copies are not ranks that do the same."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Block ``index`` of an input of the batch, along its dimension ``dim``; ``count`` of them are all of it."""

    input: str
    dim: int
    index: int
    count: int


def as_ranks(job: Job) -> Simpler | None:
    """The job with microbatches as the last axis of its mesh; ``None`` where there are none that are alike."""
    graphs = [*{id(graph): graph for graph in job.implementation}.values()]
    if job.at is not None or any(graph.groups or graph.sizes.symbols for graph in graphs):
        return None
    if len(rank_classes(job.implementation, job.mesh)) > 1:
        return None
    found = blocks(graphs)
    for count in sorted({block.count for block in found.values()}, reverse=True):
        mine = {name: block for name, block in found.items() if block.count == count}
        try:
            return _Folding(job, graphs, mine, count).simpler()
        except (_Unfit, TantamountError):
            continue
    return None


def blocks(graphs: Sequence[Graph]) -> dict[str, _Block]:
    """The nodes that are blocks of inputs, of inputs that are read by blocks only."""
    graph = graphs[0]
    unlike = {node.name for node in graph.nodes if differs(node, graphs)} if len(graphs) > 1 else set[str]()
    out: dict[str, _Block] = {}
    for node in graph.inputs:
        if node.type is None:
            continue
        found: dict[str, _Block] = {}
        users = graph.users[node.name]
        if users and all(_add_blocks(graph, node.name, node.type.shape, graph.by_name[user], found) for user in users):
            alike = unlike.isdisjoint((*users, *found))
            if alike and len({(block.dim, block.count) for block in found.values()}) == 1:
                out.update(found)
    return out


def _add_blocks(graph: Graph, name: str, shape: Shape, user: Node, found: dict[str, _Block]) -> bool:
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
            found[item] = _Block(name, dim, index, count)
        return count > 1
    if user.target == "aten.slice.Tensor" and len(numbers) == 3:
        dim, start, stop = numbers
        if not 0 <= dim < len(shape) or not 0 <= start < stop <= shape[dim]:
            return False
        size = stop - start
        if shape[dim] % size or start % size or size == shape[dim]:
            return False
        found[user.name] = _Block(name, dim, start // size, shape[dim] // size)
        return True
    return False


@dataclass
class _Folding:
    """``label``: the copy that a node belongs to, or one of the labels above; ``number``: equal for nodes that compute
    one function of one set of operands, blocks of different copies taken for one."""

    job: Job
    graphs: Sequence[Graph]
    blocks: Mapping[str, _Block]
    count: int
    label: dict[str, int] = field(default_factory=dict[str, int])
    number: dict[str, int] = field(default_factory=dict[str, int])
    _known: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _layouts: dict[int, tuple[int, Layout]] = field(default_factory=dict[int, "tuple[int, Layout]"])
    _pure: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])
    _copies: list[dict[int, str]] = field(default_factory=list[dict[int, str]])  # first nodes by number
    _needed: set[str] = field(default_factory=set[str])  # sums over copies that are read
    _joined: set[str] = field(default_factory=set[str])  # what puts copies together
    _dropped: set[str] = field(default_factory=set[str])  # splits of inputs into blocks

    @property
    def graph(self) -> Graph:
        return self.graphs[0]

    @cached_property
    def _unlike(self) -> set[str]:
        """The nodes that ranks have with other numbers."""
        nodes = self.graph.nodes if len(self.graphs) > 1 else ()
        return {node.name for node in nodes if differs(node, self.graphs)}

    def simpler(self) -> Simpler:
        """Raises :class:`_Unfit` where the copies are not alike."""
        self._copies.extend({} for _ in range(self.count))
        inputs = {block.input for block in self.blocks.values()}
        for node in self.graph.nodes:
            if node.name not in self.blocks and set(references(node)) & inputs:  # a split
                self._dropped.add(node.name)
            elif node.name not in inputs:
                self._label(node)
        first = self._copies[0]
        if not first or any(number not in first for copy in self._copies for number in copy):
            raise _Unfit
        self._ask_outputs()
        graphs = {id(graph): self._folded(graph) for graph in self.graphs}
        return self._job(graphs)

    # -- what belongs to which copy
    def _label(self, node: Node) -> None:
        name = node.name
        block = self.blocks.get(name)
        if block is not None:
            self._give(name, block.index, self._numbered(("block", block.input)))
            return
        read = [*references(node)]
        if any(one in self._dropped for one in read):
            raise _Unfit
        labels = {self.label[one] for one in read}
        copies = {label for label in labels if label >= 0}
        if _SUM not in labels and _AFTER not in labels and len(copies) <= 1:
            moved = self._layout(node)
            label = next(iter(copies), _COMMON)
            if moved is None:
                self._give(name, label, self._numbered(self._key(node)))
            else:
                self._give(name, label, self._moved(self.number[read[0]], moved))
        elif labels == {_SUM} and self._layout(node) is not None:
            self.label[name] = _SUM
        elif self._is_sum(node) and not (_AFTER in labels and copies):
            whole = _AFTER in labels or (_COMMON in labels and self._is_whole(read))
            self.label[name] = _AFTER if whole else _SUM
            if whole:
                self._read(read)
        elif node.target in _JOINS and copies:
            self._join(node, read)
            self._joined.add(name)
            self.label[name] = _AFTER
        elif copies:
            raise _Unfit  # copies meet otherwise
        else:
            self._read(read)
            self.label[name] = _AFTER

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
            self._copies[label].setdefault(number, name)

    def _key(self, node: Node) -> Hashable:
        """What a node computes, of what."""
        if node.op == "input":
            return "input", node.name
        if node.op == "constant":
            held = [graph.constants.get(graph.by_name[node.name].target) for graph in self.graphs]
            if any(one is None for one in held):
                raise _Unfit
            return "constant", *[(one.type, tuple((type(x), repr(x)) for x in one.data)) for one in held if one]
        row = None if node.target == "getitem" else operator_of(self.graph, node)
        if row is not None and (row.category == "random" or row.peer_parameter is not None):
            raise _Unfit
        if row is not None and row.group_parameter is None and not self._is_function(node):
            return "fresh", node.name
        if node.name not in self._unlike:
            return call_key(self.graph, node, self.number.__getitem__)
        return tuple(call_key(g, g.by_name[node.name], self.number.__getitem__) for g in self.graphs)

    def _is_function(self, node: Node) -> bool:
        """True if the results are a function of the operands: a definition asks for nothing fresh."""
        types: dict[str, Tensor] = {}
        for name in references(node):
            operand = self.graph.by_name[name]
            type_ = constant_type(self.graph, operand) if operand.op == "constant" else operand.type
            if type_ is None:
                raise _Unfit
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
        if node.target != _ADD or node.kwargs or len(args) != 2 or node.name in self._unlike:
            return False
        types = [self.graph.by_name[arg.name].type for arg in args if isinstance(arg, Ref)]
        return types == [node.type, node.type] and node.type is not None and node.type.dtype.is_float

    def _leaves(self, name: str) -> Iterator[tuple[str, tuple[Layout, ...]]]:
        """The tensors that a sum over copies is the sum of, and how the elements of each are moved."""
        pending: list[tuple[str, tuple[Layout, ...]]] = [(name, ())]
        while pending:
            one, moved = pending.pop()
            if self.label[one] == _SUM:
                node = self.graph.by_name[one]
                layout = self._layout(node)
                moved = moved if layout is None else (layout, *moved)
                pending += reversed([(other, moved) for other in references(node)])
            else:
                yield one, moved

    def _plain(self, name: str) -> str:
        """The tensor, without the zero that it was added to."""
        node = self.graph.by_name[name]
        zero = node.target == _ADD and not node.kwargs and len(node.args) == 2 and node.args[1] == 0
        if (
            zero
            and name not in self._unlike
            and isinstance(node.args[0], Ref)
            and self.graph.by_name[node.args[0].name].type == node.type
        ):
            return node.args[0].name
        return name

    def _summands(self, name: str) -> tuple[list[str], list[str]]:
        """Of a sum over all copies the first copy's summands, and those of none. Raises :class:`_Unfit` unless every
        copy has the same."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        others: list[str] = []
        for leaf, moved in self._leaves(name):
            label = self.label[leaf]
            if label < 0:
                others.append(leaf)
                if moved:
                    raise _Unfit
                continue
            number = self.number[self._plain(leaf)]
            for layout in moved:
                number = self._moved(number, layout)
            found[label].append(number)
        wanted = Counter(found[0])
        first = self._copies[0]
        if not wanted or any(Counter(copy) != wanted for copy in found[1:]) or not wanted.keys() <= first.keys():
            raise _Unfit
        return [first[number] for number in found[0]], others

    def _is_whole(self, names: Sequence[str]) -> bool:
        """True if all sums over copies among some tensors are over all of them."""
        try:
            for name in names:
                if self.label[name] == _SUM:
                    self._summands(name)
        except _Unfit:
            return False
        return True

    def _read(self, names: Sequence[str]) -> None:
        for name in names:
            if self.label[name] == _SUM and name not in self._needed:
                self._summands(name)
                self._needed.add(name)

    def _join(self, node: Node, read: Sequence[str]) -> None:
        """Check that a node puts one tensor of each copy together, in their order, along the first dimension."""
        ordered = [self.label[name] for name in read] == [*range(self.count)]
        listed = node.args[:1] == (tuple(map(Ref, read)),) and node.args[1:] in ((), (0,)) and not node.kwargs
        if not ordered or not listed or node.name in self._unlike or len({self.number[n] for n in read}) > 1:
            raise _Unfit

    def _ask_outputs(self) -> None:
        """Check that all that the job asks about comes after the copies."""
        for asked in self.job.outputs.values():
            if asked.infer or asked.problem:
                raise _Unfit
            terms = {term.name for pair in asked.equal for term in pair}
            if asked.expression is not None:
                terms |= {term.name for term in _terms(asked)}
            elif asked.placements is not None:
                terms.add(asked.name)
            for term in terms:
                node = output_node(self.job, 0, term or asked.name)
                if self.label.get(node, 0) >= 0:
                    raise _Unfit
                self._read([node])

    # -- the folded program
    def _folded(self, graph: Graph) -> Graph:
        kept = self._kept()
        nodes: list[Node] = []
        inputs = {block.input: block for block in self.blocks.values()}
        for node in graph.nodes:
            if node.op == "input" and node.name in inputs and node.type is not None:
                block = inputs[node.name]
                nodes.append(replace(node, type=TensorType(_part(node.type.shape, block), node.type.dtype)))
            elif node.name not in kept:
                continue
            elif self.label[node.name] == _SUM:
                nodes += self._reduction(node)
            elif node.name in self._joined:
                nodes += self._gathering(node)
            else:
                nodes.append(self._reading_inputs(node))
        outputs = tuple(Output(o.name, o.node) for o in graph.outputs if o.node in kept and self.label[o.node] < 0)
        return replace(graph, nodes=tuple(nodes), outputs=outputs)

    def _kept(self) -> set[str]:
        """The nodes of the folded program: those of the first copy, what comes after, and what is read of the rest."""
        kept: set[str] = set()
        users = self.graph.users
        for node in reversed(self.graph.nodes):
            name = node.name
            label = self.label.get(name)
            if label is None or name in self.blocks or label > 0:
                continue
            if label == _SUM and name not in self._needed:
                continue
            unread = label == _COMMON and users[name] and not any(u in kept for u in users[name])
            if unread and all(self.label.get(u, 0) > 0 or self.label.get(u) == _COMMON for u in users[name]):
                continue
            kept.add(name)
        return kept

    def _reading_inputs(self, node: Node) -> Node:
        """The node, which reads inputs instead of blocks of them."""
        if not any(name in self.blocks for name in references(node)):
            return node

        def argument(value: object) -> object:
            if isinstance(value, tuple):
                return tuple(argument(item) for item in value)  # type: ignore[reportUnknownVariableType]
            if isinstance(value, Ref) and value.name in self.blocks:
                return Ref(self.blocks[value.name].input)
            return value

        args = tuple(argument(value) for value in node.args)
        kwargs = {key: argument(value) for key, value in node.kwargs.items()}
        return replace(node, args=args, kwargs=kwargs)

    def _reduction(self, node: Node) -> list[Node]:
        """The sum over all copies: of the first copy's summands, then over the ranks, then with what all share."""
        mine, others = self._summands(node.name)
        if self.blocks.keys() & {*mine}:
            raise _Unfit
        nodes: list[Node] = []
        total = mine[0]
        for k, more in enumerate(mine[1:]):
            nodes.append(Node(f"{node.name}+{k}", "call", _ADD, (Ref(total), Ref(more)), type=node.type))
            total = nodes[-1].name
        name = f"{node.name}+all" if others else node.name
        nodes.append(Node(name, "call", _REDUCE, (Ref(total), "sum", _AXIS), type=node.type, source=node.source))
        for k, more in enumerate(others):
            made = node.name if k == len(others) - 1 else f"{node.name}+and{k}"
            nodes.append(Node(made, "call", _ADD, (Ref(name), Ref(more)), type=node.type, source=node.source))
            name = made
        return nodes

    def _gathering(self, node: Node) -> list[Node]:
        """One tensor of each copy, one after the other."""
        first = self.graph.by_name[next(references(node))]
        if first.type is None:
            raise _Unfit
        held, nodes = first.name, list[Node]()
        if _JOINS[node.target]:
            held = f"{node.name}+one"
            type_ = TensorType((1, *first.type.shape), first.type.dtype)
            nodes.append(Node(held, "call", _UNSQUEEZE, (Ref(first.name), 0), type=type_))
        if first.name in self.blocks:
            raise _Unfit
        args = (Ref(held), self.count, _AXIS)
        return [*nodes, Node(node.name, "call", _GATHER, args, type=node.type, source=node.source)]

    def _job(self, graphs: Mapping[int, Graph]) -> Simpler:
        job, count = self.job, self.count
        if _AXIS in job.mesh.axes or _AXIS in job.mesh.groups:
            raise _Unfit
        mesh = Mesh({**job.mesh.axes, _AXIS: count}, {**job.mesh.groups, _AXIS: (_AXIS,)})
        batch = {block.input: block for block in self.blocks.values()}
        inputs: dict[str, InputRelation] = {}
        halved: set[str] = set()
        for name, relation in job.inputs.items():
            block = batch.get(relation.name)
            if relation.placements is not None:
                placements = (*relation.placements, Replicate() if block is None else Shard(block.dim))
                whole = job.specification.by_name[name].type
                if block is not None:
                    if whole is None or relation.name in halved or not even(whole.shape, placements, mesh.sizes):
                        raise _Unfit
                    halved.add(relation.name)
                inputs[name] = replace(relation, placements=placements, text=show(placements))
                continue
            terms = {term.name or relation.name for term in _terms(relation)}
            if relation.expression is None or terms & batch.keys():
                raise _Unfit
            expression = renamed(relation.expression, lambda t: RankTensor(t.rank * count, t.name))
            inputs[name] = replace(relation, expression=expression, equal=self._equal(relation), text=str(expression))
        if halved != {*batch}:
            raise _Unfit
        outputs: dict[str, Expectation] = {}
        for name, asked in job.outputs.items():
            equal = tuple((_moved(a, count), _moved(b, count)) for a, b in asked.equal)
            if asked.placements is not None:
                outputs[name] = replace(asked, placements=(*asked.placements, Replicate()), equal=equal)
            elif asked.expression is not None:
                expression = renamed(asked.expression, lambda t: _moved(t, count))
                outputs[name] = replace(asked, expression=expression, equal=equal)
        implementation = tuple(graphs[id(graph)] for graph in job.implementation for _ in range(count))
        simple = replace(job, implementation=implementation, mesh=mesh, inputs=inputs, outputs=outputs, record=None)

        def origin(rank: int, name: str) -> tuple[int, str] | None:
            label = self.label.get(name)
            if label is None:  # an input of the batch, or made here
                return None
            if label < 0:
                return rank // count, name
            found = self._copies[rank % count].get(self.number[name])
            return None if found is None else (rank // count, found)

        return Simpler(job, simple, origin, lambda name: self.label.get(name, 0) < 0, lambda place: place)

    def _equal(self, relation: InputRelation) -> tuple[tuple[RankTensor, RankTensor], ...]:
        """The equalities of a relation, and that all ranks along the new axis have the same."""
        count = self.count
        equal = [(_moved(a, count), _moved(b, count)) for a, b in relation.equal]
        terms = {(t.rank, t.name): t for t in (*_terms(relation), *(t for pair in relation.equal for t in pair))}
        for term in terms.values():
            first = _moved(term, count)
            equal += [(first, RankTensor(first.rank + k, term.name)) for k in range(1, count)]
        return tuple(equal)


def _moved(term: RankTensor, count: int) -> RankTensor:
    return RankTensor(term.rank * count, term.name)


def _terms(relation: InputRelation | Expectation) -> list[RankTensor]:
    return [] if relation.expression is None else [*rank_tensors(relation.expression)]


def _part(shape: Shape, block: _Block) -> Shape:
    return (*shape[: block.dim], shape[block.dim] // block.count, *shape[block.dim + 1 :])
