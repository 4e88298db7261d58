"""The arguments of a node: one of them, and the node with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Union

from tantamount.ir.graph import Argument, Node, Ref

__all__ = ["Slot", "argument_at", "renamed", "with_argument"]

Slot = Union[int, str]  # which argument: a position, or a keyword


def argument_at(node: Node, slot: Slot) -> Argument:
    """The argument there; ``None`` if there is none."""
    if isinstance(slot, int):
        return node.args[slot] if slot < len(node.args) else None
    return node.kwargs.get(slot)


def with_argument(node: Node, slot: Slot, argument: Argument) -> Node:
    """The node with another argument there."""
    if isinstance(slot, int):
        return replace(node, args=(*node.args[:slot], argument, *node.args[slot + 1 :]))
    return replace(node, kwargs={**node.kwargs, slot: argument})


def renamed(node: Node, names: Mapping[int, str]) -> Node:
    """The node with other operands, by their positions."""
    seen = -1

    def one(argument: Argument) -> Argument:
        nonlocal seen
        if isinstance(argument, Ref):
            seen += 1
            return Ref(names[seen]) if seen in names else argument
        return tuple(map(one, argument)) if isinstance(argument, tuple) else argument

    args = tuple(map(one, node.args))
    return replace(node, args=args, kwargs={key: one(value) for key, value in node.kwargs.items()})
