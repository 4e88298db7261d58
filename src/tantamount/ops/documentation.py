"""The operators' documentation, generated from the table: what their definitions say, and the table of all of them.

``python -m tantamount.ops.documentation docs/operators.md README.md`` writes the table of operators, and of their
families.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tantamount.ops.facts import told
from tantamount.ops.table import Operator, Parameter, table

__all__ = ["category_heading", "families", "mathematics", "schema", "support_table"]

_INTRODUCTION = """\
# Operators

<!-- Generated: python -m tantamount.ops.documentation docs/operators.md README.md -->

Every operator has one definition, in `src/tantamount/ops/definitions/`. Its type rule, its reference implementation,
its rule in the calculus and this table follow from it. An operator or an attribute that is not listed is refused, never
ignored; a definition refuses values of attributes that it does not implement, with a sentence that says which.

`*` stands before keyword-only attributes. Attributes of kind `Layout` (devices, memory formats, and the like) are
accepted because they cannot change a value. `Operand` is a tensor or a number. Where an in-place variant is listed, its
value is the new value of the first operand, converted to that operand's type.

The facts follow from the definition, too: they are those of ordinary calls, of small floats with attributes left at
their defaults. *view*: all elements of one operand, in any order; *piece*: one block of an operand; *layout*: elements
of operands and constants, nothing computed; *linear in a and b*: in both jointly, *or*: in each by itself, the others
fixed; *scale*: multiplied by a number; *grows with*, *falls with*: monotone in every element; *factory*: the value of
no operand matters; *random*: nothing decides the value. What is not listed may hold and was not found.
"""

_HEADINGS = {
    "elementwise": "Arithmetic of elements",
    "logic": "Comparison, logic and choice",
    "activation": "Activations and softmax",
    "movement": "Views, permutations, slices, copies",
    "joining": "Joins, padding, repetition",
    "creation": "Factories",
    "contraction": "Matrix products and Einstein sums",
    "convolution": "Convolutions and pooling",
    "reduction": "Reductions, running sums, orders",
    "indexing": "Indexing",
    "complex": "Complex numbers",
    "numbers": "Numbers and sizes that data decide",
    "assertions": "Assertions",
    "norm": "Normalisation",
    "attention": "Attention",
    "loss": "Losses",
    "random": "Dropout and random numbers",
    "collective": "Collectives",
    "backward": "Gradients",
    "quantised": "Quantisation",
    "vendor": "Other libraries",
    "hlo": "HLO instructions",
}


def _shown(parameter: Parameter) -> str:
    return parameter.name if parameter.required else f"{parameter.name}={parameter.default!r}"


def schema(row: Operator) -> str:
    """``(self, other, alpha=1)``: names, order and defaults; ``*`` before keyword-only parameters."""
    shown: list[str] = []
    for name, parameter in row.parameters.items():
        if row.signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(_shown(parameter))
    return f"({', '.join(shown)})"


def _known(row: Operator) -> list[str]:
    """The facts of an operator in words, and what it requires of its operands."""
    return [*told(row.facts), *([f"requires that {row.requires}"] if row.requires else [])]


def mathematics(row: Operator) -> str:
    """The first line of the definition's docstring."""
    return row.doc.partition("\n")[0].replace("`", "'")


def _short(target: str) -> str:
    return target.removeprefix("aten.").removeprefix("_c10d_functional.")


def category_heading(row: Operator) -> str:
    """The heading of an operator's family."""
    return _HEADINGS.get(row.category, row.category)


def _definition(row: Operator) -> object:
    """The function that identifies the definition: in-place variants wrap it."""
    return getattr(row.define, "__wrapped__", row.define)


def _cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _order(row: Operator) -> tuple[str, bool, str]:
    """In-place variants behind the variant that they are of, whatever was registered first."""
    return _short(row.name).partition(".")[0].strip("_"), _in_place(row), row.name


def _in_place(row: Operator) -> bool:
    return hasattr(row.define, "__wrapped__")


def _rows(rows: Iterable[Operator]) -> Iterator[str]:
    merged: dict[object, list[Operator]] = {}
    for row in sorted(rows, key=_order):
        merged.setdefault(_definition(row), []).append(row)
    for variants in merged.values():
        first = next((row for row in variants if not _in_place(row)), variants[0])
        names = [target for row in (first, *(row for row in variants if row is not first)) for target in row.targets]
        overloads = "<br>".join(_cell(_short(name)) for name in names)
        yield f"| {overloads} | {_cell(schema(first))} | {_cell(mathematics(first))} | {'; '.join(_known(first))} |"


def support_table(operators: Mapping[str, Operator]) -> str:
    """All operators by category, in Markdown. ``operators`` maps overload names to their rows."""
    rows = list({id(row): row for row in operators.values()}.values())
    definitions = {_definition(row) for row in rows}
    parts = [_INTRODUCTION, f"{len(definitions)} definitions, {len(operators)} overloads.\n"]
    for category, heading in _HEADINGS.items():
        members = [row for row in rows if row.category == category]
        if members:
            parts += [f"\n## {heading}\n", "| overloads | schema | value | facts |\n|---|---|---|---|", *_rows(members)]
    return "\n".join(parts) + "\n"


def families(operators: Mapping[str, Operator]) -> str:
    """The number of operators of every family, as a table in Markdown. ``operators`` maps overload names to their
    rows."""
    lines = ["| operators | definitions | overloads |", "|---|---|---|"]
    for category, heading in _HEADINGS.items():
        members = [row for row in operators.values() if row.category == category]
        lines.append(f"| {heading} | {len({_definition(row) for row in members})} | {len(members)} |")
    total = len({_definition(row) for row in operators.values()})
    return "\n".join([*lines, f"| **all** | **{total}** | **{len(operators)}** |"]) + "\n"


def main(page_of_operators: str, readme: str) -> None:
    """Write the generated page, and the generated part of another one."""
    Path(page_of_operators).write_text(support_table(table()), encoding="utf-8")
    text = Path(readme).read_text(encoding="utf-8")
    before, start, rest = text.partition("<!-- generated: families -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    Path(readme).write_text(before + start + families(table()) + end + after, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
