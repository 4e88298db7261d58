"""The primitives that executing programs comes to: noted at one execution, done again on other numbers.

What an operator does with its operands (its row in the table, its attributes, shapes, broadcasting, promotion), and
which rank waits for which, is found out anew at every execution, and is the same at every one: definitions learn of
types, never of numbers, which only an interpretation knows. It takes most of the time of small programs. So one
execution notes which primitives were asked for, of which interpretation, on which values; later ones do just these, in
the same order. Each is done by the interpretation of that execution: its rounding errors, its choices among equal
elements, its flags are those that it would have operator by operator.

Two primitives tell a definition something of numbers, how many elements are not zero and a size that was computed
(``nonzero``, ``number``). What asks for them is executed operator by operator every time, as are programs of very many
primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node, references
from tantamount.ops.algebra import Interpretation, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import ConstantOf, Environment, Result

__all__ = ["Each", "Tape", "Way"]

Each = Callable[[int, Node, Result], Result]
Way = Callable[[Sequence[Interpretation], Sequence[Mapping[str, Tensor]], ConstantOf, "Each | None"], list[Environment]]
"""How programs are executed: by interpretations, on inputs, with constants, telling of each result."""

_Values = list[Any]  # of one execution, by slot: arrays, and interpretations
_Step = tuple[int, str, Callable[[_Values], Sequence[Any]], Any]
"""One primitive: the slot of the interpretation, the primitive's name, its arguments, and the slot of what it gives:
several, of several things; ``None`` where that is known already."""

_TELLING = frozenset({"nonzero", "number"})
# What these make of constants is a constant: no rounding error, and no choice, has a part in it.
_FOLDED = frozenset({"constant", "table", "iota", "permute", "reshape", "expand", "slice", "flip", "concat"})
_MOVING = _FOLDED | {"convert"}  # may give their operand as it is
_SMALL = 1 << 16  # elements of a constant that is kept
_MOST = 1 << 17  # steps that are kept: some fifty megabytes


@dataclass(slots=True)
class _Held:
    """A value while primitives are noted; ``fixed``: it is the same at every execution."""

    value: Any
    slot: int
    fixed: bool = False

    @property
    def shape(self) -> Any:
        """The shape, which data decide of what ``nonzero`` gives."""
        return self.value.shape


@dataclass(slots=True)
class _Span:
    """The steps after which some nodes are ``finished``, by the numbers of their interpretations: one node, or all
    members' of a collective. ``read`` are the slots that they read, ``left`` those that nothing reads afterwards."""

    steps: list[_Step]
    read: set[int]
    finished: list[tuple[int, Node]]
    left: Sequence[int] = ()

    @property
    def made(self) -> set[int]:
        """The slots of what the steps give."""
        return {slot for *_, out in self.steps for slot in _slots(out)}


def _slots(out: Any) -> Sequence[int]:
    return (out,) if isinstance(out, int) else out or ()


class Tape:
    """The primitives of programs, noted at their first execution (:meth:`run`). Made for one set of graphs, executed by
    interpretations of one kind; their inputs always have the same types."""

    def __init__(self) -> None:
        self.refused = ""  # why these interpretations cannot execute these programs, whatever the numbers are
        self.noted = False  # the primitives are known
        self._plain = False  # data decide what is executed, or it is too much to be kept
        self._first: _Values = []  # at the beginning: of what is the same at every execution
        self._fixed: set[int] = set()
        self._inputs: list[tuple[int, str, int]] = []  # interpretation, name, slot
        self._constants: list[tuple[int, Graph, Node, int]] = []  # those that are not recorded
        self._spans: list[_Span] = []
        self._span_of: dict[tuple[int, str], int] = {}  # the number of the span that finishes a node
        self._results: list[Environment] = []  # with slots for values

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
        if self.refused:
            raise Unsupported(self.refused)
        if self._plain:
            return way(on, inputs, constant, each)
        if self.noted:
            return self._again(on, inputs, constant, each)
        taking = _Taking(on)
        given = [
            {name: taking.input(k, name, tensor) for name, tensor in some.items()} for k, some in enumerate(inputs)
        ]
        try:
            found = way(taking.interpretations, given, taking.constant_of(constant), taking.each(each))
        except Unsupported as problem:
            self.refused = "" if taking.plain else problem.reason
            raise
        self._plain = taking.plain
        if not self._plain:
            self._take(taking, found)
        return [_each_value(one, lambda held: held.value) for one in found]

    def partly(
        self,
        on: Sequence[Interpretation],
        known: Sequence[Mapping[str, Result]],
        wanted: Sequence[Collection[str]],
        widened: Callable[[Any], Any],
        instead: Callable[[int, str, Result], Result],
        given: Sequence[Collection[str]],
    ) -> list[Environment]:
        """The values of ``wanted`` nodes, of those that are ``given``, and of all that they read, by interpretation.
        What is not wanted is what is ``known`` of an execution, ``widened`` to what these interpretations compute with.
        ``instead`` gives what stands in the place of a result, or the result. Raises :class:`Unsupported` where two
        names of one value have come to stand for two, and for nodes of which nothing was noted, or that read more than
        their operands."""
        values = list(self._first)
        values[: len(on)] = on
        found: list[Environment] = [{} for _ in on]
        other: set[tuple[int, str]] = set()  # what has another value than in that execution

        def value(k: int, name: str) -> Result:
            if name not in found[k]:
                wide = _each_value({name: known[k][name]}, widened)[name]
                found[k][name] = instead(k, name, wide)
                if found[k][name] is not wide:
                    other.add((k, name))
            return found[k][name]

        places = [(k, name) for k, names in enumerate(wanted) for name in names]
        if any(place not in self._span_of for place in places):
            raise Unsupported("a node that was not finished by primitives of its own")
        chosen = {self._span_of[place] for place in places}
        for span in [self._spans[number] for number in sorted(chosen)]:
            held: dict[int, tuple[Any, bool]] = {}
            for k, name in [(k, name) for k, node in span.finished for name in references(node)]:
                now = _values_of(value(k, name))
                for slot, one in zip(_values_of(self._results[k][name]), now, strict=True):
                    before, apart = held.setdefault(slot, (one, (k, name) in other))
                    if before is not one and (apart or (k, name) in other):
                        raise Unsupported("one value with two names")
                    values[slot] = one
            results = [slot for k, node in span.finished for slot in _values_of(self._results[k][node.name])]
            for slot in self._fixed.intersection([*span.read, *results]):
                values[slot] = widened(self._first[slot])
            if any(values[slot] is None for slot in span.read.union(results).difference(self._fixed, span.made)):
                raise Unsupported("a value that is no operand's")  # but that of a message, or from within another node
            _do(span.steps, values)
            for k, node in span.finished:
                result = _each_value({node.name: self._results[k][node.name]}, values.__getitem__)[node.name]
                found[k][node.name] = instead(k, node.name, result)
                other.add((k, node.name))
        for k, names in enumerate(given):
            for name in names:
                value(k, name)
        return found

    def _take(self, taking: _Taking, found: Sequence[Environment]) -> None:
        """Keep what was noted."""
        kept = taking.fixed | taking.inner

        def slot_of(held: _Held) -> int:
            kept.add(held.slot)
            return held.slot

        self._results = [_each_value(one, slot_of) for one in found]
        self._inputs, self._constants, self._first = taking.inputs, taking.constants, taking.first
        self._fixed, self._spans, self.noted = taking.fixed, taking.spans, True
        self._span_of = {(k, node.name): j for j, span in enumerate(self._spans) for k, node in span.finished}
        last: dict[int, int] = {}
        for k, span in enumerate(self._spans):
            last.update(dict.fromkeys(span.read, k))
            last.update(dict.fromkeys(span.made, k))
        left: dict[int, list[int]] = {}
        for slot, k in last.items():
            if slot not in kept:
                left.setdefault(k, []).append(slot)
        for k, some in left.items():
            self._spans[k].left = some

    def _again(
        self, on: Sequence[Interpretation], inputs: Sequence[Mapping[str, Tensor]], constant: ConstantOf,
        each: Each | None,
    ) -> list[Environment]:  # fmt: skip
        values = list(self._first)
        values[: len(on)] = on
        for k, name, slot in self._inputs:
            values[slot] = inputs[k][name].value
        for k, graph, node, slot in self._constants:
            values[slot] = constant(graph, node, Builder(on[k], node.name)).value
        for span in self._spans:
            _do(span.steps, values)
            if each is not None:
                for k, node in span.finished:
                    each(k, node, None)
            for slot in span.left:
                values[slot] = None
        return [_each_value(one, values.__getitem__) for one in self._results]


def _do(steps: Sequence[_Step], values: _Values) -> None:
    """Do primitives."""
    for on, name, arguments, out in steps:
        found = getattr(values[on], name)(*arguments(values))
        if out.__class__ is int:
            values[out] = found
        elif out is not None:
            for slot, one in zip(out, found, strict=True):
                values[slot] = one


# ---------------------------------------------------------------------------------------------- while they are noted
class _Taking:
    """Primitives while they are noted."""

    def __init__(self, on: Sequence[Interpretation]) -> None:
        self.first: _Values = [None for _ in on]
        self.fixed: set[int] = set()
        self.inner: set[int] = set()  # slots of interpretations inside of process groups
        self.inputs: list[tuple[int, str, int]] = []
        self.constants: list[tuple[int, Graph, Node, int]] = []
        self.plain = False
        self.spans: list[_Span] = []
        self.count = 0  # of the steps in them
        self.steps: list[_Step] = []  # those since a node was finished last
        self.read: set[int] = set()
        self.interpretations = [_Noting(self, one, k) for k, one in enumerate(on)]

    def held(self, value: Any) -> _Held:
        """A new value."""
        self.first.append(None)
        return _Held(value, len(self.first) - 1)

    def same(self, value: Any) -> _Held:
        """A value that is the same at every execution."""
        self.first.append(value)
        slot = len(self.first) - 1
        self.fixed.add(slot)
        return _Held(value, slot, True)

    def input(self, k: int, name: str, tensor: Tensor) -> Tensor:
        held = self.held(tensor.value)
        self.inputs.append((k, name, held.slot))
        return replace(tensor, value=held)

    def constant_of(self, constant: ConstantOf) -> ConstantOf:
        def noted(graph: Graph, node: Node, builder: Builder) -> Tensor:
            on = cast("_Noting", builder.interpretation)
            found = constant(graph, node, replace(builder, interpretation=on.inner))
            if node.target in graph.constants:
                return replace(found, value=self.same(found.value))
            held = self.held(found.value)
            self.constants.append((on.slot, graph, node, held.slot))
            return replace(found, value=held)

        return noted

    def each(self, each: Each | None) -> Each:
        def noted(k: int, node: Node, result: Result) -> Result:
            if each is not None:
                each(k, node, result)
            self.finish(k, node, result)
            return result

        return noted

    def finish(self, k: int, node: Node, result: Result) -> None:
        """A node ends the steps so far. Where there are none it is another member of the collective before it, or
        another name of a value."""
        last = self.spans[-1] if self.spans else None
        if not self.steps and last is not None:
            reads = set(references(node))
            apart = any(one == k and other.name in reads for one, other in last.finished)
            if not apart and last.made.issuperset(held.slot for held in _values_of(result)):
                last.finished.append((k, node))
                return
        self.count += len(self.steps)
        if self.count > _MOST:
            self.plain = True
            self.spans.clear()
        self.spans.append(_Span(self.steps, self.read, [(k, node)]))
        self.steps, self.read = [], set()

    def step(self, on: _Noting, name: str, arguments: tuple[Any, ...]) -> Any:
        """Do a primitive, and note it."""
        read: list[_Held] = []
        given: list[Any] = []
        for one in arguments:
            if one.__class__ is _Held:
                read.append(one)
                given.append(one.value)
            else:
                given.append(_unheld(one, read) if one.__class__ in _NESTED else one)
        found = getattr(on.inner, name)(*given)
        if name in _MOVING:
            for one in read:
                if one.value is found:
                    return one
            if name in _FOLDED and found.size <= _SMALL and all(map(_is_fixed, read)):
                return self.same(found)
        elif name in _TELLING:
            self.plain = True
            return self.held(found) if name == "nonzero" else found
        out, result = self._noted(name, found, read)
        self.steps.append((on.slot, name, _arguments(arguments, read), out))
        self.read.update([one.slot for one in read])
        return result

    def _noted(self, name: str, found: Any, read: Sequence[_Held]) -> tuple[Any, Any]:
        """The slots of what a primitive gives, and the same as values that are noted."""
        if name in ("enter_group", "of_rank"):
            inner, value = found
            on, held = self.held(inner).slot, self.held(value)
            self.inner.add(on)
            return (on, held.slot), (_Noting(self, inner, on), held)
        if name == "rows":
            several = tuple(map(self.held, found))
            return tuple(one.slot for one in several), several
        if found is None or isinstance(found, bool):
            return None, found
        for one in read:
            if one.value is found:
                return None, one
        held = self.held(found)
        return held.slot, held


def _noting(name: str) -> Callable[..., Any]:
    def method(self: _Noting, *arguments: Any) -> Any:
        return self.taking.step(self, name, arguments)

    return method


class _Noting(Interpretation):
    """An interpretation of which all that is asked is noted."""

    def __init__(self, taking: _Taking, inner: Interpretation, slot: int) -> None:
        self.taking, self.inner, self.slot = taking, inner, slot

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
    of_rank, of_ranks = map(_noting, ("of_rank", "of_ranks"))  # of all ranks as one


# ---------------------------------------------------------------------------------------------- arguments and results
_NESTED = frozenset({tuple, list})


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of a value in an argument."""

    number: int


def _unheld(argument: Any, read: list[_Held]) -> Any:
    """An argument with values in the places of what holds them, which are listed."""
    kind = argument.__class__
    if kind is _Held:
        read.append(argument)
        return argument.value
    if kind in _NESTED:
        before = len(read)
        found = [_unheld(one, read) for one in argument]
        return argument if len(read) == before else kind(found)
    return argument


def _is_fixed(held: _Held) -> bool:
    return held.fixed


def _arguments(arguments: tuple[Any, ...], read: Sequence[_Held]) -> Callable[[_Values], Sequence[Any]]:
    """A function that gives the arguments of a primitive from the values of an execution."""
    count = len(read)
    rest = arguments[count:]
    if count == 1 and arguments[0].__class__ is _Held:
        a = read[0].slot
        return lambda values: (values[a], *rest)
    if count == 2 and arguments[0].__class__ is arguments[1].__class__ is _Held:
        a, b = read[0].slot, read[1].slot
        return lambda values: (values[a], values[b], *rest)
    template = [_template(one) for one in arguments]
    return lambda values: [_filled(one, values) for one in template]


def _template(argument: Any) -> Any:
    kind = argument.__class__
    if kind is _Held:
        return _Slot(argument.slot)
    return kind([_template(one) for one in argument]) if kind in _NESTED else argument


def _filled(argument: Any, values: _Values) -> Any:
    kind = argument.__class__
    if kind is _Slot:
        return values[argument.number]
    return kind([_filled(one, values) for one in argument]) if kind in _NESTED else argument


def _values_of(result: Result) -> list[Any]:
    """The values of the tensors of a result."""
    some = result if isinstance(result, tuple) else (result,)
    return [x.value for x in some if isinstance(x, Tensor)]


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
