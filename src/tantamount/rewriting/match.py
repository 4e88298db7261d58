"""Occurrences of the left side of a rule in a program: by operators and attributes, up to what changes no value.

An occurrence is a node of the program, and what the inputs and size symbols of the rule are there. Operators are the
same rows of the table with the same attributes; sizes among these, and shapes, are equations for the rule's symbols,
which must have one solution, in the rule's domain. Copies (``clone``, ``detach``) between the operators are passed
over. What draws random numbers, communicates or overwrites is part of no left side, so of no occurrence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.ir.graph import Device, Graph, Node, Ref, Setting
from tantamount.ir.job import UserRule
from tantamount.ir.types import DType, Kind, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.check import check_graph
from tantamount.ops.execute import Result
from tantamount.sizes.domain import Domain
from tantamount.sizes.polynomials import evaluate
from tantamount.sizes.symbolic import is_size

__all__ = ["Occurrence", "Pattern", "occurrences", "retyped"]

_COPIES = frozenset({"aten.clone.default", "aten.detach.default", "aten.alias.default", "aten.contiguous.default"})
_SHAPED = frozenset(  # operators whose only attribute is the shape of the result
    {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.expand.default"}
)
_POSITIONS = frozenset({"dim", "dim0", "dim1", "dims"})
_NEW_AXES = frozenset({"aten.unsqueeze.default", "aten.stack.default"})  # count dimensions of the result


@dataclass(frozen=True)
class Occurrence:
    """The node ``root`` computes the left side of a rule: of these nodes as its ``inputs``, at these ``sizes``.
    ``dtype``: the element type that stands for the only floating one of the rule, if it is another."""

    root: str
    inputs: Mapping[str, str]
    sizes: Mapping[str, int]
    dtype: tuple[DType, DType] | None = None


@dataclass(frozen=True)
class _State:
    nodes: Mapping[str, str]
    equations: tuple[tuple[Any, int], ...] = ()
    dtype: DType | None = None


@dataclass(frozen=True)
class Pattern:
    """The left side of a rule, made ready for being looked for. ``generic``: the only floating element type of the
    rule, where no attribute names one."""

    rule: UserRule
    graph: Graph
    root: Node
    types: Mapping[str, Result]
    domain: Domain
    generic: DType | None

    @staticmethod
    def of(rule: UserRule) -> Pattern:
        """The pattern of a rule."""
        graph = rule.sides.specification
        sides = (graph, rule.sides.implementation[0], *(() if rule.holds is None else (rule.holds,)))
        floats = {node.type.dtype for node in graph.inputs if node.type and node.type.dtype.kind is Kind.FLOAT}
        named = any(_has_dtype(node.args) or _has_dtype(tuple(node.kwargs.values())) for g in sides for node in g.nodes)
        generic = next(iter(floats)) if len(floats) == 1 and not named else None
        root = graph.by_name[graph.outputs[0].node]
        return Pattern(rule, graph, root, check_graph(graph, None), rule.sides.sizes, generic)


def occurrences(pattern: Pattern, graph: Graph, types: Mapping[str, Result], effort: Effort) -> Iterator[Occurrence]:
    """The occurrences of a pattern in a program whose nodes have these types, one for every node that is one."""
    matcher = _Matcher(pattern, graph, types, effort)
    for node in graph.nodes:
        if node.op == "call" and node.target != "getitem":
            found = matcher.at(node.name)
            if found is not None:
                yield found


def _has_dtype(argument: Any) -> bool:
    if isinstance(argument, tuple):
        return any(map(_has_dtype, cast("tuple[Any, ...]", argument)))
    return isinstance(argument, DType)


@dataclass
class _Matcher:
    pattern: Pattern
    graph: Graph
    types: Mapping[str, Result]
    effort: Effort

    def at(self, root: str) -> Occurrence | None:
        for tried, state in enumerate(self._node(self.pattern.root.name, root, _State({}))):
            if self.effort.exceeds("rewriting_matches", tried):
                break
            sizes = _solved(state.equations, self.pattern.domain)
            if sizes is not None:
                given = {node.name: state.nodes[node.name] for node in self.pattern.graph.inputs}
                own = self.pattern.generic
                other = None if own is None or state.dtype in (None, own) else (own, state.dtype)
                return Occurrence(root, given, sizes, cast("tuple[DType, DType] | None", other))
        return None

    def _node(self, mine: str, theirs: str, state: _State) -> Iterator[_State]:
        """The states in which a node of the program is one of the pattern."""
        known = state.nodes.get(mine)
        if known is not None:
            if known == theirs:
                yield state
            return
        wanted = self.pattern.graph.by_name[mine]
        typed = self._typed(self.pattern.types[mine], self.types[theirs], state)
        if typed is None:
            return
        found = self.graph.by_name[theirs]
        if wanted.op == "input":
            yield replace(typed, nodes={**typed.nodes, mine: theirs})
            return
        while found.op == "call" and found.target in _COPIES and wanted.target not in _COPIES:
            source = found.args[0] if found.args else None
            if not isinstance(source, Ref) or self.types[source.name] != self.types[found.name]:
                return
            found = self.graph.by_name[source.name]
        here = replace(typed, nodes={**typed.nodes, mine: theirs})
        if wanted.op == "constant":
            mine_too = self.pattern.graph.constants.get(wanted.target)
            if found.op == "constant" and repr(self.graph.constants.get(found.target)) == repr(mine_too):
                yield here
        elif found.op == "call":
            yield from self._call(wanted, found, here)

    def _typed(self, wanted: Result, found: Result, state: _State) -> _State | None:
        """The state with the equations that two types are; ``None`` for types that do not fit."""
        if not isinstance(wanted, Tensor) or not isinstance(found, Tensor):
            several = isinstance(wanted, tuple) and isinstance(found, tuple) and len(wanted) == len(found)
            return state if several else None
        if len(wanted.shape) != len(found.shape):
            return None
        generic = self.pattern.generic
        if wanted.dtype is generic and generic is not None and found.dtype.kind is Kind.FLOAT:
            if state.dtype not in (None, found.dtype):
                return None
            state = replace(state, dtype=found.dtype)
        elif wanted.dtype is not found.dtype:
            return None
        return replace(state, equations=(*state.equations, *zip(wanted.shape, found.shape, strict=True)))

    def _call(self, wanted: Node, found: Node, state: _State) -> Iterator[_State]:
        if "getitem" in (wanted.target, found.target):
            if wanted.target == found.target and wanted.args[1:] == found.args[1:]:
                yield from self._arguments([(wanted.args[0], found.args[0])], state)
            return
        if found.target.split(".")[-2:][0].endswith("_"):
            return  # what overwrites
        try:
            row = operator_of(self.graph, found)
            if row.targets != operator_of(self.pattern.graph, wanted).targets:
                return
            if self.graph.operators.get(found.target) != self.pattern.graph.operators.get(wanted.target):
                return
            mine, theirs = (row.signature.bind(*node.args, **node.kwargs) for node in (wanted, found))
        except (TantamountError, TypeError):
            return
        mine.apply_defaults()
        theirs.apply_defaults()
        pairs: list[tuple[Any, Any]] = []
        for name, value in mine.arguments.items():
            other = theirs.arguments[name]
            if wanted.target in _SHAPED and name in ("size", "shape"):
                continue  # that of the result, which is an equation already
            if name in _POSITIONS and wanted.target not in _NEW_AXES:
                rank = self._rank(found)
                value, other = _counted(value, rank), _counted(other, rank)
            pairs.append((value, other))
        yield from self._arguments(pairs, state)
        if row.facts.commutative and len(pairs) >= 2 and all(isinstance(x, Ref) for pair in pairs[:2] for x in pair):
            crossed = [(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1])]
            yield from self._arguments([*crossed, *pairs[2:]], state)

    def _rank(self, node: Node) -> int | None:
        first = next((a for a in node.args if isinstance(a, Ref)), None)
        result = None if first is None else self.types[first.name]
        return len(result.shape) if isinstance(result, Tensor) else None

    def _arguments(self, pairs: Sequence[tuple[Any, Any]], state: _State) -> Iterator[_State]:
        """The states in which all pairs of an argument of the pattern and one of the program are the same."""
        if not pairs:
            yield state
            return
        (mine, theirs), rest = pairs[0], pairs[1:]
        if isinstance(mine, Ref):
            if isinstance(theirs, Ref):
                for inner in self._node(mine.name, theirs.name, state):
                    yield from self._arguments(rest, inner)
        elif isinstance(mine, tuple):
            items = cast("tuple[Any, ...]", mine)
            if isinstance(theirs, tuple) and len(cast("tuple[Any, ...]", theirs)) == len(items):
                yield from self._arguments([*zip(items, cast("tuple[Any, ...]", theirs), strict=True), *rest], state)
        elif _says_nothing(mine) and _says_nothing(theirs):
            yield from self._arguments(rest, state)
        elif is_size(mine):
            if isinstance(theirs, int) and not isinstance(theirs, bool):
                yield from self._arguments(rest, replace(state, equations=(*state.equations, (mine, theirs))))
        elif type(mine) is type(theirs) and repr(mine) == repr(theirs):
            yield from self._arguments(rest, state)


def _says_nothing(value: object) -> bool:
    """True of devices and memory formats, given or not: they never change a value."""
    return value is None or isinstance(value, (Device, Setting))


def _counted(value: Any, rank: int | None) -> Any:
    """Dimensions counted from the first."""
    if isinstance(value, tuple):
        return tuple(_counted(item, rank) for item in cast("tuple[Any, ...]", value))
    return value + rank if type(value) is int and value < 0 and rank is not None else value


def _solved(equations: Sequence[tuple[Any, int]], domain: Domain) -> dict[str, int] | None:
    """The values of the symbols that satisfy all equations and lie in the domain; ``None`` if there are none, or more
    than one is left open."""
    values: dict[str, int] = {}
    pending = [(size, number) for size, number in equations if is_size(size)]
    if any(size != number for size, number in equations if not is_size(size)):
        return None
    while True:
        before = len(values)
        for size, number in pending:
            found = _symbol(size.polynomial, number, values)
            if found is not None:
                values.setdefault(*found)
        if len(values) == before:
            break
    if set(values) != {s.name for s in domain.symbols} or any(value < 1 for value in values.values()):
        return None
    if any(evaluate(size.polynomial, values) != number for size, number in pending) or not domain.contains(values):
        return None
    return values


def _symbol(polynomial: Any, number: int, values: Mapping[str, int]) -> tuple[str, int] | None:
    """The one symbol of a linear equation that is not known yet, and its value."""
    rest, name, factor = Fraction(number), "", Fraction(0)
    for powers, coefficient in polynomial:
        open_ = [(symbol, e) for symbol, e in powers if symbol not in values]
        known = Fraction(coefficient)
        for symbol, e in powers:
            if symbol in values:
                known *= Fraction(values[symbol]) ** e
        if not open_:
            rest -= known
        elif len(open_) == 1 and open_[0][1] == 1 and name in ("", open_[0][0]):
            name, factor = open_[0][0], factor + known
        else:
            return None
    if not name or not factor or (rest / factor).denominator != 1:
        return None
    return name, int(rest / factor)


def retyped(graph: Graph, dtype: tuple[DType, DType] | None) -> Graph:
    """The graph with the second element type in the place of the first."""
    if dtype is None:
        return graph
    own, other = dtype

    def node(old: Node) -> Node:
        if old.type is None or old.type.dtype is not own:
            return old
        return replace(old, type=TensorType(old.type.shape, other))

    return replace(graph, nodes=tuple(map(node, graph.nodes)))
