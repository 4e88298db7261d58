"""The contents of a page, as plain data: the nodes of every program with what is known of them, and their modules.

The status of a node says how it is coloured:

| status | of the specification | of the implementation |
|---|---|---|
| ``input`` | an input or constant | likewise |
| ``matched`` | has a counterpart | is the counterpart of a tensor |
| ``culprit`` | where the two sides part | likewise |
| ``frontier`` | has no counterpart though its operands have, on the way to an output that is not proved | never |
| ``after`` | has none, on the way to such an output | comes after the culprit, on the way to such an output |
| ``open`` | has none, and nobody needs it | has none of its own: a step that the specification does not have |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.text import format_node
from tantamount.report.html.groups import Child, Group, modules_of
from tantamount.verdict import Mismatch, Picture, ProgramPicture, Report, Verdict

__all__ = ["culprit_program", "scene", "short_operator"]

_MAX_LINE = 400  # characters of a node's own line


def scene(report: Report, picture: Picture) -> dict[str, Any]:
    """Programs, modules, links and where to look first, ready to be written as JSON."""
    failing = {output.name for output in report.outputs if output.verdict is not Verdict.PROVED}
    first = culprit_program(report.mismatch, picture)
    programs = [
        _program(
            "specification",
            picture.specification,
            _of_specification(report, picture, failing),
            [(name, node, name in failing) for name, (node, _) in picture.outputs.items()],
        )
    ]
    for k, side in enumerate(picture.implementation):
        here = [(name, nodes[k], name in failing) for name, (_, nodes) in picture.outputs.items()]
        culprit = report.mismatch.implementation if report.mismatch is not None and k == first else ""
        outputs = [(name, node, bad) for name, node, bad in here if node is not None]
        linked = _with_operators(side, {link.implementation for link in picture.links if link.program == k})
        status = _of_implementation(side.graph, culprit, linked, outputs)
        programs.append(_program(_ranks(side, report), side, status, outputs))
    positions = [{node["name"]: k for k, node in enumerate(program["nodes"])} for program in programs]
    links = [
        [
            positions[0][link.specification],
            link.program + 1,
            positions[link.program + 1][link.implementation],
            link.relation,
        ]
        for link in picture.links
    ]
    focus: dict[str, Any] = {"program": first + 1, "specification": None, "implementation": None}
    if report.mismatch is not None:
        focus["specification"] = positions[0].get(report.mismatch.specification)
        focus["implementation"] = positions[first + 1].get(report.mismatch.implementation)
    return {"programs": programs, "links": links, "focus": focus}


def culprit_program(mismatch: Mismatch | None, picture: Picture) -> int:
    """The position of the program that a mismatch is about."""
    if mismatch is None:
        return 0
    having = [k for k, side in enumerate(picture.implementation) if mismatch.implementation in side.graph.by_name]
    ranked = [k for k in having if mismatch.rank is not None and mismatch.rank in picture.implementation[k].ranks]
    return (ranked or having or [0])[0]


def short_operator(target: str) -> str:
    """``all_reduce`` of ``_c10d_functional.all_reduce.default``."""
    parts = target.split(".")
    return parts[-2] if len(parts) > 2 else parts[-1]


def _ranks(side: ProgramPicture, report: Report) -> str:
    total = report.statistics.ranks
    if len(side.ranks) == total:
        return f"implementation: all {total} ranks" if total > 1 else "implementation"
    shown = ", ".join(map(str, side.ranks[:8])) + (", ..." if len(side.ranks) > 8 else "")
    return f"implementation: rank{'s' if len(side.ranks) > 1 else ''} {shown}"


# ------------------------------------------------------------------------------------------------ status
def _of_specification(report: Report, picture: Picture, failing: set[str]) -> dict[str, str]:
    graph = picture.specification.graph
    related = _with_operators(picture.specification, {link.specification for link in picture.links})
    wanted = _above(graph, [node for name, (node, _) in picture.outputs.items() if name in failing])
    status: dict[str, str] = {}
    for node in graph.nodes:
        operands = [status[name] for name in references(node)]
        if report.mismatch is not None and node.name == report.mismatch.specification:
            status[node.name] = "culprit"
        elif node.name in related:
            status[node.name] = "matched"
        elif node.op != "call":
            status[node.name] = "input"
        elif node.name not in wanted or not operands:  # a factory is made of nothing: nothing is wrong with it
            status[node.name] = "open"
        else:
            blameless = all(operand in ("matched", "input", "open") for operand in operands)
            status[node.name] = "frontier" if blameless else "after"
    return status


def _of_implementation(
    graph: Graph, culprit: str, linked: set[str], outputs: Iterable[tuple[str, str, bool]]
) -> dict[str, str]:
    failing = {node for _, node, bad in outputs if bad}
    wanted = _above(graph, failing)
    status: dict[str, str] = {}
    for node in graph.nodes:
        behind = node.name in failing or any(status[name] in ("culprit", "after") for name in references(node))
        if node.name == culprit:
            status[node.name] = "culprit"
        elif node.name in linked:
            status[node.name] = "matched"
        elif node.op != "call":
            status[node.name] = "input"
        else:
            status[node.name] = "after" if behind and node.name in wanted else "open"
    return status


def _with_operators(side: ProgramPicture, tensors: set[str]) -> set[str]:
    """These tensors, and operators of several results all of which are among them."""
    users = side.graph.users
    several = [node.name for node in side.graph.nodes if node.name not in side.forms and users[node.name]]
    return tensors | {name for name in several if all(user in tensors for user in users[name])}


def _above(graph: Graph, names: Iterable[str]) -> set[str]:
    """These nodes and all that they depend on."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(references(graph.by_name[name]))
    return found


# ------------------------------------------------------------------------------------------------ nodes
def _program(
    label: str, side: ProgramPicture, status: Mapping[str, str], outputs: Iterable[tuple[str, str, bool]]
) -> dict[str, Any]:
    position = {node.name: k for k, node in enumerate(side.graph.nodes)}
    ends: dict[str, list[list[Any]]] = {}
    for name, node, bad in outputs:
        ends.setdefault(node, []).append([name, bad])
    nodes = [
        {
            "name": node.name,
            "op": _operator(node),
            "line": _line(node),
            "type": "" if node.type is None else str(node.type),
            "place": "" if node.source is None or not node.source.file else str(node.source),
            "where": "" if node.source is None else node.source.function,
            "code": "" if node.source is None else node.source.text,
            "form": side.forms.get(node.name, ""),
            "status": status[node.name],
            "from": list(dict.fromkeys(position[name] for name in references(node))),
            "outputs": ends.get(node.name, []),
        }
        for node in side.graph.nodes
    ]
    return {"label": label, "nodes": nodes, "modules": [_module(child) for child in modules_of(side.graph)]}


def _module(child: Child) -> Any:
    return {"name": child.name, "children": [_module(c) for c in child.children]} if isinstance(child, Group) else child


def _operator(node: Node) -> str:
    if node.op != "call":
        return node.op
    if node.target == "getitem":
        return f"getitem {node.args[1]}" if len(node.args) > 1 else "getitem"
    if "auto_functionalized" in node.target and node.args and isinstance(node.args[0], str):
        return short_operator(node.args[0])
    return short_operator(node.target)


def _line(node: Node) -> str:
    text = format_node(replace(node, source=None))
    return text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 3]}..."
