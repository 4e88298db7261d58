"""Sizes that stay symbols in a captured graph: which dimensions they are, and what the capture asked of them.

Dimensions of one name have one size. The program is traced at example sizes that nothing else has: each is the user's
example times a prime of its own, so that it divides by all that the example divides by, and two different sizes are
never equal by chance. PyTorch's ``ShapeEnv`` records the branches that the program took as guards; they become
conditions of the graph.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy import functions

from tantamount.capture.size_symbols import encode_domain
from tantamount.errors import UserError
from tantamount.ir.domain import LARGEST

__all__ = ["Dynamic", "Sizes", "sizes_of"]

Dynamic = Mapping[str, Mapping[int, Any]]  # by name of an argument: dimension -> name of its size (or torch.export.Dim)
_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149)


@dataclass
class Sizes:
    """The size symbols of one capture. ``dims``: of every tensor with symbolic dimensions, their names;
    ``symbols``: for every name the size that is traced, the least and the greatest (``None``: any)."""

    dims: Mapping[str, Mapping[int, str]]
    symbols: Mapping[str, tuple[int, int, int | None]]
    environment: ShapeEnv = field(default_factory=lambda: ShapeEnv(duck_shape=True))
    names: dict[sympy.Symbol, str] = field(default_factory=dict)

    def fake(self, mode: FakeTensorMode, name: str, tensor: Tensor) -> Tensor:
        """The fake tensor of an input."""
        named = self.dims.get(name)
        if not named:
            return mode.from_tensor(tensor, static_shapes=True)
        shape = [self.symbols[named[d]][0] if d in named else size for d, size in enumerate(tensor.shape)]
        example = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
        kinds = [DimDynamic.DUCK if d in named else DimDynamic.STATIC for d in range(tensor.dim())]
        fake = mode.from_tensor(example, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))
        for d, label in named.items():
            self.names[fake.shape[d].node.expr] = label
        return fake

    def text(self, size: Any, place: str) -> str:
        """A symbolic size as a file has it."""
        return self._text(size.node.expr, place)

    def document(self, place: str) -> dict[str, Any]:
        """What a file says about its size symbols."""
        table: dict[str, tuple[int, int, int | None]] = {}
        for symbol, label in self.names.items():
            hint, low, high = self.symbols[label]
            if symbol in self.environment.replacements:
                raise _fixed(label, self.environment.replacements[symbol], place)
            bounds = self.environment.var_to_range[symbol]
            low = max(low, int(bounds.lower), 1)
            if bounds.upper.is_Integer and int(bounds.upper) < LARGEST:
                high = min(int(bounds.upper), LARGEST if high is None else high)
            table[label] = (hint, low, high)
        found: dict[str, None] = {}
        for guard in self.environment.guards:
            for condition in self._conditions(guard.expr, place):
                found.setdefault(condition)
        return encode_domain(dict(sorted(table.items())), sorted(found))

    def _conditions(self, expression: Any, place: str) -> Iterator[str]:
        if isinstance(expression, sympy.And):
            for part in expression.args:
                yield from self._conditions(part, place)
        elif expression is sympy.true:
            return
        elif isinstance(expression, sympy.Not) and isinstance(expression.args[0], sympy.core.relational.Relational):
            yield from self._conditions(expression.args[0].negated, place)
        elif type(expression) in _RELATIONS and all(s in self.names for s in expression.free_symbols):
            left, right = expression.args
            remainder = isinstance(left, functions.Mod | functions.PythonMod) and right == 0
            if isinstance(expression, sympy.Eq) and remainder:
                yield f"({self._text(left.args[0], place)}) % ({self._text(left.args[1], place)}) == 0"
            else:
                yield f"{self._text(left, place)} {_RELATIONS[type(expression)]} {self._text(right, place)}"
        else:
            raise _not_understood(f"the condition {expression} of the program's branches", place)

    def _text(self, e: Any, place: str) -> str:
        if e.is_Integer:
            return str(int(e))
        if e.is_Symbol and e in self.names:
            return self.names[e]
        parts = [f"({self._text(a, place)})" for a in e.args]
        if isinstance(e, sympy.Add):
            return " + ".join(parts)
        if isinstance(e, sympy.Mul):
            return "*".join(parts)
        if isinstance(e, sympy.Pow | functions.PowByNatural) and e.args[1].is_Integer and e.args[1] > 0:
            return "**".join(parts)
        if isinstance(e, functions.FloorDiv | functions.CleanDiv):
            return "//".join(parts)
        raise _not_understood(f"the size {e}", place)


_RELATIONS = {
    sympy.Eq: "==", sympy.Ne: "!=", sympy.StrictLessThan: "<", sympy.LessThan: "<=", sympy.StrictGreaterThan: ">",
    sympy.GreaterThan: ">=",
}  # fmt: skip


def sizes_of(dynamic: Dynamic, tensors: Sequence[tuple[str, Tensor]], taken: Sequence[Tensor], place: str) -> Sizes:
    """The symbols for some dimensions of arguments, given as ``{"tokens": {0: "B", 1: "S"}}``. ``taken``: tensors whose
    sizes stay numbers. Raises :class:`UserError` for what does not fit the arguments."""
    by_name = dict(tensors)
    dims: dict[str, dict[int, str]] = {}
    found: dict[str, tuple[int, int, int | None]] = {}
    fixed = {size for tensor in taken for size in tensor.shape}
    for name, entries in dynamic.items():
        tensor = by_name.get(name)
        if tensor is None:
            raise _wrong(f"sizes of {name!r}", f"names of tensors among the arguments: {', '.join(by_name)}", place)
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
            found[label] = (size, max(low, 1), high if isinstance(high, int) and high < LARGEST else None)
            dims[name][dim % tensor.dim()] = label
        fixed |= {int(size) for d, size in enumerate(tensor.shape) if d not in dims[name]}
    symbols: dict[str, tuple[int, int, int | None]] = {}
    primes = list(_PRIMES)
    for label, (size, low, high) in sorted(found.items()):
        used = fixed | {hint for hint, _, _ in symbols.values()}
        fitting = (size * p for p in primes if size * p not in used and low <= size * p <= (high or LARGEST))
        hint = next(fitting, size)
        symbols[label] = (hint, low, high)
        primes = [p for p in primes if hint != size * p]
    return Sizes(dims, symbols)


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
