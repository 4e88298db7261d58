"""Goals: calls that a program should have, by what makes their operand, its element type, and its elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tantamount.ir.graph import Node
from tantamount.ir.types import DType

__all__ = ["LEAVES", "PLACES", "REDUCING", "Goal", "maker_names", "place_of"]

LEAVES = ("input", "constant")
PLACES = ("first", "inner", "last", "all")
REDUCING = frozenset({
    "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default", "aten.mean.dim", "aten.any.dim", "aten.all.dim",
    "aten.argmax.default", "aten.argmin.default", "aten.cumsum.default", "aten.softmax.int",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goal:
    """A call that a graph should have: an operator on what ``maker`` made (an operator, ``input`` or ``constant``), of
    an element type, and of that rank where it is an input or constant. ``place``: one of ``PLACES``, the dimensions
    that a reduction among makers goes over; ``ends``: new integer leaves have elements at the ends of their type;
    ``chosen``: the maker was chosen before the operator; ``also``: more operators on what the maker made.
    """

    maker: str
    target: str
    dtype: DType
    rank: int | None = None
    place: str | None = None
    ends: bool = False
    chosen: bool = False
    also: tuple[str, ...] = ()


def place_of(dims: Sequence[int], rank: int) -> str:
    """The place of dimensions among ``rank``: ``all``; ``last`` if they have the last one; ``first`` if they have the
    first and not the last; else ``inner``."""
    counted = {dim % rank for dim in dims} if rank else set[int]()
    if len(counted) == rank:
        return "all"
    return "last" if rank - 1 in counted else "first" if 0 in counted else "inner"


def maker_names(node: Node, rank: int) -> tuple[str, ...]:
    """The names of a call as the maker of an operand: its operator, and ``operator/place`` of a reduction. ``rank``:
    that of the call's first operand."""
    if node.target not in REDUCING or len(node.args) < 2:
        return (node.target,)
    dims = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    return node.target, f"{node.target}/{place_of([dim for dim in dims if isinstance(dim, int)], rank)}"
