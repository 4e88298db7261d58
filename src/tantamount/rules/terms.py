"""Terms: calls of operators on tensors that are given, nested. Patterns are terms with holes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union, cast

from tantamount.ir.graph import Argument, Node, Ref
from tantamount.ir.types import TensorType

__all__ = ["Attribute", "Leaf", "Part", "Term", "Variable", "entries", "nodes_of", "operators_in", "term"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A hole of a pattern that any tensor fills."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A hole of a pattern that any attribute fills."""

    name: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor that is given: a name (or the number of a class of equal terms), and its type."""

    key: Any
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)


@dataclass(frozen=True, slots=True)
class Term:
    """A call. ``args`` are terms, leaves, attributes, and tuples of these (and holes, in a pattern)."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)


Part = Union[Term, Leaf]


def entries(item: Any) -> tuple[Any, ...] | None:
    """The entries of a tuple; ``None`` for anything else."""
    return cast("tuple[Any, ...]", item) if isinstance(item, tuple) else None


def term(target: str, *args: Any, **kwargs: Any) -> Term:
    """A call, written as one."""
    return Term(target, args, kwargs)


def operators_in(part: Any) -> Iterator[str]:
    """The operators of a term or pattern, with repetitions."""
    if isinstance(part, Term):
        yield part.target
        for argument in (*part.args, *part.kwargs.values()):
            yield from operators_in(argument)
    for item in entries(part) or ():
        yield from operators_in(item)


def nodes_of(part: Part, nodes: list[Node], prefix: str) -> str:
    """Append the nodes of a term, whose leaves are names; the name of the node that is its value. Equal subterms that
    are one object are one node."""
    known: dict[int, str] = {}

    def convert(item: Any) -> Argument:
        if isinstance(item, Leaf):
            return Ref(str(item.key))
        if isinstance(item, Term):
            if id(item) not in known:
                args = tuple(convert(argument) for argument in item.args)
                kwargs = {key: convert(argument) for key, argument in item.kwargs.items()}
                known[id(item)] = f"{prefix}{len(nodes)}"
                nodes.append(Node(known[id(item)], "call", item.target, args, kwargs))
            return Ref(known[id(item)])
        inner = entries(item)
        return item if inner is None else tuple(convert(entry) for entry in inner)

    found = convert(part)
    if not isinstance(found, Ref):
        raise TypeError(f"no term: {part}")
    return found.name
