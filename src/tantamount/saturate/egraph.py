"""An e-graph over typed tensor terms: classes of equal terms, closed under congruence.

Unlike a general one, every class has a type, because what the right side of a rule is (an order of dimensions, a shape,
a place to cut) is computed from types. (Willsey et al., *egg*, POPL 2021, for the structure and its rebuilding.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tantamount.errors import InternalError
from tantamount.ir.graph import Node, Ref
from tantamount.ir.types import TensorType
from tantamount.rules.terms import Leaf, Part, Term, entries
from tantamount.saturate.types import HOLE, Operation, ResultType, Types

__all__ = ["EGraph", "ENode"]

ENode = tuple[Operation, tuple[int, ...]]  # an operation on classes


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
        args = tuple(_with_holes(item, known, operands) for item in node.args)
        kwargs = {key: _with_holes(item, known, operands) for key, item in node.kwargs.items()}
        return self.insert(self.operation(node.target, args, kwargs), tuple(operands), node.type)

    def insert_term(self, part: Part) -> int | None:
        """The class of a term whose leaves are classes; ``None`` where an operator refuses its operands."""
        if isinstance(part, Leaf):
            return self.find(part.key)
        operands: list[int] = []
        args = self._placed(part.args, operands)
        kwargs = self._placed(tuple(part.kwargs.values()), operands) if part.kwargs else ()
        if args is None or kwargs is None:
            return None
        return self.insert(
            self.operation(part.target, args, dict(zip(part.kwargs, kwargs, strict=True))), tuple(operands)
        )

    def _placed(self, items: tuple[Any, ...], operands: list[int]) -> tuple[Any, ...] | None:
        """Arguments with holes for the terms among them, whose classes are added to ``operands``; ``None`` where one is
        refused."""
        placed: list[Any] = []
        for item in items:
            if isinstance(item, (Leaf, Term)):
                number = self.insert_term(item)
                if number is None:
                    return None
                operands.append(number)
                placed.append(HOLE)
                continue
            inner = entries(item)
            found = item if inner is None else self._placed(inner, operands)
            if inner is not None and found is None:
                return None
            placed.append(found)
        return tuple(placed)

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


def _with_holes(item: Any, known: Mapping[str, int], operands: list[int]) -> Any:
    """An argument with holes for operands, whose classes are added to ``operands``."""
    if isinstance(item, Ref):
        operands.append(known[item.name])
        return HOLE
    inner = entries(item)
    return item if inner is None else tuple(_with_holes(entry, known, operands) for entry in inner)
