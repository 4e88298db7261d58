"""The arguments of a node: one of them, and the node with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Union

import numpy as np

from tantamount.ir.graph import Argument, Node, Ref
from tantamount.semantics.reference import Array

__all__ = ["Slot", "argument_at", "number_of", "renamed", "uniform", "with_argument"]

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


def number_of(node: Node, slot: Slot, known: Callable[[str], int | float | None]) -> int | float | None:
    """The number that a node has as an argument; ``known`` gives that of a tensor of one number."""
    value = argument_at(node, slot)
    if isinstance(value, Ref):
        return known(value.name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def uniform(value: Array | None) -> int | float | None:
    """The finite number that all elements of an array are, if there is one."""
    if value is None or not value.size or value.dtype.kind == "b":
        return None
    first = value.reshape(-1)[0]
    return first.item() if np.isfinite(first) and (value == first).all() else None
