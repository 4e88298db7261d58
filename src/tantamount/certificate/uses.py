"""The uses that programs make of their inputs, found without executing them: node by node, which inputs a value depends
on, and how.

An abstract run over the primitives. A value is a set, written as the bits of one integer: the inputs that it depends
on, and what was done on the way. A value without bits is a constant. So no operator needs a rule here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tantamount.certificate.literals import Reading, stands_for
from tantamount.errors import DataDependent
from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, PerRank, Scalar, Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import Result, constant_type, run
from tantamount.ops.functions import FITTING, FUNCTIONS, ROUNDINGS

__all__ = ["DECIDED", "TRANSCENDENTAL", "Uses", "uses_of"]

DECIDED = 1  # by an order, a comparison, an integer, a boolean or a random mask: not one rational function of reals
TRANSCENDENTAL = 2  # an exponential, a root, or a function of which exact arithmetic knows little
_FIRST_INPUT = 2  # the bit of the first input
_FEW = 64  # recorded values that are boundaries


@dataclass(frozen=True)
class Uses:
    """Of one graph. ``bits`` of every node's value (results of several together); nodes that take powers or logarithms
    that may be undefined (``powers``), do this or call partial functions (``partial``), convert numbers to integers of
    8 and 16 bits (``fitting``), read by an index
    (``gathered``), read or write by one (``indexed``), or whose sizes data decide (``undecided``); ``divisors``: inputs
    that reach a divisor or the argument of a root or logarithm; ``literals`` that are read as other numbers;
    ``numbers`` that the graph writes down."""

    bits: Mapping[str, int]
    powers: frozenset[str]
    fitting: frozenset[str]
    partial: frozenset[str]
    gathered: frozenset[str]
    indexed: frozenset[str]
    undecided: frozenset[str]
    divisors: frozenset[str]
    literals: Mapping[Fraction, Reading]
    numbers: frozenset[Fraction]

    @property
    def decides(self) -> bool:
        """True if a value of the graph is decided by an order, an integer or a boolean."""
        return any(bits & DECIDED for bits in self.bits.values())


@dataclass
class _Notes:
    """Notes of what the primitives were asked for while one node was evaluated, and over the whole graph."""

    powers: bool = False
    fitting: bool = False
    partial: bool = False
    gathered: bool = False
    scattered: bool = False
    undecided: bool = False
    divisors: int = 0
    sent: int = 0
    literals: dict[Fraction, Reading] = field(default_factory=dict[Fraction, Reading])


class _Tracing(TypesOnly):
    """Types, and of every value where it comes from."""

    def __init__(self, groups: Mapping[str, int] | None, sent: int, alike: bool) -> None:
        super().__init__(groups)
        self.notes = _Notes(sent=sent)
        self.alike = alike

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> int:
        if kind is Kind.FLOAT:
            self._read(value.values if isinstance(value, PerRank) else [value])
        return 0

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> int:
        if kind is Kind.FLOAT and len(data) == 1:
            self._read(data)
        return 0

    def _read(self, values: Iterable[Number]) -> None:
        for value in values:
            if (literal := _finite(value)) is not None and (read := stands_for(literal)):
                self.notes.literals[literal] = read

    def iota(self, size: int) -> int:
        return 0

    def unknown(self, shape: Shape, dtype: DType, site: str) -> int:
        return DECIDED

    def mask(self, like: int, shape: Shape, p: Number, site: str) -> int:
        return like | DECIDED

    # -- layout
    def permute(self, x: int, order: tuple[int, ...]) -> int:
        return x

    def reshape(self, x: int, shape: Shape) -> int:
        return x

    def expand(self, x: int, shape: Shape) -> int:
        return x

    def slice(self, x: int, dim: int, start: int, stop: int, step: int) -> int:
        return x

    def flip(self, x: int, dim: int) -> int:
        return x

    def concat(self, xs: Sequence[int], dim: int) -> int:
        return _union(xs)

    # -- pointwise
    def convert(self, x: int, source: Kind, target: Kind) -> int:
        return x if source is target or target is not Kind.INT else _decided(x)

    def add(self, x: int, y: int) -> int:
        return x | y

    def mul(self, x: int, y: int) -> int:
        return x | y

    def power(self, x: int, exponent: Fraction) -> int:
        if exponent < 0 or exponent.denominator > 1:
            self.notes.powers = self.notes.partial = True
            self.notes.divisors |= x
        return x if exponent.denominator == 1 or not x else x | TRANSCENDENTAL

    def exp(self, x: int) -> int:
        return x and x | TRANSCENDENTAL

    def log(self, x: int) -> int:
        self.notes.powers = self.notes.partial = True
        self.notes.divisors |= x
        return x and x | TRANSCENDENTAL

    def function(self, name: str, xs: Sequence[int]) -> int:
        rounds = name in ROUNDINGS.values()
        if rounds or name in ("pow", "atan2", "erfinv", "floor_divide"):
            self.notes.partial = True
            self.notes.divisors |= _union(xs[1:])
        self.notes.fitting = self.notes.fitting or name in FITTING
        found = _union(xs)
        known = FUNCTIONS.get(name)
        sharp = rounds or known is None or known.integer or name == "abs"
        return found and found | (DECIDED if sharp else TRANSCENDENTAL)

    def less(self, x: int, y: int) -> int:
        return _decided(x | y)

    def equal(self, x: int, y: int) -> int:
        return _decided(x | y)

    def maximum(self, x: int, y: int) -> int:
        return _decided(x | y)

    def where(self, condition: int, x: int, y: int) -> int:
        return _decided(condition) | x | y

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[int, tuple[int, ...]]], result: tuple[int, ...]) -> int:
        return _union(x for x, _ in operands)

    def maximum_over(self, x: int, dims: tuple[int, ...]) -> int:
        return _decided(x)

    def gather(self, x: int, indices: Sequence[int | None]) -> int:
        self.notes.gathered = True
        return x | _decided(_all(indices))

    def scatter(self, x: int, indices: Sequence[int | None], source: int, accumulate: bool) -> int:
        self.notes.scattered = True
        return x | source | _decided(_all(indices))

    def rows(
        self, name: str, xs: Sequence[int], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[int, ...]:
        self.notes.partial = True
        return (_decided(_union(xs)),) * len(results)

    # -- what data decide
    def lost(self, shape: Shape | None, problem: DataDependent) -> int:
        self.notes.undecided = True
        return DECIDED

    # -- process groups: ranks of one graph send the same; else, what any rank sends may come from any other
    def enter_group(self, x: int, shape: Shape, group: str) -> tuple[Interpretation, int]:
        self.notes.sent |= x
        return self, x if self.alike else self.notes.sent

    def leave_group(self, y: int, shape: Shape, group: str) -> int:
        return y


def _union(xs: Iterable[int]) -> int:
    out = 0
    for x in xs:
        out |= x
    return out


def _decided(x: int) -> int:
    return x and x | DECIDED


def _all(indices: Sequence[int | None]) -> int:
    return _union(index for index in indices if index is not None)


def _finite(value: Any) -> Fraction | None:
    if isinstance(value, float):
        return Fraction(repr(value)) if np.isfinite(value) else None
    return Fraction(value)


# ---------------------------------------------------------------------------------------------- whole graphs
def uses_of(graphs: Sequence[Graph], groups: Mapping[str, int] | None) -> list[Uses]:
    """The uses of the graphs of one program: what one of them sends to a process group may reach every other.

    ``groups``: the size of every process group; ``None``: each is this rank alone."""
    distinct = {id(graph): graph for graph in graphs}
    sent = 0
    while True:
        found = {key: _one(graph, groups, sent, len(distinct) == 1) for key, graph in distinct.items()}
        after = sent | _union(now for _, now in found.values())
        # inputs are numbered graph by graph: of what others send it counts only how it was made
        if after & 3 == sent & 3:
            return [found[id(graph)][0] for graph in graphs]
        sent = after & 3


def _one(graph: Graph, groups: Mapping[str, int] | None, sent: int, alike: bool) -> tuple[Uses, int]:
    tracing = _Tracing(groups, sent, alike)
    bits: dict[str, int] = {}
    marked: dict[str, set[str]] = {
        key: set() for key in ("powers", "fitting", "partial", "gathered", "indexed", "undecided")
    }

    def each(node: Node, result: Result) -> Result:
        notes = tracing.notes
        for key, seen in (
            ("powers", notes.powers),
            ("fitting", notes.fitting),
            ("partial", notes.partial),
            ("gathered", notes.gathered),
            ("indexed", notes.gathered or notes.scattered),
            ("undecided", notes.undecided or _unsized(result)),
        ):
            if seen:
                marked[key].add(node.name)
        notes.powers = notes.fitting = notes.partial = notes.gathered = notes.scattered = notes.undecided = False
        if node.op == "call" and node.target != "getitem" and operator_of(graph, node).peer_parameter is not None:
            for part in _parts(result):  # a message: from what any rank sends
                notes.sent |= part.value or 0
            result = _with(result, notes.sent)
        bits[node.name] = _union(part.value or 0 for part in _parts(result)) if _parts(result) else DECIDED
        return result

    inputs: dict[str, Tensor] = {}
    names: list[str] = []
    for node in graph.inputs:
        if node.type is None:
            continue
        own = 1 << (_FIRST_INPUT + len(names))
        names.append(node.name)
        bits[node.name] = own | (0 if node.type.stored.dtype.kind is Kind.FLOAT else DECIDED)
        inputs[node.name] = Tensor(node.type.shape, node.type.dtype, bits[node.name])
    run(graph, tracing, inputs, constant=_constant, groups=groups, each=each)
    divisors = tracing.notes.divisors >> _FIRST_INPUT
    return Uses(
        bits,
        frozenset(marked["powers"]),
        frozenset(marked["fitting"]),
        frozenset(marked["partial"]),
        frozenset(marked["gathered"]),
        frozenset(marked["indexed"]),
        frozenset(marked["undecided"]),
        frozenset(name for k, name in enumerate(names) if divisors >> k & 1),
        tracing.notes.literals,
        frozenset(_numbers(graph)),
    ), tracing.notes.sent


def _parts(result: Result) -> list[Tensor]:
    found = result if isinstance(result, tuple) else (result,)
    return [part for part in found if isinstance(part, Tensor)]


def _unsized(result: Result) -> bool:
    return not _parts(result) and result is not None and not isinstance(result, tuple)


def _with(result: Result, bits: int) -> Result:
    if isinstance(result, tuple):
        return tuple(None if part is None else replace(part, value=bits) for part in result)
    return replace(result, value=bits) if isinstance(result, Tensor) else result


def _constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    if node.target in graph.constants:
        recorded = graph.constants[node.target]
        return builder.table(recorded.data, recorded.type.shape, recorded.type.dtype)
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, DECIDED)


def _numbers(graph: Graph) -> Iterable[Fraction]:
    """The numbers in a graph's arguments, and those of small recorded constants."""
    pending: list[Any] = []
    for node in graph.nodes:
        pending += [*node.args, *node.kwargs.values()]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(cast("tuple[Argument, ...]", item))
        elif isinstance(item, (bool, int, float)):
            number = _finite(item)
            if number is not None:
                yield number
    for constant in graph.constants.values():
        if len(values := set(constant.data[: 4 * _FEW])) <= _FEW:
            yield from (number for value in values if (number := _finite(value)) is not None)
