"""Polynomials as text, for people: ``1/8 sum[k<8] (arg3[k] arg0 + arg1)^2``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from typing import Any, cast

from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import LAST_AXIS, Store
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.terms import IOTA, Exponent, Factor, Polynomial, Rational, Term

__all__ = ["axis_names", "show_coordinate", "show_polynomial", "show_number"]

_AXES = "ijklmnpqrstuvwxyz"
_BOUND = "abcdefgh"


def axis_names(count_: int) -> dict[int, str]:
    """Names of form axes: ``i, j, k, ...``."""
    return {v: _AXES[v] if v < len(_AXES) else f"i{v}" for v in range(count_)}


def show_number(value: Rational) -> str:
    """An exact rational, as a decimal where that is shorter."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    text = f"{value.numerator}/{value.denominator}"
    if len(text) <= 9:
        return text
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else f"{float(value):.10g}…"


def show_coordinate(c: Coordinate, names: Mapping[int, str]) -> str:
    """An affine map as text: ``2i+j-3``."""
    parts: list[str] = []
    for v, s in c.parts:
        name = names.get(v, f"?{v}")
        parts.append(name if s == 1 else f"-{name}" if s == -1 else f"{s}{name}")
    if c.offset or not parts:
        parts.append(str(c.offset))
    return "+".join(parts).replace("+-", "-")


class _Printer:
    def __init__(self, store: Store, depth: int) -> None:
        self.store = store
        self.depth = depth
        self.fresh = count()

    def polynomial(self, x: Polynomial, names: Mapping[int, str], depth: int) -> str:
        if not x:
            return "0"
        parts: list[str] = []
        for m, c in x[:6]:
            body = " ".join(self.factor(f, names, depth) for f in m)
            sign = "-" if c < 0 else "+"
            size = abs(c)
            text = show_number(size) if not body else body if size == 1 else f"{show_number(size)} {body}"
            parts.append(f"{sign} {text}" if parts else ("-" if sign == "-" else "") + text)
        if len(x) > 6:
            parts.append(f"+ … ({len(x) - 6} more terms)")
        return " ".join(parts)

    def factor(self, factor: Factor, names: Mapping[int, str], depth: int) -> str:
        a, e, index = factor
        atom = self.store.atoms[a]
        text = self._base(a, index, names, depth)
        if e == 1:
            return text
        if atom.op == "exp":
            return text.replace("exp(", f"exp({self._exponent(e)} ", 1) if depth > 0 else f"{text}^{self._exponent(e)}"
        return f"{text}^{self._exponent(e)}"

    def _exponent(self, e: Exponent) -> str:
        text = show_number(e)
        return text if text.isdigit() else f"({text})" if "/" in text or "." in text else text

    def _base(self, a: int, index: tuple[Coordinate, ...], names: Mapping[int, str], depth: int) -> str:
        atom = self.store.atoms[a]
        if a == IOTA:
            return f"({show_coordinate(index[0], names)})"
        if atom.op == "leaf":
            return self._leaf(atom.attributes, index, names)
        if depth <= 0:
            return "…" if atom.op in ("sum", "polynomial") else f"{atom.op}(…)"
        replace = dict(enumerate(index))
        if atom.op == "sum":
            inner = dict(names)
            ranges: list[str] = []
            fresh: dict[int, Coordinate] = {}
            for j, n in enumerate(atom.ranges):
                k = next(self.fresh)
                name = _BOUND[k % len(_BOUND)] + (str(k // len(_BOUND)) if k >= len(_BOUND) else "")
                shown = 2 * LAST_AXIS + k  # no axis of the calculus
                inner[shown] = name
                fresh[-1 - j] = variable(shown)
                ranges.append(f"{name}<{n}")
            factors = substitute_factors(atom.summand, {**replace, **fresh})
            body = " ".join(self.factor(f, inner, depth - 1) for f in factors[:8])
            return f"sum[{', '.join(ranges)}]({body}{' …' if len(factors) > 8 else ''})"
        arguments = [
            self.polynomial(tuple(Term(substitute_factors(m, replace), c) for m, c in x), names, depth - 1)
            for x in atom.arguments
        ]
        if atom.op == "polynomial":
            return f"({arguments[0]})"
        if atom.op in ("less", "equal"):
            return f"[{arguments[0]} + {arguments[1]} {'<' if atom.op == 'less' else '=='} 0]"
        if atom.op == "element":
            return arguments[0]
        return f"{atom.op}({', '.join(arguments)})"

    def _leaf(self, attributes: tuple[Any, ...], index: tuple[Coordinate, ...], names: Mapping[int, str]) -> str:
        kind, name = attributes
        at = f"[{', '.join(show_coordinate(c, names) for c in index)}]" if index else ""
        if kind in ("input", "constant"):
            return f"{name}{at}"
        if kind == "prime":
            return str(name)
        if kind == "infinity":
            return "inf"
        if kind == "unsupported":
            return f"unknown({name[0][2]}){at}"
        if kind == "mask":
            return f"mask{_which(name)}{at}"
        if kind == "draw":
            return f"{_law(name)}{_which(name)}{at}"
        if isinstance(name, tuple):
            parts = cast("tuple[object, ...]", name)
            name = next((part for part in parts if isinstance(part, str)), kind)
        return f"{name}{at}"


def _which(name: Any) -> str:
    """The text that names a draw: the number of one of the specification, the place of another."""
    key = name[1]
    return str(key) if isinstance(key, int) else f"({key[0]})"


def _law(name: Any) -> str:
    return name[0].name


def show_polynomial(store: Store, x: Polynomial, names: Mapping[int, str], depth: int = 3) -> str:
    """The Polynomial as text; what lies deeper than ``depth`` atoms is shown as ``…``."""
    return _Printer(store, depth).polynomial(x, names, depth)
