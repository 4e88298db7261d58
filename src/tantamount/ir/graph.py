"""A tensor program of one rank: immutable nodes in execution order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Union

from tantamount.ir.types import DType, TensorType
from tantamount.sizes.domain import NO_SIZES, Domain
from tantamount.sizes.symbolic import substituted

__all__ = [
    "ANY_ARGUMENTS",
    "Argument",
    "Constant",
    "CustomOperator",
    "Device",
    "Graph",
    "Node",
    "Output",
    "Ref",
    "Setting",
    "Source",
    "reading",
    "references",
]


@dataclass(frozen=True, slots=True)
class Ref:
    """A use of another node's value."""

    name: str


@dataclass(frozen=True, slots=True)
class Device:
    """A device attribute (``cuda``): it never changes a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A memory format or layout (``strided``, ``contiguous_format``): it never changes a value."""

    name: str


# Numbers keep the type the file had: True, 1 and 1.0 are three different arguments.
Argument = Union[Ref, DType, Device, Setting, bool, int, float, complex, str, None, tuple["Argument", ...]]


@dataclass(frozen=True, slots=True)
class Source:
    """The line of code that a node comes from. ``text`` is the line of code there (may be empty), ``file`` empty if
    unknown."""

    file: str
    line: int
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else self.text or "unknown source"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. ``op`` is ``input``, ``constant`` or ``call``; ``target`` the operator's full name for a call.

    ``type`` is what the file recorded: ``None`` where the operator has several results (their types are read off
    their ``getitem`` nodes) or where nothing was recorded.
    """

    name: str
    op: str
    target: str
    args: tuple[Argument, ...] = ()
    kwargs: Mapping[str, Argument] = field(default_factory=dict[str, Argument])
    type: TensorType | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A named result of the graph."""

    name: str
    node: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A recorded constant. ``data`` is flat, row-major: bool, int, float or complex."""

    type: TensorType
    data: tuple[bool | int | float | complex, ...]


ANY_ARGUMENTS = "*args, **kwargs"  # whatever a graph gives


@dataclass(frozen=True, slots=True)
class CustomOperator:
    """A declared operator (an entry of [ops]): ``labels`` of an opaque one, or a ``definition`` in known operators.

    ``args`` are its parameters in Python's notation. ``mutates``: parameters that it overwrites (their new values are
    the last results); ``ignores``: parameters that do not change what it computes; ``dtypes``: the element types of the
    results that it returns, by name or as that of a parameter (of an opaque operator; without it, that of the first
    operand)."""

    name: str
    args: str = ANY_ARGUMENTS
    definition: str = ""
    labels: str = ""
    mutates: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class Graph:
    """The program of one rank (or of all, if every rank runs it).

    ``nodes`` are in execution order: every :class:`Ref` points backwards. ``path`` names the file in messages.
    ``operators`` are declared for this graph, by name, beyond those of the table.
    ``groups``: process groups that the program itself spells out, as the ranks of each of their instances in order; no
    instance at all means one of all ranks. ``ranks``: how many ranks the program says it is for. ``sizes``: the size
    symbols that types and arguments are written with, none for most programs. ``computed``: inputs that another program
    computes, as this one is a part of a longer one.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict[str, Constant])
    rank: int | None = None
    origin: str = ""
    path: str = "<graph>"
    operators: Mapping[str, CustomOperator] = field(default_factory=dict[str, CustomOperator])
    groups: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict[str, tuple[tuple[int, ...], ...]])
    ranks: int | None = None
    sizes: Domain = NO_SIZES
    computed: frozenset[str] = frozenset()

    def at(self, values: Mapping[str, int]) -> Graph:
        """The program at the given sizes, by symbol."""

        def argument(value: Argument) -> Argument:
            return tuple(map(argument, value)) if isinstance(value, tuple) else substituted(value, values)

        def node(old: Node) -> Node:
            kwargs = {key: argument(value) for key, value in old.kwargs.items()}
            return replace(old, args=tuple(map(argument, old.args)), kwargs=kwargs, type=old.type and type_of(old.type))

        def type_of(old: TensorType) -> TensorType:
            return TensorType(tuple(substituted(size, values) for size in old.shape), old.dtype)

        return replace(self, nodes=tuple(map(node, self.nodes)), sizes=NO_SIZES)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def output_nodes(self) -> Mapping[str, str]:
        """The nodes of the outputs, by the outputs' names."""
        return {output.name: output.node for output in reversed(self.outputs)}

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.op == "input")

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """For every node the nodes that use its value."""
        users: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in dict.fromkeys(references(node)):
                users[name].append(node.name)
        return {name: tuple(found) for name, found in users.items()}

    def ancestors(self, name: str) -> dict[str, None]:
        """A node and all that it is computed from, by name, in the order of the program; empty for an unknown name."""
        found: set[str] = set()
        pending = [name] if name in self.by_name else []
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending.extend(references(self.by_name[current]))
        return {node.name: None for node in self.nodes if node.name in found}

    def depends(self, name: str, on: str) -> bool:
        """True if a node is computed from another one, or is that one; False for unknown names."""
        bit, above = self._above
        return bool(above.get(name, 0) & bit.get(on, 0))

    @cached_property
    def _above(self) -> tuple[dict[str, int], dict[str, int]]:
        """A bit for every node, and the bits of all that it is computed from, its own included."""
        bit = {node.name: 1 << k for k, node in enumerate(self.nodes)}
        above = dict(bit)
        for node in self.nodes:
            for name in references(node):
                above[node.name] |= above.get(name, 0)
        return bit, above


def references(node: Node) -> tuple[str, ...]:
    """The names of the nodes whose values ``node`` reads, in order, with repetitions."""
    found: list[str] = []
    _read(node.args, found)
    if node.kwargs:
        _read(tuple(node.kwargs.values()), found)
    return tuple(found)


def _read(arguments: tuple[Argument, ...], found: list[str]) -> None:
    for argument in arguments:
        if isinstance(argument, Ref):
            found.append(argument.name)
        elif isinstance(argument, tuple):
            _read(argument, found)


def reading(node: Node, copies: Mapping[str, str]) -> Node:
    """The node, which reads other tensors: ``copies`` says which instead of which."""
    if copies.keys().isdisjoint(references(node)):
        return node

    def argument(value: Argument) -> Argument:
        if isinstance(value, tuple):
            return tuple(map(argument, value))
        return Ref(copies.get(value.name, value.name)) if isinstance(value, Ref) else value

    kwargs = {key: argument(value) for key, value in node.kwargs.items()}
    return replace(node, args=tuple(map(argument, node.args)), kwargs=kwargs)
