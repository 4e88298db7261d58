"""Parameters that a captured loader computes: its nodes, put in front of the program that uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tantamount.capture.programs import Program

__all__ = ["Loading", "inline"]

Node = dict[str, Any]


@dataclass(frozen=True)
class Loading:
    """A captured loader. ``tensors``: the checkpoint's tensor behind each of its inputs; its other inputs are what
    parameters hold before. Outputs are named ``new PARAMETER``."""

    program: Program
    tensors: Mapping[str, str]

    def computes(self, parameter: str) -> bool:
        """True if the loader writes into a parameter."""
        return any(output["name"] == f"new {parameter}" for output in self.program.document["outputs"])


def inline(
    loading: Loading,
    parameters: Sequence[Mapping[str, Any]],
    input_of: Callable[[str], str],
    fresh: Callable[[str], str],
) -> tuple[list[Node], dict[str, Any]]:
    """The nodes, in order, that compute some parameters (given as the placeholders of the program that uses them, whose
    names they get), and the constants that they need. ``input_of`` gives the input for a tensor of the checkpoint,
    ``fresh`` a name that is not taken. What a parameter holds before is a new input, which may be anything."""
    document = loading.program.document
    by_name: dict[str, Node] = {node["name"]: node for node in document["nodes"]}
    results = {output["name"]: output["node"] for output in document["outputs"]}
    needed: set[str] = set()
    pending: list[str] = [results[f"new {parameter['name']}"] for parameter in parameters]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            node = by_name[name]
            pending += _references([node.get("args", []), node.get("kwargs", {})])
    names: dict[str, str] = {}
    constants: dict[str, Any] = {}
    made: list[Node] = []
    for node in document["nodes"]:
        name = node["name"]
        if name not in needed:
            continue
        if name in loading.tensors:
            names[name] = input_of(loading.tensors[name])
            continue
        what = "before loading" if node["op"] == "placeholder" else "while loading"
        names[name] = fresh(f"{name} {what}")
        copied = {**node, "name": names[name], **_renamed_arguments(node, names)}
        if node["op"] == "placeholder":
            copied["target"] = names[name]
        if node["op"] == "get_attr" and node["target"] in document.get("constants", {}):
            copied["target"] = names[name]
            constants[names[name]] = document["constants"][node["target"]]
        made.append(copied)
    for parameter in parameters:
        source = names[results[f"new {parameter['name']}"]]
        made.append(
            {
                "name": parameter["name"], "op": "call_function", "target": "aten._to_copy.default",
                "args": [{"node": source}], "kwargs": {"dtype": {"dtype": parameter["dtype"]}},
                "shape": parameter["shape"], "dtype": parameter["dtype"],
                "stack": f"the loader of {parameter['name']}",
            }
        )  # fmt: skip
    return made, constants


def _renamed_arguments(node: Node, names: Mapping[str, str]) -> Node:
    return {key: _renamed(node[key], names) for key in ("args", "kwargs") if key in node}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(item, names) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if set(table) == {"node"}:
            return {"node": names[table["node"]]}
        return {key: _renamed(item, names) for key, item in table.items()}
    return value


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for item in cast("list[Any]", value) for name in _references(item)]
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if set(table) == {"node"}:
            return [table["node"]]
        return [name for item in table.values() for name in _references(item)]
    return []
