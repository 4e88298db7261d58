"""HLO instructions between ranks. A definition gets the tensors of all members of the group stacked in a new first
dimension, and returns the members' results stacked the same way. The reader turns `replica_groups` into groups."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import collective
from tantamount.ops.definitions.hlo import reduce_over
from tantamount.ops.table import Group, Integers, operator

_HLO = "hlo"


def _to_front(b: Builder, x: Tensor, dimension: int) -> Tensor:
    """``dimension`` of a member's tensor moved before its other dimensions."""
    if not 0 <= dimension < x.rank - 1:
        raise ShapeProblem(f"dimension {dimension} of a tensor with {x.rank - 1}")
    at = dimension + 1
    return b.permute(x, [0, at, *(k for k in range(1, x.rank) if k != at)])


def _back(b: Builder, x: Tensor, dimension: int) -> Tensor:
    """The inverse of :func:`_to_front`."""
    order = [0, *range(2, x.rank)]
    order.insert(dimension + 1, 1)
    return b.permute(x, order)


def _for_all(b: Builder, x: Tensor, members: int) -> Tensor:
    return b.expand(b.unsqueeze(x, 0), (members, *x.shape))


@operator("hlo.all-reduce", category=_HLO)
def all_reduce(b: Builder, operand: Tensor, *, kind: str, group: Group) -> Tensor:
    """y_r = the members' tensors combined by kind: add, multiply, maximum, minimum, and, or"""
    return _for_all(b, reduce_over(b, operand, (0,), kind), operand.shape[0])


@operator("hlo.all-gather", category=_HLO)
def all_gather(b: Builder, operand: Tensor, *, dimension: int, group: Group) -> Tensor:
    """y_r = the members' tensors one after the other along one dimension"""
    front = _to_front(b, operand, dimension)
    return _back(b, collective.all_gather_into_tensor(b, front, operand.shape[0], group), dimension)


@operator("hlo.reduce-scatter", category=_HLO)
def reduce_scatter(b: Builder, operand: Tensor, *, dimension: int, kind: str, group: Group) -> Tensor:
    """y_r = part r along one dimension of the members' tensors combined by kind"""
    members = operand.shape[0]
    front = _to_front(b, operand, dimension)
    if front.shape[1] % members:
        raise ShapeProblem(f"dimension {dimension} of size {front.shape[1]} scattered to {members} ranks")
    whole = reduce_over(b, front, (0,), kind)
    return _back(b, b.reshape(whole, (members, front.shape[1] // members, *front.shape[2:])), dimension)


@operator("hlo.all-to-all", category=_HLO)
def all_to_all(b: Builder, operand: Tensor, *, dimension: int, group: Group) -> Tensor:
    """y_r = part r along one dimension of every member's tensor, one after the other along it"""
    front = _to_front(b, operand, dimension)
    return _back(b, collective.all_to_all_single(b, front, (), (), group), dimension)


@operator("hlo.collective-permute", category=_HLO)
def collective_permute(b: Builder, operand: Tensor, *, sources: Integers, targets: Integers, group: Group) -> Tensor:
    """y_t = the tensor of s for every pair of s in sources and t in targets; 0 on ranks that are no target"""
    members = operand.shape[0]
    if len(sources) != len(targets) or len({*targets}) != len(targets) or len({*sources}) != len(sources):
        raise ShapeProblem(f"sources {list(sources)} and targets {list(targets)}, each rank at most once")
    if any(not 0 <= rank < members for rank in (*sources, *targets)):
        raise ShapeProblem(f"sources {list(sources)} and targets {list(targets)} out of {members} ranks")
    source = dict(zip(targets, sources, strict=True))
    zero = b.full(operand.shape[1:], False if operand.dtype is DType.BOOL else 0, operand.dtype)
    return b.stack([b.select(operand, 0, source[r]) if r in source else zero for r in range(members)], 0)


@operator("hlo.partition-id", category=_HLO)
def partition_id(b: Builder, like: Tensor, *, group: Group) -> Tensor:
    """the number of the rank, in the type of like"""
    if like.rank != 1 or like.dtype is DType.BOOL:
        raise ShapeProblem("a rank number that is no integer without dimensions")
    return b.iota(like.shape[0], like.dtype)
