"""Running the graphs of all ranks, in lock step, under any interpretation.

Every rank goes on until it waits: at a collective for the other members, at the use of a message for the other side.
The k-th call of every group is matched on all its members; messages are matched in ``ops.messages``.

Ranks of one class (``ops.classes``) are run as one, by the program of the rank that leads: a collective is exchanged
inside every class, by its interpretation, and between the classes here. A message goes from class to class, for
everything that a class sends goes to ranks at its own coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tantamount.errors import DataDependent, Unsupported, UserError
from tantamount.ir.graph import Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ops.algebra import Interpretation, Tensor, TypesOnly
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import RankClass, rank_classes
from tantamount.ops.exchange import Axis, exchange, exchanged, operands
from tantamount.ops.execute import (
    ConstantOf,
    Environment,
    Result,
    check_types,
    group_size_problem,
    lost_operand,
    place_of,
    recorded_constant,
    resolve,
    run_node,
    types_problem,
)
from tantamount.ops.messages import Post, Postbox, posts_of
from tantamount.ops.table import Operator, bind, invoke

__all__ = ["run_ranks"]


@dataclass(frozen=True)
class _Call:
    """A rank waiting at a collective."""

    node: Node
    row: Operator
    arguments: dict[str, Any]
    group: str
    place: str
    lost: str | None = None  # why its operands are known in an execution only

    def agrees(self, other: _Call) -> bool:
        """True if two members call the same; of operands that data decide only the operator is known."""
        if self.lost is not None or other.lost is not None or self.row.apart is not None:
            return self.row.name == other.row.name
        return self.signature() == other.signature()

    def signature(self) -> tuple[Any, ...]:
        """A key of all that members of a group must agree in."""
        if self.lost is not None:
            return (self.row.name, f"a tensor of which {self.lost}", ())
        name = exchanged(self.row)
        plain = tuple(
            (key, repr(value)) for key, value in self.arguments.items() if key not in (name, self.row.group_parameter)
        )
        types = ", ".join(str(x.type) for x in operands(self.arguments[name]))
        return (self.row.name, types, plain)


def run_ranks(
    graphs: Sequence[Graph],
    mesh: Mesh,
    interpretations: Sequence[Interpretation],
    inputs: Sequence[Mapping[str, Tensor]],
    *,
    constant: ConstantOf = recorded_constant,
    each: Callable[[int, Node, Result], Result] | None = None,
    rescue: Callable[[int, Node, Environment, Unsupported], Result] | None = None,
    classes: Sequence[RankClass] | None = None,
    compute: Callable[[int, Node, Environment], Result] | None = None,
    postbox: Postbox | None = None,
) -> list[Environment]:
    """The value of every node on every rank; ``rescue`` gives a value where the interpretation cannot.

    ``classes`` are run as one each (without them, every rank is one): then there is one interpretation, one set of
    inputs and one environment for each, and ranks are numbers of leaders. ``compute`` evaluates a node that concerns
    no other class, by default with the leader's attributes. ``postbox``, an empty one, gets the messages.

    Raises :class:`UserError` if the ranks' collectives do not match (another kind, type or attribute at the same
    position of a group), if a message has no other side, or if ranks wait for each other."""
    classes = rank_classes(graphs, mesh, fold=False) if classes is None else classes
    leaders = [found.leader for found in classes]
    environments: dict[int, Environment] = {rank: dict(given) for rank, given in zip(leaders, inputs, strict=True)}
    interpretation = dict(zip(leaders, interpretations, strict=True))
    folded = classes[0].mesh.axes
    postbox = Postbox(mesh) if postbox is None else postbox
    halted: dict[int, Node | None] = {}  # ranks that wait for messages: at a node, or at the end
    position = dict.fromkeys(leaders, 0)
    calls: dict[int, dict[tuple[int, ...], int]] = {rank: {} for rank in leaders}  # collectives finished, by members
    waiting: dict[int, _Call] = {}

    def finish(rank: int, node: Node, result: Result) -> None:
        check_types(graphs[rank], node, result)
        environments[rank][node.name] = each(rank, node, result) if each else result
        position[rank] += 1

    def attempt(rank: int, node: Node) -> Result:
        try:
            if compute is not None:
                return compute(rank, node, environments[rank])
            builder = Builder(interpretation[rank], node.name)
            return run_node(graphs[rank], node, builder, environments[rank], constant, None)
        except Unsupported as problem:
            if rescue is None:
                raise
            return rescue(rank, node, environments[rank], problem)

    def settle(rank: int, node: Node | None) -> bool:
        """Give the nodes that ``node`` reads (``None``: all) what has arrived; whether nothing is missing."""
        for name in postbox.awaited(rank, node):
            done = postbox.complete(rank, name)
            if done is None:
                halted[rank] = node
                return False
            receiver, several, arrived = done
            builder = Builder(interpretation[rank], name)
            parts = tuple(_delivered(post, tensor, builder) for post, tensor in arrived)
            result = parts if several else parts[0]
            check_types(graphs[rank], receiver, result)
            environments[rank][name] = each(rank, receiver, result) if each else result
        return True

    def advance(rank: int) -> None:
        graph = graphs[rank]
        while position[rank] < len(graph.nodes):
            node = graph.nodes[position[rank]]
            if node.op == "input":
                position[rank] += 1
                continue
            if node.target == "getitem" and postbox.take(rank, node):
                position[rank] += 1
                continue
            if not settle(rank, node):
                return
            if node.op == "call" and node.target != "getitem":
                row = operator_of(graph, node)
                if row.peer_parameter is not None:
                    builder = Builder(interpretation[rank], node.name)
                    _post(postbox, rank, graph, node, row, environments[rank], mesh, builder)
                    position[rank] += 1
                    continue
                if row.group_parameter is not None:
                    builder = Builder(interpretation[rank], node.name)
                    waiting[rank] = _waiting_call(graph, node, row, environments[rank], mesh, builder)
                    return
            finish(rank, node, attempt(rank, node))
        settle(rank, None)

    def advance_all(ranks: Iterable[int]) -> None:
        """Advance these ranks, and those that their messages set free."""
        moving = list(ranks)
        while moving:
            for rank in moving:
                advance(rank)
            moving = [rank for rank, node in halted.items() if not postbox.missing(rank, node)]
            for rank in moving:
                del halted[rank]

    advance_all(leaders)
    while waiting:
        ready = _ready(waiting, calls, mesh, leaders)
        if ready is None:
            raise _deadlock(waiting, halted, postbox, mesh, graphs)
        members, joined = ready
        found = [waiting.pop(rank) for rank in joined]
        for rank, call in zip(joined, found, strict=True):
            if not call.agrees(found[0]):
                raise _mismatch(found[0], call, joined[0], rank)
        axes = [(mesh.sizes[k], mesh.names[k] in folded) for k in mesh.group_positions(found[0].group)]
        try:
            results = _exchange(found, [interpretation[rank] for rank in joined], axes)
        except Unsupported as problem:
            if rescue is None:
                raise
            nodes = [(rank, call.node) for rank, call in zip(joined, found, strict=True)]
            results = [rescue(rank, node, environments[rank], problem) for rank, node in nodes]
        for rank, call, result in zip(joined, found, results, strict=True):
            calls[rank][members] = calls[rank].get(members, 0) + 1
            finish(rank, call.node, result)
        advance_all(joined)
    if halted:
        raise _deadlock(waiting, halted, postbox, mesh, graphs)
    return [environments[rank] for rank in leaders]


def _post(
    postbox: Postbox,
    rank: int,
    graph: Graph,
    node: Node,
    row: Operator,
    environment: Environment,
    mesh: Mesh,
    builder: Builder,
) -> None:
    """Post what a node sends and receives."""
    call = _waiting_call(graph, node, row, environment, mesh, builder)
    if call.lost is not None:
        raise UserError(
            "message-size", place=call.place, found=f"a message of which {call.lost}", needed="tensors of known sizes"
        )
    try:
        invoke(row, Builder(TypesOnly(), node.name), call.arguments)
    except ShapeProblem as problem:
        raise types_problem(row, node.target, problem, call.place) from None
    rows, several = posts_of(call.arguments)
    posts = tuple(
        postbox.post(rank, node, kind, call.group, peer, tag, tensor, call.place) for kind, peer, tag, tensor in rows
    )
    postbox.add(rank, node, posts, several)


def _delivered(post: Post, tensor: Tensor | None, builder: Builder) -> Tensor:
    """The result of a complete message: what was received, in the shape of the buffer; nothing for what was sent."""
    if tensor is None:
        return builder.full((0,), 0, post.tensor.dtype)
    return tensor if tensor.shape == post.tensor.shape else builder.reshape(tensor, post.tensor.shape)


def _exchange(
    calls: Sequence[_Call],
    interpretations: Sequence[Interpretation],
    axes: Sequence[Axis],
) -> list[Result]:
    """The results of one collective on the classes of its members, in their order."""
    first = calls[0]
    try:
        reason = next((call.lost for call in calls if call.lost is not None), None)
        if reason is not None:
            raise DataDependent(reason)
        if first.row.apart is not None and not any(folded for _, folded in axes):
            builder = Builder(interpretations[0], first.node.name)
            return list(first.row.apart(builder, [call.arguments for call in calls]))
        members = [(call.arguments, known) for call, known in zip(calls, interpretations, strict=True)]
        return [*exchange(first.row, members, first.group, axes, first.node.name)]
    except ShapeProblem as problem:
        raise types_problem(first.row, first.node.target, problem, first.place) from None


def _waiting_call(
    graph: Graph, node: Node, row: Operator, environment: Environment, mesh: Mesh, builder: Builder
) -> _Call:
    place = place_of(graph, node)
    kwargs = {key: resolve(value, environment) for key, value in node.kwargs.items()}
    args = resolve(node.args, environment)
    try:
        lost = lost_operand(node, environment)
        if lost is not None:
            raise DataDependent(lost)
        arguments, reason = bind(row, node.target, args, kwargs, place, builder.concrete), None
    except DataDependent as problem:
        arguments, reason = {row.group_parameter or "": _group_of(row, args, kwargs)}, problem.reason
    group: str = arguments[row.group_parameter or ""]
    if group not in mesh.groups:
        raise group_size_problem(row, group, place)
    return _Call(node, row, arguments, group, place, reason)


def _group_of(row: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The group of a call whose other arguments are not known."""
    try:
        return row.signature.bind(*args, **kwargs).arguments.get(row.group_parameter or "")
    except TypeError:
        return None


def _ready(
    waiting: Mapping[int, _Call],
    calls: Mapping[int, Mapping[tuple[int, ...], int]],
    mesh: Mesh,
    leaders: Collection[int],
) -> tuple[tuple[int, ...], list[int]] | None:
    """The members of a group that all wait at the same position of it, and the leaders among them. (What the members
    of a class do, its leader does.)"""
    for rank, call in waiting.items():
        members = mesh.members(call.group, rank)
        joined = [other for other in members if other in leaders]
        if all(
            other in waiting
            and mesh.members(waiting[other].group, other) == members
            and calls[other].get(members, 0) == calls[rank].get(members, 0)
            for other in joined
        ):
            return members, joined
    return None


def _mismatch(a: _Call, b: _Call, rank_a: int, rank_b: int) -> UserError:
    differing = " but ".join(
        f"{call.row.name} of {call.signature()[1]} {dict(call.signature()[2])} on rank {rank}"
        for call, rank in ((a, rank_a), (b, rank_b))
    )
    return UserError(
        "collective-mismatch",
        place=b.place,
        found=differing,
        needed="the same collective, type and attributes on every member of the group",
    )


def _deadlock(
    waiting: Mapping[int, _Call],
    halted: Mapping[int, Node | None],
    postbox: Postbox,
    mesh: Mesh,
    graphs: Sequence[Graph],
) -> UserError:
    lines = {
        rank: f"rank {rank} waits in {call.node.name} for ranks {list(mesh.members(call.group, rank))}"
        for rank, call in waiting.items()
    }
    missing: list[Post] = []
    for rank, node in halted.items():
        found = postbox.missing(rank, node)
        missing += found
        at = f"rank {rank} has finished" if node is None else f"rank {rank} waits in {_site(graphs[rank], node)}"
        lines[rank] = f"{at}: nothing answers {' and '.join(_posted(graphs[post.rank], post) for post in found)}"
    text = [line for _, line in sorted(lines.items())]
    done = [str(rank) for rank in range(len(graphs)) if rank not in lines]
    if done:
        text.append(f"rank {', '.join(done)} has finished")
    place = next(iter(waiting.values())).place if waiting else missing[0].place
    if not missing:
        return UserError(
            "collective-deadlock", place=place, found="; ".join(text),
            needed="collectives in the same order on every member of a group",
        )  # fmt: skip
    return UserError(
        "message-deadlock", place=missing[0].place, found="; ".join(text),
        needed="a receive for every send, a send for every receive, and neither behind what waits for the other",
        hint="the k-th send to a rank belongs to the k-th receive from it, per process group and tag; "
        "a send is waited for until its receive is posted",
    )  # fmt: skip


def _site(graph: Graph, node: Node) -> str:
    return f"{node.name} ({node.source})" if node.source else node.name


def _posted(graph: Graph, post: Post) -> str:
    source = graph.by_name[post.node].source
    return f"{post} ({source})" if source else str(post)
