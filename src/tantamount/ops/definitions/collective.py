"""Functional collectives. A definition gets the tensors of all members of the group stacked in a new first dimension,
and returns the members' results stacked the same way."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.table import Group, Integers, operator

_COLLECTIVE = "collective"


@operator(
    "_c10d_functional.wait_tensor.default", "_c10d_functional._wrap_tensor_autograd.default", category=_COLLECTIVE
)
def wait_tensor(b: Builder, tensor: Tensor) -> Tensor:
    """tensor"""
    return tensor


def _reduced(b: Builder, x: Tensor, reduce_op: str) -> Tensor:
    """The reduction over the first dimension, which disappears."""
    name = reduce_op.lower()
    if x.dtype is DType.BOOL:
        raise ShapeProblem(f"{reduce_op} of booleans over ranks")
    if name in ("sum", "avg"):
        total = b.cast(b.sum(x, (0,)), x.dtype)
        if name == "sum":
            return total
        if not x.dtype.is_float:
            raise ShapeProblem(f"an average of {x.dtype} over ranks")
        return b.mul(total, Fraction(1, x.shape[0]))
    if name == "max":
        return b.amax(x, (0,))
    if name == "min":
        return b.neg(b.amax(b.neg(x), (0,)))
    raise ShapeProblem(f"reduction {reduce_op!r}; sum, avg, max and min are known")


def _for_all(b: Builder, x: Tensor, members: int) -> Tensor:
    return b.expand(b.unsqueeze(x, 0), (members, *x.shape))


def _check_size(x: Tensor, group_size: int) -> int:
    if group_size != x.shape[0]:
        raise ShapeProblem(f"group_size {group_size} for a group of {x.shape[0]} ranks")
    if x.rank < 2:
        raise ShapeProblem("a tensor without dimensions, which cannot be gathered or scattered")
    return group_size


@operator("_c10d_functional.all_reduce.default", "_c10d_functional.all_reduce_.default", category=_COLLECTIVE)
def all_reduce(b: Builder, input: Tensor, reduce_op: str, group_name: Group) -> Tensor:
    """y_r = sum (avg, max, min) over the members s of input_s"""
    return _for_all(b, _reduced(b, input, reduce_op), input.shape[0])


@operator("_c10d_functional.all_gather_into_tensor.default", category=_COLLECTIVE)
def all_gather_into_tensor(b: Builder, input: Tensor, group_size: int, group_name: Group) -> Tensor:
    """y_r = the members' tensors one after the other along dimension 0"""
    members = _check_size(input, group_size)
    return _for_all(b, b.reshape(input, (members * input.shape[1], *input.shape[2:])), members)


@operator("_c10d_functional.reduce_scatter_tensor.default", category=_COLLECTIVE)
def reduce_scatter_tensor(b: Builder, input: Tensor, reduce_op: str, group_size: int, group_name: Group) -> Tensor:
    """y_r = part r along dimension 0 of the sum (avg, max, min) over the members"""
    members = _check_size(input, group_size)
    if input.shape[1] % members:
        raise ShapeProblem(f"dimension 0 of size {input.shape[1]} scattered to {members} ranks")
    return b.reshape(_reduced(b, input, reduce_op), (members, input.shape[1] // members, *input.shape[2:]))


@operator("_c10d_functional.all_to_all_single.default", category=_COLLECTIVE)
def all_to_all_single(
    b: Builder, input: Tensor, output_split_sizes: Integers, input_split_sizes: Integers, group_name: Group
) -> Tensor:
    """y_r = part r along dimension 0 of every member's tensor, one after the other"""
    if input.rank < 2:
        raise ShapeProblem("a tensor without dimensions, which cannot be exchanged")
    members, size = input.shape[:2]
    for sizes in (output_split_sizes, input_split_sizes):
        if sizes and (len(sizes) != members or len(set(sizes)) != 1 or sum(sizes) != size):
            raise ShapeProblem(
                f"split sizes {list(sizes)} of {size} elements for {members} ranks; equal ones are known"
            )
    if size % members:
        raise ShapeProblem(f"dimension 0 of size {size} exchanged between {members} ranks")
    rest = input.shape[2:]
    parts = b.reshape(input, (members, members, size // members, *rest))
    return b.reshape(b.transpose(parts, 0, 1), (members, size, *rest))


@operator("_c10d_functional.broadcast.default", "_c10d_functional.broadcast_.default", category=_COLLECTIVE)
def broadcast(b: Builder, input: Tensor, src: int, group_name: Group) -> Tensor:
    """y_r = input_src, where src is a position in the group"""
    members = input.shape[0]
    if not 0 <= src < members:
        raise ShapeProblem(f"source {src} in a group of {members} ranks")
    return _for_all(b, b.select(input, 0, src), members)
