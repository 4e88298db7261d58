"""Joints, where a tensor passes from one part of a plan to another, and the comparison of its two ends.

Parts may know the same ranks by different axes. What a relation says of rank k, the k-th in the order of the axes, does
not depend on how they are called: neighbouring axes with one placement are one axis, and what is left when all of them
are put together is the same for two descriptions if, and only if, they say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tantamount.ir.relation import Partial, Placement, Shard
from tantamount.ir.relation_types import box_at, chunk
from tantamount.ir.types import Shape
from tantamount.plan.orders import Order
from tantamount.plan.parts import Held, Messages, Term, shown

__all__ = ["Joint", "differ", "sent"]

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Joint:
    """A place where a tensor passes from one part to another: ``tensor`` says which one, ``source`` who makes it,
    ``target`` who takes it; ``relation`` is what the ranks hold of it. ``count``: how many joints of the plan this one
    stands for. ``problem`` is one sentence if the two do not fit, ``wrong`` is true if that is a mistake of the plan,
    and false if it is only not known to be right."""

    tensor: str
    source: str
    target: str
    relation: str
    count: int = 1
    problem: str = ""
    wrong: bool = True

    @property
    def mistake(self) -> str:
        """The tensor, its ends (the one that there is, where nothing gives it or nothing takes it), and what is wrong
        with it."""
        ends = [end for end in dict.fromkeys((self.source, self.target)) if end]
        where = " between " + " and ".join(ends) if len(ends) > 1 else f" at {ends[0]}" if ends and self.tensor else ""
        return f"{self.tensor or self.source}{where}: {self.problem}"


def differ(made: Held, taken: Held) -> str:
    """The reason why two descriptions of one tensor do not fit; empty if they do."""
    if made.whole != taken.whole:
        return f"the whole is {made.whole} there and {taken.whole} here"
    if _order(made) != _order(taken):
        return f"the ranks have {_blocks(made)}, but {_blocks(taken)} is taken for granted"
    same = _in_order(made) == _in_order(taken)
    if made.kept and taken.kept and made.placements.get(made.kept) != taken.placements.get(taken.kept):
        return f"the ranks have {shown(made.placements)}, but {shown(taken.placements)} is taken for granted"
    if not same and (_together(made) != _together(taken) or not _cut_alike(made, taken)):
        return f"the ranks have {_said(made, taken)}, but {_said(taken, made)} is taken for granted"
    if made.local != taken.local:
        return f"a rank has {made.local}, but {taken.local} is read"
    return ""


def _order(held: Held) -> Order | None:
    """The order of blocks that ranks have, however it is written."""
    return None if held.order is None else held.order.shortest


def _blocks(held: Held) -> str:
    return "all in the order of the tensor" if held.order is None else str(held.order)


def _in_order(held: Held) -> list[tuple[int, Placement]]:
    """The sizes and placements of the axes in their order, which say what rank is where, whatever they are called."""
    return [(held.sizes[axis], placement) for axis, placement in held.placements.items() if held.sizes[axis] > 1]


def _together(held: Held) -> list[tuple[Placement, int]]:
    """The placements in the order of the axes, neighbours that are alike as one."""
    found: list[tuple[Placement, int]] = []
    for axis, placement in held.placements.items():
        size = held.sizes[axis]
        if size > 1 and found and found[-1][0] == placement:
            found[-1] = (placement, found[-1][1] * size)
        elif size > 1:
            found.append((placement, size))
    return found


def _even(held: Held) -> bool:
    """True if all ranks have parts of the same size: then cutting by two axes is cutting by one."""
    if held.whole is None:
        return False
    return all(size % _parts(held, dim) == 0 for dim, size in enumerate(held.whole.shape))


def _cut_alike(made: Held, taken: Held) -> bool:
    """True if the dimensions of a tensor are cut at the same places: by two axes as by one of their product where that
    leaves parts of the same size, and elsewhere if it comes to that."""
    shape = () if made.whole is None else made.whole.shape
    return made.whole is not None and all(
        size % _parts(made, dim) == 0 or _ranges(made, dim, size) == _ranges(taken, dim, size)
        for dim, size in enumerate(shape)
    )


def _ranges(held: Held, dim: int, size: int) -> list[tuple[int, int]]:
    """The parts of a dimension, one after the other in the order of the axes that cut it."""
    found = [(0, size)]
    for axis, placement in held.placements.items():
        if placement == Shard(dim):
            count = held.sizes[axis]
            found = [chunk(*part, count, index) for part in found for index in range(count)]
    return found


def _parts(held: Held, dim: int) -> int:
    return prod(held.sizes[axis] for axis, placement in held.placements.items() if placement == Shard(dim))


def _said(held: Held, other: Held) -> str:
    """The placements in words, with the sizes of the axes where those are not the other's."""
    if list(held.sizes.items()) == list(other.sizes.items()):
        return shown(held.placements)
    axes = " x ".join(f"{axis} {size}" for axis, size in held.sizes.items() if size > 1)
    return f"{shown(held.placements)} on {axes or 'one rank'}"


# ---------------------------------------------------------------------------------------------- other ranks
def sent(made: Held, taken: Held, messages: Messages, virtual: str) -> str:
    """The reason why a tensor does not come as it is taken, if ranks of another number of them are sent it; empty if it
    does. ``virtual`` is the first axis of both, along which nothing is sent, if they have it."""
    if made.whole is None or taken.whole is None or made.whole != taken.whole:
        return f"the whole is {made.whole} there and {taken.whole} here"
    if made.local is None or taken.local is None or made.local.dtype != taken.local.dtype:
        return f"a rank has {made.local}, but {taken.local} is read"
    if _order(made) != _order(taken) or made.placements.get(virtual) != taken.placements.get(virtual):
        return differ(made, taken)
    if any(isinstance(placement, Partial) for held in (made, taken) for placement in held.placements.values()):
        return f"{shown(made.placements)} is sent to other ranks: what is a sum over ranks must be added up before"
    if not (_even(made) and _even(taken)):
        return "the ranks have parts of different sizes, of which it is not known what is sent"
    whole = all(len(terms) == 1 and count == 1 for terms in messages.ranks for _, _, count in terms)
    if messages.dim >= len(made.whole.shape) and not whole:
        return f"messages along dimension {messages.dim} of {made.whole}"
    shape = made.whole.shape
    strange = [
        p for held in (made, taken) for p in held.placements.values() if isinstance(p, Shard) and not _has(shape, p)
    ]
    if strange:
        return f"{strange[0]} of {made.whole}"
    for rank, terms in enumerate(messages.ranks):
        got = _put(made, shape, terms, messages.dim, virtual)
        read = _box(taken, shape, rank, virtual)
        if got != read:
            comes = "parts that do not follow each other" if got is None else _range(got)
            return f"rank {rank} is sent {comes} of the whole, and takes {_range(read)} of it for granted"
    return ""


def _has(shape: Shape, placement: Shard) -> bool:
    """True if a tensor of a shape has the dimension that is cut."""
    return 0 <= placement.dim < len(shape)


def _box(held: Held, shape: Shape, rank: int, virtual: str) -> Box:
    """The part of the whole that a rank has in the first microbatch; in the others it is as much further on."""
    coordinates: list[int] = []
    for axis, size in reversed([*held.sizes.items()]):
        rank, digit = divmod(rank, size) if axis != virtual else (rank, 0)
        coordinates.append(digit)
    return box_at(shape, tuple(held.placements.values()), tuple(held.sizes.values()), tuple(reversed(coordinates)))


def _put(held: Held, shape: Shape, terms: Sequence[Term], dim: int, virtual: str) -> Box | None:
    """The part of the whole that is parts of what some ranks have, one after the other; ``None`` if that is no part."""
    found: Box | None = None
    for rank, k, count in terms:
        box = list(_box(held, shape, rank, virtual))
        if len(terms) == 1 and count == 1:
            return tuple(box)
        start, stop = box[dim]
        step, rest = divmod(stop - start, count)
        if rest:
            return None
        box[dim] = (start + k * step, start + (k + 1) * step)
        if found is None:
            found = tuple(box)
            continue
        before = found[dim]
        if before[1] != box[dim][0] or any(a != b for d, (a, b) in enumerate(zip(found, box, strict=True)) if d != dim):
            return None
        found = (*found[:dim], (before[0], box[dim][1]), *found[dim + 1 :])
    return found


def _range(box: Box) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
