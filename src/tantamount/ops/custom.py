"""Operators that a user declares, in a job or in Python: by labels (opaque), or by known operators.

Both ways give rows as the table has them, so nothing else knows that they were declared; each carries the sentence that
the verdict lists as its assumption.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tantamount.errors import UserError
from tantamount.ir.graph import CustomOperator
from tantamount.ir.types import DType
from tantamount.ops.algebra import ShapeProblem, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.expressions import ExpressionProblem, parse_expression, parse_python
from tantamount.ops.hidden import refuse_hidden
from tantamount.ops.labels import LabelProblem, apply_opaque, parse_labels
from tantamount.ops.table import Operator

__all__ = ["custom_operator"]

_ANNOTATIONS: dict[Any, Any] = {"Tensor": Tensor | None, inspect.Parameter.empty: Any}
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@lru_cache(maxsize=1024)
def custom_operator(declared: CustomOperator, category: str = "vendor") -> Operator:
    """The row of a declared operator. Raises :class:`UserError` (place: the operator's name) for a declaration that is
    not of the language, and of an operator that nothing can be said of (:mod:`tantamount.ops.hidden`)."""
    refuse_hidden(declared.name, f"operator {declared.name}")
    try:
        parameters = _parameters(declared.args)
        names = [p.name for p in parameters]
        for name in (*declared.mutates, *declared.ignores):
            if name not in names or parameters[names.index(name)].kind in _ANY_NUMBER:
                raise _Problem(f"{name!r}, which is no parameter of {declared.args!r}")
        mutates = tuple(name for name in names if name in declared.mutates)
        define = _by_labels(declared, parameters, mutates) if declared.labels else _by_definition(declared, parameters)
    except (_Problem, LabelProblem, ExpressionProblem) as problem:
        raise UserError(
            "operator-declaration", place=f"operator {declared.name}", found=str(problem),
            needed="a declaration by labels, or by a definition in terms of known operators",
            hint="docs/adding-an-operator.md explains both",
        ) from None  # fmt: skip
    builder = inspect.Parameter("_builder", inspect.Parameter.POSITIONAL_ONLY)
    define.__signature__ = inspect.Signature([builder, *parameters])
    define.__annotations__ = {p.name: _ANNOTATIONS[p.annotation] for p in parameters}
    text = declared.labels or declared.definition
    define.__doc__ = declared.doc or (f"opaque: {text}" if declared.labels else text)
    assumes = (
        f"{declared.name} is a function with the labels {text!r}, defined everywhere and the same on every rank"
        " (when executed, a fixed smooth function with these labels stands in for it)"
        if declared.labels
        else f"{declared.name} is {text!r} of ({declared.args})",
    )
    return Operator((declared.name,), category, define, mutates, assumes, opaque=bool(declared.labels))


class _Problem(ValueError):
    """A declaration that is wrong; the text is one clause."""


def _parameters(text: str) -> list[inspect.Parameter]:
    """``"query, key: Tensor, *, scale=1.0"``: Python's notation, parsed and never evaluated; defaults are literals.
    A parameter marked ``Tensor`` is an operand even where it is ``None``; others are what the graph gives."""
    try:
        tree = parse_python(f"def f({text}\n): pass")
    except ExpressionProblem:
        raise _Problem(f"args {text[:80]!r}, which are no parameters") from None
    match tree.body:
        case [ast.FunctionDef(args=found, body=[ast.Pass()], returns=None)]:
            pass
        case _:
            raise _Problem(f"args {text[:80]!r}, which are no parameters")
    out: list[inspect.Parameter] = []

    def add(arg: ast.arg | None, kind: Any, default: ast.expr | None) -> None:
        if arg is None:
            return
        annotation = inspect.Parameter.empty if arg.annotation is None else ast.unparse(arg.annotation)
        if annotation not in _ANNOTATIONS:
            raise _Problem(f"the annotation {annotation!r} of {arg.arg}; only Tensor is known")
        value = inspect.Parameter.empty if default is None else _literal(default)
        out.append(inspect.Parameter(arg.arg, kind, default=value, annotation=annotation))

    positional = [*found.posonlyargs, *found.args]
    defaults = [*[None] * (len(positional) - len(found.defaults)), *found.defaults]
    for arg, default in zip(positional, defaults, strict=True):
        add(arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default)
    add(found.vararg, inspect.Parameter.VAR_POSITIONAL, None)
    for arg, default in zip(found.kwonlyargs, found.kw_defaults, strict=True):
        add(arg, inspect.Parameter.KEYWORD_ONLY, default)
    add(found.kwarg, inspect.Parameter.VAR_KEYWORD, None)
    if len({"_builder", *(p.name for p in out)}) <= len(out):
        raise _Problem(f"args {text[:80]!r}, with one name twice (or _builder)")
    return out


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(_literal(item) for item in items)
        case _:
            raise _Problem(f"the default {ast.unparse(node)[:40]!r}, which is no literal")


# ---------------------------------------------------------------------------------------------- by labels
def _by_labels(declared: CustomOperator, parameters: Sequence[inspect.Parameter], mutates: tuple[str, ...]) -> Any:
    labels = parse_labels(declared.labels)
    returned = len(labels.results) - len(mutates)
    if returned < 0:
        raise _Problem(f"{len(labels.results)} results for {len(mutates)} overwritten operands")
    if len(declared.dtypes) not in (0, returned):
        raise _Problem(f"{len(declared.dtypes)} dtypes for {returned} results")

    def define(b: Builder, /, *args: Any, **kwargs: Any) -> Any:
        given = _given(parameters, args, kwargs)
        operands, attributes, sizes = _sorted_out(parameters, declared, given)
        dtypes = [_dtype(text, given) for text in declared.dtypes] or [None] * returned
        overwritten = [value.dtype if isinstance(value := given[name], Tensor) else None for name in mutates]
        out = apply_opaque(b, declared.name, labels, operands, attributes, sizes, [*dtypes, *overwritten])
        return out[0] if len(out) == 1 else out

    return define


def _given(parameters: Sequence[inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter; those of ``*args`` and ``**kwargs`` are one tuple and one table."""
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    return {**dict(zip(positional, args, strict=True)), **kwargs}


def _sorted_out(
    parameters: Sequence[inspect.Parameter], declared: CustomOperator, given: Mapping[str, Any]
) -> tuple[list[Tensor | None], tuple[str, ...], dict[str, int]]:
    """Operands, all other arguments as text, and those that are integers by name."""
    operands: list[Tensor | None] = []
    names: list[str] = []  # which arguments they are: f(a=x, b=y) is not f(a=x, c=y)
    attributes: list[str] = []
    sizes: dict[str, int] = {}
    always = {p.name for p in parameters if p.annotation == "Tensor"}
    for name, value in _flat(parameters, given):
        if isinstance(value, Tensor) or (value is None and name in always):
            operands.append(value)
            names.append(name)
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            sizes[name] = value
        if name not in declared.ignores:
            if isinstance(value, tuple) and any(isinstance(item, Tensor) for item in value):  # pyright: ignore[reportUnknownVariableType]
                raise ShapeProblem(f"a list of tensors as {name} of an opaque operator")
            attributes.append(f"{name}={value!r}")
    return operands, (*attributes, f"tensors: {', '.join(names)}"), sizes


def _flat(parameters: Sequence[inspect.Parameter], given: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """All arguments in the order of the parameters; ``**kwargs`` by name, so that their order does not matter."""
    out: list[tuple[str, Any]] = []
    for p in parameters:
        value = given[p.name]
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            out.extend((f"{p.name}[{k}]", item) for k, item in enumerate(value))
        elif p.kind is inspect.Parameter.VAR_KEYWORD:
            out.extend(sorted(value.items()))
        else:
            out.append((p.name, value))
    return out


def _dtype(text: str, given: Mapping[str, Any]) -> DType:
    """A dtype by its name, or that of a parameter."""
    found = DType.named(text)
    value = given.get(text)
    if found is None and not isinstance(value, (Tensor, DType)):
        raise ShapeProblem(f"the dtype {text!r}, which is neither an element type nor a tensor among the arguments")
    return found or (value.dtype if isinstance(value, Tensor) else value)  # type: ignore[return-value]


# ---------------------------------------------------------------------------------------------- by definition
def _by_definition(declared: CustomOperator, parameters: Sequence[inspect.Parameter]) -> Any:
    if any(p.kind in _ANY_NUMBER for p in parameters) or declared.ignores or declared.dtypes:
        raise _Problem("a definition with '*', ignored parameters or dtypes, which are for labels")
    expression = parse_expression(declared.definition, [p.name for p in parameters])

    def define(b: Builder, /, *args: Any, **kwargs: Any) -> Any:
        return expression.evaluate(b, _given(parameters, args, kwargs))

    return define
