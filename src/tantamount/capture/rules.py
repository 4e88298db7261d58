"""Rules that users give: two programs over the same inputs, read from files or captured, checked, and made one job.

A rule is refused where it could not be used soundly whatever is known of it: sides that draw random numbers,
communicate or overwrite, a right side that reads more than the left side says, several results. Whether it is *true* is
nobody's word: :mod:`tantamount.rewriting.evidence` finds out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Protocol, cast

from tantamount.capture.fields import Fields, Place, shown
from tantamount.capture.fx_json import graph_of
from tantamount.capture.inplace import is_in_place
from tantamount.capture.readers import Reader, named
from tantamount.capture.rule_expressions import graph_document, no_rule
from tantamount.capture.size_symbols import decode_domain
from tantamount.errors import TantamountError, UserError
from tantamount.ir.graph import CustomOperator, Graph, Node, Output, Ref, reading
from tantamount.ir.job import Job, Native, UserRule
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.ir.types import DType
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.check import check_graph
from tantamount.sizes.domain import LARGEST, Domain, SizeProblem, parse_condition, symbol_of
from tantamount.sizes.search import find_sizes

__all__ = ["make_rule", "parse_types", "renamed", "rules_of", "rules_place", "sized"]

_KEYS = ("inputs", "left", "right", "where", "holds", "about")
_INPUT = re.compile(r"\s*([a-z0-9_]+)\s*\[(.*)\]\s*")
_OF_ITS_OWN = frozenset({"random", "collective"})  # what other ranks, or nothing, decides
_LOOKING_UP = frozenset({"gather", "scatter"})
_TRIES = 4_000  # of sizes that satisfy the conditions
_LARGEST = 24


def rules_place(text: str) -> Place:
    """The place of a rule that is in no file."""
    return Place("job", text, limits_from_environment())


class Graphs(Protocol):
    """Graphs by the names that files use (see :class:`tantamount.capture.job.GraphFiles`)."""

    @property
    def limits(self) -> Limits: ...

    @property
    def operators(self) -> Mapping[str, CustomOperator]: ...

    @property
    def readers(self) -> Sequence[Reader]: ...

    def graph(self, value: object, place: Place) -> Graph:
        """The graph that a file names."""
        ...


def rules_of(value: object, place: Place, files: Graphs) -> tuple[UserRule, ...]:
    """The rules of a table ``[rules]``. Raises :class:`UserError`."""
    found: list[UserRule] = []
    for key, entry in place.table(value, "a table of rules").items():
        name = place.name(key, "a rule's name")
        found.append(_rule(name, Fields.of(entry, place.at(name), _KEYS, ("left", "right")), files))
    return tuple(found)


def _rule(name: str, fields: Fields, files: Graphs) -> UserRule:
    place = fields.at("inputs")
    inputs = parse_types(place.table(fields.values.get("inputs", {}), "a table of inputs"), place)
    conditions = fields.at("where").list(fields.values.get("where", []), "a list of conditions on sizes")
    texts = [fields.at("where").string(text) for text in conditions]
    sizes = _sizes([size for _, shape in inputs.values() for size in shape], texts, fields.place)

    def side(key: str) -> Graph:
        text = fields.at(key).string(fields.get(key))
        if "\n" not in text and "(" not in text and named(text, files.readers) is not None:
            return files.graph(text, fields.at(key))
        read = _names(text)
        mine = {one: type_ for one, type_ in inputs.items() if key != "holds" or one in read}
        document = graph_document(text, mine, sizes, fields.at(key))
        graph = graph_of(document, fields.at(key).text, files.limits)
        return replace(graph, operators=files.operators) if files.operators else graph

    holds = side("holds") if "holds" in fields else None
    return make_rule(name, side("left"), side("right"), holds, fields.place.text)


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def parse_types(inputs: Mapping[str, object], place: Place) -> dict[str, tuple[str, list[Any]]]:
    """Element type and shape of every input: ``x = "float32[B, 2*N]"``. Raises :class:`UserError`."""
    found: dict[str, tuple[str, list[Any]]] = {}
    for name, value in inputs.items():
        text = place.at(name).string(value)
        match = _INPUT.fullmatch(text)
        if match is None or DType.named(match[1]) is None or not name.isidentifier():
            raise no_rule(place.at(name), shown(text), 'a type such as "float32[B, 2*N]"')
        sizes = [size.strip() for size in match[2].split(",") if size.strip()]
        found[name] = match[1], [int(size) if size.isdecimal() else size for size in sizes]
    return found


def _sizes(sizes: Sequence[Any], conditions: Sequence[str], place: Place) -> dict[str, Any]:
    """The table of the size symbols that shapes and conditions are written with."""
    names = sorted({name for text in (*sizes, *conditions) if isinstance(text, str) for name in _names(text)})
    return sized({"symbols": {name: {"hint": 1, "min": 1} for name in names}}, conditions, place) if names else {}


def sized(sizes: Mapping[str, Any], conditions: Sequence[str], place: Place) -> dict[str, Any]:
    """A table of size symbols with more conditions, and values that satisfy all of them. Raises :class:`UserError` for
    conditions that are none, or that no sizes satisfy."""
    every = [*sizes.get("conditions", []), *conditions]
    lows = {name: int(entry.get("min", 1)) for name, entry in sizes["symbols"].items()}
    highs = {name: int(entry.get("max", LARGEST)) for name, entry in sizes["symbols"].items()}
    domain = Domain(tuple(symbol_of(name, low, low, highs[name]) for name, low in lows.items()))
    try:
        found = [parse_condition(text, domain) for text in every]
    except SizeProblem as problem:
        raise no_rule(place, str(problem), "comparisons of expressions over the size symbols") from None
    domain = replace(domain, conditions=tuple(dict.fromkeys(one for one in found if one is not None)))
    random, names = Random(0), [s.name for s in domain.symbols]
    tries = (dict(zip(names, random.sample(range(3, _LARGEST + len(names)), len(names)), strict=True))
             for _ in range(_TRIES))  # fmt: skip
    values = next((one for one in tries if domain.contains(one)), None) or find_sizes(domain, []).sizes
    if values is None:
        raise no_rule(place, f"conditions {', '.join(every)}", "conditions that some sizes satisfy")
    symbols = {s.label: {**sizes["symbols"][s.label], "hint": values[s.name] - s.shift} for s in domain.symbols}
    table: dict[str, Any] = {"symbols": symbols, "conditions": every}
    decode_domain(table, place)
    return table


# ---------------------------------------------------------------------------------------------- what makes a rule
def make_rule(
    name: str, left: Graph, right: Graph, holds: Graph | None, place: str, native: Native | None = None
) -> UserRule:
    """The rule that two graphs are equal, where ``holds`` gives true (see :class:`UserRule`). Raises
    :class:`UserError` for graphs that make no rule."""
    for graph, what in ((left, "left"), (right, "right"), (holds, "holds")):
        if graph is not None:
            _check_side(graph, f"{place}: {what}")
    root = left.by_name[left.outputs[0].node]
    if root.op != "call":
        raise _wrong(f"{place}: left", "an input or a constant alone", "an operator applied to inputs")
    used = left.ancestors(root.name)
    unused = [node.name for node in left.inputs if node.name not in used]
    if unused:
        raise _wrong(
            f"{place}: left", f"inputs that it does not read: {', '.join(unused[:4])}",
            "a left side that reads every input: what it does not read, an occurrence cannot say",
        )  # fmt: skip
    for graph, what in ((right, "right"), (holds, "holds")):
        _check_inputs(left, graph, f"{place}: {what}")
    if holds is not None and _types(holds)[holds.outputs[0].node].dtype is not DType.BOOL:
        raise _wrong(f"{place}: holds", "a result that is not boolean", "a boolean tensor, true where the rule applies")
    for node in holds.nodes if holds is not None else ():
        if node.op == "call" and node.target != "getitem" and _looks_up(holds, node):
            raise _wrong(f"{place}: holds: {node.name}", f"{node.target}, which looks elements up",
                         "a condition that is defined for all inputs")  # fmt: skip
    left, right = _named_result(left), _named_result(_with_inputs(right, left))
    a, b = (_types(graph)[graph.outputs[0].node] for graph in (left, right))
    if a.type != b.type:
        raise _wrong(place, f"a left side of type {a.type} and a right side of type {b.type}", "one type")
    sides = _job(left, right, place)
    if holds is None:
        return UserRule(name, sides, sides, None, native)
    return UserRule(name, sides, _job(_guarded(left, holds), _guarded(right, holds), place), holds, native)


def _job(left: Graph, right: Graph, place: str) -> Job:
    """The job that the right side refines the left side, on one rank, at all sizes of both."""
    inputs = {node.name: InputRelation(node.name, ()) for node in left.inputs}
    job = Job(place, left, (right,), Mesh(), inputs, {"result": Expectation("result", (), text="Replicate()")})
    try:
        domain = Domain().joined(left.sizes).joined(right.sizes)
    except SizeProblem as problem:
        raise _wrong(place, f"size symbols that differ: {problem}", "the same symbols on both sides") from None
    if not domain.symbols:
        return job

    def at(values: Mapping[str, int]) -> Job:
        return replace(job, specification=left.at(values), implementation=(right.at(values),))

    return replace(job, sizes=domain, at=at)


def _guarded(graph: Graph, holds: Graph) -> Graph:
    """The graph whose result is 0 where the rule does not apply: element by element if the condition has an element
    for each, else as soon as one element of the condition is false."""
    names = {node.name: f"holds.{node.name}" for node in holds.nodes if node.op != "input"}
    moved = [renamed(node, names) for node in holds.nodes if node.op != "input"]
    constants = {names.get(key, key): value for key, value in holds.constants.items()}
    condition, result = names.get(holds.outputs[0].node, holds.outputs[0].node), graph.outputs[0].node
    here, there = _types(holds)[holds.outputs[0].node].shape, _types(graph)[result].shape
    if len(here) > len(there) or any(a not in (1, b) for a, b in zip(reversed(here), reversed(there), strict=False)):
        moved.append(Node("holds.all", "call", "aten.all.default", (Ref(condition),)))
        condition = "holds.all"
    moved.append(Node("holds.zero", "call", "aten.zeros_like.default", (Ref(result),)))
    moved.append(Node("holds.result", "call", "aten.where.self", (Ref(condition), Ref(result), Ref("holds.zero"))))
    return replace(
        graph, nodes=(*graph.nodes, *moved), outputs=(Output("result", "holds.result"),),
        constants={**graph.constants, **constants}, sizes=graph.sizes if graph.sizes.symbols else holds.sizes,
    )  # fmt: skip


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The node under another name, of operands under other names; a constant's value is under its name, too."""
    target = names.get(node.target, node.target) if node.op == "constant" else node.target
    return replace(reading(node, names), name=names.get(node.name, node.name), target=target)


def _looks_up(graph: Graph | None, node: Node) -> bool:
    return graph is not None and bool(operator_of(graph, node).facts.moves & _LOOKING_UP)


def _check_side(graph: Graph, place: str) -> None:
    if len(graph.outputs) != 1:
        raise _wrong(place, f"{len(graph.outputs)} results", "one result: several are several rules")
    if any(node.op == "constant" and node.target not in graph.constants for node in graph.nodes):
        raise _wrong(place, "a constant without its value", "recorded values: a rule is about what is known")
    for node in graph.nodes:
        if node.op != "call" or node.target == "getitem":
            continue
        row = operator_of(graph, node)
        if row.category in _OF_ITS_OWN or row.facts.random or is_in_place(node.target):
            raise _wrong(
                f"{place}: {node.name}", f"the operator {row.name}, which draws, communicates or overwrites",
                "operators whose result their operands decide",
            )  # fmt: skip


def _check_inputs(left: Graph, graph: Graph | None, place: str) -> None:
    known = {node.name: node.type for node in left.inputs}
    for node in () if graph is None else graph.inputs:
        if node.name not in known or known[node.name] != node.type:
            held = f"{node.name}: {node.type}"
            raise _wrong(place, f"the input {held}", "inputs of the left side, of the same types")


def _with_inputs(graph: Graph, left: Graph) -> Graph:
    """The graph with the inputs of the left side in their order, read or not."""
    return replace(graph, nodes=(*left.inputs, *(node for node in graph.nodes if node.op != "input")))


def _named_result(graph: Graph) -> Graph:
    """The graph without what its result does not need, which is called ``result``."""
    output = graph.outputs[0].node
    used = graph.ancestors(output)
    nodes = tuple(node for node in graph.nodes if node.op == "input" or node.name in used)
    return replace(graph, nodes=nodes, outputs=(Output("result", output),))


def _types(graph: Graph) -> Mapping[str, Tensor]:
    return cast("Mapping[str, Tensor]", check_graph(graph, None))


def _wrong(place: str, found: str, needed: str) -> TantamountError:
    return UserError("job-rule", place=place, found=found, needed=needed, hint="tantamount explain job-rule")
