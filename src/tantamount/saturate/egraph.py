"""An e-graph over typed tensor terms: classes of equal terms, closed under congruence.

Unlike a general one, every class has a type, because what the right side of a rule is (an order of dimensions, a shape,
a place to cut) is computed from types. (Willsey et al., *egg*, POPL 2021, for the structure and its rebuilding.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Union

from tantamount.errors import InternalError, TantamountError
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import run_node
from tantamount.rules.terms import Leaf, Part, Term, entries

__all__ = ["EGraph", "ENode", "HOLE", "Operation", "ResultType", "Types", "plain_type"]

ResultType = Union[TensorType, tuple[TensorType, ...]]


class _Hole:
    """The place of an operand in the arguments of an operation."""

    def __repr__(self) -> str:
        return "_"


HOLE = _Hole()


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """An operator with its attributes; operands are holes, filled from the left. One object for equal ones. Of an input
    or constant, ``leaf`` is its node."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leaf: Node | None = None


ENode = tuple[Operation, tuple[int, ...]]  # an operation on classes


@dataclass
class Types:
    """The types that operations give, found once each; shared between e-graphs, as it depends on nothing else.
    ``accepts(target, operands, result)`` may refuse a call that the operator would take: a backend lacks it."""

    accepts: Callable[[str, tuple[ResultType, ...], ResultType], bool] | None = None
    known: dict[Any, ResultType | None] = field(default_factory=dict[Any, "ResultType | None"])
    most: int = 50_000

    def of(self, operation: Operation, operands: tuple[ResultType, ...], key: str) -> ResultType | None:
        """The type of a call, ``None`` where the operator refuses the operands."""
        entry = (key, operands)
        if entry not in self.known:
            if len(self.known) >= self.most:
                self.known.clear()
            found = plain_type(operation, operands) or _type_of(operation, operands)
            refused = (
                found is not None and self.accepts is not None and not self.accepts(operation.target, operands, found)
            )
            self.known[entry] = None if refused else found
        return self.known[entry]


_STUB = Graph((), ())
_ALONE = frozenset({"aten.neg.default", "aten.abs.default", "aten.relu.default"})
_TOGETHER = frozenset({
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.maximum.default", "aten.minimum.default",
})  # fmt: skip


def plain_type(operation: Operation, operands: tuple[ResultType, ...]) -> TensorType | None:
    """The type of the commonest calls, which running their definitions gives, too, in a tenth of the time; ``None`` for
    all others."""
    target, args = operation.target, operation.args
    types = [type_ for type_ in operands if isinstance(type_, TensorType) and type_.dtype is not DType.BOOL]
    if len(types) != len(operands) or operation.kwargs or not types or len(types[0].shape) > 8:
        return None
    first = types[0]
    if len(types) == 2 == len(args) and target in _TOGETHER:
        if first.dtype is types[1].dtype and (first.shape == types[1].shape or not types[1].shape):
            return first
    elif len(args) == 1 == len(types) and target in _ALONE:
        return first
    elif len(args) == 2 and len(types) == 1 and target == "aten.permute.default":
        order = entries(args[1])
        if order is not None and sorted(order) == list(range(len(first.shape))):
            return TensorType(tuple(first.shape[int(k)] for k in order), first.dtype)
    elif len(args) == 2 and len(types) == 1 and target == "aten.reshape.default":
        shape = entries(args[1])
        if shape is not None and all(type(n) is int and n > 0 for n in shape) and prod(shape) == prod(first.shape):
            return TensorType(shape, first.dtype)
    return None


def _type_of(operation: Operation, operands: tuple[ResultType, ...]) -> ResultType | None:
    def value(type_: ResultType) -> Any:
        if isinstance(type_, tuple):
            return tuple(value(item) for item in type_)
        return Tensor(type_.shape, type_.dtype, None)

    if operation.target == "getitem":
        (several,), index = operands, int(operation.args[1])
        return several[index] if isinstance(several, tuple) else None
    names = iter(range(len(operands)))
    environment = {f"o{k}": value(type_) for k, type_ in enumerate(operands)}
    args, kwargs = filled(operation, lambda: Ref(f"o{next(names)}"))
    try:
        result = run_node(
            _STUB, Node("n", "call", operation.target, args, kwargs), Builder(TypesOnly()), environment, _none, None
        )
    except TantamountError:
        return None
    if isinstance(result, Tensor):
        return result.type
    if isinstance(result, tuple):
        return tuple(item.type for item in result if isinstance(item, Tensor))
    return None


def _none(graph: Graph, node: Node, builder: Builder) -> Tensor:
    raise InternalError("a constant inside an operation")


def filled(operation: Operation, operand: Any) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """The arguments with what ``operand()`` gives in place of each hole, from the left."""

    def convert(item: Any) -> Any:
        if item is HOLE:
            return operand()
        inner = entries(item)
        return item if inner is None else tuple(convert(entry) for entry in inner)

    args = tuple(convert(item) for item in operation.args)
    return args, {key: convert(item) for key, item in operation.kwargs.items()}


class EGraph:
    """Classes by number. ``find`` gives the number that a class has now; ``types`` its type; ``nodes`` its members."""

    def __init__(self, types: Types | None = None) -> None:
        self._types = types or Types()
        self._parents: list[int] = []
        self.types: list[ResultType] = []
        self.nodes: dict[int, dict[ENode, None]] = {}
        self._users: list[list[tuple[ENode, int]]] = []
        self._classes: dict[ENode, int] = {}
        self._operations: dict[str, Operation] = {}
        self._keys: dict[int, str] = {}
        self._pending: list[int] = []
        self.size = 0

    # ------------------------------------------------------------------ classes
    def find(self, number: int) -> int:
        """The number of a class's representative."""
        parents = self._parents
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    def leaf(self, number: int) -> Leaf:
        """A class as a leaf of terms."""
        type_ = self.types[number]
        if not isinstance(type_, TensorType):
            raise InternalError("several results as one operand")
        return Leaf(number, type_)

    def operation(
        self, target: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], leaf: Node | None = None
    ) -> Operation:
        """The one object for an operator with these attributes."""
        key = f"{target}{args!r}{sorted(kwargs.items()) if kwargs else ''}"
        found = self._operations.get(key)
        if found is None:
            found = self._operations[key] = Operation(target, args, dict(kwargs), leaf)
            self._keys[id(found)] = key
        return found

    def insert(self, operation: Operation, operands: tuple[int, ...], type_: ResultType | None = None) -> int | None:
        """The class of a call; ``None`` where the operator refuses its operands."""
        operands = tuple(self.find(number) for number in operands)
        node = (operation, operands)
        if node in self._classes:
            return self.find(self._classes[node])
        if type_ is None:
            type_ = self._types.of(operation, tuple(self.types[k] for k in operands), self._keys[id(operation)])
            if type_ is None:
                return None
        number = len(self._parents)
        self._parents.append(number)
        self.types.append(type_)
        self._users.append([])
        self.nodes[number] = {node: None}
        self._classes[node] = number
        self.size += 1
        for operand in set(operands):
            self._users[operand].append((node, number))
        return number

    def insert_node(self, node: Node, known: Mapping[str, int]) -> int | None:
        """The class of a graph's node whose operands have the classes ``known``."""
        if node.op != "call":
            return self.insert(self.operation(f"{node.op}:{node.name}", (), {}, node), (), node.type)
        operands: list[int] = []

        def convert(item: Any) -> Any:
            if isinstance(item, Ref):
                operands.append(known[item.name])
                return HOLE
            inner = entries(item)
            return item if inner is None else tuple(convert(entry) for entry in inner)

        args = tuple(convert(item) for item in node.args)
        kwargs = {key: convert(item) for key, item in node.kwargs.items()}
        return self.insert(self.operation(node.target, args, kwargs), tuple(operands), node.type)

    def insert_term(self, part: Part, type_: ResultType | None = None) -> int | None:
        """The class of a term whose leaves are classes; ``None`` where an operator refuses its operands."""
        if isinstance(part, Leaf):
            return self.find(part.key)
        operands: list[int] = []
        refused = False

        def convert(item: Any) -> Any:
            nonlocal refused
            if isinstance(item, (Leaf, Term)):
                number = self.insert_term(item)
                refused = refused or number is None
                operands.append(number or 0)
                return HOLE
            inner = entries(item)
            return item if inner is None else tuple(convert(entry) for entry in inner)

        args = tuple(convert(item) for item in part.args)
        kwargs = {key: convert(item) for key, item in part.kwargs.items()}
        return None if refused else self.insert(self.operation(part.target, args, kwargs), tuple(operands))

    # ------------------------------------------------------------------ equality
    def merge(self, a: int, b: int) -> bool:
        """Make two classes one; false if they are already. Raises :class:`InternalError` for classes of two types."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self.types[a] != self.types[b]:
            raise InternalError(f"equal terms of types {self.types[a]} and {self.types[b]}")
        if len(self._users[a]) < len(self._users[b]):
            a, b = b, a
        self._parents[b] = a
        self.nodes[a].update(self.nodes.pop(b))
        self._users[a] += self._users[b]
        self._pending.append(a)
        return True

    def rebuild(self) -> None:
        """Restore congruence: equal operations on equal operands are equal."""
        while self._pending:
            pending = dict.fromkeys(self.find(number) for number in self._pending)
            self._pending.clear()
            for number in pending:
                users: dict[ENode, int] = {}
                for node, user in self._users[number]:
                    self._classes.pop(node, None)
                    user = self.find(user)
                    operation, operands = node
                    new = (operation, tuple(self.find(k) for k in operands))
                    if node != new and user in self.nodes and node in self.nodes[user]:
                        del self.nodes[user][node]
                    self.nodes[user][new] = None
                    other = users.get(new, self._classes.get(new))
                    if other is not None:
                        self.merge(other, user)
                    users[new] = self._classes[new] = self.find(user)
                number = self.find(number)
                self._users[number] = [(node, self.find(user)) for node, user in users.items()] + (
                    [] if number in pending else self._users[number]
                )
        self.size = sum(len(members) for members in self.nodes.values())

    def by_operator(self) -> dict[str, list[tuple[int, ENode]]]:
        """Every node with its class, by operator."""
        found: dict[str, list[tuple[int, ENode]]] = {}
        for number, members in self.nodes.items():
            for node in members:
                found.setdefault(node[0].target, []).append((number, node))
        return found

    def members(self, number: int) -> Iterator[ENode]:
        """The nodes of a class."""
        return iter(tuple(self.nodes[self.find(number)]))
