"""The stages of a pipeline as one program: what several classes of ranks compute together, as one class of ranks.

Everything that a class sends goes to the ranks at its own coordinates of another class, so the programs of the classes,
one node after the other in an order in which all ranks could run them, are one program for the coordinates that the
classes have in common: a message is the tensor that was sent, a sum over the classes the sum of their tensors. That the
ranks do not wait for each other without end, and that collectives and messages match, is found by running all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from tantamount.errors import TantamountError
from tantamount.ir.graph import Argument, Constant, CustomOperator, Graph, Node, Output, Ref, reading, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Expectation,
    Expression,
    InputRelation,
    Placement,
    RankTensor,
    Replicate,
    rank_tensors,
    with_tensors,
)
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import RankClass, rank_classes
from tantamount.ops.execute import Environment, Result, constant_type, recorded_constant, run_node
from tantamount.ops.lockstep import run_ranks
from tantamount.proof.outputs import show
from tantamount.proof.simpler import Simpler, as_placements

__all__ = ["as_one_program"]

_REDUCE, _GATHER, _BROADCAST = (
    f"_c10d_functional.{name}.default" for name in ("all_reduce", "all_gather_into_tensor", "broadcast")
)
_ADD, _CAT, _COPY = "aten.add.Tensor", "aten.cat.default", "aten.clone.default"
_MOVES = frozenset({"aten.t.default", "aten.view.default", "aten._unsafe_view.default"})  # as the types say
_NEAR = 16  # nodes in which a tensor is not moved twice
_SEND, _RECEIVE = "_c10d_functional.isend.default", "_c10d_functional.irecv.default"
_GIVES = {  # the operand that an operator gives back as it is, if the types are the same
    "_c10d_functional.wait_tensor.default": 0,
    "aten.alias.default": 0,
    "aten.clone.default": 0,
    "aten.copy.default": 1,  # into a buffer that is received into
    "aten.detach.default": 0,
    "aten.view.default": 0,
}


class _Unfit(Exception):
    """The classes are not one program."""


def as_one_program(job: Job) -> Simpler | None:
    """The job with one program for all classes of ranks; ``None`` if there is one class already, or where what passes
    between the classes is more than messages and sums."""
    classes = rank_classes(job.implementation, job.mesh)
    if len(classes) == 1 or job.at is not None:
        return None
    graphs = {id(graph): graph for graph in job.implementation}
    for graph in graphs.values():
        if graph.groups or graph.sizes.symbols:
            return None
        if any(node.op == "constant" and node.target not in graph.constants for node in graph.nodes):
            return None
    try:
        merging = _Merging(job, classes)
        merging.run()
        return merging.simpler()
    except (_Unfit, TantamountError):
        return None


@dataclass(frozen=True, slots=True)
class _Written:
    """A node of the one program: ``leader`` and ``node`` say which it is; or ``made``, of no program, as it is."""

    name: str
    leader: int
    node: Node
    reads: Mapping[str, str]
    made: bool = False
    at: str = ""  # of what is made, the node of its class that it is made for

    @property
    def read(self) -> Sequence[str]:
        return [*references(self.node)] if self.made else [*self.reads.values()]


@dataclass
class _Merging:
    """``names``: what the tensor of a class is called in the one program; ``written`` its nodes, in order."""

    job: Job
    classes: Sequence[RankClass]
    names: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])
    written: list[_Written] = field(default_factory=list["_Written"])
    _common: set[str] = field(default_factory=set[str])
    _between: set[str] = field(default_factory=set[str])
    _meeting: list[tuple[int, Node]] = field(default_factory=list[tuple[int, Node]])

    @property
    def mesh(self) -> Mesh:
        return self.classes[0].mesh

    def run(self) -> None:
        """Find an order in which all classes can run, and write the program in it. Raises :class:`UserError` where
        there is none."""
        job = self.job
        inside = set(self.mesh.names)
        self._between = {name for name, axes in job.mesh.groups.items() if not inside.issuperset(axes)}
        self._common = {r.name for r in job.inputs.values() if r.placements is not None}
        given: list[dict[str, Tensor]] = []
        for one in self.classes:
            graph, known = job.implementation[one.leader], dict[str, Tensor]()
            for node in graph.inputs:
                if node.type is None:
                    raise _Unfit
                name = self._named(one.leader, node.name)
                if node.name not in self._common or all(w.name != name for w in self.written):
                    self.written.append(_Written(name, one.leader, node, {}))
                known[node.name] = Tensor(node.type.shape, node.type.dtype, name)
            given.append(known)
        run_ranks(
            job.implementation, job.mesh, [TypesOnly() for _ in self.classes], given,
            each=self._each, classes=self.classes, compute=self._compute,
        )  # fmt: skip
        if self._meeting:
            raise _Unfit
        self._order()

    def _order(self) -> None:
        """Put what the classes do between two messages together, of earlier classes first: what all do last is then in
        their order, as it is on one device. What no input has a part in is computed first; buffers that are received
        into are left out."""
        graphs = {one.leader: self.job.implementation[one.leader] for one in self.classes}
        read = {name for one in self.written for name in one.read}
        read |= {self.names.get((leader, o.node), "") for leader, graph in graphs.items() for o in graph.outputs}
        tables: set[str] = set()  # what no input has a part in: positions, masks
        for one in self.written:
            if one.node.op != "input" and tables.issuperset(one.read):
                tables.add(one.name)
        pending: dict[int, list[tuple[int, _Written]]] = {leader: [] for leader in graphs}
        awaited: dict[tuple[int, int], str] = {}
        for leader, graph in graphs.items():
            stretch, found = 0, dict[str, int]()
            for node in graph.nodes:
                if node.target == _RECEIVE and (leader, node.name) in self.names:
                    stretch += 1
                    awaited[leader, stretch] = self.names[leader, node.name]
                found[node.name] = stretch
                stretch += node.target == _SEND
            for one in self.written:
                mine = one.node.op != "input" and one.leader == leader and one.name not in tables
                if mine and (one.name in read or not self._is_buffer(one)):
                    pending[leader].append((found[one.node.name if not one.made else one.at], one))
            pending[leader].reverse()
        out = [one for one in self.written if one.node.op == "input"]
        out += [one for one in self.written if one.name in tables and (one.name in read or not self._is_buffer(one))]
        done = {one.name for one in out}

        def ready(leader: int) -> bool:
            if not pending[leader]:
                return False
            stretch, one = pending[leader][-1]
            message = awaited.get((leader, stretch))
            return (message is None or message in done) and done.issuperset(one.read)

        while any(pending.values()):
            leader = next((one for one in graphs if ready(one)), None)
            if leader is None:
                raise _Unfit
            stretch = pending[leader][-1][0]
            while ready(leader) and pending[leader][-1][0] == stretch:
                out.append(pending[leader].pop()[1])
                done.add(out[-1].name)
        self.written = self._without_copies(out)

    def _without_copies(self, ordered: Sequence[_Written]) -> list[_Written]:
        """The nodes without those that move the elements of a tensor as one shortly before does: of a message there are
        as many views as it has readers, of a tensor inside a stage there is one."""
        out: list[_Written] = []
        instead: dict[str, str] = {}
        last: dict[object, tuple[int, str]] = {}
        for one in ordered:
            if instead and not instead.keys().isdisjoint(one.read):
                node = reading(one.node, instead) if one.made else one.node
                one = replace(one, node=node, reads={name: instead.get(x, x) for name, x in one.reads.items()})
            if one.node.target in _MOVES and one.node.type is not None:
                key = (one.node.target, one.node.type, *one.reads.values())
                at, before = last.get(key, (-_NEAR, ""))
                if len(out) - at < _NEAR:
                    instead[one.name] = before
                    continue
                last[key] = len(out), one.name
            out.append(one)
        for key, name in self.names.items():
            self.names[key] = instead.get(name, name)
        return out

    def _is_buffer(self, one: _Written) -> bool:
        return one.node.op == "call" and one.node.target != "getitem" and not one.read and not one.made

    def _named(self, leader: int, name: str) -> str:
        common = name in self._common and self.job.implementation[leader].by_name[name].op == "input"
        found = name if common else f"{name}@{leader}"
        self.names[leader, name] = found
        return found

    def _compute(self, leader: int, node: Node, environment: Environment) -> Result:
        """The types of a node's results, with the names of tensors in the one program for values."""
        graph = self.job.implementation[leader]
        index = _GIVES.get(node.target, len(node.args))
        operand = node.args[index] if index < len(node.args) else None
        if isinstance(operand, Ref):
            held = environment[operand.name]
            if isinstance(held, Tensor) and held.type == node.type:
                if isinstance(held.value, str):
                    self.names[leader, node.name] = held.value
                return held
        self._write(leader, node, environment)
        if node.op == "constant":
            type_ = constant_type(graph, node)
            return Tensor(type_.shape, type_.dtype, self.names[leader, node.name])
        if node.type is not None:
            return Tensor(node.type.shape, node.type.dtype, self.names[leader, node.name])
        groups = {name: self.job.mesh.group_size(name) for name in self.job.mesh.groups}
        result = run_node(graph, node, Builder(TypesOnly(), node.name), environment, recorded_constant, groups)
        return self._valued(leader, node, result)

    def _valued(self, leader: int, node: Node, result: Result) -> Result:
        """The result with the name of the node for the value; of several, which only their items are read of, too."""
        name = self.names[leader, node.name]
        if isinstance(result, Tensor):
            return replace(result, value=name)
        if isinstance(result, tuple):
            return tuple(None if one is None else replace(one, value=name) for one in result)
        raise _Unfit

    def _write(self, leader: int, node: Node, environment: Environment) -> None:
        reads = {name: _name_of(environment[name]) for name in references(node)}
        self.written.append(_Written(self._named(leader, node.name), leader, node, reads))

    def _each(self, leader: int, node: Node, result: Result) -> Result:
        """Every result: of what is computed it is as it was; of messages, what was sent; of collectives, written."""
        if node.op != "call" or node.target == "getitem":
            if (leader, node.name) not in self.names:  # one of several messages
                return self._arrived(leader, node, result)
            return result
        row = operator_of(self.job.implementation[leader], node)
        if row.peer_parameter is not None:
            return self._arrived(leader, node, result)
        if row.group_parameter is None or (leader, node.name) in self.names:
            return result
        bound = row.signature.bind(*node.args, **node.kwargs).arguments
        if bound.get(row.group_parameter) in self._between:
            return self._met(leader, node, result, bound[row.group_parameter])
        graph = self.job.implementation[leader]
        held = {name: self.names[leader, name] for name in references(node) if (leader, name) in self.names}
        if len(held) != len({*references(node)}):
            raise _Unfit
        self.written.append(_Written(self._named(leader, graph.by_name[node.name].name), leader, node, held))
        return self._valued(leader, node, result)

    def _arrived(self, leader: int, node: Node, result: Result) -> Result:
        items = result if isinstance(result, tuple) else (result,)
        for item in items:
            if not isinstance(item, Tensor) or (item.value is None and item.shape != (0,)):
                raise _Unfit  # a message in another shape
        if isinstance(result, Tensor) and isinstance(result.value, str):
            self.names[leader, node.name] = result.value
        return result

    def _met(self, leader: int, node: Node, result: Result, group: str) -> Result:
        """A collective between classes: all its members call it one after the other, and then it is written."""
        first = f"{node.name}@{leader}" if not self._meeting else self._meeting_name()
        self._meeting.append((leader, node))
        leaders = {one.leader for one in self.classes}
        members = [rank for rank in self.job.mesh.members(group, leader) if rank in leaders]
        if not isinstance(result, Tensor) or self._meeting[0][0] not in members:
            raise _Unfit
        self.names[leader, node.name] = first
        if len(self._meeting) == len(members):
            if [rank for rank, _ in self._meeting] != members:
                raise _Unfit
            self._write_meeting(first, group)
            self._meeting.clear()
        return replace(result, value=first)

    def _meeting_name(self) -> str:
        leader, node = self._meeting[0]
        return f"{node.name}@{leader}"

    def _write_meeting(self, name: str, group: str) -> None:
        leader, node = self._meeting[0]
        held = [self.names[rank, next(iter(references(one)))] for rank, one in self._meeting]
        inside = self.mesh.groups[group]
        size = 1
        for axis in inside:
            size *= self.mesh.axes[axis]
        if node.target == _REDUCE and node.args[1:2] == ("sum",) and len(held) > 1:
            for k, more in enumerate(held[1:], 1):
                last = k == len(held) - 1 and size == 1
                made = name if last else f"{name}+{k}"
                before = held[0] if k == 1 else f"{name}+{k - 1}"
                self._make(made, leader, Node(made, "call", _ADD, (Ref(before), Ref(more)), type=node.type))
            if size > 1:
                args: tuple[Argument, ...] = (Ref(f"{name}+{len(held) - 1}"), *node.args[1:])
                self._make(name, leader, Node(name, "call", node.target, args, node.kwargs, node.type, node.source))
        elif node.target == _GATHER and size == 1:
            parts: Argument = tuple(map(Ref, held))
            self._make(name, leader, Node(name, "call", _CAT, (parts, 0), type=node.type, source=node.source))
        elif node.target == _BROADCAST and size == 1 and isinstance(node.args[1], int):
            copy = Node(name, "call", _COPY, (Ref(held[node.args[1]]),), type=node.type, source=node.source)
            self._make(name, leader, copy)
        else:
            raise _Unfit

    def _make(self, name: str, leader: int, node: Node) -> None:
        self.written.append(_Written(name, leader, node, {}, made=True, at=self._meeting[0][1].name))

    # -- the job
    def simpler(self) -> Simpler:
        job, mesh = self.job, self.mesh
        if len({one.name for one in self.written}) != len(self.written):
            raise _Unfit
        at = {rank: k for one in self.classes for k, rank in enumerate(one.ranks)}
        of = {rank: one.leader for one in self.classes for rank in one.ranks}
        done: dict[tuple[int, ...], Graph] = {}
        implementation: list[Graph] = []
        for k in range(mesh.world_size):
            held = {one.leader: job.implementation[one.ranks[k]] for one in self.classes}
            key = tuple(id(graph) for graph in held.values())
            if key not in done:
                done[key] = self._graph(held)
            implementation.append(done[key])
        first = implementation[0]

        def tensor(term: RankTensor, name: str) -> RankTensor:
            wanted = term.name or name
            leader = of[term.rank]
            node = next((o.node for o in job.implementation[leader].outputs if o.name == wanted), wanted)
            if (leader, node) not in self.names:
                raise _Unfit
            return RankTensor(at[term.rank], self.names[leader, node])

        inputs: dict[str, InputRelation] = {}
        for name, relation in job.inputs.items():
            if relation.placements is not None:
                inside = self._inside(relation.placements)
                inputs[name] = replace(relation, placements=inside, text=show(inside))
                continue
            if relation.expression is None:
                raise _Unfit
            one = partial(tensor, name=relation.name)
            expression = with_tensors(relation.expression, one)
            equal = tuple((with_tensors(a, one), with_tensors(b, one)) for a, b in relation.equal)
            found = _placed(job.specification.by_name[name], first, mesh, expression, equal)
            if found is not None:
                inputs[name] = InputRelation(found[0], found[1], text=show(found[1]))
            else:
                inputs[name] = InputRelation("", None, expression, equal, str(expression))
        nodes = {o.name: job.specification.by_name[o.node] for o in job.specification.outputs}
        outputs = {name: self._expectation(e, tensor, nodes.get(name), first) for name, e in job.outputs.items()}
        simple = Job(job.path, job.specification, tuple(implementation), mesh, inputs, outputs, job.assume)
        origins = {name: (leader, node) for (leader, node), name in reversed([*self.names.items()])}
        ranks = {one.leader: one.ranks for one in self.classes}

        def origin(rank: int, name: str) -> tuple[int, str] | None:
            found = origins.get(name)
            return None if found is None else (ranks[found[0]][rank], found[1])

        places = {name: f"rank {leader} {node}" for name, (leader, node) in origins.items()}
        return Simpler(job, simple, origin, lambda _: False, lambda place: places.get(place, place))

    def _inside(self, placements: Sequence[Placement]) -> tuple[Placement, ...]:
        """The placements over the axes of the one program, where the others replicate."""
        found: list[Placement] = []
        for axis, size, placement in zip(self.job.mesh.names, self.job.mesh.sizes, placements, strict=True):
            if axis in self.mesh.axes:
                found.append(placement)
            elif not isinstance(placement, Replicate) and size > 1:
                raise _Unfit
        return tuple(found)

    def _expectation(
        self, asked: Expectation, tensor: Callable[[RankTensor, str], RankTensor], node: Node | None, graph: Graph
    ) -> Expectation:
        if asked.infer or asked.problem or node is None:
            raise _Unfit

        def one(term: RankTensor) -> RankTensor:
            return tensor(term, asked.name)

        equal = [(with_tensors(a, one), with_tensors(b, one)) for a, b in asked.equal]
        if asked.expression is not None:
            expression = with_tensors(asked.expression, one)
            found = _placed(node, graph, self.mesh, expression, equal)
            if found is not None:
                return Expectation(found[0], found[1], text=asked.text)
            return Expectation("", None, expression, tuple(equal), asked.text)
        inside = self._inside(asked.placements or ())
        held = [tensor(RankTensor(one.leader), asked.name).name or "" for one in self.classes]
        for a, b in pairwise(dict.fromkeys(held)):  # every class holds it
            equal += [(RankTensor(k, a), RankTensor(k, b)) for k in range(self.mesh.world_size)]
        return Expectation(held[0], inside, None, tuple(equal), asked.text)

    def _graph(self, held: Mapping[int, Graph]) -> Graph:
        """The one program at some coordinates, where the classes run these."""
        constants: dict[str, Constant] = {}
        operators: dict[str, CustomOperator] = {}
        for leader, graph in held.items():
            constants.update((f"{name}@{leader}", value) for name, value in graph.constants.items())
            for name, declared in graph.operators.items():
                if operators.setdefault(name, declared) != declared:
                    raise _Unfit
        nodes = tuple(one.node if one.made else _node(one, held[one.leader]) for one in self.written)
        outputs = {
            name: Output(name, name)
            for leader, graph in held.items()
            for output in graph.outputs
            if (name := self.names.get((leader, output.node))) is not None
        }
        return Graph(nodes, tuple(outputs.values()), constants, operators=operators)


def _node(one: _Written, graph: Graph) -> Node:
    node = graph.by_name[one.node.name]

    def argument(value: Argument) -> Argument:
        if isinstance(value, tuple):
            return tuple(map(argument, value))
        return Ref(one.reads[value.name]) if isinstance(value, Ref) else value

    target = f"{node.target}@{one.leader}" if node.op == "constant" else node.target
    kwargs = {key: argument(value) for key, value in node.kwargs.items()}
    return replace(node, name=one.name, target=target, args=tuple(map(argument, node.args)), kwargs=kwargs)


def _name_of(value: Result) -> str:
    """The name of a tensor in the one program. Raises :class:`_Unfit` where it has none."""
    first = next((item for item in value if item is not None), None) if isinstance(value, tuple) else value
    if isinstance(first, Tensor) and isinstance(first.value, str):
        return first.value
    raise _Unfit


def _placed(
    node: Node, graph: Graph, mesh: Mesh, expression: Expression, equal: Sequence[tuple[Expression, Expression]]
) -> tuple[str, tuple[Placement, ...]] | None:
    """The meaning of an expression about tensors of the one program, as placements of one of them."""
    name = next(term.name or "" for term in rank_tensors(expression))
    local = graph.by_name[name].type if name in graph.by_name else None
    if node.type is None or local is None:
        return None
    return as_placements(node.type.shape, local.shape, mesh, expression, equal)
