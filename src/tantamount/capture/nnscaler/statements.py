"""The statements that generated modules are made of, as data: calls with plain arguments, and names for results."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import EllipsisType
from typing import Union

from tantamount.errors import UserError

__all__ = [
    "Call",
    "Dotted",
    "Function",
    "Name",
    "Range",
    "Statement",
    "Value",
    "functions_in",
    "names_in",
    "refused",
    "statements_of",
]

_DEEPEST = 40  # values inside values
_MODULES = frozenset(
    ("torch", "ckpt", "nnscaler", "_operator", "builtins", "math", "inf", "self", "slice", "next", "super")
)


@dataclass(frozen=True, slots=True)
class Name:
    """A local variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Dotted:
    """An attribute, ``self.weight_12`` or ``torch.float32``: ``path`` is how it is written."""

    path: str


@dataclass(frozen=True, slots=True)
class Range:
    """``slice(start, stop, step)``."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the function that is written ``function``."""

    function: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict[str, "Value"])


Value = Union[Name, Dotted, Range, Call, None, bool, int, float, str, EllipsisType, tuple["Value", ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """``targets = value``; ``unpacked`` is true if there are several targets, or one in a tuple. Without targets it is
    a call for its effect. ``returns``: the function ends with the value. ``note`` is the comment in the line before.
    ``within``: the calls of the ``with`` statement that it is inside of. ``deleted``: variables that end here."""

    targets: tuple[str, ...]
    value: Value
    line: int
    text: str = ""
    note: str = ""
    unpacked: bool = False
    returns: bool = False
    within: tuple[Call, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method: its parameters (without ``self``) and statements. ``inner`` are functions that it defines,
    as recomputation does."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    inner: Mapping[str, Function] = field(default_factory=dict[str, "Function"])


def refused(path: str, line: int, found: str, needed: str, hint: str = "") -> UserError:
    """The error that names a line of a generated module."""
    return UserError("plan-nnscaler", place=f"{path}:{line}", found=found, needed=needed, hint=hint)


class _Reader:
    """``attributes``: whether attributes may be assigned to, and not only variables."""

    def __init__(self, path: str, lines: list[str], *, attributes: bool = False) -> None:
        self.path, self.lines, self.attributes = path, lines, attributes

    def function(self, node: ast.FunctionDef, *, method: bool) -> Function:
        """Raises :class:`UserError` for anything but straight-line code."""
        given = node.args
        more = given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults
        if node.decorator_list or more:
            raise self.wrong(node, f"the signature of {node.name}", "plain parameters, and no decorators")
        parameters = tuple(argument.arg for argument in given.args)
        if len(set(parameters)) < len(parameters) or not _MODULES.isdisjoint(parameters[1 if method else 0 :]):
            raise self.wrong(node, f"the signature of {node.name}", "parameters with names of their own")
        inner: dict[str, Function] = {}
        named: dict[str, str] = {}  # functions that are defined here may have one name, each from its definition on
        body: list[Statement] = []
        for x in node.body:
            if isinstance(x, ast.FunctionDef):
                named[x.name] = f"{x.name} {len(inner)}"
                inner[named[x.name]] = self.function(x, method=False)
                continue
            for found in self.statement(x):
                if not named.keys().isdisjoint((*found.targets, *found.deleted)):
                    raise self.wrong(x, found.text, "other names for variables than for functions")
                body.append(replace(found, value=_renamed(found.value, named)) if named else found)
        return Function(node.name, parameters[1:] if method else parameters, tuple(body), inner)

    def statement(self, node: ast.stmt) -> Iterator[Statement]:
        line = node.lineno
        text = self.lines[line - 1].strip()
        before = self.lines[line - 2].strip() if line > 1 else ""
        note = before[1:].strip() if before.startswith("#") else ""
        if isinstance(node, ast.Pass):
            return
        if isinstance(node, ast.Delete):
            if not all(isinstance(x, ast.Name) for x in node.targets):
                raise self.wrong(node, text, "variables to delete")
            yield Statement(
                (), None, line, text, note, deleted=tuple(x.id for x in node.targets if isinstance(x, ast.Name))
            )
        elif isinstance(node, ast.Return):
            value = None if node.value is None else self.value(node.value)
            yield Statement((), value, line, text, note, returns=True)
        elif isinstance(node, ast.Expr):
            if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
                yield Statement((), self.value(node.value), line, text, note)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            several = isinstance(target, ast.Tuple)
            targets = tuple(self.target(x) for x in (target.elts if isinstance(target, ast.Tuple) else (target,)))
            yield Statement(targets, self.value(node.value), line, text, note, unpacked=several)
        elif isinstance(node, ast.With):
            yield from self.inside(node)
        else:
            raise self.wrong(node, f"a statement of kind {type(node).__name__}", "assignments and calls")

    def inside(self, node: ast.With) -> Iterator[Statement]:
        """The statements of a ``with`` statement, each with the calls that it is within."""
        within: list[Call] = []
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None or not isinstance(value, Call):
                raise self.wrong(node, self.lines[node.lineno - 1].strip(), "with statements of plain calls")
            within.append(value)
        for inner in node.body:
            for found in self.statement(inner):
                if found.within or found.returns:
                    raise self.wrong(inner, found.text, "assignments and calls inside of a with statement")
                yield replace(found, within=tuple(within))

    def target(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name) and node.id not in _MODULES:
            return node.id
        path = _path(node)
        if path is None or isinstance(node, ast.Name) or not self.attributes:
            raise self.wrong(node, f"an assignment to {path or 'something else than names'}", "variables")
        return path

    def value(self, node: ast.expr, depth: int = 0) -> Value:
        if depth > _DEEPEST:
            raise self.wrong(node, f"an expression more than {_DEEPEST} deep", "plain arguments")
        if isinstance(node, ast.Constant) and (
            node.value is None or isinstance(node.value, bool | int | float | str | EllipsisType)
        ):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand, depth + 1)
            if value == Name("inf"):  # modules import it from numpy
                return -inf
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
        if isinstance(node, ast.Name):
            return Name(node.id)
        if isinstance(node, ast.Attribute):
            path = _path(node)
            if path is not None:
                return Dotted(path)
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(self.items(node.elts, depth))
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return Range(*(None if x is None else self.value(x, depth + 1) for x in ends))
        if isinstance(node, ast.Subscript):  # nnScaler writes operators so whose names it has as well
            return Call("_operator.getitem", (self.value(node.value, depth + 1), self.value(node.slice, depth + 1)))
        if isinstance(node, ast.IfExp):
            parts = (node.test, node.body, node.orelse)
            return Call("nnscaler.runtime.function.ifexpr", tuple(self.value(x, depth + 1) for x in parts))
        raise self.wrong(
            node, f"an expression of kind {type(node).__name__}", "names, numbers, texts, tuples and calls"
        )

    def items(self, nodes: list[ast.expr], depth: int) -> Iterator[Value]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                found = self.value(node.value, depth + 1)
                if not isinstance(found, tuple):
                    raise self.wrong(node, "an argument with a star that is no tuple", "a tuple that is written out")
                yield from found
            else:
                yield self.value(node, depth + 1)

    def call(self, node: ast.Call, depth: int) -> Value:
        path = _path(node.func)
        args = tuple(self.items(node.args, depth))
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.wrong(node, "arguments with two stars", "keywords that are written out")
            kwargs[keyword.arg] = self.value(keyword.value, depth + 1)
        if path == "slice" and not kwargs and 1 <= len(args) <= 3:
            start, stop, step = (*((None, *args) if len(args) == 1 else args), None, None)[:3]
            return Range(start, stop, step)
        if path is None:
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):  # super().__init__()
                path = f"{_path(node.func.value.func)}().{node.func.attr}"
            else:
                raise self.wrong(node, "a call of something else than a name", "a call of a function by its name")
        return Call(path, args, kwargs)

    def wrong(self, node: ast.stmt | ast.expr, found: str, needed: str) -> UserError:
        return refused(self.path, node.lineno, found, needed, "what nnScaler generates is read, and nothing else")


def _path(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else None


def _renamed(value: Value, names: Mapping[str, str]) -> Value:
    """The value with other names for some variables."""
    if isinstance(value, Name):
        return Name(names.get(value.name, value.name))
    if isinstance(value, tuple):
        return tuple(_renamed(x, names) for x in value)
    if isinstance(value, Range):
        return Range(*(_renamed(x, names) for x in (value.start, value.stop, value.step)))
    if isinstance(value, Call):
        kwargs = {key: _renamed(x, names) for key, x in value.kwargs.items()}
        return replace(value, args=tuple(_renamed(x, names) for x in value.args), kwargs=kwargs)
    return value


def functions_in(
    nodes: list[ast.stmt], path: str, lines: list[str], wanted: set[str], *, method: bool
) -> dict[str, Function]:
    """The functions of these names among some statements: methods, or functions that may assign to attributes. Raises
    :class:`UserError` for other than plain code."""
    reader = _Reader(path, lines, attributes=not method)
    return {
        node.name: reader.function(node, method=method)
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    }


def constructor(node: ast.FunctionDef, path: str, lines: list[str]) -> tuple[Statement, ...]:
    """The statements of a constructor, whatever its signature."""
    reader = _Reader(path, lines, attributes=True)
    return tuple(found for x in node.body for found in reader.statement(x))


def statements_of(nodes: list[ast.stmt], path: str, lines: list[str]) -> tuple[Statement, ...]:
    """Some statements of a method. Raises :class:`UserError` for other than plain code."""
    reader = _Reader(path, lines)
    return tuple(found for x in nodes for found in reader.statement(x))


def names_in(value: Value) -> Iterator[str]:
    """The variables and attributes that a value is made of, as they are written."""
    if isinstance(value, Name):
        yield value.name
    elif isinstance(value, Dotted):
        yield value.path
    elif isinstance(value, tuple):
        for item in value:
            yield from names_in(item)
    elif isinstance(value, Range):
        yield from names_in((value.start, value.stop, value.step))
    elif isinstance(value, Call):
        yield value.function
        yield from names_in((*value.args, *value.kwargs.values()))
