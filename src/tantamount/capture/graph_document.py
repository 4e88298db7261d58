"""A graph as a document of format ``fx-nodes/1``: what :mod:`tantamount.capture.fx_json` reads."""

from __future__ import annotations

from math import isfinite
from typing import Any

from tantamount.capture.size_symbols import encode_domain
from tantamount.ir.graph import Argument, Constant, Device, Graph, Node, Ref, Setting, Source
from tantamount.ir.types import DType, TensorType
from tantamount.sizes.symbolic import is_size

__all__ = ["graph_document", "number_as_written", "recorded_number"]

_KINDS: dict[type, DType] = {bool: DType.BOOL, int: DType.INT64, float: DType.FLOAT64, complex: DType.COMPLEX128}

_OPS = {"input": "placeholder", "constant": "get_attr", "call": "call_function"}


def graph_document(graph: Graph) -> dict[str, Any]:
    """The document; reading it gives the graph again. Groups that the graph spells out (``Graph.groups``) and operators
    that are declared for it are not part of the format."""
    document: dict[str, Any] = {
        "format": "fx-nodes/1",
        "rank": graph.rank,
        "origin": graph.origin,
        "nodes": [_node(node) for node in graph.nodes],
        "outputs": [{"name": output.name, "node": output.node} for output in graph.outputs],
    }
    if graph.constants:
        document["constants"] = {name: _constant(constant) for name, constant in graph.constants.items()}
    if graph.sizes.symbols:
        document["sizes"] = encode_domain(graph.sizes)
    return document


def _node(node: Node) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": node.name, "op": _OPS[node.op], "target": node.target}
    if node.op == "call":
        entry["args"] = [_argument(argument) for argument in node.args]
        entry["kwargs"] = {key: _argument(argument) for key, argument in node.kwargs.items()}
    if node.type is not None:
        entry |= _type(node.type)
    if node.source is not None:
        entry["stack"] = _stack(node.source)
    return entry


def _type(type_: TensorType) -> dict[str, Any]:
    return {"shape": [str(size) if is_size(size) else size for size in type_.shape], "dtype": type_.dtype.label}


def _constant(constant: Constant) -> dict[str, Any]:
    return {**_type(constant.type), "data": [number_as_written(value) for value in constant.data]}


def _argument(value: Argument) -> Any:
    if isinstance(value, tuple):
        return [_argument(item) for item in value]
    if isinstance(value, Ref):
        return {"node": value.name}
    if is_size(value):
        return {"size": str(value)}
    if isinstance(value, DType):
        return {"dtype": value.label}
    if isinstance(value, Device):
        return {"device": value.name}
    if isinstance(value, Setting):
        return {"torch": value.name}
    if isinstance(value, complex):
        return {"complex": number_as_written(value)}
    return number_as_written(value) if isinstance(value, float) else value


def recorded_number(name: str, number: complex) -> tuple[dict[str, Any], dict[str, Any]]:
    """A node of this name that is a number as a tensor, and the constant on record that it names."""
    kind = _KINDS[type(number)]
    type_: dict[str, Any] = {"shape": [], "dtype": kind.label}
    return {"name": name, "op": "get_attr", "target": name, **type_}, {**type_, "data": [number_as_written(number)]}


def number_as_written(value: complex) -> Any:
    """A number as JSON has it: complex ones in two parts, what is not finite as a text."""
    if isinstance(value, complex):
        return [number_as_written(value.real), number_as_written(value.imag)]
    return {"float": repr(value)} if isinstance(value, float) and not isfinite(value) else value


def _stack(source: Source) -> str:
    if not source.file:
        return source.text
    function = f", in {source.function}" if source.function else ""
    return f'File "{source.file}", line {source.line}{function} | {source.text}'
