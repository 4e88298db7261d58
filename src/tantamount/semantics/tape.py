"""The primitives that executing programs comes to: noted at one execution, done again on other numbers.

What an operator does with its operands (its row in the table, its attributes, shapes, broadcasting, promotion), and
which rank waits for which, is found out anew at every execution, and is the same at every one: definitions learn of
types, never of numbers, which only an interpretation knows. It takes most of the time of small programs. So one
execution notes which primitives were asked for, of which rank, on which values; later ones do just these, in the
same order. Each is done by the interpretation of that execution: its rounding errors, its choices among equal
elements, its flags are those that it would have operator by operator.

Two primitives tell a definition something of numbers, how many elements are not zero and a size that was computed
(``nonzero``, ``number``). What asks for them is executed operator by operator every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ops.algebra import Interpretation, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import ConstantOf, Environment, Result

__all__ = ["Each", "Tape", "Way"]

Each = Callable[[int, Node, Result], Result]
Way = Callable[[Sequence[Interpretation], Sequence[Mapping[str, Tensor]], ConstantOf, "Each | None"], list[Environment]]
"""How programs are executed: by interpretations, on inputs, with constants, telling of each result."""

_UNMOVED = frozenset({"permute", "reshape", "expand", "slice", "flip", "concat", "convert"})
# What they make of nothing but constants is another one, and no rounding error, choice or rank has a part in it.
_FOLDED = _UNMOVED - {"convert"} | {"constant", "table", "iota"}
_SMALL = 1 << 16  # elements of a constant that is kept


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of a value among those of an execution."""

    number: int


@dataclass(slots=True)
class _Held:
    """A value while primitives are noted; ``fixed``: it is the same at every execution."""

    value: Any
    slot: _Slot
    fixed: bool = False

    @property
    def shape(self) -> Any:
        """The shape, which data decide of what ``nonzero`` gives."""
        return self.value.shape


@dataclass(slots=True)
class _Step:
    """One primitive: ``name`` of the interpretation ``on`` (its slot), on ``arguments`` that may have slots in them; the
    slots of what it gives (``None``: nothing that is not known); ``after``: the nodes that are finished then, by the
    numbers of their interpretations; ``left``: slots that nothing reads any more."""

    on: int
    name: str
    arguments: Callable[[list[Any]], Sequence[Any]]
    out: Any
    after: tuple[tuple[int, Node], ...] = ()
    left: tuple[int, ...] = ()


class Tape:
    """The primitives of programs, noted at their first execution (:meth:`run`). Made for one set of graphs, executed by
    interpretations of one kind; their inputs always have the same types."""

    def __init__(self) -> None:
        self.refused: Unsupported | None = None  # these interpretations cannot execute these programs
        self._steps: list[_Step] | None = None
        self._plain = False  # data decide what is executed
        self._first: list[Any] = []  # values at the beginning: of what is the same at every execution
        self._inputs: list[tuple[int, str, int]] = []  # interpretation, name, slot
        self._constants: list[tuple[int, Graph, Node, int]] = []  # those that are not recorded
        self._results: list[Environment] = []

    @property
    def noted(self) -> bool:
        """True if primitives are known that later executions can do."""
        return self._steps is not None

    def run(
        self,
        on: Sequence[Interpretation],
        inputs: Sequence[Mapping[str, Tensor]],
        constant: ConstantOf,
        each: Each | None,
        way: Way,
    ) -> list[Environment]:
        """The values that executing programs in this ``way`` gives. ``each`` is told of results that are finished,
        with no value but at the first execution, and may not replace them."""
        if self.refused is not None:
            raise self.refused
        if self._plain:
            return way(on, inputs, constant, each)
        if self._steps is not None:
            return self._again(on, inputs, constant, each)
        taking = _Taking(on)
        given = [
            {name: taking.input(k, name, tensor) for name, tensor in some.items()} for k, some in enumerate(inputs)
        ]
        try:
            found = way(taking.interpretations, given, taking.constant_of(constant), taking.each(each))
        except Unsupported as problem:
            self.refused = problem
            raise
        self._plain = taking.plain
        if not self._plain:
            self._take(taking, found)
        return [_each_value(one, _value_of) for one in found]

    def _take(self, taking: _Taking, found: Sequence[Environment]) -> None:
        self._results = [_each_value(one, lambda held: held.slot) for one in found]
        self._inputs, self._constants = taking.inputs, taking.constants
        self._first = taking.first
        self._steps = taking.steps
        last: dict[int, _Step] = {}
        for step, read in zip(taking.steps, taking.read, strict=True):
            last.update(dict.fromkeys((*read, *(step.out if isinstance(step.out, tuple) else () if step.out is None else (step.out,))), step))
        kept = taking.kept
        for one in found:
            _each_value(one, lambda held: kept.add(held.slot.number))
        left: dict[int, list[int]] = {}
        for number, step in last.items():
            if number not in kept:
                left.setdefault(id(step), []).append(number)
        for step in taking.steps:
            step.left = tuple(left.get(id(step), ()))

    def _again(
        self, on: Sequence[Interpretation], inputs: Sequence[Mapping[str, Tensor]], constant: ConstantOf,
        each: Each | None,
    ) -> list[Environment]:  # fmt: skip
        values = list(self._first)
        values[: len(on)] = on
        for k, name, number in self._inputs:
            values[number] = inputs[k][name].value
        for k, graph, node, number in self._constants:
            values[number] = constant(graph, node, Builder(on[k], node.name)).value
        for step in self._steps or ():
            found = getattr(values[step.on], step.name)(*step.arguments(values))
            out = step.out
            if out.__class__ is int:
                values[out] = found
            elif out is not None:
                for number, one in zip(out, found, strict=True):
                    values[number] = one
            if each is not None:
                for k, node in step.after:
                    each(k, node, None)
            for number in step.left:
                values[number] = None

        return [_each_value(one, lambda slot: values[slot.number]) for one in self._results]


class _Taking:
    """Primitives while they are noted."""

    def __init__(self, on: Sequence[Interpretation]) -> None:
        self.first: list[Any] = []
        self.kept: set[int] = set()  # slots of what is not forgotten after its last use
        self.steps: list[_Step] = []
        self.read: list[set[int]] = []  # slots, by step
        self.inputs: list[tuple[int, str, int]] = []
        self.constants: list[tuple[int, Graph, Node, int]] = []
        self.plain = False
        self.interpretations = [_Noting(self, one, self.slot().number) for one in on]

    def slot(self, value: Any = None) -> _Slot:
        """A new place."""
        self.first.append(value)
        return _Slot(len(self.first) - 1)

    def held(self, value: Any) -> _Held:
        """A new value."""
        return _Held(value, self.slot())

    def same(self, value: Any) -> _Held:
        """A value that is the same at every execution."""
        found = _Held(value, self.slot(value), True)
        self.kept.add(found.slot.number)
        return found

    def input(self, k: int, name: str, tensor: Tensor) -> Tensor:
        held = self.held(tensor.value)
        self.inputs.append((k, name, held.slot.number))
        return replace(tensor, value=held)

    def constant_of(self, constant: ConstantOf) -> ConstantOf:
        def noted(graph: Graph, node: Node, builder: Builder) -> Tensor:
            on = cast("_Noting", builder.interpretation)
            found = constant(graph, node, replace(builder, interpretation=on.inner))
            if node.target in graph.constants:
                return replace(found, value=self.same(found.value))
            held = self.held(found.value)
            self.constants.append((on.at, graph, node, held.slot.number))
            return replace(found, value=held)

        return noted

    def each(self, each: Each | None) -> Each:
        def noted(k: int, node: Node, result: Result) -> Result:
            if each is not None:
                each(k, node, result)
            if self.steps:
                self.steps[-1].after += ((k, node),)
            return result

        return noted

    def step(self, on: _Noting, name: str, arguments: tuple[Any, ...]) -> Any:
        """Do a primitive, and note it."""
        read: list[_Held] = []
        given = tuple(_unheld(one, read) for one in arguments)
        found = getattr(on.inner, name)(*given)
        if name in ("nonzero", "number"):
            self.plain = True
            return self.held(found) if name == "nonzero" else found
        if name in _UNMOVED or name in _FOLDED:
            same = next((one for one in read if one.value is found), None)
            if same is not None:
                return same
            if name in _FOLDED and all(one.fixed for one in read) and found.size <= _SMALL:
                return self.same(found)
        out, result = self._noted(name, found, read)
        self.steps.append(_Step(on.at, name, _arguments(arguments), out))
        self.read.append({one.slot.number for one in read})
        return result

    def _noted(self, name: str, found: Any, read: Sequence[_Held]) -> tuple[Any, Any]:
        """The slots of what a primitive gives, and the same as values that are noted."""
        if name == "enter_group":
            inner, value = found
            on, held = _Noting(self, inner, self.slot().number), self.held(value)
            self.kept.add(on.at)
            return (on.at, held.slot.number), (on, held)
        if name == "rows":
            several = tuple(map(self.held, found))
            return tuple(one.slot.number for one in several), several
        if found is None or isinstance(found, bool):
            return None, found
        same = next((one for one in read if one.value is found), None)
        if same is not None:
            return None, same
        held = self.held(found)
        return held.slot.number, held


def _noting(name: str) -> Callable[..., Any]:
    def method(self: _Noting, *arguments: Any) -> Any:
        return self.taking.step(self, name, arguments)

    return method


class _Noting(Interpretation):
    """An interpretation of which all that is asked is noted."""

    def __init__(self, taking: _Taking, inner: Interpretation, at: int) -> None:
        self.taking, self.inner, self.at = taking, inner, at

    constant, table, iota = map(_noting, ("constant", "table", "iota"))
    unknown, uninitialised, mask, draw = map(_noting, ("unknown", "uninitialised", "mask", "draw"))
    permute, reshape, expand, slice, flip, concat = map(
        _noting, ("permute", "reshape", "expand", "slice", "flip", "concat")
    )
    convert, wrapped, add, mul, power, exp, log = map(
        _noting, ("convert", "wrapped", "add", "mul", "power", "exp", "log")
    )
    function, truncated_quotient, less, equal, maximum, where = map(
        _noting, ("function", "truncated_quotient", "less", "equal", "maximum", "where")
    )
    contract, contract_chosen, contract_nonzero = map(_noting, ("contract", "contract_chosen", "contract_nonzero"))
    doubted, from_start, doubted_at_zero = map(_noting, ("doubted", "from_start", "doubted_at_zero"))
    maximum_over, gather, scatter, rows = map(_noting, ("maximum_over", "gather", "scatter", "rows"))
    nonzero, number, lost = map(_noting, ("nonzero", "number", "lost"))
    enter_group, leave_group = map(_noting, ("enter_group", "leave_group"))


def _unheld(argument: Any, read: list[_Held]) -> Any:
    """An argument with values in the places of what holds them, which are listed."""
    kind = argument.__class__
    if kind is _Held:
        read.append(argument)
        return argument.value
    if kind is tuple or kind is list:
        return kind([_unheld(one, read) for one in argument])
    return argument


def _arguments(arguments: tuple[Any, ...]) -> Callable[[list[Any]], Sequence[Any]]:
    """A function that gives the arguments of a primitive for the values of an execution."""
    places = [one.slot.number if one.__class__ is _Held else None for one in arguments]
    rest = arguments[sum(place is not None for place in places) :]
    leading = [place for place in places if place is not None]
    if not any(map(_holds, rest)):
        if len(leading) == 1:
            (a,) = leading
            return lambda values: (values[a], *rest)
        if len(leading) == 2:
            a, b = leading
            return lambda values: (values[a], values[b], *rest)
    template = tuple(map(_template, arguments))
    return lambda values: [_filled(one, values) for one in template]


def _holds(argument: Any) -> bool:
    kind = argument.__class__
    return kind is _Held or (kind in (tuple, list) and any(map(_holds, argument)))


def _template(argument: Any) -> Any:
    kind = argument.__class__
    if kind is _Held:
        return argument.slot
    if kind in (tuple, list) and _holds(argument):
        return [_template(one) for one in argument]
    return argument


def _filled(argument: Any, values: list[Any]) -> Any:
    kind = argument.__class__
    if kind is _Slot:
        return values[argument.number]
    return [_filled(one, values) for one in argument] if kind is list else argument


def _value_of(held: _Held) -> Any:
    return held.value


def _each_value(environment: Mapping[str, Result], change: Callable[[Any], Any]) -> Environment:
    """The results of nodes with other values."""

    def one(x: Any) -> Any:
        if x.__class__ is not Tensor:
            return x
        return Tensor(x.shape, x.dtype, change(x.value), x.weak, None if x.like is None else change(x.like))

    return {
        name: tuple(map(one, result)) if isinstance(result, tuple) else one(result)
        for name, result in environment.items()
    }
