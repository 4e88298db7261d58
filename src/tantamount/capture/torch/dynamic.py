"""Sizes that stay symbols in a captured graph: which dimensions they are, and what the capture asked of them.

Dimensions of one name have one size. The program is traced at example sizes that nothing else has: each is the user's
example times a prime of its own, so that it divides by all that the example divides by, and two different sizes are
never equal by chance. PyTorch's ``ShapeEnv`` records the branches that the program took as guards; they become
conditions of the graph.
"""

# pyright: basic
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import sympy
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._sympy import functions

from tantamount.errors import InternalError, Unsupported, UserError
from tantamount.sizes.domain import LARGEST, Domain, Symbol, ranges_of, symbol_of
from tantamount.sizes.search import find_sizes
from tantamount.sizes.symbolic import Condition, Space

__all__ = ["Dynamic", "Sizes", "sizes_of", "widen"]

# By name of an argument: dimension -> name of its size (or torch.export.Dim); of a number, the name of the number.
Dynamic = Mapping[str, Any]
_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149)


@dataclass
class Sizes:
    """The size symbols of one capture. ``dims``: of every tensor with symbolic dimensions, their names;
    ``symbols``: for every name the size that is traced, the least and the greatest; ``numbers``: of every argument
    that is a symbolic whole number, the name. PyTorch makes symbols of sizes only: such a number is 1 less than the
    size of a tensor of its own."""

    dims: Mapping[str, Mapping[int, str]]
    symbols: Mapping[str, tuple[int, int, int]]
    numbers: Mapping[str, str] = field(default_factory=dict)
    environment: ShapeEnv = field(default_factory=lambda: ShapeEnv(duck_shape=True))
    names: dict[sympy.Symbol, str] = field(default_factory=dict)
    settled: Domain | None = None  # what :func:`widen` found

    @cached_property
    def space(self) -> Space:
        """The symbols, and what the sizes and guards that were read so far ask of them."""
        return Space({label: hint for label, (hint, _, _) in self.symbols.items()})

    def fake(self, mode: FakeTensorMode, name: str, tensor: Tensor) -> Tensor:
        """The fake tensor of an input."""
        named = self.dims.get(name)
        if not named:
            return mode.from_tensor(tensor, static_shapes=True)
        shape = [self.symbols[named[d]][0] if d in named else size for d, size in enumerate(tensor.shape)]
        with _disable_current_modes():  # a real tensor, whatever is being traced: of a fake one sizes are numbers
            example = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
        kinds = [DimDynamic.DUCK if d in named else DimDynamic.STATIC for d in range(tensor.dim())]
        fake = mode.from_tensor(example, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))
        for d, label in named.items():
            size = fake.shape[d]
            if not isinstance(size, torch.SymInt) or self.names.setdefault(size.node.expr, label) != label:
                raise _wrong(
                    f"{label} = {int(size)}, which does not tell it from another size",
                    "an example of 2 or more, different from the other sizes", name,
                )  # fmt: skip
        return fake

    def carriers(self, mode: FakeTensorMode) -> list[Tensor]:
        """For every symbolic number the tensor whose size it is."""
        found: list[Tensor] = []
        for label in self.numbers.values():
            with _disable_current_modes():
                example = torch.empty(self.symbols[label][0] + 1)
            context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
            carrier = mode.from_tensor(example, symbolic_context=context)
            size: Any = carrier.shape[0]
            self.names[size.node.expr] = label
            found.append(carrier)
        return found

    def number(self, name: str, carriers: Sequence[Tensor]) -> Any:
        """The symbolic number that an argument is."""
        carrier = carriers[list(self.numbers).index(name)]
        return self._meant(self.numbers[name], carrier.shape[0])

    def _meant(self, label: str, value: Any) -> Any:
        """The name by which a user knows the value that the tracer's symbol has."""
        return value - 1 - Symbol(label, 1).shift if label in self.numbers.values() else value

    def text(self, size: Any, place: str) -> str:
        """A symbolic size as a file has it."""
        return str(self._value(size.node.expr, place))

    def domain(self, place: str) -> Domain:
        """The sizes at which the program takes the way that was traced. All sizes in it have been written already."""
        if self.settled is not None:
            return self.settled
        symbols: list[Symbol] = []
        for symbol, label in sorted(self.names.items(), key=lambda item: item[1]):
            hint, low, high = self.symbols[label]
            if symbol in self.environment.replacements:
                value = self.environment.replacements[symbol]
                raise _fixed(Symbol(label, hint).label, self._meant(label, value), place)
            bounds = self.environment.var_to_range[symbol]
            less = label in self.numbers.values()
            upper = int(bounds.upper) - less if bounds.upper.is_Integer else LARGEST
            symbols.append(Symbol(label, hint, max(low, int(bounds.lower) - less), min(upper, high)))
        for guard in self.environment.guards:
            if not self._value(guard.expr, place):
                raise InternalError(f"the guard {guard.expr} does not hold at the sizes that were traced")
        return Domain(tuple(symbols), tuple(self.space.conditions)).reduced()

    def _value(self, e: Any, place: str) -> Any:
        """An expression of the ``ShapeEnv``, evaluated with sizes that note on what its value rests: where a division
        comes out even, which of two is the greater, and so on."""
        if e.is_Integer:
            return int(e)
        if e.is_Symbol and e in self.names:
            label = self.names[e]
            return self.space.symbols[label] + (label in self.numbers.values())
        if e in (sympy.true, sympy.false):
            return bool(e)
        rule = _RULES.get(type(e))
        if rule is None:
            raise _not_understood(f"{e}, of the type {type(e).__name__}", place)
        try:
            return rule(*(self._value(a, place) for a in e.args))
        except Unsupported as problem:
            raise _not_understood(f"{e}: {problem.reason}", place) from None


def widen(sizes: Sizes, document: Any, again: Callable[[Mapping[str, int]], tuple[Sizes, Any]]) -> None:
    """Drop conditions if another trace, at sizes that violate them, gives the same program: what looks at a size and
    then does the same in any case leaves a guard behind, too. ``again`` traces at other sizes, and gives its sizes and
    document; :class:`UserError` if there is no program at these."""
    domain = sizes.domain("capture")
    for condition in domain.conditions[:_MAX_CONDITIONS]:
        rest = Domain(domain.symbols, tuple(c for c in domain.conditions if c != condition))
        regions: list[Sequence[Condition]] = [(condition,)]
        for _ in range(_MAX_TRACES):
            outside = find_sizes(rest, regions)
            if outside.none:
                domain = rest
            if outside.sizes is None:
                break
            try:
                other, same = again(outside.sizes)
                found = other.domain("capture")
            except UserError:
                break
            if same != document:
                break
            regions.append((*ranges_of(found), *found.conditions))
    sizes.settled = domain.reduced()


_MOST_TRACED = 1 << 20  # of a number, which is the size of a tensor while it is traced
_MAX_CONDITIONS = 4  # that are tried
_MAX_TRACES = 3  # more of one program, for one condition
_RULES: dict[Any, Callable[..., Any]] = {
    sympy.Add: lambda *xs: sum(xs), sympy.Mul: lambda *xs: prod(xs), sympy.Pow: operator.pow,
    functions.PowByNatural: operator.pow, functions.FloorDiv: operator.floordiv, functions.CleanDiv: operator.floordiv,
    functions.Mod: operator.mod, functions.PythonMod: operator.mod, functions.Max: lambda *xs: max(xs),
    functions.Min: lambda *xs: min(xs), sympy.Eq: operator.eq, sympy.Ne: operator.ne, sympy.StrictLessThan: operator.lt,
    sympy.LessThan: operator.le, sympy.StrictGreaterThan: operator.gt, sympy.GreaterThan: operator.ge,
    sympy.And: lambda *xs: all(xs), sympy.Or: lambda *xs: any(xs), sympy.Not: operator.not_,
}  # fmt: skip


def sizes_of(
    dynamic: Dynamic,
    tensors: Sequence[tuple[str, Tensor]],
    taken: Sequence[Tensor],
    place: str,
    hints: Mapping[str, int] | None = None,
    numbers: Mapping[str, int] | None = None,
) -> Sizes:
    """The symbols for some dimensions of arguments, given as ``{"tokens": {0: "B", 1: "S"}}``, and for arguments that
    are whole ``numbers``, given as ``{"offset": "K"}``. ``taken``: tensors whose sizes stay numbers; ``hints``: the
    sizes to trace at. Raises :class:`UserError` for what does not fit the arguments."""
    by_name = dict(tensors)
    dims: dict[str, dict[int, str]] = {}
    found: dict[str, tuple[int, int, int]] = {}
    fixed = {size for tensor in taken for size in tensor.shape}
    whole: dict[str, str] = {}
    values: dict[str, tuple[int, int, int]] = {}
    for name, entries in dynamic.items():
        tensor = by_name.get(name)
        if numbers is not None and name in numbers and not isinstance(entries, Mapping):
            symbol = _number(name, entries, numbers[name], place)
            if values.setdefault(symbol.name, (symbol.hint, symbol.low, symbol.high))[0] != symbol.hint:
                raise _wrong(f"two values of {symbol.label}", "one number under one name", place)
            whole[name] = symbol.name
            continue
        if tensor is None or not isinstance(entries, Mapping):
            known = ", ".join((*by_name, *(numbers or ())))
            raise _wrong(
                f"sizes of {name!r}", f"dimensions of tensors, or numbers, among the arguments: {known}", place
            )
        dims[name] = {}
        for dim, given in entries.items():
            if not -tensor.dim() <= dim < tensor.dim():
                raise _wrong(f"dimension {dim} of {name}, which has {tensor.dim()}", "a dimension that it has", place)
            label = given if isinstance(given, str) else getattr(given, "__name__", str(given))
            if not label.isidentifier():
                raise _wrong(f"the name {label!r} of a size", "a name such as B, or torch.export.Dim", place)
            size = int(tensor.shape[dim])
            if size < 1 or found.get(label, (size,))[0] != size:
                raise _wrong(
                    f"{label} = {size} in {name}" + (f", {found[label][0]} elsewhere" if label in found else ""),
                    "one size of 1 or more under one name", place,
                )  # fmt: skip
            low, high = getattr(given, "min", 1), getattr(given, "max", None)
            found[label] = (size, max(low, 1), high if isinstance(high, int) else LARGEST)
            dims[name][dim % tensor.dim()] = label
        fixed |= {int(size) for d, size in enumerate(tensor.shape) if d not in dims[name]}
    symbols: dict[str, tuple[int, int, int]] = {}
    primes = list(_PRIMES)
    for label, (size, low, high) in sorted(found.items()):
        used = fixed | {hint for hint, _, _ in symbols.values()}
        fitting = (size * p for p in primes if size * p not in used and low <= size * p <= high)
        hint = hints[label] if hints else next(fitting, size)
        symbols[label] = (hint, low, high)
        primes = [p for p in primes if hint != size * p]
    for name, (value, low, high) in values.items():
        if Symbol(name, value).label in symbols:
            raise _wrong(f"{Symbol(name, value).label} for a size and for a number", "a name of its own", place)
        symbols[name] = (hints[name] if hints else value, low, high)
    return Sizes(dims, symbols, whole)


def _number(name: str, given: Any, value: int, place: str) -> Symbol:
    """The symbol of an argument that is a whole number: from 0 on, if no range is given."""
    label = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    low, high = getattr(given, "min", 0), getattr(given, "max", None)
    high = high if isinstance(high, int) else LARGEST
    if not label.isidentifier():
        raise _wrong(f"the name {label!r} of a number", "a name such as K, or torch.export.Dim", place)
    if not low <= value <= min(high, _MOST_TRACED):
        raise _wrong(f"{name} = {value}", f"an example from {low} to {min(high, _MOST_TRACED)}", place)
    return symbol_of(label, value, low, high)


def _wrong(what: str, needed: str, place: str) -> UserError:
    return UserError("capture-dynamic", place=place, found=what, needed=needed)


def _not_understood(what: str, place: str) -> UserError:
    return UserError(
        "capture-dynamic", place=place, found=what,
        needed="sizes that are sums and products of symbols, divided where that comes out even; comparisons of them",
        hint="capture without `dynamic`, or keep the dimension that this is about a number",
    )  # fmt: skip


def _fixed(label: str, value: Any, place: str) -> UserError:
    return UserError(
        "capture-dynamic", place=place, found=f"the size {label}, which the program fixes to {value}",
        needed="a program that runs at other sizes, too", hint=f"leave {label} out of `dynamic`",
    )  # fmt: skip
