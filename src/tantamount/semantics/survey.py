"""The cost of executing a graph, and the integers that its inputs may hold, found without executing it.

An abstract run over the primitives: a value is a :class:`_Sketch` (its shape, and where its integers come from). So no
operator needs a rule here, and a new definition is covered at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

from tantamount.errors import DataDependent
from tantamount.ir.graph import Graph, Node
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, PerRank, Scalar, Tensor, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, check_types, constant_type, input_type, run_node
from tantamount.ops.functions import FUNCTIONS, POSITIONS_IN_A_ROW, ROW_FUNCTIONS, STAND_IN_FEATURES
from tantamount.ops.keys import Unkeyed, call_key

__all__ = ["Survey", "elements", "index_bounds", "survey"]

_FAR = 1 << 40
_NUMBERS = 64  # that are kept, the smallest ones
_DIGITS = 64  # binary ones, of a number that an index is shifted by


@dataclass(frozen=True, slots=True)
class Survey:
    """Costs in elements (8 bytes each when executed). ``kept``: all inputs and node results together, which is what
    an execution that keeps every value holds; ``largest``: the largest single tensor, intermediates of definitions
    among them; ``work``: element operations, with contractions counted as products. ``index_bounds``: for the integer
    inputs whose use was found, the number n such that values in ``range(n)`` are in range for at least one use;
    ``special``: for integer inputs, the numbers that they are compared with. ``numbers``: those that values are
    compared with or divided by; ``jumps``: something is compared, rounded or ordered. ``ordered``: integer inputs whose
    elements are compared with each other, as ends of groups are, with the greatest number of places that they divide.
    ``products``: those among ``work`` that are of contractions, which take less time than other operations.
    """

    kept: int
    largest: int
    work: int
    index_bounds: Mapping[str, int]
    special: Mapping[str, frozenset[int]]
    numbers: frozenset[Fraction] = frozenset()
    jumps: bool = False
    ordered: Mapping[str, int] = field(default_factory=dict[str, int])
    products: int = 0


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A shape; ``origins``: the inputs (with a shift) that the integers may be; ``number``: a known constant;
    ``iota``: the integers below it."""

    shape: Shape
    origins: frozenset[tuple[str, Fraction]] = frozenset()
    number: Fraction | None = None
    iota: int | None = None


def survey(graph: Graph, groups: Mapping[str, int] | None = None) -> Survey:
    """Survey one rank's graph. ``groups``: the size of every process group; ``None``: each is this rank alone.

    Raises :class:`UserError` as :func:`tantamount.ops.execute.run` does, and for an input without a recorded type.
    """
    sketching = _Sketching(groups or {})
    inputs: dict[str, Tensor] = {}
    for node in graph.inputs:
        type_ = input_type(graph, node)
        origins = (
            frozenset({(node.name, Fraction(0))}) if type_.dtype.kind is Kind.INT else frozenset[tuple[str, Fraction]]()
        )
        inputs[node.name] = Tensor(type_.shape, type_.dtype, _Sketch(type_.stored.shape, origins))
    environment = _run(graph, sketching, inputs, groups)
    kept = largest = 0
    for result in environment.values():
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, Tensor):
                kept += prod(tensor.shape)
                largest = max(largest, prod(tensor.shape))
    bounds = {**sketching.compared, **sketching.bounds}
    special = {name: frozenset(found) for name, found in sketching.special.items()}
    numbers = frozenset(sorted(sketching.numbers, key=lambda x: (abs(x), x))[:_NUMBERS])
    ordered = {name: sketching.reached[name] for name in sketching.ordered if sketching.reached.get(name)}
    largest = max(largest, sketching.largest)
    return Survey(kept, largest, sketching.work, bounds, special, numbers, sketching.jumps, ordered, sketching.products)


def _run(
    graph: Graph, sketching: _Sketching, inputs: Mapping[str, Tensor], groups: Mapping[str, int] | None
) -> Environment:
    """The sketches of all nodes. Of a call of operands like those of an earlier one only the work is counted again:
    whatever else it says is known."""
    known: dict[Hashable, tuple[Result, int, int]] = {}
    environment: Environment = dict(inputs)

    def operand(name: str) -> Hashable:
        found = environment[name]
        if isinstance(found, Unsized):
            raise Unkeyed
        return found

    for node in graph.nodes:
        if node.op == "input":
            continue
        key: Hashable = None
        if node.op == "call" and node.target != "getitem":
            with suppress(Unkeyed):
                key = call_key(graph, node, operand)
        work, products = sketching.work, sketching.products
        if key is not None and key in known:
            result, more, of_products = known[key]
            sketching.work, sketching.products = work + more, products + of_products
        else:
            result = run_node(graph, node, Builder(sketching, node.name), environment, _constant, groups)
            if key is not None:
                known[key] = result, sketching.work - work, sketching.products - products
        check_types(graph, node, result)
        environment[node.name] = result
    return environment


def elements(graph: Graph, groups: Mapping[str, int] | None = None) -> tuple[int, int]:
    """``(sum, max)`` of the tensor sizes, in elements, that executing the graph takes: see :class:`Survey`."""
    found = survey(graph, groups)
    return found.kept, found.largest


def index_bounds(graph: Graph, groups: Mapping[str, int] | None = None) -> Mapping[str, int]:
    """For integer inputs that reach a gather, a scatter or a comparison with ``0, 1, ..., n - 1`` through layout,
    casts, selections and shifts by constants: how many values from 0 on are sensible."""
    return survey(graph, groups).index_bounds


def _constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    found = constant_type(graph, node)
    recorded = graph.constants.get(node.target)
    number: Fraction | None = None
    if recorded is not None and len(recorded.data) == 1 and isinstance(recorded.data[0], int):
        number = Fraction(recorded.data[0])
    return Tensor(found.shape, found.dtype, _Sketch(found.stored.shape, number=number))


def _short(number: Fraction) -> Fraction | None:
    """A number that an index may be shifted by; ``None`` for one of more digits, whose powers would have thousands."""
    return number if max(number.numerator.bit_length(), number.denominator.bit_length()) <= _DIGITS else None


class _Sketching(Interpretation):
    def __init__(self, groups: Mapping[str, int]) -> None:
        self.groups = groups
        self.largest = 0
        self.work = 0
        self.products = 0
        self.bounds: dict[str, int] = {}
        self.compared: dict[str, int] = {}
        self.numbers: set[Fraction] = set()
        self.special: dict[str, set[int]] = {}
        self.ordered: set[str] = set()
        self.reached: dict[str, int] = {}
        self.jumps = False

    def _meet(self, *xs: _Sketch) -> None:
        """Note numbers that values are compared with."""
        self.jumps = True
        known = [x.number for x in xs if x.number is not None and abs(x.number) < _FAR]
        self.numbers.update(known)
        for name, shift in frozenset[tuple[str, Fraction]]().union(*(x.origins for x in xs)):
            self.special.setdefault(name, set()).update(int(n - shift) for n in known)

    def _new(self, shape: Shape, *like: _Sketch, work: int = 1) -> _Sketch:
        size = prod(shape)
        self.largest = max(self.largest, size)
        self.work += size * work
        if not like:
            return _Sketch(shape)
        if len(like) == 1:
            return replace(like[0], shape=shape)
        return _Sketch(shape, frozenset[tuple[str, Fraction]]().union(*(item.origins for item in like)))

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> _Sketch:
        known = not isinstance(value, (PerRank, float))
        return _Sketch((), number=Fraction(value) if known else None)  # pyright: ignore[reportArgumentType]

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> _Sketch:
        return self._new(shape)

    def iota(self, size: int) -> _Sketch:
        return replace(self._new((size,)), iota=size)

    def unknown(self, shape: Shape, dtype: DType, site: str) -> _Sketch:
        return self._new(shape)

    def mask(self, like: _Sketch, shape: Shape, p: Number, site: str) -> _Sketch:
        return self._new(shape)

    # -- layout
    def permute(self, x: _Sketch, order: tuple[int, ...]) -> _Sketch:
        return self._new(tuple(x.shape[k] for k in order), x)

    def reshape(self, x: _Sketch, shape: Shape) -> _Sketch:
        return self._new(shape, x)

    def expand(self, x: _Sketch, shape: Shape) -> _Sketch:
        return self._new(shape, x)

    def slice(self, x: _Sketch, dim: int, start: int, stop: int, step: int) -> _Sketch:
        return self._new((*x.shape[:dim], -(-(stop - start) // step), *x.shape[dim + 1 :]), x)

    def flip(self, x: _Sketch, dim: int) -> _Sketch:
        return self._new(x.shape, x)

    def concat(self, xs: Sequence[_Sketch], dim: int) -> _Sketch:
        first = xs[0].shape
        return self._new((*first[:dim], sum(x.shape[dim] for x in xs), *first[dim + 1 :]), *xs)

    # -- pointwise
    def convert(self, x: _Sketch, source: Kind, target: Kind) -> _Sketch:
        return self._new(x.shape, x)

    def add(self, x: _Sketch, y: _Sketch) -> _Sketch:
        found = self._new(x.shape)
        if x.number is not None and y.number is not None:
            return replace(found, number=x.number + y.number)
        for value, other in ((x, y), (y, x)):
            if other.number is not None:
                return replace(found, origins=frozenset((name, shift + other.number) for name, shift in value.origins))
        return found

    def mul(self, x: _Sketch, y: _Sketch) -> _Sketch:
        found = self._new(x.shape)
        if x.number is not None and y.number is not None:
            return replace(found, number=_short(x.number * y.number))
        if (x.number is None) == (y.number is None):  # an index times a mask
            return replace(found, origins=x.origins | y.origins)
        return found

    def power(self, x: _Sketch, exponent: Fraction) -> _Sketch:
        return self._new(x.shape)

    def exp(self, x: _Sketch) -> _Sketch:
        return self._new(x.shape)

    def log(self, x: _Sketch) -> _Sketch:
        return self._new(x.shape)

    def function(self, name: str, xs: Sequence[_Sketch]) -> _Sketch:
        if FUNCTIONS[name].integer:
            self._meet(*xs)
        found = self._new(xs[0].shape)
        return replace(xs[0], shape=found.shape) if name == "trunc" else found

    def less(self, x: _Sketch, y: _Sketch) -> _Sketch:
        self._meet(x, y)
        ours, theirs = ({name for name, _ in side.origins} for side in (x, y))
        self.ordered |= ours & theirs
        for names, iota in ((ours, y.iota), (theirs, x.iota)):
            for name in names:
                self.reached[name] = max(self.reached.get(name, 0), iota or 0)
        return self._new(x.shape)

    def equal(self, x: _Sketch, y: _Sketch) -> _Sketch:
        self._meet(x, y)
        for value, other in ((x, y), (y, x)):
            if other.iota is not None:
                for name, shift in value.origins:
                    self.compared[name] = max(self.compared.get(name, 0), int(other.iota - shift))
        return self._new(x.shape)

    def maximum(self, x: _Sketch, y: _Sketch) -> _Sketch:
        self._meet(x, y)
        return self._new(x.shape, x, y)

    def where(self, condition: _Sketch, x: _Sketch, y: _Sketch) -> _Sketch:
        return self._new(x.shape, x, y)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[_Sketch, tuple[int, ...]]], result: tuple[int, ...]) -> _Sketch:
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        self.work += prod(sizes.values())
        self.products += prod(sizes.values())
        return self._new(tuple(sizes[label] for label in result))

    def maximum_over(self, x: _Sketch, dims: tuple[int, ...]) -> _Sketch:
        return self._new(tuple(size for k, size in enumerate(x.shape) if k not in dims))

    def _index(self, x: _Sketch, indices: Sequence[_Sketch | None]) -> Shape:
        for size, index in zip(x.shape, indices, strict=True):
            if index is None:
                continue
            fits: dict[str, int] = {}
            for name, shift in index.origins:  # shifts differ where negative indices are wrapped: the widest counts
                fits[name] = max(fits.get(name, 0), int(size - shift))
            for name, bound in fits.items():
                if bound > 0:
                    self.bounds[name] = min(self.bounds.get(name, bound), bound)
        shape = next(index.shape for index in indices if index is not None)
        return shape + tuple(size for size, index in zip(x.shape, indices, strict=True) if index is None)

    def gather(self, x: _Sketch, indices: Sequence[_Sketch | None]) -> _Sketch:
        return self._new(self._index(x, indices))

    def scatter(self, x: _Sketch, indices: Sequence[_Sketch | None], source: _Sketch, accumulate: bool) -> _Sketch:
        self._index(x, indices)
        return self._new(x.shape)

    def rows(
        self, name: str, xs: Sequence[_Sketch], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[_Sketch, ...]:
        self.jumps = self.jumps or name in POSITIONS_IN_A_ROW
        if name not in ROW_FUNCTIONS:  # a stand-in has some weights per element of a row
            for x in xs:
                self._new((x.shape[-1], STAND_IN_FEATURES), work=prod(x.shape[:-1]))
        return tuple(
            self._new((*xs[0].shape[:-1], size), work=max(1, xs[0].shape[-1].bit_length())) for size in results
        )

    def lost(self, shape: Shape | None, problem: DataDependent) -> _Sketch | None:
        """Values that data decide are not counted."""
        return None if shape is None else self._new(shape)

    # -- process groups
    def enter_group(self, x: _Sketch, shape: Shape, group: str) -> tuple[Interpretation, Any]:
        return self, self._new((self.groups.get(group, 1), *shape), x)

    def leave_group(self, y: _Sketch, shape: Shape, group: str) -> Any:
        return self._new(shape, y)
