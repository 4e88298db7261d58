"""Collectives: the members' tensors are stacked, the definition is applied, and every member takes its part.

A member here is a class of ranks with an interpretation that knows them all (``enter_group``); between classes, tensors
are stacked here. A group of several mesh axes may do both: its axes inside classes follow those between them, and are
then put in the order of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tantamount.ir.types import TensorType
from tantamount.ops.algebra import Interpretation, ShapeProblem, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.table import Operator, invoke

__all__ = ["Axis", "exchange", "exchanged", "operands"]

Axis = tuple[int, bool]  # the size of a mesh axis, and whether it is inside the classes


def exchanged(row: Operator) -> str:
    """The parameter that a collective exchanges: its first tensor or list of tensors."""
    return next(name for name, parameter in row.parameters.items() if parameter.kind in ("Tensor", "Tensors"))


def operands(given: Tensor | tuple[Tensor | None, ...]) -> list[Tensor]:
    """The tensors that a collective exchanges, or gives back."""
    found = [x for x in given if x is not None] if isinstance(given, tuple) else [given]
    if not found or (isinstance(given, tuple) and len(found) != len(given)):
        raise ShapeProblem("a list of tensors that is empty or has gaps")
    return found


def exchange(
    row: Operator,
    members: Sequence[tuple[Mapping[str, Any], Interpretation]],
    group: str,
    axes: Sequence[Axis],
    site: str,
) -> list[Tensor | tuple[Tensor, ...]]:
    """The results of one collective for every class of a group, in order. ``axes`` are those of the group, in its
    order; there are as many members as coordinates along those between classes."""
    name = exchanged(row)
    inside = prod(size for size, folded in axes if folded)
    sizes = [size for size, _ in axes]
    order = sorted(range(len(axes)), key=lambda k: axes[k][1])  # those between classes first
    inner = members[0][1]
    entered: list[list[Tensor]] = []
    for arguments, interpretation in members:
        entered.append([])
        for x in operands(arguments[name]):
            inner, value = interpretation.enter_group(x.value, x.type.stored.shape, group)
            entered[-1].append(Tensor((inside, *x.shape), x.dtype, value))
    b = Builder(inner, site)

    def joined(xs: Sequence[Tensor]) -> Tensor:
        """Shape (members of the class, ...) each; to (members of the group, ...)."""
        if len(xs) == 1:
            return xs[0]
        shape = xs[0].shape[1:]
        split = b.reshape(b.stack(xs, 0), (*(sizes[k] for k in order), *shape))
        rest = range(len(sizes), split.rank)
        return b.reshape(b.permute(split, [*map(order.index, range(len(sizes))), *rest]), (prod(sizes), *shape))

    def parted(y: Tensor) -> list[Tensor]:
        """The inverse of ``joined``."""
        if len(members) == 1:
            return [y]
        shape = y.shape[1:]
        split = b.reshape(y, (*sizes, *shape))
        moved = b.permute(split, [*order, *range(len(sizes), split.rank)])
        stacked = b.reshape(moved, (len(members), inside, *shape))
        return [b.select(stacked, 0, k) for k in range(len(members))]

    stacked = tuple(joined(xs) for xs in zip(*entered, strict=True))
    several = isinstance(members[0][0][name], tuple)
    y = invoke(row, b, {**members[0][0], name: stacked if several else stacked[0]})
    results: list[Tensor | tuple[Tensor, ...]] = []
    for (_, interpretation), parts in zip(members, zip(*map(parted, operands(y)), strict=True), strict=True):
        own: list[Tensor] = []
        for part in parts:
            type_ = TensorType(part.shape[1:], part.dtype)
            own.append(
                Tensor(type_.shape, type_.dtype, interpretation.leave_group(part.value, type_.stored.shape, group))
            )
        results.append(tuple(own) if several else own[0])
    return results
