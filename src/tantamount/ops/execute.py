"""Running graphs under any interpretation: one rank alone, or all ranks in lock step.

``run`` evaluates one graph in which every process group is the rank alone (a specification), or in which the
interpretation itself knows the other ranks. ``run_ranks`` advances one graph per rank until each waits at a
collective, matches the k-th call of every group on all its members, and evaluates the collective on their tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from tantamount.errors import DataDependent, Unsupported, UserError
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import TensorType
from tantamount.ops.algebra import Interpretation, Tensor, Unsized
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.calls import operator_of
from tantamount.ops.table import Operator, bind, invoke

__all__ = [
    "Environment",
    "Result",
    "apply",
    "check_types",
    "constant_type",
    "lost_operand",
    "place_of",
    "recorded_constant",
    "resolve",
    "run",
    "run_node",
    "run_ranks",
]

Result = Union[Tensor, tuple[Union[Tensor, None], ...], None, Unsized]
Environment = dict[str, Result]
ConstantOf = Callable[[Graph, Node, Builder], Tensor]


def place_of(graph: Graph, node: Node) -> str:
    """``file: node add_1 (model.py:12)``."""
    source = f" ({node.source})" if node.source else ""
    return f"{graph.path}: node {node.name}{source}"


def resolve(argument: Argument, environment: Mapping[str, Result]) -> Any:
    """An argument with references replaced by the values computed so far."""
    if isinstance(argument, Ref):
        return environment[argument.name]
    if isinstance(argument, tuple):
        return tuple(resolve(item, environment) for item in argument)
    return argument


def constant_type(graph: Graph, node: Node) -> TensorType:
    """The type of a ``constant`` node: its own, its recorded value's, or that of the copy that lifts it."""
    if node.type is not None:
        return node.type
    if node.target in graph.constants:
        return graph.constants[node.target].type
    for name in graph.users[node.name]:
        user = graph.by_name[name]
        if user.target.startswith("aten.lift_fresh_copy") and user.type is not None:
            return user.type
    raise UserError(
        "constant-type",
        place=place_of(graph, node),
        found="a constant with neither a recorded value nor a type",
        needed="its entry in the file's `constants`",
        hint="capture the graph again with constants recorded",
    )


def recorded_constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    """The recorded value of a ``constant`` node; :class:`UserError` if the file does not have it."""
    constant = graph.constants.get(node.target)
    if constant is None:
        raise UserError(
            "constant-missing",
            place=place_of(graph, node),
            found=f"no recorded value of constant {node.target!r}",
            needed="its value, or an assumption about it",
            hint="record it in the graph's `constants`, or state `constants = 0` in the job's [assume]",
        )
    return builder.table(constant.data, constant.type.shape, constant.type.dtype)


def _group_size_problem(row: Operator, group: str, place: str) -> UserError:
    return UserError(
        "group-unknown",
        place=place,
        found=f"process group {group!r} in {row.name}",
        needed="a group that the job's [impl.groups] lists",
        hint=f'add `"{group}" = ["<mesh axis>"]` to [impl.groups]',
    )


def apply(
    row: Operator,
    target: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    builder: Builder,
    place: str,
    groups: Mapping[str, int] | None = None,
) -> Result:
    """The value of one call. ``groups`` gives the size of every process group; ``None``: each is the rank alone."""
    arguments = bind(row, target, args, kwargs, place, builder.concrete)
    try:
        if row.group_parameter is None:
            return invoke(row, builder, arguments)
        group: str = arguments[row.group_parameter]
        if groups is not None and group not in groups:
            raise _group_size_problem(row, group, place)
        size = 1 if groups is None else groups[group]
        return _collective(row, arguments, group, size, builder)
    except ShapeProblem as problem:
        raise _types_problem(row, target, problem, place) from None


def _types_problem(row: Operator, target: str, problem: ShapeProblem, place: str) -> UserError:
    return UserError(
        "operator-types",
        place=place,
        found=str(problem),
        needed=f"operands that fit {target}{row.signature}",
        hint=f"`tantamount ops {target}` shows the operator",
    )


def _exchanged(row: Operator) -> str:
    """The parameter that a collective exchanges: its first tensor."""
    return next(name for name, parameter in row.parameters.items() if parameter.kind == "Tensor")


def _collective(row: Operator, arguments: dict[str, Any], group: str, size: int, builder: Builder) -> Tensor:
    name = _exchanged(row)
    x: Tensor = arguments[name]
    inner, value = builder.interpretation.enter_group(x.value, x.type.stored.shape, group)
    stacked = Tensor((size, *x.shape), x.dtype, value)
    y = _define_stacked(row, {**arguments, name: stacked}, Builder(inner, builder.site))
    member = TensorType(y.shape[1:], y.dtype)
    return Tensor(member.shape, member.dtype, builder.interpretation.leave_group(y.value, member.stored.shape, group))


def _define_stacked(row: Operator, arguments: dict[str, Any], builder: Builder) -> Tensor:
    return invoke(row, builder, arguments)


def check_types(graph: Graph, node: Node, result: Result) -> None:
    """Compare the computed type with the one that the file recorded. Raises :class:`UserError` where they differ."""
    if node.type is None or not isinstance(result, Tensor):
        return
    if result.type != node.type:
        raise UserError(
            "type-mismatch",
            place=place_of(graph, node),
            found=f"recorded type {node.type}",
            needed=f"{result.type}, which {node.target} gives for these operands",
            hint="the file was changed after capture, or the operator's definition is wrong for this case: report it",
        )


def _getitem(graph: Graph, node: Node, environment: Environment) -> Result:
    if len(node.args) == 2 and not node.kwargs:
        source, index = node.args
        value: Result = resolve(source, environment)
        results = value if isinstance(value, tuple) else ()
        if isinstance(index, int) and not isinstance(index, bool) and -len(results) <= index < len(results):
            return results[index]
        count = f"{len(results)} results" if isinstance(value, tuple) else "one result"
        raise UserError(
            "getitem-index",
            place=place_of(graph, node),
            found=f"item {index!r} of a node with {count}",
            needed="the number of one of its results",
        )
    raise UserError(
        "getitem-index",
        place=place_of(graph, node),
        found=f"getitem with {len(node.args)} arguments and {len(node.kwargs)} keywords",
        needed="a node and the number of one of its results",
    )


def lost_operand(node: Node, environment: Mapping[str, Result]) -> str | None:
    """Why the node's value is known in an execution only: an operand is; ``None`` if none is."""
    return next((x.reason for x in (environment[name] for name in references(node)) if isinstance(x, Unsized)), None)


def _lost(node: Node, builder: Builder, problem: DataDependent) -> Result:
    """What is left of a node whose value is known in an execution only: its recorded type, if there is one."""
    if node.type is None:
        builder.interpretation.lost(None, problem)
        return Unsized(problem.reason)
    value = builder.interpretation.lost(node.type.stored.shape, problem)
    return Tensor(node.type.shape, node.type.dtype, value)


def run_node(
    graph: Graph,
    node: Node,
    builder: Builder,
    environment: Environment,
    constant: ConstantOf,
    groups: Mapping[str, int] | None,
) -> Result:
    """The value of one node that is not an input, from the values in ``environment``; its type is not checked yet.

    Where data decide its size, or an operand's, the interpretation decides: :class:`Unsized` or the recorded type where
    only types matter, :class:`DataDependent` where values do."""
    try:
        reason = lost_operand(node, environment)
        if reason is not None:
            raise DataDependent(reason)
        return _run_node(graph, node, builder, environment, constant, groups)
    except DataDependent as problem:
        return _lost(node, builder, problem)


def _run_node(
    graph: Graph,
    node: Node,
    builder: Builder,
    environment: Environment,
    constant: ConstantOf,
    groups: Mapping[str, int] | None,
) -> Result:
    if node.op == "constant":
        return constant(graph, node, builder)
    if node.target == "getitem":
        return _getitem(graph, node, environment)
    if node.type is not None and node.type.dtype.is_float:  # what the operands leave open, the record settles
        builder = replace(builder, default=node.type.dtype)
    place = place_of(graph, node)
    row = operator_of(graph, node)
    args = resolve(node.args, environment)
    kwargs = {key: resolve(value, environment) for key, value in node.kwargs.items()}
    return apply(row, node.target, args, kwargs, builder, place, groups)


def run(
    graph: Graph,
    interpretation: Interpretation,
    inputs: Mapping[str, Tensor],
    *,
    constant: ConstantOf = recorded_constant,
    groups: Mapping[str, int] | None = None,
    each: Callable[[Node, Result], Result] | None = None,
) -> Environment:
    """The value of every node. ``inputs`` has one tensor per input node; ``each`` sees every result and may replace
    it."""
    environment: Environment = dict(inputs)
    for node in graph.nodes:
        if node.op == "input":
            continue
        result = run_node(graph, node, Builder(interpretation, node.name), environment, constant, groups)
        check_types(graph, node, result)
        environment[node.name] = each(node, result) if each else result
    return environment


# ---------------------------------------------------------------------------------------------- ranks in lock step
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
        """Whether two members call the same; of operands that data decide only the operator is known."""
        if self.lost is not None or other.lost is not None:
            return self.row.name == other.row.name
        return self.signature() == other.signature()

    def signature(self) -> tuple[Any, ...]:
        """What all members must agree in."""
        if self.lost is not None:
            return (self.row.name, f"a tensor of which {self.lost}", ())
        name = _exchanged(self.row)
        plain = tuple(
            (key, repr(value)) for key, value in self.arguments.items() if key not in (name, self.row.group_parameter)
        )
        x: Tensor = self.arguments[name]
        return (self.row.name, str(x.type), plain)


def run_ranks(
    graphs: Sequence[Graph],
    mesh: Mesh,
    interpretations: Sequence[Interpretation],
    inputs: Sequence[Mapping[str, Tensor]],
    *,
    constant: ConstantOf = recorded_constant,
    each: Callable[[int, Node, Result], Result] | None = None,
    rescue: Callable[[int, Node, Environment, Unsupported], Result] | None = None,
) -> list[Environment]:
    """The value of every node on every rank; ``rescue`` gives a value where the interpretation cannot.

    Raises :class:`UserError` if the ranks' collectives do not match: another kind, type or attribute at the same
    position of a group, or ranks that wait for each other."""
    environments: list[Environment] = [dict(given) for given in inputs]
    position = [0] * len(graphs)
    calls: list[dict[tuple[int, ...], int]] = [{} for _ in graphs]  # per rank: collectives finished, by group members
    waiting: dict[int, _Call] = {}

    def finish(rank: int, node: Node, result: Result) -> None:
        check_types(graphs[rank], node, result)
        environments[rank][node.name] = each(rank, node, result) if each else result
        position[rank] += 1

    def attempt(rank: int, node: Node) -> Result:
        builder = Builder(interpretations[rank], node.name)
        try:
            return run_node(graphs[rank], node, builder, environments[rank], constant, None)
        except Unsupported as problem:
            if rescue is None:
                raise
            return rescue(rank, node, environments[rank], problem)

    def advance(rank: int) -> None:
        graph = graphs[rank]
        while position[rank] < len(graph.nodes):
            node = graph.nodes[position[rank]]
            if node.op == "input":
                position[rank] += 1
                continue
            if node.op == "call" and node.target != "getitem":
                row = operator_of(graph, node)
                if row.group_parameter is not None:
                    builder = Builder(interpretations[rank], node.name)
                    waiting[rank] = _waiting_call(graph, node, row, environments[rank], mesh, builder)
                    return
            finish(rank, node, attempt(rank, node))

    for rank in range(len(graphs)):
        advance(rank)
    while waiting:
        ready = _ready(waiting, calls, mesh)
        if ready is None:
            raise _deadlock(waiting, mesh, graphs)
        first = waiting[ready[0]]
        for rank in ready[1:]:
            if not waiting[rank].agrees(first):
                raise _mismatch(first, waiting[rank], ready[0], rank)
        results = _exchange(waiting, ready, interpretations, environments, rescue)
        for rank, result in zip(ready, results, strict=True):
            call = waiting.pop(rank)
            calls[rank][ready] = calls[rank].get(ready, 0) + 1
            finish(rank, call.node, result)
        for rank in ready:
            advance(rank)
    return environments


def _exchange(
    waiting: Mapping[int, _Call],
    ready: tuple[int, ...],
    interpretations: Sequence[Interpretation],
    environments: Sequence[Environment],
    rescue: Callable[[int, Node, Environment, Unsupported], Result] | None,
) -> list[Result]:
    """The results of one collective on its members, in their order."""
    first = waiting[ready[0]]
    name = _exchanged(first.row)
    builder = Builder(interpretations[ready[0]], first.node.name)
    try:
        reason = next((waiting[rank].lost for rank in ready if waiting[rank].lost is not None), None)
        if reason is not None:
            raise DataDependent(reason)
        stacked = builder.stack([waiting[rank].arguments[name] for rank in ready], 0)
        y = _define_stacked(first.row, {**first.arguments, name: stacked}, builder)
        return [Builder(interpretations[rank], first.node.name).select(y, 0, k) for k, rank in enumerate(ready)]
    except ShapeProblem as problem:
        raise _types_problem(first.row, first.node.target, problem, first.place) from None
    except Unsupported as problem:
        if rescue is None:
            raise
        return [rescue(rank, waiting[rank].node, environments[rank], problem) for rank in ready]


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
        raise _group_size_problem(row, group, place)
    return _Call(node, row, arguments, group, place, reason)


def _group_of(row: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The group of a call whose other arguments are not known."""
    try:
        return row.signature.bind(*args, **kwargs).arguments.get(row.group_parameter or "")
    except TypeError:
        return None


def _ready(
    waiting: Mapping[int, _Call], calls: Sequence[Mapping[tuple[int, ...], int]], mesh: Mesh
) -> tuple[int, ...] | None:
    """The members of a group that all wait at the same position of it."""
    for rank, call in waiting.items():
        members = mesh.members(call.group, rank)
        if all(
            other in waiting
            and mesh.members(waiting[other].group, other) == members
            and calls[other].get(members, 0) == calls[rank].get(members, 0)
            for other in members
        ):
            return members
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


def _deadlock(waiting: Mapping[int, _Call], mesh: Mesh, graphs: Sequence[Graph]) -> UserError:
    lines = [
        f"rank {rank} waits in {call.node.name} for ranks {list(mesh.members(call.group, rank))}"
        for rank, call in sorted(waiting.items())
    ]
    done = [str(rank) for rank in range(len(graphs)) if rank not in waiting]
    if done:
        lines.append(f"rank {', '.join(done)} has finished")
    return UserError(
        "collective-deadlock",
        place=next(iter(waiting.values())).place,
        found="; ".join(lines),
        needed="collectives in the same order on every member of a group",
    )
