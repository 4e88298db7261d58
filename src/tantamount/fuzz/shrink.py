"""A failing program made small: delta debugging on the graph, its element types, its sizes and its values.

Every step proposes a program that computes something else, works out what it should compute, and is kept if the backend
fails on it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tantamount.errors import TantamountError
from tantamount.fuzz.backends.base import Compiler
from tantamount.fuzz.cases import Form
from tantamount.fuzz.draft import Policy, usable
from tantamount.fuzz.generate import pruned
from tantamount.fuzz.in_place import writes_unseen
from tantamount.fuzz.oracle import Failure, compare, message_pattern
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref, references
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.semantics.exact import Exact, evaluate, plain
from tantamount.semantics.reference import Array
from tantamount.semantics.rounding import array_type

__all__ = ["Shrunk", "shrink"]

_PLAINEST = (
    DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16, DType.INT64, DType.INT32, DType.INT16, DType.INT8,
    DType.UINT8,
)  # fmt: skip
_OVERDUE = 10  # compilations that one counts for which does not end: it takes all the time that it may

Program = tuple[Graph, Mapping[str, Array]]


@dataclass(frozen=True)
class Shrunk:
    """The smallest failure found, and how many compilations it took."""

    failure: Failure
    compilations: int


def form_of(
    graph: Graph, inputs: Mapping[str, Array], name: str = "shrunk", policy: Policy | None = None
) -> Form | None:
    """A program with what it should compute; ``None`` if that cannot be said."""
    if not writes_unseen(graph):
        return None
    exact = Exact()
    try:
        values = evaluate(graph, inputs, exact)
    except (TantamountError, ValueError, IndexError, KeyError):
        return None
    found = [values[output.node] for output in graph.outputs]
    expected = tuple(x for x in found if isinstance(x, Tensor))
    if len(expected) != len(found) or not all(usable(x) for x in values.values() if isinstance(x, Tensor)):
        return None
    if exact.flags or (policy is not None and not policy.allows(exact)):
        return None
    return Form(name, graph, dict(inputs), expected)


def shrink(failure: Failure, compiler: Compiler, most: int = 60, policy: Policy | None = None) -> Shrunk:
    """The failure made small, in at most so many compilations. ``policy`` says what may
    wrap around in what is tried."""
    pattern = message_pattern(failure.message) if failure.kind != "wrong" else ""
    spent = 0

    def still(program: Program) -> Failure | None:
        nonlocal spent
        form = form_of(*program, policy=policy)
        if form is None or spent >= most:
            return None
        level = failure.level
        outcome = compiler.run(form.graph, form.inputs, level)
        spent += _OVERDUE if outcome.status == "overdue" else 1
        found = compare(compiler.backend, form, outcome, level)
        if found is None or found.kind != failure.kind:
            return None
        return found if failure.kind == "wrong" or message_pattern(found.message) == pattern else None

    best = failure
    allowed = [dtype for dtype in compiler.backend.dtypes if policy is None or dtype in policy.dtypes]

    def retyped(failure: Failure) -> Iterator[Program]:
        return _retyped(failure, allowed)

    steps = (_fewer_outputs, _cut, _bypassed, retyped, _smaller, _plainer)
    for program in _exposed(failure):
        best = still(program) or best
    changed = True
    while changed and spent < most:
        changed = False
        for step in steps:
            again = True
            while again and spent < most:
                again = False
                for program in step(best):
                    found = still(program)
                    if found is not None:
                        best, changed, again = found, True, True
                        break
    return Shrunk(best, spent)


# ---------------------------------------------------------------------------------------------- steps
def _with_inputs(graph: Graph, inputs: Mapping[str, Array]) -> Program:
    """The program without what no output needs."""
    small = pruned(graph)
    return small, {node.name: inputs[node.name] for node in small.inputs}


def _exposed(failure: Failure) -> Iterator[Program]:
    """All that the wrong output is computed of as outputs, in order: the first that is wrong then is where it begins,
    if it is wrong still."""
    graph = failure.form.graph
    if failure.kind == "wrong" and graph.outputs:
        small, inputs = _with_inputs(replace(graph, outputs=(graph.outputs[failure.output],)), failure.form.inputs)
        names = [node.name for node in _calls(small)]
        if len(names) > 1:
            yield replace(small, outputs=tuple(Output(name, name) for name in names)), inputs


def _fewer_outputs(failure: Failure) -> Iterator[Program]:
    """One output alone, the wrong one first; then half of them."""
    graph, inputs = failure.form.graph, failure.form.inputs
    if len(graph.outputs) > 1:
        order = [failure.output, *(k for k in range(len(graph.outputs)) if k != failure.output)]
        for k in order[:4]:
            yield _with_inputs(replace(graph, outputs=(graph.outputs[k],)), inputs)
        half = len(graph.outputs) // 2
        yield _with_inputs(replace(graph, outputs=graph.outputs[:half]), inputs)
        yield _with_inputs(replace(graph, outputs=graph.outputs[half:]), inputs)


def _calls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "call" and node.type is not None]


def _as_inputs(failure: Failure, names: set[str]) -> Program | None:
    """The program with some nodes' values given as inputs; ``None`` if one of them is not exact."""
    graph, inputs = failure.form.graph, dict(failure.form.inputs)
    try:
        values = evaluate(graph, inputs)
    except TantamountError:
        return None
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in names:
            x = values[node.name]
            if not isinstance(x, Tensor) or node.type is None:
                return None
            inputs[node.name] = plain(x)
            nodes.append(Node(node.name, "input", node.name, type=node.type))
        else:
            nodes.append(node)
    return _with_inputs(replace(graph, nodes=tuple(nodes)), inputs)


def _cut(failure: Failure) -> Iterator[Program]:
    """Values in place of what computes them, as much as possible first; outputs taken earlier."""
    graph = failure.form.graph
    calls = _calls(graph)
    final = {output.node for output in graph.outputs}
    inner = [node.name for node in calls if node.name not in final]
    size = len(inner)
    while size >= 1:
        for start in range(0, len(inner), size):
            chosen = set(inner[max(0, len(inner) - start - size) : len(inner) - start])
            program = _as_inputs(failure, chosen) if chosen else None
            if program is not None:
                yield program
        size = size // 2 if size > 1 else 0
    for output in graph.outputs:
        node = graph.by_name[output.node]
        if node.target == "getitem":
            node = graph.by_name[next(iter(references(node)))]
        for name in dict.fromkeys(references(node)):
            if graph.by_name[name].type is not None and graph.by_name[name].op == "call":
                yield _with_inputs(replace(graph, outputs=(Output(name, name),)), failure.form.inputs)


def _bypassed(failure: Failure) -> Iterator[Program]:
    """A node replaced by an operand of the same type; a node's other users apart."""
    graph = failure.form.graph
    for node in reversed(_calls(graph)):
        for name in dict.fromkeys(references(node)):
            if graph.by_name[name].type == node.type:
                yield _with_inputs(_renamed(graph, node.name, name), failure.form.inputs)


def _renamed(graph: Graph, old: str, new: str) -> Graph:
    def convert(item: Argument) -> Argument:
        if isinstance(item, Ref):
            return Ref(new) if item.name == old else item
        return tuple(convert(entry) for entry in item) if isinstance(item, tuple) else item

    nodes = tuple(replace(node, args=tuple(map(convert, node.args))) for node in graph.nodes if node.name != old)
    outputs = tuple(Output(o.name, new if o.node == old else o.node) for o in graph.outputs)
    return replace(graph, nodes=nodes, outputs=outputs)


def _smaller(failure: Failure) -> Iterator[Program]:
    """Each size replaced by a smaller one, in types and attributes, wherever it occurs."""
    graph = failure.form.graph
    sizes = sorted({size for node in graph.nodes if node.type for size in node.type.shape if size > 1}, reverse=True)
    for size in sizes[:6]:
        for smaller in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < smaller < size:
                program = _resized(failure, size, smaller)
                if program is not None:
                    yield program


def _resized(failure: Failure, size: int, smaller: int) -> Program | None:
    def argument(item: Any) -> Any:
        return smaller if type(item) is int and item == size else item

    def type_(old: TensorType) -> TensorType:
        return TensorType(tuple(map(argument, old.shape)), old.dtype)

    def cut(array: Array) -> Array:
        # The ellipsis keeps an array of no axes an array, where indexing by () would give its element.
        return array[(..., *(slice(0, smaller) if n == size else slice(None) for n in array.shape))]

    return _changed(failure, argument, type_, cut)


def _retyped(failure: Failure, allowed: Sequence[DType]) -> Iterator[Program]:
    """Each element type replaced by a plainer one that holds all elements, wherever it occurs; not where something is
    rounded, which each type does in its own way."""
    graph = failure.form.graph
    if any(x.value.error for x in failure.form.expected):
        return
    types = [node.type.dtype for node in graph.nodes if node.type is not None]
    for old in dict.fromkeys(types):
        for new in _PLAINEST[: _PLAINEST.index(old)] if old in _PLAINEST else ():
            if new.kind is old.kind and new in allowed:
                program = _of_type(failure, old, new)
                if program is not None:
                    yield program


def _of_type(failure: Failure, old: DType, new: DType) -> Program | None:
    form = failure.form
    for node in form.graph.nodes:
        if node.op != "call" and node.type is not None and node.type.dtype is old:
            given = form.inputs[node.name] if node.op == "input" else np.array(form.graph.constants[node.target].data)
            if not np.array_equal(given, given.astype(array_type(new))):
                return None

    def argument(item: Any) -> Any:
        return new if item is old else item

    def type_(before: TensorType) -> TensorType:
        return TensorType(before.shape, argument(before.dtype))

    return _changed(failure, argument, type_, lambda array: array)


def _changed(
    failure: Failure,
    argument: Callable[[Any], Any],
    type_: Callable[[TensorType], TensorType],
    array: Callable[[Array], Array],
) -> Program | None:
    """The program with the arguments of its calls, and the types and elements of inputs and constants, changed;
    ``None`` if it is none any more."""

    def convert(item: Any) -> Any:
        return tuple(map(convert, item)) if isinstance(item, tuple) else argument(item)  # type: ignore[reportUnknownArgumentType]

    graph = failure.form.graph
    nodes: list[Node] = []
    inputs: dict[str, Array] = {}
    constants = dict(graph.constants)
    for node in graph.nodes:
        if node.op == "call":
            kwargs = {key: convert(item) for key, item in node.kwargs.items()}
            nodes.append(replace(node, args=convert(node.args), kwargs=kwargs, type=None))
            continue
        if node.type is None:
            return None
        nodes.append(replace(node, type=type_(node.type)))
        if node.op == "input":
            inputs[node.name] = array(failure.form.inputs[node.name])
        else:
            data = np.array(constants[node.target].data, dtype=object).reshape(node.type.shape)
            constants[node.target] = Constant(type_(node.type), tuple(array(data).ravel().tolist()))
    untyped = replace(graph, nodes=tuple(nodes), constants=constants)
    try:
        found = check_graph(untyped, None)
    except TantamountError:
        return None
    types = {name: x.type for name, x in found.items() if isinstance(x, Tensor)}
    return replace(untyped, nodes=tuple(replace(n, type=types.get(n.name, n.type)) for n in nodes)), inputs


def _plainer(failure: Failure) -> Iterator[Program]:
    """Constants made inputs; elements that are all 0, all 1, or the first one everywhere."""
    graph, inputs = failure.form.graph, failure.form.inputs
    for node in graph.nodes:
        if node.op == "constant" and node.type is not None:
            constant = graph.constants[node.target]
            array = np.array(constant.data, dtype=np.float64 if node.type.dtype.is_float else None).reshape(
                node.type.shape
            )
            nodes = tuple(replace(n, op="input", target=n.name) if n is node else n for n in graph.nodes)
            yield _with_inputs(replace(graph, nodes=nodes), {**inputs, node.name: array})
    for name, array in inputs.items():
        if array.size > 1 and len(np.unique(array)) > 1:
            for value in dict.fromkeys((0, 1, array.flat[0].item(), array.min().item())):
                yield graph, {**inputs, name: np.full_like(array, value)}
