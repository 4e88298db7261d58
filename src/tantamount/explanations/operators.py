"""The topic of an operator, made from its definition: what it computes, takes, refuses and rests on, and its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from tantamount.explanations.topic import Section, Topic
from tantamount.ops.documentation import category_heading, mathematics, schema
from tantamount.ops.facts import told
from tantamount.ops.table import Operator

__all__ = ["operator_topic"]

_DEFINITIONS = "tantamount.ops.definitions"
_RULE = (
    "The definition, interpreted with types only, is the shape rule; interpreted with NumPy it is the execution, and "
    "with normal forms the rule of the calculus."
)
_FACTS = (
    "Found by running the definition on a few ordinary calls (small floats, attributes at their defaults); what else "
    "holds was not found. Explanations ask for the facts of the very call that they speak of."
)


def operator_topic(row: Operator) -> Topic:
    """The page about an operator of the table."""
    code = _sources(row.define)
    refused = tuple(dict.fromkeys(message for source in code for message in _refusals(source)))
    rest = row.doc.partition("\n")[2].strip()
    sections = [
        Section("Value", rest, code=mathematics(row)),
        Section("Attributes", "Any other attribute is refused.", _attributes(row), schema(row)),
        Section("Shape rule", _RULE + (" Refused with a message:" if refused else ""), _column("refused", refused)),
    ]
    facts = tuple(told(row.facts))
    if facts:
        sections.append(Section("Facts", _FACTS, _column("fact", facts)))
    if row.group_parameter is not None:
        sections.append(Section("Communication", f"Over the process group that `{row.group_parameter}` names."))
    if row.mutates:
        text = f"It overwrites {', '.join(f'`{name}`' for name in row.mutates)}: only inside `auto_functionalized`."
        sections.append(Section("Operands that it overwrites", text))
    if row.requires:
        needed = (f"{row.requires}: assumed where a specification calls it, shown where an implementation does",)
        sections.append(Section("What it requires", rows=_column("requirement", needed)))
    if row.assumes:
        sections.append(Section("What a proof with it rests on", rows=_column("assumption", row.assumes)))
    if len(row.targets) > 1:
        sections.append(Section("Names", rows=_column("overload", row.targets)))
    if code:
        sections.append(Section("Definition", f"`{_place(row.define)}`", code="\n\n".join(code)))
    return Topic(row.name, "operator", category_heading(row), tuple(sections))


def _column(heading: str, items: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return ((heading,), *((item,) for item in items)) if items else ()


def _attributes(row: Operator) -> tuple[tuple[str, ...], ...]:
    found = [
        (name, parameter.kind, "" if parameter.required else repr(parameter.default))
        for name, parameter in row.parameters.items()
    ]
    return (("name", "kind", "default"), *found) if found else ()


def _place(define: Callable[..., Any]) -> str:
    """``tantamount/ops/definitions/contraction.py:27``"""
    function = inspect.unwrap(define)
    file = inspect.getsourcefile(function) or ""
    _, package, inside = file.rpartition("/tantamount/")
    return f"{package[1:] + inside if package else file}:{inspect.getsourcelines(function)[1]}"


def _sources(define: Callable[..., Any]) -> list[str]:
    """The source of a definition and of the functions beside it that it uses; nothing where it was not written out
    (labels and formulas that were declared, wrappers)."""
    waiting, seen = [inspect.unwrap(define)], list[Callable[..., Any]]()
    if waiting[0].__module__.startswith("tantamount.") and not waiting[0].__module__.startswith(_DEFINITIONS):
        return []
    while waiting:
        function = waiting.pop(0)
        if function not in seen:
            seen.append(function)
            waiting += _used(function)
    try:
        return [textwrap.dedent(inspect.getsource(function)).rstrip() for function in seen]
    except (OSError, TypeError):
        return []


def _used(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Functions of the definitions that a function refers to, directly or as its closure."""
    known = inspect.getclosurevars(function)
    for name, value in {**known.globals, **known.nonlocals}.items():
        if inspect.isfunction(value) and value.__module__.startswith(_DEFINITIONS) and name != function.__name__:
            yield value


def _refusals(source: str) -> Iterator[str]:
    """The messages of the ``ShapeProblem`` s that a source raises; ``{...}`` stands for what is computed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ShapeProblem":
            for text in node.args[:1]:
                if isinstance(text, ast.Constant):
                    yield str(text.value)
                elif isinstance(text, ast.JoinedStr):
                    yield "".join(_written(part) for part in text.values)


def _written(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ""
