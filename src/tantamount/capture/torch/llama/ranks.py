"""The ranks that a program of a training iteration runs on, and their exchanges, forward and backward.

A program is written once, for :class:`Ranks` of any sizes; on one device all sizes are 1, and nothing is said to
anybody. Every exchange is a function with the gradient that its inverse has.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = [
    "Ranks", "added", "copied", "entered", "exchanged", "gathered", "kept", "left", "passed_on",
    "part_of", "scattered", "total", "whole_of",
]  # fmt: skip


@dataclass(frozen=True)
class Ranks:
    """One rank of a mesh: the ``sizes`` of its axes, its coordinates ``at`` them, and process groups by the axes that
    they span; without anything, one device. ``sequence``: between its linear layers a rank of tp has a part of the
    sequence. ``context`` is how attention sees keys of other ranks of cp: ``gather``, ``ulysses`` or ``ring``;
    ``zigzag``: each of them has two chunks of the sequence, one from the front and one from the back."""

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    at: Mapping[str, int] = field(default_factory=dict[str, int])
    groups: Mapping[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any])
    sequence: bool = False
    context: str = "gather"
    zigzag: bool = False

    def size(self, axis: str) -> int:
        """Ranks along an axis; 1 for one that there is not."""
        return self.sizes.get(axis, 1)

    def rank(self, axis: str) -> int:
        """The coordinate along an axis."""
        return self.at.get(axis, 0)

    def chunks(self, rank: int | None = None) -> tuple[int, ...]:
        """The numbers of the chunks of the sequence that a rank of cp has, one after the other; of this one, unless
        ``rank`` names another one."""
        rank = self.rank("cp") if rank is None else rank
        return (rank, 2 * self.size("cp") - 1 - rank) if self.zigzag else (rank,)

    def firsts(self, positions: int) -> tuple[int, ...]:
        """The positions at which the chunks of this rank begin, of which it has so many together."""
        chunks = self.chunks()
        return tuple(chunk * (positions // len(chunks)) for chunk in chunks)

    @property
    def order(self) -> tuple[int, ...]:
        """The chunks of all ranks of cp, one after the other."""
        return tuple(chunk for rank in range(self.size("cp")) for chunk in self.chunks(rank))

    @property
    def parts(self) -> int:
        """The number of parts that a row is cut into between linear layers."""
        return self.size("cp") * (self.size("tp") if self.sequence else 1)

    def group(self, *axes: str) -> Any:
        """The process group along some axes, or ``None`` where that is the rank alone."""
        long = tuple(axis for axis in self.sizes if axis in axes and self.sizes[axis] > 1)
        return self.groups[long] if long else None


# ---------------------------------------------------------------------------------------------- plain exchanges
_OPS = torch.ops._c10d_functional
_Exchange = Callable[..., torch.Tensor]


def total(x: torch.Tensor, group: Any, kind: str = "sum") -> torch.Tensor:
    """The sum (or ``max``) over the ranks of a group."""
    return x if group is None else _OPS.wait_tensor(_OPS.all_reduce(x, kind, group.group_name))


def _whole(x: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """The parts of all ranks, one after the other along a dimension."""
    found = _OPS.wait_tensor(_OPS.all_gather_into_tensor(x.contiguous(), group.size(), group.group_name))
    return torch.cat(found.chunk(group.size(), 0), dim) if dim else found


def whole_of(x: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """The parts of all ranks of a group along a dimension, without a gradient; on one device the tensor itself."""
    return x if group is None else _whole(x, dim, group)


def part_of(x: torch.Tensor, dim: int, ranks: Ranks, axis: str) -> torch.Tensor:
    """A rank's part, along a dimension, of what all ranks along an axis have."""
    many = ranks.size(axis)
    return x.chunk(many, dim)[ranks.rank(axis)] if many > 1 else x


def kept(x: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """A rank's part, along a dimension, of what all ranks of a group have alike: their mean, of which each keeps its
    part. So all run one program, which :func:`part_of` does not."""
    return x if group is None else _share(x, dim, group, "avg")


def _share(x: torch.Tensor, dim: int, group: Any, kind: str = "sum") -> torch.Tensor:
    """A rank's part, along a dimension, of the sum (or mean, ``avg``) over the ranks."""
    if dim:
        x = torch.cat(x.chunk(group.size(), dim), 0)
    return _OPS.wait_tensor(_OPS.reduce_scatter_tensor(x.contiguous(), kind, group.size(), group.group_name))


def _swapped(x: torch.Tensor, group: Any) -> torch.Tensor:
    """``x[k]`` is sent to rank k; what comes from rank k is the result's ``[k]``."""
    rows = [1] * group.size()
    return _OPS.wait_tensor(_OPS.all_to_all_single(x.contiguous(), rows, rows, group.group_name))


def passed_on(x: torch.Tensor, ranks: Ranks, axis: str) -> torch.Tensor:
    """The tensor of the rank before this one along an axis, of the last one for the first; all hand theirs on."""
    many, rank, group = ranks.size(axis), ranks.rank(axis), ranks.group(axis)
    x = x.contiguous()
    sent, found = ([len(x) if k == other % many else 0 for k in range(many)] for other in (rank + 1, rank - 1))
    return _OPS.wait_tensor(_OPS.all_to_all_single(x, found, sent, group.group_name))


# ---------------------------------------------------------------------------------------------- with gradients
class _Exchanged(torch.autograd.Function):
    """An exchange whose gradient is the inverse exchange: ``there(x, *own)``, and ``back(gradient, *own)``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: _Exchange, back: _Exchange, *own: Any) -> torch.Tensor:
        ctx.back, ctx.own = back, own
        return there(x, *own)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.back(grad, *ctx.own), None, None, *(None for _ in ctx.own)


def _as_it_is(x: torch.Tensor, group: Any) -> torch.Tensor:
    return x


def copied(x: torch.Tensor, group: Any) -> torch.Tensor:
    """The same on all ranks; what the ranks find as its gradient is added up."""
    return x if group is None else _Exchanged.apply(x, _as_it_is, total, group)


def added(x: torch.Tensor, group: Any) -> torch.Tensor:
    """The sum over the ranks, each of which has the whole gradient."""
    return x if group is None else _Exchanged.apply(x, total, _as_it_is, group)


def gathered(x: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """The parts of all ranks along a dimension; of the gradients that the ranks find, added up, each has its part."""
    return x if group is None else _Exchanged.apply(x, _whole, _share, dim, group)


def scattered(x: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """A rank's part of the sum over the ranks; the gradient is gathered."""
    return x if group is None else _Exchanged.apply(x, _share, _whole, dim, group)


def exchanged(x: torch.Tensor, group: Any) -> torch.Tensor:
    """``x[k]`` goes to rank k, and comes from there: an all-to-all, which is its own inverse."""
    return x if group is None else _Exchanged.apply(x, _swapped, _swapped, group)


def entered(x: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """The input of linear layers that are cut over tp: x copied, or gathered along the sequence."""
    group = ranks.group("tp")
    return gathered(x, 1, group) if ranks.sequence else copied(x, group)


def left(x: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """The output of linear layers that are cut over tp, each rank with one summand: added up, and if the sequence is
    cut, a rank's part of that."""
    group = ranks.group("tp")
    return scattered(x, 1, group) if ranks.sequence else added(x, group)
