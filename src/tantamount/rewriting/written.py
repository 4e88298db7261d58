"""Rules written down: two graphs as the text of a file of rules, with sizes as symbols where that can be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import inf, isfinite, isnan
from pathlib import Path

from tantamount.capture.documents import parse_toml
from tantamount.capture.job import GraphFiles
from tantamount.capture.readers import READERS
from tantamount.capture.rules import rules_of, rules_place
from tantamount.errors import Unsupported
from tantamount.ir.graph import Argument, Device, Graph, Node, Ref, Setting
from tantamount.ir.job import UserRule
from tantamount.ir.types import DType
from tantamount.limits import Limits

__all__ = ["HEADER", "Sizes", "read_rule", "rule_text", "size_symbols"]

HEADER = 'format = "rules/1"\n'
_SHAPES = frozenset(  # operators whose lists of whole numbers are sizes
    f"aten.{name}"
    for name in (
        "view.default", "reshape.default", "_unsafe_view.default", "expand.default", "full.default", "zeros.default",
        "ones.default", "split_with_sizes.default", "new_zeros.default", "new_ones.default", "new_full.default",
    )
)  # fmt: skip
_BOUNDS = frozenset({"aten.slice.Tensor", "aten.arange.default", "aten.narrow.default", "aten.split.Tensor"})
_FILLED = {  # what is written over: a rule has no memory that may hold anything, and evidence says whether it is
    "aten.empty_like.default": "aten.zeros_like.default",
    "aten.empty.memory_format": "aten.zeros.default",
    "aten.new_empty.default": "aten.new_zeros.default",
}
_NAMES = "ABCDEFGHKLMNPQRSTUVW"
_PARTS = (2, 3, 4)  # a size may be cut into so many


@dataclass
class Sizes:
    """The symbols that stand for sizes, by the sizes that they have here; ``conditions`` on them that writing noted:
    what is divided must come out even."""

    symbols: Mapping[int, str] = field(default_factory=dict[int, str])
    conditions: dict[str, None] = field(default_factory=dict[str, None])

    def of(self, n: int) -> str:
        """A size as text: a symbol, a product of two, an even part of one, or the number."""
        if n < 2 or not self.symbols:
            return str(n)
        if n in self.symbols:
            return self.symbols[n]
        for a, b in combinations_with_replacement(self.symbols, 2):
            if a * b == n:
                return f"{self.symbols[a]}*{self.symbols[b]}"
        for k in _PARTS:
            whole = self.symbols.get(n * k)
            if whole is not None:
                self.conditions[f"{whole} % {k} == 0"] = None
                return f"{whole}//{k}"
            if n % k == 0 and n // k in self.symbols:
                return f"{k}*{self.symbols[n // k]}"
        return str(n)


def size_symbols(left: Graph) -> Sizes:
    """A symbol for every size from 2 on that an input has."""
    found = dict.fromkeys(n for node in left.inputs if node.type for n in node.type.shape if type(n) is int and n > 1)
    return Sizes(dict(zip(found, _NAMES, strict=False)))


def rule_text(name: str, left: Graph, right: Graph, sizes: Sizes, holds: Sequence[str] = (), about: str = "") -> str:
    """The table of a rule in a file of rules. Raises :class:`Unsupported` for what the language of rules lacks."""
    inputs = ", ".join(f'{node.name} = "{_type(node, sizes)}"' for node in left.inputs)
    lines = [f"[rules.{name}]"]
    if about:
        lines.insert(0, f"# {about}")
    sides = [f"left = {_quoted(_expression(left, sizes))}", f"right = {_quoted(_expression(right, sizes))}"]
    lines.append(f"inputs = {{ {inputs} }}")
    if sizes.conditions:
        lines.append(f"where = [{', '.join(map(_quoted, sizes.conditions))}]")
    if holds:
        lines.append(f"holds = {_quoted(' & '.join(f'({one})' for one in holds))}")
    return "\n".join([*lines, *sides]) + "\n"


def read_rule(text: str, name: str, limits: Limits) -> UserRule:
    """The rule that a table says. Raises :class:`TantamountError` where it makes none."""
    place = rules_place(f"rule {name}")
    top = place.table(parse_toml(HEADER + text, place), "a table")
    files = GraphFiles(Path(), False, limits, {}, {}, READERS)
    (rule,) = rules_of(top["rules"], place, files)
    return rule


def _quoted(text: str) -> str:
    return json.dumps(text)


def _type(node: Node, sizes: Sizes) -> str:
    if node.type is None:
        raise Unsupported("an input without a type")
    return f"{node.type.dtype.label}[{', '.join(sizes.of(n) for n in node.type.shape)}]"


def _expression(graph: Graph, sizes: Sizes) -> str:
    *before, last = [*_statements(graph, sizes)]
    return "; ".join([*(f"{name} = {text}" for name, text in before), last[1]])


def _statements(graph: Graph, sizes: Sizes) -> Iterator[tuple[str, str]]:
    for node in graph.nodes:
        if node.op == "input":
            continue
        if node.op == "constant":
            yield node.name, _number_of(graph, node)
        elif node.target == "getitem":
            yield node.name, f"{_argument(node.args[0], sizes, '')}[{node.args[1]}]"
        else:
            args = [_argument(one, sizes, node.target) for one in node.args]
            args += [
                f"{key}={_argument(one, sizes, node.target)}"
                for key, one in node.kwargs.items()
                if not isinstance(one, (Device, Setting))
            ]
            yield node.name, f"{_FILLED.get(node.target, node.target)}({', '.join(args)})"


def _number_of(graph: Graph, node: Node) -> str:
    """A recorded number as a call: no other constant has a text."""
    recorded = graph.constants.get(node.target)
    if recorded is None or recorded.type.shape:
        raise Unsupported("a recorded tensor")
    return f"aten.full.default([], {_literal(recorded.data[0])}, dtype={recorded.type.dtype.label})"


def _argument(value: Argument, sizes: Sizes, target: str, inside: bool = False) -> str:
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, DType):
        return value.label
    if isinstance(value, (Device, Setting)):
        return "None"
    if isinstance(value, tuple):
        return f"[{', '.join(_argument(one, sizes, target, True) for one in value)}]"
    if type(value) is int and ((inside and target in _SHAPES) or target in _BOUNDS):
        return sizes.of(value)
    return _literal(value)


def _literal(value: object) -> str:
    if isinstance(value, float):
        if isnan(value):
            raise Unsupported("a literal that is not a number")
        return repr(value) if isfinite(value) else "1e999" if value == inf else "-1e999"
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, str) and "'" not in value:
        return f"'{value}'"
    raise Unsupported(f"the literal {value!r}")
