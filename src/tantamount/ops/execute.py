"""Running one graph under any interpretation.

Every process group is the rank alone (a specification), or the interpretation itself knows the other ranks. Graphs of
several ranks are run in ``ops.lockstep``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union, cast

from tantamount.errors import DataDependent, UserError
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.types import TensorType
from tantamount.ops.algebra import Interpretation, Tensor, Unsized
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.calls import operator_of
from tantamount.ops.exchange import exchange
from tantamount.ops.given_indices import COUNTED, given_indices
from tantamount.ops.keys import Unkeyed, call_key
from tantamount.ops.table import Operator, bind, invoke
from tantamount.sizes.symbolic import is_size

__all__ = [
    "ConstantOf",
    "Environment",
    "Result",
    "apply",
    "check_types",
    "constant_type",
    "group_size_problem",
    "input_type",
    "lost_operand",
    "place_of",
    "recorded_constant",
    "resolve",
    "run",
    "run_node",
    "types_problem",
    "untyped",
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


def input_type(graph: Graph, node: Node) -> TensorType:
    """The recorded type of an input node. Raises :class:`UserError` if there is none."""
    if node.type is None:
        raise UserError("input-type", **untyped(graph, node))
    return node.type


def untyped(graph: Graph, node: Node) -> dict[str, str]:
    """The words of an error about an input node without a type: its place, what was found there and what is needed."""
    return {"place": place_of(graph, node), "found": "an input without a type", "needed": "its shape and dtype"}


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
    try:
        return builder.table(constant.data, constant.type.shape, constant.type.dtype)
    except ShapeProblem as problem:  # a value that is no number
        raise UserError(
            "graph-constant-value",
            place=f"{place_of(graph, node)}: {node.target}",
            found=str(problem),
            needed="numbers",
        ) from None


def group_size_problem(row: Operator, group: str, place: str) -> UserError:
    """A process group that the job does not list."""
    return UserError(
        "group-unknown",
        place=place,
        found=f"process group {group!r} in {row.name}",
        needed="a group that the job's [impl.groups] lists, or the plan's [mesh.groups]",
        hint=f'add `"{group}" = ["<mesh axis>"]` to [impl.groups] (of a plan: to [mesh.groups])',
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
            raise group_size_problem(row, group, place)
        size = 1 if groups is None else groups[group]
        if row.peer_parameter is not None:
            peers: int | tuple[int, ...] = arguments[row.peer_parameter]
            _check_peers(peers if isinstance(peers, tuple) else (peers,), size)
            return invoke(row, builder, arguments)
        return exchange(row, [(arguments, builder.interpretation)], group, [(size, True)], builder.site)[0]
    except ShapeProblem as problem:
        raise types_problem(row, target, problem, place) from None
    except TypeError:  # of what computes with plain numbers only: fractions, powers
        symbolic = next(filter(is_size, _numbers(arguments.values())), None)
        if symbolic is None:
            raise
        problem = ShapeProblem(f"{symbolic}, where the definition needs a number that is known")
        raise types_problem(row, target, problem, place) from None


def _numbers(items: Iterable[Any]) -> Iterator[Any]:
    """Arguments, and those of sequences among them."""
    for item in items:
        if isinstance(item, tuple):
            yield from _numbers(cast("tuple[Any, ...]", item))
        else:
            yield item


def types_problem(row: Operator, target: str, problem: ShapeProblem, place: str) -> UserError:
    """Operands or attributes that do not fit an operator."""
    return UserError(
        "operator-types",
        place=place,
        found=str(problem),
        needed=f"operands that fit {target}{row.signature}",
        hint=f"`tantamount ops {target}` shows the operator",
    )


def _check_peers(peers: Sequence[int], size: int) -> None:
    """Raise :class:`ShapeProblem` unless all are members of a group of that size, which has others."""
    for peer in peers:
        if size == 1:
            raise ShapeProblem("a message in a process group of one rank")
        if not 0 <= peer < size:
            raise ShapeProblem(f"peer {peer} in a process group of {size} ranks: peers are positions in the group")


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
            return _as_recorded(graph, node, results[index], environment)
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


def _as_recorded(graph: Graph, node: Node, item: Result, environment: Environment) -> Result:
    """An item of several results. Statistics of a half-precision tensor have its type on one device and float32 on
    another: the graph says which."""
    if not isinstance(item, Tensor) or node.type is None or node.type.dtype is item.dtype:
        return item
    (name,) = references(node)
    source = graph.by_name[name]
    statistics = operator_of(graph, source).statistics if source.op == "call" and source.target != "getitem" else ()
    first = resolve(source.args[0], environment) if source.args else None
    if node.args[1] in statistics and isinstance(first, Tensor) and node.type.dtype is first.dtype:
        return replace(item, dtype=first.dtype)
    return item


def lost_operand(node: Node, environment: Mapping[str, Result]) -> str | None:
    """The reason why the node's value is known in an execution only: an operand is; ``None`` if none is."""
    for name in references(node):
        value = environment[name]
        if isinstance(value, Unsized):
            return value.reason
    return None


def _lost(node: Node, builder: Builder, problem: DataDependent) -> Result:
    """A placeholder for a node whose value is known in an execution only, of its recorded type, if there is one."""
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
        builder = Builder(builder.interpretation, builder.site, node.type.dtype, builder.given)
    if node.target in COUNTED:
        builder = replace(builder, given=given_indices(graph, node, environment))
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
    known: dict[Hashable, Result] | None = None,
) -> Environment:
    """The value of every node. ``inputs`` has one tensor per input node; ``each`` sees every result and may replace
    it. ``known`` remembers the results of calls by operator, attributes and operands, for interpretations in which they
    depend on nothing else: where only types matter, most calls of a graph are calls that were made before."""
    environment: Environment = dict(inputs)
    for node in graph.nodes:
        if node.op == "input":
            continue
        key = None if known is None else _key(graph, node, environment)
        if known is not None and key is not None and key in known:
            result = known[key]
        else:
            result = run_node(graph, node, Builder(interpretation, node.name), environment, constant, groups)
            if known is not None and key is not None:
                known[key] = result
        check_types(graph, node, result)
        environment[node.name] = each(node, result) if each else result
    return environment


def _key(graph: Graph, node: Node, environment: Environment) -> Hashable:
    """The key of a call on the values of its operands; ``None`` where one is not known, and for what is no call."""
    if node.op != "call" or node.target == "getitem":
        return None

    def operand(name: str) -> Hashable:
        value = environment[name]
        if isinstance(value, Unsized):
            raise Unkeyed
        return value

    try:
        return call_key(graph, node, operand)
    except Unkeyed:
        return None
