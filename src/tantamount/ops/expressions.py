"""Definitions of operators as text: expressions in known operators, in the notation of Python.

``"y = linear(x, w); y * sigmoid(y)"``: assignments, then the result (a tuple, if there are several). Known are the
names of the table (``aten.gelu.default``; ``gelu`` or ``mylib.gelu`` for the overload that fits), arithmetic, ``@``,
slices, ``x.shape``, numbers (exact: ``1/6`` is a sixth), strings, tuples. The text is parsed, and interpreted by this
module over a builder; nothing in it is ever run as Python.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import PerRank, ShapeProblem, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.table import Operator, bind, invoke, table

__all__ = ["Expression", "ExpressionProblem", "parse_expression", "parse_python"]

_LONGEST = 10_000  # characters
_DEEPEST = 60  # expressions inside one another
_POWER = 64  # the largest exponent of a number
_BITS = 256  # of a number's numerator or denominator
_OVERLOADS = ("default", "Tensor", "Scalar")


class ExpressionProblem(ValueError):
    """A definition that is not of the language; the text is one clause."""


def parse_python(text: str) -> ast.Module:
    """The syntax tree of a text in Python's notation. Raises :class:`ExpressionProblem`, also for one that is too long
    or nested too deeply."""
    if len(text) > _LONGEST:
        raise ExpressionProblem(f"{len(text)} characters, more than {_LONGEST}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ExpressionProblem(f"text that does not parse ({str(problem)[:80]}): {text[:80]!r}") from None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ExpressionProblem(f"expressions nested more than {_DEEPEST} deep")
    return tree


@dataclass(frozen=True)
class Expression:
    """A parsed definition: assignments in order, then the result."""

    text: str
    steps: tuple[tuple[tuple[str, ...], ast.expr], ...]
    result: ast.expr

    def evaluate(self, b: Builder, given: Mapping[str, Any]) -> Any:
        """The value of the result, a tensor or a tuple of tensors. Raises :class:`ShapeProblem`."""
        names = dict(given)
        for targets, expression in self.steps:
            value = _value(b, expression, names)
            if len(targets) == 1:
                names[targets[0]] = value
            elif isinstance(value, tuple) and len(cast(tuple[Any, ...], value)) == len(targets):
                names.update(zip(targets, cast(tuple[Any, ...], value), strict=True))
            else:
                raise ShapeProblem(
                    f"{', '.join(targets)} = {ast.unparse(expression)}, which has another number of parts"
                )
        value = _value(b, self.result, names)
        items = cast(tuple[Any, ...], value if isinstance(value, tuple) else (value,))
        if not all(isinstance(item, Tensor) for item in items):
            raise ShapeProblem(f"the result {ast.unparse(self.result)[:80]}, which is no tensor")
        return cast(object, value)


def parse_expression(text: str, parameters: Sequence[str]) -> Expression:
    """The definition in a text. Raises :class:`ExpressionProblem` for anything but the language above, for names that
    are neither parameters nor assigned before, and for operators that the table does not have."""
    known = set(parameters)
    steps: list[tuple[tuple[str, ...], ast.expr]] = []
    statements = parse_python(text).body
    for k, statement in enumerate(statements):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=expression):
                targets: tuple[str, ...] = (name,)
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=expression) if len(elements) > 1 and all(
                isinstance(element, ast.Name) for element in elements
            ):
                targets = tuple(element.id for element in elements if isinstance(element, ast.Name))
            case ast.Expr(value=expression) if k == len(statements) - 1:
                _check(expression, known)
                return Expression(text, tuple(steps), expression)
            case _:
                raise ExpressionProblem(f"{ast.unparse(statement)[:80]!r} where an assignment or the result is needed")
        _check(expression, known)
        known.update(targets)
        steps.append((targets, expression))
    raise ExpressionProblem(f"no result in {text[:80]!r}")


def _check(expression: ast.expr, known: set[str]) -> None:
    """Names and operators are known, and nothing else occurs than what ``_value`` knows."""
    match expression:
        case ast.Name(id=name):
            if name not in known:
                raise ExpressionProblem(f"the name {name!r}, which is no parameter and not assigned before")
        case ast.Call(func=function, args=args, keywords=keywords):
            _rows(_dotted(function))
            for item in (*args, *(keyword.value for keyword in keywords)):
                _check(item, known)
            if any(keyword.arg is None for keyword in keywords):
                raise ExpressionProblem("'**' in a call")
        case ast.Attribute(value=inner, attr="shape" | "dtype"):
            _check(inner, known)
        case ast.Subscript(value=inner, slice=index):
            _check(inner, known)
            for item in index.elts if isinstance(index, ast.Tuple) else [index]:
                parts = [item.lower, item.upper, item.step] if isinstance(item, ast.Slice) else [item]
                for part in parts:
                    if part is not None:
                        _check(part, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            _check(left, known)
            _check(right, known)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, known)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                _check(element, known)
        case ast.Constant(value=bool() | int() | float() | str() | None):
            pass
        case ast.Constant(value=value) if value is ...:
            pass
        case _:
            raise ExpressionProblem(f"{ast.unparse(expression)[:80]!r}, which is not of the language of definitions")


# ---------------------------------------------------------------------------------------------- operators
def _dotted(function: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        raise ExpressionProblem(f"a call of {ast.unparse(function)[:80]!r}, which is no operator's name")
    return ".".join([function.id, *reversed(parts)])


def _rows(name: str) -> list[tuple[str, Operator]]:
    """The overloads that a name may mean, in the order in which they are tried."""
    rows = table()
    if name in rows:
        found = [name]
    else:
        stem = name if "." in name else f"aten.{name}"
        overloads = [key for key in rows if key.rpartition(".")[0] == stem]
        order = {overload: k for k, overload in enumerate(_OVERLOADS)}
        found = sorted(overloads, key=lambda key: (order.get(key.rpartition(".")[2], len(order)), key))
    if not found:
        from difflib import get_close_matches

        near = get_close_matches(name if "." in name else f"aten.{name}.default", rows, n=3)
        raise ExpressionProblem(f"the unknown operator {name!r}" + (f" (nearest: {', '.join(near)})" if near else ""))
    for key in found:
        if rows[key].group_parameter is not None or rows[key].mutates:
            raise ExpressionProblem(f"{key}, a collective or an operator that overwrites operands, in a definition")
    return [(key, rows[key]) for key in found]


def _apply(b: Builder, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    first: UserError | None = None
    for target, row in _rows(name):
        try:
            named = {key: _dtype_of(row, key, value) for key, value in kwargs.items()}
            arguments = bind(row, target, args, named, name)
        except UserError as problem:
            first = first or problem
            continue
        return invoke(row, b, arguments)
    raise ShapeProblem(f"{first.found if first else 'arguments'} in a call of {name}")


def _dtype_of(row: Operator, name: str, value: Any) -> Any:
    """A string as an element type, where the operator takes one."""
    parameter = row.parameters.get(name)
    if parameter is not None and parameter.kind.startswith("DType") and isinstance(value, str):
        dtype = DType.named(value)
        if dtype is None:
            raise ShapeProblem(f"the element type {value[:40]!r}")
        return dtype
    return value


# ---------------------------------------------------------------------------------------------- values
def _value(b: Builder, expression: ast.expr, names: Mapping[str, Any]) -> Any:
    match expression:
        case ast.Name(id=name):
            return names[name]
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return tuple(_value(b, element, names) for element in elements)
        case ast.UnaryOp(operand=operand):
            value = _value(b, operand, names)
            return b.neg(value) if isinstance(value, Tensor) else _number(lambda x, y: x - y, 0, value)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(b, op, _value(b, left, names), _value(b, right, names))
        case ast.Attribute(value=inner, attr=attribute):
            x = _value(b, inner, names)
            if not isinstance(x, Tensor):
                raise ShapeProblem(f"{ast.unparse(expression)} of something else than a tensor")
            return x.shape if attribute == "shape" else x.dtype
        case ast.Subscript(value=inner, slice=index):
            return _item(b, _value(b, inner, names), index, names)
        case ast.Call(func=function, args=args, keywords=keywords):
            values = tuple(_value(b, item, names) for item in args)
            return _apply(b, _dotted(function), values, {k.arg or "": _value(b, k.value, names) for k in keywords})
        case _:
            raise ShapeProblem(f"{ast.unparse(expression)[:80]!r}")


def _matmul(b: Builder, x: Any, y: Any) -> Any:
    return _apply(b, "aten.matmul.default", (x, y), {})


def _power(b: Builder, x: Any, y: Any) -> Any:
    if isinstance(x, Tensor) and isinstance(y, (int, float, Fraction)):
        return b.power(b.floating(x), y)
    return b.function("pow", x, y)


def _power_of_numbers(x: Any, y: Any) -> Any:
    if not isinstance(y, int) or abs(y) > _POWER or (x == 0 and y < 0):
        raise ShapeProblem(f"the power {x} ** {y}")
    return x**y


def _quotient(x: Any, y: Any) -> Any:
    if y == 0:
        raise ShapeProblem(f"the quotient {x} / 0")
    return Fraction(x) / Fraction(y)


def _whole_quotient(x: Any, y: Any) -> Any:
    if y == 0:
        raise ShapeProblem(f"the quotient {x} // 0")
    return x // y


def _no_tensors(b: Builder, x: Any, y: Any) -> Any:
    raise ShapeProblem("'//' of tensors (write floor_divide or div with a rounding mode)")


def _no_numbers(x: Any, y: Any) -> Any:
    raise ShapeProblem("'@' of numbers")


_Of = tuple[Callable[[Builder, Any, Any], Any], Callable[[Any, Any], Any]]
_ARITHMETIC: dict[type[ast.operator], _Of] = {  # of a tensor and something else, of two numbers
    ast.Add: (lambda b, x, y: b.add(x, y), lambda x, y: x + y),
    ast.Sub: (lambda b, x, y: b.sub(x, y), lambda x, y: x - y),
    ast.Mult: (lambda b, x, y: b.mul(x, y), lambda x, y: x * y),
    ast.Div: (lambda b, x, y: b.div(x, y), _quotient),
    ast.FloorDiv: (_no_tensors, _whole_quotient),
    ast.Pow: (_power, _power_of_numbers),
    ast.MatMult: (_matmul, _no_numbers),
}


def _arithmetic(b: Builder, op: ast.operator, x: Any, y: Any) -> Any:
    of_tensors, of_numbers = _ARITHMETIC[type(op)]
    if any(not isinstance(z, (Tensor, PerRank, bool, int, float, Fraction)) for z in (x, y)):
        raise ShapeProblem("arithmetic of something else than tensors and numbers")
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return of_tensors(b, x, y)
    return _number(of_numbers, x, y)


def _number(apply: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Exact arithmetic of numbers of a bounded size; whole results are integers."""
    if any(not isinstance(z, (bool, int, float, Fraction)) for z in (x, y)):
        raise ShapeProblem("arithmetic of something else than numbers")
    try:
        exact = [Fraction(repr(z)) if isinstance(z, float) else z for z in (x, y)]
    except ValueError:
        raise ShapeProblem("arithmetic of infinities") from None
    value = apply(*exact)
    fraction = Fraction(value)
    if max(fraction.numerator.bit_length(), fraction.denominator.bit_length()) > _BITS:
        raise ShapeProblem("a number with too many digits")
    whole = fraction.denominator == 1 and not any(isinstance(z, float) for z in (x, y))
    return int(fraction) if whole else fraction


def _item(b: Builder, x: Any, index: ast.expr, names: Mapping[str, Any]) -> Any:
    """A part of a tuple, or of a tensor along its first dimensions."""
    if isinstance(x, tuple):
        k = _value(b, index, names) if not isinstance(index, ast.Slice) else None
        items = cast(tuple[Any, ...], x)
        if not isinstance(k, int) or isinstance(k, bool) or not -len(items) <= k < len(items):
            raise ShapeProblem(f"item {ast.unparse(index)} of {len(items)}")
        return items[k]
    if not isinstance(x, Tensor):
        raise ShapeProblem(f"item {ast.unparse(index)} of something else than a tensor or a tuple")
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    dots = [k for k, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is ...]
    if len(dots) > 1 or len(parts) - len(dots) > x.rank:
        raise ShapeProblem(f"[{ast.unparse(index)}] of {x.type}")
    dim = 0
    for k, part in enumerate(parts):
        if k in dots:
            dim += x.rank - (len(parts) - k - 1) - dim
        elif isinstance(part, ast.Slice):
            low, high, step = (
                None if bound is None else _value(b, bound, names) for bound in (part.lower, part.upper, part.step)
            )
            if any(bound is not None and type(bound) is not int for bound in (low, high, step)):
                raise ShapeProblem(f"[{ast.unparse(index)}] with bounds that are no integers")
            x = b.slice(x, dim, low or 0, high, 1 if step is None else step)
            dim += 1
        else:
            at = _value(b, part, names)
            if type(at) is not int:
                raise ShapeProblem(f"[{ast.unparse(index)}] with an index that is no integer")
            x = b.select(x, dim, at)
    return x
