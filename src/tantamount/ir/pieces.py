"""Pieces of programs: what computes some tensors from others, as a program of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, Output, references

__all__ = ["piece"]


def piece(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """The program that computes the tensors ``outputs`` from the tensors ``inputs`` (names of nodes), which become its
    inputs, and from those inputs of ``graph`` that are still needed.

    Raises :class:`UserError` for a name that is no node, and for an input without a recorded type (a node with several
    results: cut at its parts)."""
    cut = set(inputs)
    for name in (*inputs, *outputs):
        if name not in graph.by_name:
            raise UserError("tensor-unknown", place=graph.path, found=name, needed="the name of a node")
    needed: set[str] = set()
    pending = [*outputs]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(() if name in cut else references(graph.by_name[name]))
    nodes = tuple(_input(graph, node) if node.name in cut else node for node in graph.nodes if node.name in needed)
    computed = graph.computed | {name for name in cut if graph.by_name[name].op != "input"}
    return replace(graph, nodes=nodes, outputs=tuple(Output(name, name) for name in outputs), computed=computed)


def _input(graph: Graph, node: Node) -> Node:
    if node.op == "input":
        return node
    if node.type is None:
        raise UserError("tensor-type", place=f"{graph.path}: {node.name}", found="no type", needed="a typed tensor")
    return Node(node.name, "input", node.name, type=node.type, source=node.source)
